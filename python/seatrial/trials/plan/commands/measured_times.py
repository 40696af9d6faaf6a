"""Times of requests as a run measured them, for a kind of storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from seatrial.grouping import grouped
from seatrial.topic import without_preparation
from seatrial.trials.plan.analysis.stalls import OF_STORAGE, ObservedStalls
from seatrial.units import NS_PER_MS

if TYPE_CHECKING:
    from seatrial.results.model import Sample, Stall
    from seatrial.trials.plan.analysis.candidates import RequestTimes

QUANTILES: Final = 4000
STALL_MS: Final = 50.0
"""Shortest time without completions that is a stall, if a run does not say."""
OTHER_FACTOR: Final = 1.15
"""Times of another device of the kind are within this factor at 5 and 95 % (assumed)."""


def times_of_samples(
    kind: str, run: str, samples: Sequence[Sample]
) -> list[tuple[str, RequestTimes]]:
    """Return service times by operation, of the least loaded test that has it.

    A test that only prepares others, such as a fill, counts only if there is nothing else.
    Requests that a stall delayed are left out; stalls of all tests are returned separately. Gaps
    that are normal for a test are not stalls, as for the finding ``stall``.

    Args:
        kind: Kind of storage, such as ``gp3``.
        run: Id of the run.
        samples: Its samples.
    """
    from seatrial.findings.context import stalls_of  # noqa: PLC0415 - slow
    from seatrial.findings.summary import summarise_cell  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.candidates import RequestTimes  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.figure import Figure  # noqa: PLC0415 - likewise
    from seatrial.trials.plan.analysis.queueing import measured_service  # noqa: PLC0415 - likewise

    cells = grouped(samples, lambda sample: sample.cell.key).values()
    stalls = [each for own in cells for each in stalls_of(summarise_cell(own))]
    stalls = [each for each in stalls if each.cause in OF_STORAGE]
    found = []
    for operation in ("read", "write"):
        measured = [
            (each.operations[operation].service_histogram(), each)
            for each in without_preparation(samples)
            if operation in each.operations and each.operations[operation].completed
        ]
        known = [each for each in measured if each[0].count and each[0].mean_ns > 0]
        if not known:
            continue
        best, sample = min(known, key=lambda each: each[0].mean_ns)
        stalled = sum(
            stall.operations.get(operation, 0) for stall in sample.stalls if stall in stalls
        )
        unstalled_share = 1 - min(stalled, best.count - 1) / best.count
        times_ns = [
            best.percentile_ns(100 * unstalled_share * (index + 0.5) / QUANTILES)
            for index in range(QUANTILES)
        ]
        mean_ms = (best.mean_ns if not stalled else sum(times_ns) / QUANTILES) / NS_PER_MS
        origin = f"measured, run {run}"
        times = RequestTimes(
            kind=f"{kind} {operation}",
            mean_ms=Figure(
                low=mean_ms / OTHER_FACTOR, mid=mean_ms, high=mean_ms * OTHER_FACTOR, origin=origin
            ),
            service=measured_service(times_ns),
            origin=origin,
            stalls=_observed_stalls(stalls, samples),
        )
        found.append((f"{kind} {operation}", times))
    return found


def _observed_stalls(stalls: Sequence[Stall], samples: Sequence[Sample]) -> ObservedStalls | None:
    """Return the stalls of all tests of a run; None where no test had a length."""
    watched_s = sum(each.duration_s for each in samples)
    if watched_s <= 0:
        return None
    thresholds_ms = [each.cell.spec.get("stall_threshold_ms") for each in samples]
    known = [float(each) for each in thresholds_ms if isinstance(each, int | float)]
    return ObservedStalls(
        lengths_s=tuple(stall.length_s for stall in stalls),
        watched_s=watched_s,
        least_s=max(known, default=STALL_MS) / 1000,
    )
