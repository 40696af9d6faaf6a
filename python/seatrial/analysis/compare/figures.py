"""What is compared of a cell: its rate, its bandwidth where sizes vary, its latencies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from seatrial.analysis.estimates import (
    HISTOGRAM_RESOLUTION_SHARE,
    PERCENTS,
    counted,
    percentile_ns,
)
from seatrial.results.model import Sample

RATE = "iops"
BANDWIDTH = "bandwidth"
PERCENTILES = ("p50", "p99")


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one cell on one side.

    Attributes:
        values: By number of the round, in ``unit``; none negative.
        unit: As in an Estimate.
        resolution_share: Half of the step in which a value can be read, as a share of it.
    """

    values: dict[int, float]
    unit: str
    resolution_share: float


def is_rate(figure: str) -> bool:
    """Tell whether more of a figure is better; of a latency less is."""
    return figure in (RATE, BANDWIDTH)


def figures_of(
    samples: Sequence[Sample], wanted: Collection[str] | None = None
) -> dict[str, Rounds]:
    """Return what can be compared of one cell on one side, by figure.

    A percentile is absent where any round had too few requests to know it: the rounds that know
    it would be the faster ones.

    Args:
        samples: Of one cell, at least one.
        wanted: Names of figures; all unless given. ``p99`` stands for that of every kind.
    """
    own = counted(samples)
    found = {}
    for figure, read, unit, resolution_share in _readings(own):
        if wanted is not None and not {figure, figure.rpartition(" ")[2]} & set(wanted):
            continue
        values = {sample.round: value for sample in own if (value := read(sample)) is not None}
        if len(values) == len(own):
            found[figure] = Rounds(values=values, unit=unit, resolution_share=resolution_share)
    return found


_Reading = tuple[str, Callable[[Sample], float | None], str, float]


def _readings(samples: Sequence[Sample]) -> Iterator[_Reading]:
    """Yield name, reader, unit and resolution of each figure that the samples may have."""
    cell = samples[0].cell
    completed = sum(sample.outcome.completed for sample in samples) / len(samples)
    count_share = min(1.0, 0.5 / completed) if completed else 0.0
    unit = "commits/s" if cell.operation == "commit" else "IOPS"
    yield RATE, lambda sample: sample.completed_per_s, unit, count_share
    if cell.block_size_bytes == 0:
        yield BANDWIDTH, lambda sample: sample.transferred_bytes_per_s, "B/s", count_share
    for kind in dict.fromkeys(kind for sample in samples for kind in sample.operations):
        for name in PERCENTILES:
            yield f"{kind} {name}", _percentile(kind, name), "ns", HISTOGRAM_RESOLUTION_SHARE


def _percentile(kind: str, name: str) -> Callable[[Sample], float | None]:
    """Return what reads a percentile (ns) of one kind of request from a sample."""

    def read(sample: Sample) -> float | None:
        part = sample.operations.get(kind)
        if part is None:
            return None
        if part.told_ns:
            return part.told_ns.get(name)
        return percentile_ns(part.response_histogram(), PERCENTS[name], sample)

    return read
