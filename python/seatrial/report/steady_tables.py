"""The plain table of steady states: a row for each phase of each cell that changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.report.table import Table, doubt_text, rate_text
from seatrial.stats.model import CellSummary
from seatrial.stats.steady.model import SteadyState
from seatrial.stats.wording import format_cell, format_duration_s

RULE_NAMES: Final = {
    "snia": "SNIA",
    "fio_deviation": "fio, deviation",
    "fio_slope": "fio, slope",
}
_START: Final = "0 s"


def informative(states: Sequence[SteadyState]) -> list[SteadyState]:
    """Return the states of which there is more to tell than that they are steady throughout."""
    return [
        state
        for state in states
        if len(state.phases) > 1 or any(phase.state != "steady" for phase in state.phases)
    ]


def steady_table(states: Sequence[SteadyState], cells: Sequence[CellSummary]) -> Table:
    """Return a row for each phase, in order of time.

    Args:
        states: At least one.
        cells: The cells that the states are of, and others.
    """
    names = {summary.cell.key: format_cell(summary.cell) for summary in cells}
    return Table(
        id="steady",
        title="Phases: fresh, in transition, steady, or away from it again",
        labels=3,
        headers=["Cell", "Requests", "Phase", "From", "To", _rate_unit(states), "±"],
        rows=[
            [
                names.get(state.cell, state.cell) + _round_text(state),
                state.operation,
                phase.state,
                format_duration_s(phase.start_s) if phase.start_s else _START,
                format_duration_s(phase.end_s),
                rate_text(phase.rate),
                doubt_text(phase.rate),
            ]
            for state in states
            for phase in state.phases
        ],
    )


def rules_table(states: Sequence[SteadyState], cells: Sequence[CellSummary]) -> Table:
    """Return what each rule says of each state, with its sentence."""
    names = {summary.cell.key: format_cell(summary.cell) for summary in cells}
    return Table(
        id="steady-rules",
        title="Rules of steady state",
        labels=3,
        headers=["Cell", "Requests", "Rule", "Met", "Sentence"],
        rows=[
            [
                names.get(state.cell, state.cell) + _round_text(state),
                state.operation,
                RULE_NAMES.get(rule.rule, rule.rule),
                "yes" if rule.met else "no",
                rule.sentence,
            ]
            for state in states
            for rule in state.rules
        ],
    )


def _rate_unit(states: Sequence[SteadyState]) -> str:
    """Return the unit that the rates of all phases have; a neutral word where they differ."""
    units = {phase.rate.unit for state in states for phase in state.phases}
    return units.pop() if len(units) == 1 else "Per second"


def _round_text(state: SteadyState) -> str:
    """Return which round it is; nothing where time runs over rounds."""
    return "" if state.round is None else f", round {state.round + 1}"
