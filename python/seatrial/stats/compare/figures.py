"""The compared figures of a cell: its rate, its bandwidth if sizes vary, its latencies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

import msgspec

from seatrial.results.model import IMPORTED, Sample
from seatrial.stats.cell_estimates import (
    PERCENTS,
    count_resolution_share,
    counted,
    entries_needed,
    percentile_ns,
    percentiles_at_least,
    phases_of,
    rate_unit,
    unanswered,
)
from seatrial.stats.compare.model import OneSidedFigure
from seatrial.stats.estimate import HISTOGRAM_RESOLUTION_SHARE
from seatrial.stats.running import RunningPhase, phases_alike, response_histogram
from seatrial.stats.wording import DATABASE_OPERATIONS

RATE = "iops"
TPS = "tps"
"""The rate of a database. Its ratio is never averaged with that of other requests: a flush that
takes 40 times as long is only part of a transaction."""
STATEMENTS = "statements/s"
"""The rate of a replay, which has as many statements per transaction as the capture."""
OPERATIONS = "operations/s"
"""The rate of a topic with a unit of its own: its ratio is not averaged with that of block I/O."""
BANDWIDTH = "bandwidth"
COMPLETED = (TPS, STATEMENTS, OPERATIONS, RATE)
"""Completed operations per second of any kind."""
_FIGURE_OF_UNIT = {TPS: TPS, STATEMENTS: STATEMENTS, "IOPS": RATE, "commits/s": RATE}
RATES = (*COMPLETED, BANDWIDTH)
"""In order of presentation."""
PERCENTILES = ("p50", "p99")


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one cell on one side.

    Attributes:
        values: By number of the round, in ``unit``; none negative.
        unit: As in an Estimate.
        resolution_share: Half of the resolution of a value, as a share of it.
        is_reported: Whether another tool computed it, so that the requests are unavailable.
    """

    values: dict[int, float]
    unit: str
    resolution_share: float
    is_reported: bool = False


def is_rate(figure: str) -> bool:
    """Return whether more of a figure is better; for a latency, less is."""
    return figure in RATES


FAIR_LENGTHS_RATIO_MAX = 1.1
"""Samples that include a start-up phase twice as fast as the rest differ by 3 % then."""


class SideFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one cell on both sides.

    Attributes:
        a: On side A, by figure.
        b: On side B, by figure.
        has_unlike_starts: Whether some samples have a start-up phase and others have none, and
            all are compared from its end.
        includes_starts: Whether a start-up phase is included, as some samples end too early.
        has_fair_lengths: Whether it weighs the same in all samples; if not, no ratio is judged.
        one_sided: Percentiles that are known on one side only; the caller names their cell.
    """

    a: dict[str, Rounds]
    b: dict[str, Rounds]
    has_unlike_starts: bool
    includes_starts: bool
    has_fair_lengths: bool
    one_sided: list[OneSidedFigure]


def figures_of_both(
    a: Sequence[Sample], b: Sequence[Sample], wanted: Collection[str] | None = None
) -> SideFigures:
    """Return the comparable figures of one cell: of its running phases, all from the same moment.

    If the start-up phase were excluded on one side only, that would appear as a difference; as its
    detection may depend on little, both sides are compared from the same moment, or whole if some
    samples are too short for that.

    Args:
        a: Samples of one cell on side A, at least one.
        b: Samples of the same cell on side B, at least one.
        wanted: Names of figures; by default all. ``p99`` stands for that of every kind.
    """
    own = [counted(side) for side in (a, b)]
    found = phases_of([*own[0], *own[1]])
    starts_s = [phase.from_s for phase in found]
    found = phases_alike([*own[0], *own[1]], found)
    includes_starts = max(starts_s) > 0 == max(phase.from_s for phase in found)
    lengths_s = [sample.duration_s for sample in (*own[0], *own[1])]
    phases = [found[: len(own[0])], found[len(own[0]) :]]
    of_a, of_b = (_figures(side, parts, wanted) for side, parts in zip(own, phases, strict=True))
    # Percentiles of another tool have another starting point and other buckets.
    unlike = {name for name in of_a if name in of_b and _are_unlike(of_a[name], of_b[name])}
    of_a, of_b = (
        {name: rounds for name, rounds in known.items() if name not in unlike}
        for known in (of_a, of_b)
    )
    return SideFigures(
        a=of_a,
        b=of_b,
        has_unlike_starts=min(starts_s) == 0 < max(starts_s) and not includes_starts,
        includes_starts=includes_starts,
        has_fair_lengths=not includes_starts
        or max(lengths_s) <= FAIR_LENGTHS_RATIO_MAX * min(lengths_s),
        one_sided=[
            *(_unknown(each, "a", own[1], phases[1]) for each in _only_in(of_a, of_b, own[1])),
            *(_unknown(each, "b", own[0], phases[0]) for each in _only_in(of_b, of_a, own[0])),
        ],
    )


def _only_in(
    known: dict[str, Rounds], others: dict[str, Rounds], samples: Sequence[Sample]
) -> list[str]:
    """Return the percentiles that the other side, with these samples, lacks.

    One that another tool computed is not compared with the requests of this one anyway.
    """
    return [
        figure
        for figure, rounds in known.items()
        if figure not in others and not is_rate(figure) and not rounds.is_reported
        if not any(_is_reported(sample, figure.rpartition(" ")[0]) for sample in samples)
    ]


def _unknown(
    figure: str,
    known_on: Literal["a", "b"],
    samples: Sequence[Sample],
    phases: Sequence[RunningPhase],
) -> OneSidedFigure:
    """Return why a percentile is unknown on the side with these samples."""
    kind, _, name = figure.rpartition(" ")
    rounds = list(zip(samples, phases, strict=True))
    histograms = [response_histogram(sample, kind, phase) for sample, phase in rounds]
    left = 0
    for histogram, (sample, phase) in zip(histograms, rounds, strict=True):
        is_known = percentile_ns(histogram, PERCENTS[name], sample, phase) is not None
        share = histogram.count / phase.completed if phase.completed else 1.0
        due = histogram.count + unanswered(sample) * share
        if not is_known and due >= entries_needed(PERCENTS[name]):
            left = max(left, unanswered(sample))
    completed = [phase.completed for phase in phases]
    bounds = percentiles_at_least({}, histograms, samples, completed) if left else {}
    parts = [sample.operations.get(kind) for sample in samples]
    # Without either, requests of this kind were rare, and none was due.
    is_lost = any(map(unanswered, samples)) or any(part.failed for part in parts if part)
    return OneSidedFigure(
        key="",
        identity={},
        figure=figure,
        known_on=known_on,
        unanswered=left,
        nothing_completed=is_lost and not any(histogram.count for histogram in histograms),
        at_least=bounds.get(name),
    )


def figures_of(
    samples: Sequence[Sample], wanted: Collection[str] | None = None
) -> dict[str, Rounds]:
    """Return the figures of one cell by name, of the running phase of each round.

    Args:
        samples: Samples of one cell of one run, at least one.
        wanted: Names of figures; by default all. ``p99`` stands for that of every kind.
    """
    own = counted(samples)
    return _figures(own, phases_of(own), wanted)


def _are_unlike(a: Rounds, b: Rounds) -> bool:
    return a.is_reported != b.is_reported


def _figures(
    samples: Sequence[Sample], phases: Sequence[RunningPhase], wanted: Collection[str] | None
) -> dict[str, Rounds]:
    """Return the figures of one side, by name.

    A percentile is absent if any round had too few requests for it: the rounds with enough requests
    would be the faster ones.
    """
    numbers = [sample.round for sample in samples]
    found = {}
    for figure, values, unit, resolution_share in _readings(samples, phases, wanted):
        known = {n: value for n, value in zip(numbers, values, strict=True) if value is not None}
        if len(known) == len(samples):
            kind = figure.rpartition(" ")[0]
            found[figure] = Rounds(
                values=known,
                unit=unit,
                resolution_share=resolution_share,
                is_reported=any(_is_reported(sample, kind) for sample in samples),
            )
    return found


_Reading = tuple[str, Sequence[float | None], str, float]


def _readings(
    samples: Sequence[Sample], phases: Sequence[RunningPhase], wanted: Collection[str] | None
) -> Iterator[_Reading]:
    """Yield name, value of each round, unit and resolution of each figure that is wanted."""
    count_share = count_resolution_share(phases)
    unit = rate_unit(samples[0])
    name = _FIGURE_OF_UNIT.get(unit, OPERATIONS)
    if is_wanted(name, wanted):
        yield name, [phase.completed_per_s for phase in phases], unit, count_share
    cell = samples[0].cell
    sizes_vary = cell.block_size_bytes == 0 and cell.operation not in DATABASE_OPERATIONS
    if sizes_vary and is_wanted(BANDWIDTH, wanted):
        bandwidths = [phase.transferred_bytes_per_s for phase in phases]
        yield BANDWIDTH, bandwidths, "B/s", count_share
    for kind in dict.fromkeys(kind for sample in samples for kind in sample.operations):
        names = [name for name in PERCENTILES if is_wanted(f"{kind} {name}", wanted)]
        if len(samples) > 1 and any(_is_reported(sample, kind) for sample in samples):
            continue  # a percentile of several rounds follows from their requests alone
        rounds = [
            _percentiles_ns(sample, phase, kind, names)
            for sample, phase in zip(samples, phases, strict=True)
        ]
        for index, name in enumerate(names):
            values = [values_ns[index] for values_ns in rounds]
            yield f"{kind} {name}", values, "ns", HISTOGRAM_RESOLUTION_SHARE


def is_wanted(figure: str, wanted: Collection[str] | None) -> bool:
    """Return whether a figure, ``read p99``, is one of these names; ``p99`` is that of any kind."""
    return wanted is None or figure in wanted or figure.rpartition(" ")[2] in wanted


def _is_reported(sample: Sample, kind: str) -> bool:
    """Return whether another tool computed the response times of a kind, and left no counts."""
    part = sample.operations.get(kind)
    if part is None or sample.engine != IMPORTED:
        return False
    return bool(part.reported_ns) and not part.response_histogram().count


def _percentiles_ns(
    sample: Sample, phase: RunningPhase, kind: str, names: Sequence[str]
) -> list[float | None]:
    """Return percentiles (ns) of one kind of request in a round; None if unknown."""
    part = sample.operations.get(kind)
    if part is None or not names:
        return [None] * len(names)
    histogram = response_histogram(sample, kind, phase)
    if part.reported_ns and not histogram.count:
        return [part.reported_ns.get(name) for name in names]
    return [percentile_ns(histogram, PERCENTS[name], sample, phase) for name in names]
