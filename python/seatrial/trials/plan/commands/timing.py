"""Times of requests as a run measured them, for a kind of storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from seatrial.results.model import Sample
    from seatrial.trials.plan.analysis.candidates import Times

DRAWN: Final = 4000
NS_PER_MS: Final = 1e6
OTHER_FACTOR: Final = 1.15
"""One run of a kind of storage stands for others of it within this factor, at 5 and 95 %."""


def times_of_samples(kind: str, run: str, samples: Sequence[Sample]) -> list[tuple[str, Times]]:
    """Return service times by operation, of the least loaded test that has it.

    Args:
        kind: Of storage, such as ``gp3``.
        run: Id of the run.
        samples: Its samples.
    """
    from seatrial.trials.plan.analysis.candidates import Times  # noqa: PLC0415 - not for --help
    from seatrial.trials.plan.analysis.figure import Figure  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.queueing import of_times  # noqa: PLC0415 - likewise

    found = []
    for operation in ("read", "write"):
        histograms = [
            each.operations[operation].service_histogram()
            for each in samples
            if operation in each.operations and each.operations[operation].completed
        ]
        known = [each for each in histograms if each.count and each.mean_ns > 0]
        if not known:
            continue
        best = min(known, key=lambda each: each.mean_ns)
        times_ns = [best.percentile_ns(100 * (place + 0.5) / DRAWN) for place in range(DRAWN)]
        mean_ms = best.mean_ns / NS_PER_MS
        origin = f"measured, run {run}"
        times = Times(
            kind=f"{kind} {operation}",
            mean_ms=Figure(
                low=mean_ms / OTHER_FACTOR, mid=mean_ms, high=mean_ms * OTHER_FACTOR, origin=origin
            ),
            service=of_times(times_ns),
            origin=origin,
        )
        found.append((f"{kind} {operation}", times))
    return found
