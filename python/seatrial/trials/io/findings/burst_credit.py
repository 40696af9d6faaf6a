"""Finding ``burst_credit``: fast while a credit lasts, then one base rate for everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.model import Sample
from seatrial.stats.estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.stats.steady.phases import levels_of
from seatrial.stats.timeline import is_long_enough, median, series_of
from seatrial.stats.wording import format_duration_s, format_estimate, format_iops
from seatrial.topic import topic_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

BURST_RATIO_MIN = 1.3
BASE_RATIO_MAX = 1.07
WITNESSES_MIN = 2
CELLS_SINCE_MIN = 3
SAMPLES_AT_BASE_MIN = 3
CREDIT_RATIO_MAX = 1.5
SCATTER_SHARE_MAX = 0.07


@dataclass(frozen=True)
class Stretch:
    """A stretch of one sample at one level, on the run's own clock.

    Attributes:
        start_s: Unix time.
        length_s: How long it lasted.
        per_s: Its rate: requests or bytes per second.
        scatter_share: Median distance of its steps from that rate, over it.
        summary: The cell.
        sample: The sample.
    """

    start_s: float
    length_s: float
    per_s: float
    scatter_share: float
    summary: CellSummary
    sample: Sample


@dataclass(frozen=True)
class Credit:
    """What was spent, and the base rate that was left.

    Attributes:
        unit: ``IOPS`` or ``B/s``.
        base: The base rate, over the samples that came down to it.
        spent: Requests or bytes above the base rate, of each episode before it was spent.
        burst_s: How long the first episode lasted.
        witnesses: Cells that fell to the base rate, or were held at it ever since.
        recovers: Whether a later sample was above the base rate again.
    """

    unit: str
    base: Estimate
    spent: list[float]
    burst_s: float
    witnesses: list[CellSummary]
    recovers: bool


@from_samples(rank=220, section="Time", holds_in_lab=False)
def burst_credit(context: Context) -> list[Finding]:
    """Find a base rate to which different cells fell alike after the same amount of work.

    Means:
        The target lends a rate: after a number of requests (or bytes) above it, everything falls to
        one base rate, whatever the cell.

    Decided:
        Within samples the rate falls by a factor of at least 1.3 and is then held, as what meters
        out holds it (the median step is within 7 % of it); at least two cells, not all of them
        writes, were seen above and at that same base rate (within 7 %, three times at least); and
        what was spent above the base rate before each fall agrees within a factor of 1.5. Where the
        credit was gone before a second cell could use it: one fall, and at least three cells,
        nothing above that rate, ever since. A cache for writes falls too, but it spares reads, and
        is `left_steady_state` or `start_up_phase`. Critical: most figures of the run are on credit.

    Do:
        Plan with the base rate. To see it, measure until the credit is spent.
    """
    found = []
    targets = sorted({summary.cell.target for summary in context.cells})
    for target in targets:
        own = [c for c in context.cells if c.cell.target == target]
        credit = credit_of(own)
        if credit:
            found.append(_finding(context, credit))
    return found


def credit_of(cells: Sequence[CellSummary]) -> Credit | None:
    """Return the burst credit that explains the rates of a target's cells; None if none does.

    Tried for requests and for bytes, as cloud volumes have a credit of either kind; of two that
    explain, the one with more cells as witnesses.
    """
    found = []
    for unit in ("IOPS", "B/s"):
        stretches = _stretches(cells, unit)
        for base in _bases(stretches):
            credit = _judge(stretches, base, unit)
            if credit:
                found.append(credit)
    return max(found, key=lambda credit: len(credit.witnesses), default=None)


def _stretches(cells: Sequence[CellSummary], unit: str) -> list[Stretch]:
    """Return every level of every sample, in the order in which they were measured."""
    measured = [
        (summary, sample)
        for summary in cells
        if _is_judged(summary)
        for sample in counted(summary.samples)
        if sample.outcome.completed and sample.duration_s > 0
    ]
    in_time = sorted(measured, key=lambda pair: _order(pair[1]))
    return [stretch for summary, sample in in_time for stretch in _of_sample(summary, sample, unit)]


def _order(sample: Sample) -> tuple[float, int, int]:
    """Return when a sample was measured; simulated ones all start at 0 and go by their place."""
    return (sample.started_at, sample.round, sample.position)


def _is_judged(summary: CellSummary) -> bool:
    """Tell whether a cell asks for all that the target gives, for as long as it lasts."""
    cell = summary.cell
    is_of_one_pass = cell.kind in ("fill", "map")
    return not (is_of_one_pass or topic_of(cell).has_server or _is_scheduled(summary))


def _is_scheduled(summary: CellSummary) -> bool:
    arrival = summary.cell.spec.get("arrival")
    return isinstance(arrival, dict) and arrival.get("kind", "closed") != "closed"


def _of_sample(summary: CellSummary, sample: Sample, unit: str) -> list[Stretch]:
    """Return the levels of one sample."""
    moved_bytes = sum(part.transferred_bytes for part in sample.operations.values())
    scale = 1.0 if unit == "IOPS" else moved_bytes / sample.outcome.completed
    if not is_long_enough(sample):
        whole = sample.completed_per_s * scale
        return [Stretch(sample.started_at, sample.duration_s, whole, 0.0, summary, sample)]
    series = series_of(sample)
    return [
        Stretch(
            start_s=sample.started_at + level.start * series.step_s,
            length_s=(level.end - level.start) * series.step_s,
            per_s=level.rate_per_s * scale,
            scatter_share=_scatter_share(series.rates[level.start : level.end]),
            summary=summary,
            sample=sample,
        )
        for level in levels_of(series.rates)
    ]


def _scatter_share(rates: Array) -> float:
    """Return the median distance from the median, over it; 0 where that is 0."""
    middle = median(rates)
    return median(abs(rates - middle)) / middle if middle > 0 else 0.0


def _bases(stretches: Sequence[Stretch]) -> list[float]:
    """Return the rates that samples fell to and kept to their end, the candidates."""
    bases = []
    for _, own in groupby(stretches, key=lambda stretch: _order(stretch.sample)):
        levels = list(own)
        last = levels[-1]
        # What meters out holds its rate; a rate of 0 is a target that stopped.
        is_held = last.per_s > 0 and last.scatter_share <= SCATTER_SHARE_MAX
        if is_held and len(levels) > 1 and levels[-2].per_s >= BURST_RATIO_MIN * last.per_s:
            bases.append(last.per_s)
    return bases


def _judge(stretches: Sequence[Stretch], base_per_s: float, unit: str) -> Credit | None:
    """Return the credit with one base rate, where all of the run agrees with it."""

    def is_at_base(stretch: Stretch) -> bool:
        is_held = stretch.scatter_share <= SCATTER_SHARE_MAX
        return is_held and 1 / BASE_RATIO_MAX <= stretch.per_s / base_per_s <= BASE_RATIO_MAX

    def is_burst(stretch: Stretch) -> bool:
        return stretch.per_s >= BURST_RATIO_MIN * base_per_s

    at_base = [stretch for stretch in stretches if is_at_base(stretch)]
    witnesses = _witnesses(stretches, is_burst, is_at_base)
    if len(at_base) < SAMPLES_AT_BASE_MIN or not witnesses:
        return None
    if len(witnesses) < WITNESSES_MIN:
        # The credit may be gone before a second cell could use it: then all that came after it
        # must stand at the base rate or below, and nothing stood there before.
        witnesses = _all_at_base_since(stretches, is_burst, is_at_base)
    if len(witnesses) < WITNESSES_MIN or all(c.cell.operation == "write" for c in witnesses):
        return None  # where reads are spared, a cache for writes is likelier
    episodes = _episodes(stretches, base_per_s, is_burst, is_at_base)
    full = [episode.spent for episode in episodes if episode.is_full]
    most = max((episode.spent for episode in episodes), default=0.0)
    if not full or max(most, *full) > CREDIT_RATIO_MAX * min(full):
        return None
    first_at_base = stretches.index(at_base[0])
    return Credit(
        unit=unit,
        base=estimate_of_rounds([stretch.per_s for stretch in at_base], unit),
        spent=full,
        burst_s=episodes[0].length_s,
        witnesses=witnesses,
        recovers=any(is_burst(stretch) for stretch in stretches[first_at_base:]),
    )


def _witnesses(
    stretches: Sequence[Stretch],
    is_burst: Callable[[Stretch], bool],
    is_at_base: Callable[[Stretch], bool],
) -> list[CellSummary]:
    """Return the cells that were seen both above the base rate and at it."""
    above = {s.summary.cell.key for s in stretches if is_burst(s)}
    at_base = {s.summary.cell.key: s.summary for s in stretches if is_at_base(s)}
    return [summary for key, summary in at_base.items() if key in above]


def _all_at_base_since(
    stretches: Sequence[Stretch],
    is_burst: Callable[[Stretch], bool],
    is_at_base: Callable[[Stretch], bool],
) -> list[CellSummary]:
    """Return the cells at the base rate since one fall to it; none where any went above since."""
    first = next(place for place, stretch in enumerate(stretches) if is_at_base(stretch))
    fell = first > 0 and is_burst(stretches[first - 1])
    if not fell or any(is_burst(stretch) for stretch in stretches[first:]):
        return []
    at_base = {s.summary.cell.key: s.summary for s in stretches[first:] if is_at_base(s)}
    return list(at_base.values()) if len(at_base) >= CELLS_SINCE_MIN else []


@dataclass(frozen=True)
class Episode:
    """A time above the base rate, until it ended at the base rate.

    Attributes:
        spent: Requests or bytes above what the base rate gave meanwhile.
        length_s: How long it lasted.
        is_full: Whether it surely began with the whole credit: the first of the run, and one
            after a pause in which the base rate gave all of it back.
    """

    spent: float
    length_s: float
    is_full: bool


def _episodes(
    stretches: Sequence[Stretch],
    base_per_s: float,
    is_burst: Callable[[Stretch], bool],
    is_at_base: Callable[[Stretch], bool],
) -> list[Episode]:
    """Return the times above the base rate that ended at it, in order."""
    episodes: list[Episode] = []
    spent, length_s, is_full = 0.0, 0.0, True
    last_end_s = stretches[0].start_s
    for stretch in stretches:
        given_back = base_per_s * max(0.0, stretch.start_s - last_end_s)
        last_end_s = stretch.start_s + stretch.length_s
        if spent == 0 and episodes and given_back >= episodes[0].spent:
            is_full = True
        if is_burst(stretch):
            spent = max(0.0, spent - given_back)
            spent += (stretch.per_s - base_per_s) * stretch.length_s
            length_s += stretch.length_s
        elif is_at_base(stretch) and spent > 0:
            episodes.append(Episode(spent, length_s, is_full))
            spent, length_s, is_full = 0.0, 0.0, False
    return episodes


def _finding(context: Context, credit: Credit) -> Finding:
    spent = estimate_of_rounds(credit.spent, "count")
    work = "requests" if credit.unit == "IOPS" else "bytes"
    amount = format_iops(spent.value)
    return Finding(
        kind="burst_credit",
        severity="critical",
        cells=identities(credit.witnesses),
        sentence=(
            f"After {amount} {work} above it ({format_duration_s(credit.burst_s)} of load) the "
            f"target falls to one base rate, {format_estimate(credit.base)}, in "
            f"{context.of_cells(credit.witnesses)} alike"
            f"{'; later samples begin fast again' if credit.recovers else ''}."
        ),
        cause=(
            "Likely burst credit: a cloud volume (or a throttle with a token bucket) lends a rate "
            "that it does not sustain. Figures above the base rate are on credit."
        ),
        evidence={
            "cells_count": len(credit.witnesses),
            f"credit_{'operations' if credit.unit == 'IOPS' else 'bytes'}": spent.value,
            "episodes_count": len(credit.spent),
            "burst_s": credit.burst_s,
            "base_unit": credit.unit,
            "base_per_s": credit.base.value,
            "base_per_s_low": credit.base.low,
            "base_per_s_high": credit.base.high,
            "recovers": credit.recovers,
        },
        next=(
            "Plan with the base rate, or buy one that is provisioned; to measure it, let 'seatrial "
            "io' run until the credit is spent and read what comes after."
        ),
    )
