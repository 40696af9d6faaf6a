"""Rate over time with its phases: fresh, in transition, steady, or away from it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.report.figures.axes import linear_axis, time_axis
from seatrial.report.figures.model import Figure, Guide, Line, Panel, Point, Tone, View
from seatrial.report.steady_tables import informative
from seatrial.results.model import Sample
from seatrial.stats.estimates import counted
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.steady.model import Phase, State, SteadyState
from seatrial.stats.timeline import series_of
from seatrial.stats.wording import (
    format_cell,
    format_count,
    format_duration_s,
    format_estimate,
    format_value,
)

_VIEWS_MAX: Final = 12
_POINTS_MAX: Final = 150
_TONES: Final[dict[State, Tone]] = {
    "fresh": "quiet",
    "transition": "none",
    "steady": "answer",
    "left": "limit",
}


def steady_figures(states: Sequence[SteadyState], cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the chart of the states that change, a view for each; none where nothing changed.

    Args:
        states: Of the cells, or of some.
        cells: The cells, with the samples that the states were found in.
    """
    known = {summary.cell.key: summary for summary in cells}
    changed = [state for state in informative(states) if state.cell in known]
    shown = sorted(changed, key=_weight)[:_VIEWS_MAX]
    if not shown:
        return []
    notes = [
        "Shaded are the phases between sure changes; a level line is the mean of its phase, "
        "with an interval that pays for what neighbouring values share."
    ]
    if len(shown) < len(changed):
        notes.append(
            f"{len(shown)} of {format_count(len(changed))} timelines are kept in this page, those "
            "that change most; the table has all."
        )
    return [
        Figure(
            id="steady",
            kind="lines",
            topic="Steady state",
            notes=notes,
            views=[_view(state, known[state.cell]) for state in shown],
            table="table-steady",
        )
    ]


def _weight(state: SteadyState) -> tuple[bool, float]:
    """Return a key that sorts first what left its steady state, then what changes most."""
    rates_per_s = [phase.rate.value for phase in state.phases]
    change = max(rates_per_s) / max(min(rates_per_s), 1e-9)
    return (all(phase.state != "left" for phase in state.phases), -change)


def _view(state: SteadyState, summary: CellSummary) -> View:
    points, step_s = _timeline(state, summary)
    end_s = max(phase.end_s for phase in state.phases)
    rates = [point.y for point in points] + [phase.rate.value for phase in state.phases]
    unit = state.phases[0].rate.unit
    measured = Line(name="rate", style=0, points=points, look="plain" if step_s else "measured")
    means = [_mean_line(phase) for phase in state.phases]
    panel = Panel(
        title=f"{state.operation}: rate over {'rounds' if state.over == 'rounds' else 'time'}",
        x=time_axis(end_s),
        y=linear_axis("Requests per second", unit, rates),
        lines=[measured, *means],
        guides=[_guide(phase) for phase in state.phases],
    )
    notes = [rule.sentence for rule in state.rules]
    if step_s:
        notes.append(f"A value is the mean of {format_duration_s(step_s)}.")
    return View(label=_label(state, summary), title=state.sentence, panels=[panel], notes=notes)


def _label(state: SteadyState, summary: CellSummary) -> str:
    where = "over rounds" if state.round is None else f"round {state.round + 1}"
    return f"{format_cell(summary.cell)}: {state.operation}, {where}"


def _timeline(state: SteadyState, summary: CellSummary) -> tuple[list[Point], float]:
    """Return the values over time, and the seconds that each stands for; 0 of whole rounds."""
    if state.over == "rounds":
        return _rounds(state, counted(summary.samples)), 0.0
    sample = next(each for each in summary.samples if each.round == state.round)
    several = sum(part.completed > 0 for part in sample.operations.values()) > 1
    series = series_of(sample, state.operation if several else None)
    stride = -(-len(series.rates) // _POINTS_MAX)
    step_s = stride * series.step_s
    unit = state.phases[0].rate.unit
    points = [
        _point((place + 0.5) * step_s, float(series.rates[first : first + stride].mean()), unit)
        for place, first in enumerate(range(0, len(series.rates), stride))
    ]
    return points, step_s


def _rounds(state: SteadyState, samples: Sequence[Sample]) -> list[Point]:
    """Return the rate of each round at the time at which it ended."""
    points = []
    end_s = 0.0
    for sample in samples:
        start_s = max(end_s, sample.started_at - samples[0].started_at)
        end_s = start_s + sample.duration_s
        part = sample.operations.get(state.operation)
        if part is not None and sample.duration_s > 0:
            rate_per_s = part.completed / sample.duration_s
            points.append(_point(end_s, rate_per_s, state.phases[0].rate.unit))
    return points


def _point(at_s: float, rate_per_s: float, unit: str) -> Point:
    once = Estimate(value=rate_per_s, low=None, high=None, rounds=1, unit=unit)
    return Point(at_s, rate_per_s, None, None, format_value(once))


def _mean_line(phase: Phase) -> Line:
    rate = phase.rate
    ends = (phase.start_s, phase.end_s)
    text = f"{phase.state}, {format_estimate(rate)}"
    return Line(
        name="mean of the phase",
        style=6,
        look="model",
        points=[Point(end_s, rate.value, rate.low, rate.high, text) for end_s in ends],
    )


def _guide(phase: Phase) -> Guide:
    return Guide(
        axis="x",
        low=phase.start_s,
        high=phase.end_s,
        label=phase.state,
        tone=_TONES[phase.state],
        inside=True,
    )
