"""Finding ``not_steady``: a cell that writes, or the whole run, was still on its way."""

from __future__ import annotations

from collections import defaultdict

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.steady.model import SteadyState
from seatrial.stats.wording import format_cell, format_share, format_value
from seatrial.topic import topic_of

WHOLE_RUN_CELLS_MIN = 3
WRITING = ("write", "commit", "copy")


@from_samples(rank=280, section="Time")
def not_steady(context: Context) -> list[Finding]:
    """Find cells that surely moved to the end and never kept SNIA's rule of steady state.

    Databases have a finding of their own: their caches warm up, which no conditioning ends.

    A cell counts when more than half of what could be judged of it was so. Reads count only
    where the whole run, more than half of at least three cells, was so: then it is the target.

    Means:
        A cell that writes was still on its way from one rate to another when it ended: its figures
        are of the transition. Of most cells at once: the target was.

    Decided:
        No level that lasts for a third of the series without moving surely by more than a tenth (99
        %, autocorrelation paid for) or going one way all along, and SNIA's rule not met over the
        last five rounds or parts of the sample; in more than half of what could be judged of a cell
        (timelines of at least 20 slices, or 5 rounds). Reads count only where more than half of at
        least three cells are so. Warning. Noise alone raises it in less than 1 % of flat series
        ([method.md](method.md#steady-state)).

    Do:
        `seatrial precondition`, or longer samples, and repeat.
    """
    judged: dict[str, list[SteadyState]] = defaultdict(list)
    for state in context.steady:
        judged[state.cell].append(state)
    moving = [c for c in context.cells if _is_moving(judged.get(c.cell.key, []))]
    if not moving:
        return []
    of_databases = [c for c in moving if topic_of(c.cell).has_server]
    moving = [c for c in moving if c not in of_databases]
    known = sum(
        1 for c in context.cells if c.cell.key in judged and not topic_of(c.cell).has_server
    )
    is_whole_run = len(moving) >= WHOLE_RUN_CELLS_MIN and len(moving) > known / 2
    concerned = moving if is_whole_run else [c for c in moving if _writes(judged[c.cell.key])]
    found = [_finding(context, concerned, judged, is_whole_run)] if concerned else []
    return found + ([_of_databases(context, of_databases, judged)] if of_databases else [])


def _is_moving(states: list[SteadyState]) -> bool:
    """Tell whether most of what is known of a cell has no steady phase and breaks SNIA's rule."""
    moving = [state for state in states if _has_no_level(state)]
    return len(moving) > len(states) / 2


def _has_no_level(state: SteadyState) -> bool:
    is_steady = any(phase.state == "steady" for phase in state.phases)
    snia = next((rule for rule in state.rules if rule.rule == "snia"), None)
    return not is_steady and snia is not None and snia.window > 0 and not snia.met


def _writes(states: list[SteadyState]) -> bool:
    return any(state.operation in WRITING and _has_no_level(state) for state in states)


def _finding(
    context: Context,
    concerned: list[CellSummary],
    judged: dict[str, list[SteadyState]],
    is_whole_run: bool,
) -> Finding:
    """Return the finding with the cell whose line moves most as its example."""
    states = [s for c in concerned for s in judged[c.cell.key] if _has_no_level(s)]
    worst = max(states, key=_line_share)
    where = "Most of the run was" if is_whole_run else f"{context.of_cells(concerned)}:"
    first, last = worst.phases[0].rate, worst.phases[-1].rate
    among = "rounds" if worst.over == "rounds" else "parts of a sample"
    return Finding(
        kind="not_steady",
        severity="warning",
        cells=identities(concerned),
        sentence=(
            f"{where} not in a steady state to the end: {worst.operation}s of {worst.cell} "
            f"{_moved(format_value(first), format_value(last))}, the line through the last five "
            f"{among} moves by {format_share(_line_share(worst))} (SNIA's rule: at most 10 %)."
        ),
        cause=(
            "Flash that was not written whole before, whose garbage collection has yet to begin; a "
            "cache that still fills or drains; or a drive that still warms up."
        ),
        evidence=_evidence(concerned, worst),
        next=(
            "Bring the target into its steady state with 'seatrial precondition', or measure "
            "longer samples, until the rule is met; then repeat."
        ),
    )


def _of_databases(
    context: Context, concerned: list[CellSummary], judged: dict[str, list[SteadyState]]
) -> Finding:
    """Return the finding on databases, with the cell whose line moves most as its example."""
    states = {id(s): (s, c) for c in concerned for s in judged[c.cell.key] if _has_no_level(s)}
    worst, summary = max(states.values(), key=lambda pair: _line_share(pair[0]))
    first, last = worst.phases[0].rate, worst.phases[-1].rate
    return Finding(
        kind="not_steady",
        severity="note",
        cells=identities(concerned),
        sentence=(
            f"{context.of_cells(concerned)}: still on the way at the end; "
            f"{format_cell(summary.cell)} {_moved(format_value(first), format_value(last))} within "
            "a sample."
        ),
        cause=(
            "Shared buffers and page cache that still fill, which a cold start always begins with; "
            "tables and WAL that grow; a checkpoint under way; or the device's own state."
        ),
        evidence=_evidence(concerned, worst),
        next=(
            'Measure longer samples; or begin them with start = "prewarmed", if the database '
            "will be found warm."
        ),
    )


def _line_share(state: SteadyState) -> float:
    return next((r.line_share or 0.0 for r in state.rules if r.rule == "snia"), 0.0)


def _moved(first: str, last: str) -> str:
    return f"went from {first} to {last}" if first != last else f"moved about {last}"


def _evidence(concerned: list[CellSummary], worst: SteadyState) -> dict[str, object]:
    return {
        "cells_count": len(concerned),
        "worst_cell": worst.cell,
        "worst_operation": worst.operation,
        "line_share": _line_share(worst),
        "first_phase_per_s": worst.phases[0].rate.value,
        "last_phase_per_s": worst.phases[-1].rate.value,
        "over": worst.over,
    }
