"""Finding ``burst_credit``: fast while burst credit lasts, then one base rate for all cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary, Estimate, Figures, Finding, FindingText
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
CELLS_AT_BASE_MIN = 2
CELLS_SINCE_MIN = 3
SAMPLES_AT_BASE_MIN = 3
CREDIT_RATIO_MAX = 1.5
SCATTER_SHARE_MAX = 0.07


@dataclass(frozen=True)
class RateLevel:
    """A period of one sample at a constant rate, on the run's clock.

    Attributes:
        start_s: Unix time.
        length_s: Duration.
        per_s: Rate in requests or bytes per second.
        scatter_share: Median deviation of its steps from that rate, as a share of the rate.
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
    """The credit used and the base rate that followed.

    Attributes:
        unit: ``IOPS`` or ``B/s``.
        base: The base rate, over the samples that dropped to it.
        spent: Requests or bytes above the base rate, for each episode until the credit was used up.
        burst_s: Duration of the first episode.
        cells: Cells that dropped to the base rate, or stayed at it from then on.
        recovers: Whether a later sample exceeded the base rate again.
    """

    unit: str
    base: Estimate
    spent: list[float]
    burst_s: float
    cells: list[CellSummary]
    recovers: bool


@from_samples(rank=220, section="Time", holds_in_lab=False)
def burst_credit(context: Context) -> list[Finding]:
    """Find a base rate to which different cells dropped after the same amount of work.

    Means:
        The target has burst credit: after a number of requests (or bytes) above the base rate, all
        tests drop to this rate.

    Decided:
        Within samples the rate drops by a factor of at least 1.3 and then stays constant, as a
        rate limiter enforces it (the median step is within 7 % of it); at least two tests, not all
        of them writes, were observed above and at that base rate (within 7 %, at least three
        times); and the work above the base rate before each drop agrees within a factor of 1.5. If
        the credit was used up before a second test could use it: one drop, followed by at least
        three tests at the base rate and none above it. A write cache drops too, but does not
        affect reads, and is reported as `left_steady_state` or `start_up_phase`. Critical: most
        figures of the run depend on the credit.

    Do:
        Plan with the base rate. To measure it, run until the credit is used up.
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

    Tried for requests and for bytes, since cloud volumes have credits of either kind. If both
    fit, the one with more cells wins.
    """
    found = []
    for unit in ("IOPS", "B/s"):
        levels = _rate_levels(cells, unit)
        for base in _bases(levels):
            credit = _credit_at_base(levels, base, unit)
            if credit:
                found.append(credit)
    return max(found, key=lambda credit: len(credit.cells), default=None)


def _rate_levels(cells: Sequence[CellSummary], unit: str) -> list[RateLevel]:
    """Return every level of every sample, in the order of measurement."""
    measured = [
        (summary, sample)
        for summary in cells
        if _is_full_load(summary)
        for sample in counted(summary.samples)
        if sample.completed_per_s > 0
    ]
    in_time = sorted(measured, key=lambda pair: _order(pair[1]))
    return [level for summary, sample in in_time for level in _of_sample(summary, sample, unit)]


def _order(sample: Sample) -> tuple[float, int, int]:
    """Return the sort key of a sample by time; simulated samples all start at 0."""
    return (sample.started_at, sample.round, sample.position)


def _is_full_load(summary: CellSummary) -> bool:
    """Return whether a cell loads the target as fast as possible for its whole duration."""
    cell = summary.cell
    is_of_one_pass = cell.kind in ("fill", "map")
    is_scheduled = cell.parsed.arrival.is_scheduled
    return not (is_of_one_pass or topic_of(cell).has_server or is_scheduled)


