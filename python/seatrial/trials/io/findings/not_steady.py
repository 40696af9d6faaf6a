"""Finding ``not_steady``: a writing cell, or the whole run, did not reach steady state."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.grouping import grouped
from seatrial.published import HIDDEN
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.steady.phases import (
    LINE_SHARE_MAX,
    RANGE_SHARE_MAX,
    RuleResult,
    SteadyState,
)
from seatrial.stats.wording import format_cell, format_share, format_value
from seatrial.study.cell import Cell
from seatrial.topic import topic_of

WHOLE_RUN_CELLS_MIN = 3
WRITING: Final = ("write", "commit", "copy")


@from_samples(rank=280, section="Time")
def not_steady(context: Context) -> list[Finding]:
    """Find cells that did not reach steady state by SNIA's rule.

    Databases have a separate finding: their caches warm up, and preconditioning does not help.

    A cell counts if more than half of its series show it. Reads count only if the whole run (more
    than half of at least three cells) shows it: then the target is not steady.

    Means:
        The rate of a writing test was still changing when it ended: its figures describe the
        transition. If this applies to most tests, the target was not in steady state.

    Decided:
        No level lasts for a third of the series without a significant change of more than 10 % (99
        % confidence, corrected for autocorrelation) or a monotonic trend, and SNIA's rule is not
        met over the last five rounds or parts of the sample; in more than half of a test's series
        (timelines of at least 20 slices, or 5 rounds). Reads count only if more than half of at
        least three tests show it. Warning. False positives occur in less than 1 % of flat series
        ([method.md](method.md#steady-state)).

    Do:
        Run `seatrial precondition`, or use longer samples, and repeat.
    """
    states_by_cell = grouped(context.steady, lambda state: state.cell)
    moving = [c for c in context.cells if _is_moving(states_by_cell.get(c.cell.key, []))]
    if not moving:
        return []
    of_databases = [c for c in moving if topic_of(c.cell).has_server]
    moving = [c for c in moving if c not in of_databases]
    known = sum(
        1 for c in context.cells if c.cell.key in states_by_cell and not topic_of(c.cell).has_server
    )
    is_whole_run = len(moving) >= WHOLE_RUN_CELLS_MIN and len(moving) > known / 2
    concerned = (
        moving if is_whole_run else [c for c in moving if _writes(states_by_cell[c.cell.key])]
    )
    found = [_finding(context, concerned, states_by_cell, is_whole_run)] if concerned else []
    return found + ([_of_databases(context, of_databases, states_by_cell)] if of_databases else [])


def _is_moving(states: list[SteadyState]) -> bool:
    """Return whether most series of a cell have no steady phase and violate SNIA's rule."""
    moving = [state for state in states if _has_no_level(state)]
    return len(moving) > len(states) / 2


def _has_no_level(state: SteadyState) -> bool:
    is_steady = any(phase.state == "steady" for phase in state.phases)
    snia = _snia(state)
    return not is_steady and snia is not None and snia.window > 0 and not snia.met


def _writes(states: list[SteadyState]) -> bool:
    return any(state.operation in WRITING and _has_no_level(state) for state in states)


class NotSteadyFigures(Figures, frozen=True, kw_only=True, tag="not_steady"):
    """Figures of ``not_steady``: not steady."""

    cells_count: int
    worst_cell: str
    worst_operation: str
    line_share: float
    range_share: float
    first_phase_per_s: float
    last_phase_per_s: float
    over: Literal["timeline"] | Literal["rounds"]
    first: Annotated[Estimate, HIDDEN]
    last: Annotated[Estimate, HIDDEN]
    is_whole_run: Annotated[bool, HIDDEN]
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        where = "most of the run" if self.is_whole_run else f"{self.concerned}"
        among = "rounds" if self.over == "rounds" else "parts of a sample"
        broken, share, limit_share = "slope", self.line_share, LINE_SHARE_MAX
        if self.line_share <= LINE_SHARE_MAX < self.range_share:
            broken, share, limit_share = "range", self.range_share, RANGE_SHARE_MAX
        return FindingText(
            sentence=(
                f"Steady state was not reached in {where}: {self.worst_operation}s of "
                f"{self.worst_cell} "
                f"{_moved(format_value(self.first), format_value(self.last))}; the {broken} over "
                f"the last five {among} is {format_share(share)} (SNIA limit: "
                f"{format_share(limit_share)})."
            ),
            cause=(
                "Flash was not fully written before, so garbage collection has not yet set in; a "
                "cache is still filling or draining; or the drive is still warming up."
            ),
            next=(
                "Bring the target to steady state with 'seatrial precondition', or use longer "
                "samples until the rule is met; then repeat."
            ),
        )


def _finding(
    context: Context,
    concerned: list[CellSummary],
    states_by_cell: dict[str, list[SteadyState]],
    is_whole_run: bool,
) -> Finding:
    """Return the finding with the cell of the steepest slope as its example."""
    states = [s for c in concerned for s in states_by_cell[c.cell.key] if _has_no_level(s)]
    worst = max(states, key=_shares)
    first, last = worst.phases[0].rate, worst.phases[-1].rate
    figures = NotSteadyFigures(
        cells_count=len(concerned),
        worst_cell=worst.cell,
        worst_operation=worst.operation,
        line_share=_shares(worst)[0],
        range_share=_shares(worst)[1],
        first_phase_per_s=worst.phases[0].rate.value,
        last_phase_per_s=worst.phases[-1].rate.value,
        over=worst.over,
        first=first,
        last=last,
        is_whole_run=is_whole_run,
        concerned=context.affected_cells(concerned),
    )
    return Finding(severity="warning", cells=identities(concerned), figures=figures)


class DatabaseNotSteadyFigures(Figures, frozen=True, kw_only=True, tag="not_steady"):
    """Figures of ``not_steady``: database not steady."""

    cells_count: int
    worst_cell: str
    worst_operation: str
    line_share: float
    first_phase_per_s: float
    last_phase_per_s: float
    over: Literal["timeline"] | Literal["rounds"]
    concerned: Annotated[AffectedCells, HIDDEN]
    summary_cell: Annotated[Cell, HIDDEN]
    first: Annotated[Estimate, HIDDEN]
    last: Annotated[Estimate, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"Steady state was not reached in {self.concerned}: "
                f"{format_cell(self.summary_cell)} "
                f"{_moved(format_value(self.first), format_value(self.last))} within a sample."
            ),
            cause=(
                "Shared buffers and page cache were still filling, as after every cold start; "
                "tables and WAL grew; a checkpoint was running; or the device was not in steady "
                "state."
            ),
            next=(
                'Use longer samples, or start = "prewarmed" if the database runs with warm caches '
                "in production."
            ),
        )


def _of_databases(
    context: Context, concerned: list[CellSummary], states_by_cell: dict[str, list[SteadyState]]
) -> Finding:
    """Return the finding on databases, with the cell of the steepest slope as its example."""
    states = {
        id(s): (s, c) for c in concerned for s in states_by_cell[c.cell.key] if _has_no_level(s)
    }
    worst, summary = max(states.values(), key=lambda pair: _shares(pair[0]))
    first, last = worst.phases[0].rate, worst.phases[-1].rate
    figures = DatabaseNotSteadyFigures(
        cells_count=len(concerned),
        worst_cell=worst.cell,
        worst_operation=worst.operation,
        line_share=_shares(worst)[0],
        first_phase_per_s=worst.phases[0].rate.value,
        last_phase_per_s=worst.phases[-1].rate.value,
        over=worst.over,
        concerned=context.affected_cells(concerned),
        summary_cell=summary.cell,
        first=first,
        last=last,
    )
    return Finding(severity="note", cells=identities(concerned), figures=figures)


def _snia(state: SteadyState) -> RuleResult | None:
    return next((rule for rule in state.rules if rule.rule == "snia"), None)


def _shares(state: SteadyState) -> tuple[float, float]:
    """Return the slope and the range of the rule's window; 0 where unknown."""
    snia = _snia(state)
    return (snia.line_share or 0.0, snia.range_share or 0.0) if snia else (0.0, 0.0)


def _moved(first: str, last: str) -> str:
    return f"went from {first} to {last}" if first != last else f"varied around {last}"
