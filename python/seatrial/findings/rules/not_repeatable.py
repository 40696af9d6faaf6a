"""Finding ``not_repeatable``: the results of a cell vary between rounds."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities, number
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.cell_estimates import counted, rounds_needed
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.running import running_per_s
from seatrial.stats.wording import (
    format_cell,
    format_count,
    format_iops,
    format_plural,
    format_share,
)
from seatrial.study.cell import Cell
from seatrial.topic import topic_of

SPREAD_RATIO_MAX = 1.5
PRECISION_SHARE_DEFAULT = 0.05


@from_samples(rank=450, section="Time", sees_replays=True)
def not_repeatable(context: Context) -> list[Finding]:
    """Find cells with a large spread between rounds or an interval wider than requested.

    Means:
        The results of a test vary between rounds, or the requested precision was not reached.

    Decided:
        Warning: the fastest round is more than 1.5 times the slowest, or a round completed nothing.
        Note: after the last round the interval is still wider than the study requested; the note
        estimates how many rounds with the same spread would reach the requested precision. A test
        measured once is not judged.

    Do:
        Check timeline and stalls of the slow round; measure the test alone and longer; allow more
        rounds or longer samples.
    """
    precision_share = wanted_precision_share(context)
    own = [c for c in context.cells if not topic_of(c.cell).judges_rounds(c.cell)]
    repeated = [c for c in own if c.iops.rounds > 1]
    spread = [c for c in repeated if spread_ratio(c) > SPREAD_RATIO_MAX]
    wide = [c for c in repeated if c not in spread and _is_wide(c, precision_share)]
    found = [_spread_finding(context, spread)] if spread else []
    return found + ([_wide_finding(context, wide, precision_share)] if wide else [])


def wanted_precision_share(context: Context) -> float:
    """Return the precision that the study requested: half width of an interval, as a share."""
    return number(context.run.study, "rounds", "precision") or PRECISION_SHARE_DEFAULT


def rounds_per_s(summary: CellSummary) -> list[float]:
    """Return the rate of each round in its running phase."""
    return [running_per_s(sample) for sample in counted(summary.samples)]


def spread_ratio(summary: CellSummary) -> float:
    """Return the fastest round over the slowest; infinite if a round completed nothing."""
    rates = rounds_per_s(summary)
    if max(rates) == 0:
        return 1.0
    return max(rates) / min(rates) if min(rates) > 0 else float("inf")


def _is_wide(summary: CellSummary, precision_share: float) -> bool:
    share = summary.iops.half_width_share
    return share is not None and share > precision_share


class NotRepeatableInShort(Figures, frozen=True, kw_only=True, tag="not_repeatable"):
    """Figures of every ``not_repeatable``."""

    def in_short(self, cells_count: int) -> str:
        return f"results varied between rounds in {format_plural(cells_count, 'test')}"


class RoundsApartFigures(NotRepeatableInShort, frozen=True, kw_only=True):
    """Figures of ``not_repeatable``: rounds apart."""

    cells_count: int
    spread_ratio_max: float | None
    spread_ratio_allowed: float
    worst_cell: str
    worst_rounds_per_s: list[float]
    concerned: Annotated[AffectedCells, HIDDEN]
    cell: Annotated[Cell, HIDDEN]
    unit: Annotated[str, HIDDEN]
    rates_count: Annotated[int, HIDDEN]

    def text(self) -> FindingText:
        slowest, fastest = (
            format_iops(min(self.worst_rounds_per_s)),
            format_iops(max(self.worst_rounds_per_s)),
        )
        is_one = self.cells_count == 1
        measured = "the test" if is_one else f"the most variable test ({format_cell(self.cell)})"
        spread = f"{slowest} to {fastest} {self.unit}/s over {self.rates_count} rounds"
        if not is_one:
            spread = f"the largest spread is {spread} ({format_cell(self.cell)})"
        return FindingText(
            sentence=(
                f"Results varied between rounds in {self.concerned}{':' if is_one else ';'} "
                f"{spread}."
            ),
            cause=(
                "Conditions changed between rounds: a cache filling and draining, garbage "
                "collection, temperature, burst credit of a cloud volume, other tenants, or a "
                "stall in one round. The order of tests is random in each round, so what the test "
                "before left behind may differ, too."
            ),
            next=(
                f"Measure {measured} alone and for longer, and check the timeline and the stalls "
                "of its slow rounds."
            ),
        )


def _spread_finding(context: Context, concerned: list[CellSummary]) -> Finding:
    worst = max(concerned, key=spread_ratio)
    rates = rounds_per_s(worst)
    unit = topic_of(worst.cell).request_noun(worst.cell)
    figures = RoundsApartFigures(
        cells_count=len(concerned),
        spread_ratio_max=max(rates) / min(rates) if min(rates) > 0 else None,
        spread_ratio_allowed=SPREAD_RATIO_MAX,
        worst_cell=worst.cell.key,
        worst_rounds_per_s=rates,
        concerned=context.affected_cells(concerned),
        cell=worst.cell,
        unit=unit,
        rates_count=len(rates),
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)


class IntervalWideFigures(NotRepeatableInShort, frozen=True, kw_only=True):
    """Figures of ``not_repeatable``: interval wide."""

    cells_count: int
    precision_share_requested: float
    half_width_share_max: float
    rounds_measured_min: int
    rounds_needed_max: int | None
    concerned: Annotated[AffectedCells, HIDDEN]
    known_count: Annotated[int, HIDDEN]
    needed_count: Annotated[int, HIDDEN]
    known: Annotated[list[int], HIDDEN]

    def text(self) -> FindingText:
        if self.known_count == self.needed_count:
            text = f"about {format_count(max(self.known))} rounds would reach it in all tests"
        else:
            text = "reaching it in all tests would take more than a thousand rounds"
        return FindingText(
            sentence=(
                f"The confidence interval of {self.concerned} is wider than the requested "
                f"± {format_share(self.precision_share_requested)} (up to ± "
                f"{format_share(self.half_width_share_max)}); {text}."
            ),
            cause=("The budget of rounds or time ended before this precision was reached."),
            next=("Allow more rounds or a longer budget in the study, or longer samples."),
        )


def _wide_finding(
    context: Context, concerned: list[CellSummary], precision_share: float
) -> Finding:
    shares = [c.iops.half_width_share or 0.0 for c in concerned]
    needed = [rounds_needed(c.iops, precision_share) for c in concerned]
    known = [rounds for rounds in needed if rounds is not None]
    figures = IntervalWideFigures(
        cells_count=len(concerned),
        precision_share_requested=precision_share,
        half_width_share_max=max(shares),
        rounds_measured_min=min(c.iops.rounds for c in concerned),
        rounds_needed_max=max(known) if len(known) == len(needed) else None,
        concerned=context.affected_cells(concerned),
        known_count=len(known),
        needed_count=len(needed),
        known=known,
    )
    return Finding(severity="note", cells=identities(concerned), figures=figures)