def _of_sample(summary: CellSummary, sample: Sample, unit: str) -> list[RateLevel]:
    """Return the levels of one sample."""
    moved_bytes = sum(part.transferred_bytes for part in sample.operations.values())
    completed = sample.outcome.completed - sample.completed_syncs
    scale = 1.0 if unit == "IOPS" else moved_bytes / completed
    if not is_long_enough(sample):
        whole = sample.completed_per_s * scale
        return [RateLevel(sample.started_at, sample.duration_s, whole, 0.0, summary, sample)]
    series = series_of(sample)
    return [
        RateLevel(
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
    """Return the median deviation from the median, as a share of it; 0 if the median is 0."""
    middle = median(rates)
    return median(abs(rates - middle)) / middle if middle > 0 else 0.0


def _bases(levels: Sequence[RateLevel]) -> list[float]:
    """Return the candidates: rates that samples dropped to and stayed at to their end."""
    bases = []
    for _, own in groupby(levels, key=lambda level: _order(level.sample)):
        own_levels = list(own)
        last = own_levels[-1]
        # A rate limiter keeps its rate constant; a rate of 0 is a target that stopped.
        is_constant = last.per_s > 0 and last.scatter_share <= SCATTER_SHARE_MAX
        if (
            is_constant
            and len(own_levels) > 1
            and own_levels[-2].per_s >= BURST_RATIO_MIN * last.per_s
        ):
            bases.append(last.per_s)
    return bases


def _credit_at_base(levels: Sequence[RateLevel], base_per_s: float, unit: str) -> Credit | None:
    """Return the credit with one base rate, if the whole run is consistent with it."""

    def is_at_base(level: RateLevel) -> bool:
        is_constant = level.scatter_share <= SCATTER_SHARE_MAX
        return is_constant and 1 / BASE_RATIO_MAX <= level.per_s / base_per_s <= BASE_RATIO_MAX

    def is_burst(level: RateLevel) -> bool:
        return level.per_s >= BURST_RATIO_MIN * base_per_s

    at_base = [level for level in levels if is_at_base(level)]
    cells = _burst_cells(levels, is_burst, is_at_base)
    if len(at_base) < SAMPLES_AT_BASE_MIN or not cells:
        return None
    if len(cells) < CELLS_AT_BASE_MIN:
        # The credit may be used up before a second cell could use it: then everything after it
        # must be at or below the base rate, and nothing before it.
        cells = _all_at_base_since(levels, is_burst, is_at_base)
    if len(cells) < CELLS_AT_BASE_MIN or all(c.cell.operation == "write" for c in cells):
        return None  # if reads are not affected, a write cache is more likely
    episodes = _episodes(levels, base_per_s, is_burst, is_at_base)
    full = [episode.spent for episode in episodes if episode.is_full]
    most = max((episode.spent for episode in episodes), default=0.0)
    if not full or max(most, *full) > CREDIT_RATIO_MAX * min(full):
        return None
    first_at_base = levels.index(at_base[0])
    return Credit(
        unit=unit,
        base=estimate_of_rounds([level.per_s for level in at_base], unit),
        spent=full,
        burst_s=episodes[0].length_s,
        cells=cells,
        recovers=any(is_burst(level) for level in levels[first_at_base:]),
    )


def _burst_cells(
    levels: Sequence[RateLevel],
    is_burst: Callable[[RateLevel], bool],
    is_at_base: Callable[[RateLevel], bool],
) -> list[CellSummary]:
    """Return the cells that were observed both above the base rate and at it."""
    above = {s.summary.cell.key for s in levels if is_burst(s)}
    at_base = {s.summary.cell.key: s.summary for s in levels if is_at_base(s)}
    return [summary for key, summary in at_base.items() if key in above]


def _all_at_base_since(
    levels: Sequence[RateLevel],
    is_burst: Callable[[RateLevel], bool],
    is_at_base: Callable[[RateLevel], bool],
) -> list[CellSummary]:
    """Return the cells at the base rate after one drop; none if any exceeded it later."""
    first = next(index for index, level in enumerate(levels) if is_at_base(level))
    fell = first > 0 and is_burst(levels[first - 1])
    if not fell or any(is_burst(level) for level in levels[first:]):
        return []
    at_base = {s.summary.cell.key: s.summary for s in levels[first:] if is_at_base(s)}
    return list(at_base.values()) if len(at_base) >= CELLS_SINCE_MIN else []


@dataclass(frozen=True)
class Episode:
    """A period above the base rate that ended at the base rate.

    Attributes:
        spent: Requests or bytes in excess of the base rate.
        length_s: Duration.
        is_full: Whether it certainly began with the full credit: the first one of the run, and one
            after a pause long enough to restore it.
    """

    spent: float
    length_s: float
    is_full: bool


def _episodes(
    levels: Sequence[RateLevel],
    base_per_s: float,
    is_burst: Callable[[RateLevel], bool],
    is_at_base: Callable[[RateLevel], bool],
) -> list[Episode]:
    """Return the periods above the base rate that ended at it, in order."""
    episodes: list[Episode] = []
    spent, length_s, is_full = 0.0, 0.0, True
    last_end_s = levels[0].start_s
    for level in levels:
        refilled = base_per_s * max(0.0, level.start_s - last_end_s)
        last_end_s = level.start_s + level.length_s
        if spent == 0 and episodes and refilled >= episodes[0].spent:
            is_full = True
        if is_burst(level):
            spent = max(0.0, spent - refilled)
            spent += (level.per_s - base_per_s) * level.length_s
            length_s += level.length_s
        elif is_at_base(level) and spent > 0:
            episodes.append(Episode(spent, length_s, is_full))
            spent, length_s, is_full = 0.0, 0.0, False
    return episodes


class BurstCreditFigures(Figures, frozen=True, kw_only=True, tag="burst_credit"):
    cells_count: int
    others: Annotated[dict[str, float], FLATTENED]
    episodes_count: int
    burst_s: float
    base_unit: str
    base_per_s: float
    base_per_s_low: float | None
    base_per_s_high: float | None
    recovers: bool
    spent_amount: Annotated[float, HIDDEN]
    credit_base: Annotated[Estimate, HIDDEN]
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The target drops to a base rate of {format_estimate(self.credit_base)} after "
                f"{format_iops(self.spent_amount)} "
                f"{'requests' if self.base_unit == 'IOPS' else 'bytes'} above it "
                f"({format_duration_s(self.burst_s)} of load), in {self.concerned}"
                f"{'; later samples start fast again' if self.recovers else ''}."
            ),
            cause=(
                "Likely burst credit: a cloud volume (or a token-bucket throttle) grants a rate "
                "that it does not sustain. Figures above the base rate depend on the credit."
            ),
            next=(
                "Plan with the base rate, or buy provisioned IOPS. To measure it, run "
                "'seatrial io' until the credit is used up and read the rate after that."
            ),
        )


def _finding(context: Context, credit: Credit) -> Finding:
    spent = estimate_of_rounds(credit.spent, "count")
    spent_amount = spent.value
    figures = BurstCreditFigures(
        cells_count=len(credit.cells),
        others={f"credit_{'operations' if credit.unit == 'IOPS' else 'bytes'}": spent_amount},
        episodes_count=len(credit.spent),
        burst_s=credit.burst_s,
        base_unit=credit.unit,
        base_per_s=credit.base.value,
        base_per_s_low=credit.base.low,
        base_per_s_high=credit.base.high,
        recovers=credit.recovers,
        spent_amount=spent_amount,
        credit_base=credit.base,
        concerned=context.affected_cells(credit.cells),
    )
    return Finding(severity="critical", cells=identities(credit.cells), figures=figures)
