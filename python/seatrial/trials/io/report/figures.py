"""The charts of a run's block I/O, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.figures.axes import (
    blank_notes,
    interval_note,
    linear_axis,
    time_axis,
    value_axis,
)
from seatrial.report.figures.latency import (
    COLUMNS_MAX,
    commit_figures,
    heat_figures,
    matrix_latency,
    other_latency,
)
from seatrial.report.figures.model import Axis, Figure, Guide, Line, Panel, Point, Tone, View
from seatrial.report.figures.naming import name_by, of_kind, varying
from seatrial.report.tables import informative, start_bytes
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted
from seatrial.stats.fastest import Served, served_by_caches
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.steady.phases import Phase, State, SteadyState
from seatrial.stats.timeline import series_of
from seatrial.stats.wording import (
    format_cell,
    format_count,
    format_duration_s,
    format_estimate,
    format_value,
)
from seatrial.trials.audit.analysis.model import TableAudit, audits_of
from seatrial.trials.io.report.rates import (
    four_figures,
    matrix_figures,
    mix_figures,
    sequential_figures,
    whole_file_figures,
)

_ZONES_MIN = 2


def address_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the map of each target: rate of sequential and latency of random requests."""
    charted = of_kind(cells, "map")
    views = [
        view
        for (target, workload), members in grouped(
            charted, lambda s: (s.cell.target, s.cell.workload)
        ).items()
        if (view := _view(f"{target}: {workload}", members)) is not None
    ]
    if not views:
        return []
    return [
        Figure(
            id="map",
            kind="lines",
            topic="Across the address range",
            notes=[
                interval_note(charted, "bands"),
                *blank_notes(s for s in cells if s.cell.kind == "map"),
            ],
            views=views,
            table="table-map",
        )
    ]


def _view(label: str, cells: Sequence[CellSummary]) -> View | None:
    """Return rate and access time; None if there are too few zones for a curve.

    Cells whose offset is unknown, as of an import, are not drawn.
    """
    cells = [s for s in cells if start_bytes(s) is not None]
    if not cells:
        return None
    x_axis = _address_axis(cells)
    rates = [(s, s.bandwidth) for s in cells if s.cell.factors.get("pattern") == "sequential"]
    title, times = _access_times(
        [s for s in cells if s.cell.factors.get("pattern") != "sequential"]
    )
    panels = []
    if len(rates) >= _ZONES_MIN:
        panels.append(_panel("Rate", "Bandwidth (MB/s)", "B/s", x_axis, rates))
    if len(times) >= _ZONES_MIN:
        panels.append(_panel(title, "Response time", "ns", x_axis, times))
    return View(label=label, title=_title(rates, times), panels=panels) if panels else None


def _access_times(cells: Sequence[CellSummary]) -> tuple[str, list[tuple[CellSummary, Estimate]]]:
    """Return the median of each zone; if one is unknown, the mean of each zone instead."""
    latencies = [(s, next(iter(s.latency.values()), {})) for s in cells]
    name, title = "p50", "Access time, median"
    if not all("p50" in latency for _, latency in latencies):
        name, title = "mean", "Access time, mean"
    return title, [(s, latency[name]) for s, latency in latencies if name in latency]


def _panel(
    title: str, name: str, unit: str, x_axis: Axis, estimates: list[tuple[CellSummary, Estimate]]
) -> Panel:
    """Return one panel with a line for each combination of factors."""
    factors = varying([s for s, _ in estimates], leave_out=("zone",))
    timelines = grouped(estimates, lambda pair: name_by(pair[0], factors))
    lines = [
        Line(
            name=timeline or pairs[0][0].cell.operation,
            style=style,
            points=sorted((Point.of(start_bytes(s) or 0, e) for s, e in pairs), key=lambda p: p.x),
        )
        for style, (timeline, pairs) in enumerate(timelines.items())
    ]
    y_axis = value_axis(name, unit, [estimate for _, estimate in estimates])
    return Panel(title=title, x=x_axis, y=y_axis, lines=lines)


def _address_axis(cells: Sequence[CellSummary]) -> Axis:
    """Return the axis of offsets, beginning at the first range."""
    starts = [start_bytes(s) or 0 for s in cells]
    axis = linear_axis("Offset in the target", "B", [max(starts)])
    end = max(starts) * 1.02
    ticks = [tick for tick in axis.ticks if tick.value <= end]
    return Axis(
        name=axis.name,
        unit=axis.unit,
        scale="linear",
        low=min(0, *starts),
        high=end,
        ticks=ticks,
    )


def _title(
    rates: Sequence[tuple[CellSummary, Estimate]], times: Sequence[tuple[CellSummary, Estimate]]
) -> str:
    """Return the range of the rate or, if no rate was measured, of the access time."""
    subject, pairs = ("rate", rates) if len(rates) >= _ZONES_MIN else ("access time", times)
    estimates = sorted((estimate for _, estimate in pairs), key=lambda e: e.value)
    low, high = format_estimate(estimates[0]), format_estimate(estimates[-1])
    return f"The {subject} varies from {low} to {high} over the address range"


_VIEWS_MAX: Final = 12
_POINTS_MAX: Final = 150
_TONES: Final[dict[State, Tone]] = {
    "fresh": "quiet",
    "transition": "none",
    "steady": "answer",
    "left": "limit",
}


def steady_figures(states: Sequence[SteadyState], cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the chart of the states that change, a view for each; empty if none changes.

    Args:
        states: States of all cells or of some.
        cells: The cells, with the samples of the states.
    """
    known = {summary.cell.key: summary for summary in cells}
    changed = [state for state in informative(states) if state.cell in known]
    shown = sorted(changed, key=_weight)[:_VIEWS_MAX]
    if not shown:
        return []
    notes = [
        "Phases between significant changes are shaded. A level line is the mean of its phase; "
        "its interval is corrected for autocorrelation."
    ]
    if len(shown) < len(changed):
        notes.append(
            f"The chart shows the {len(shown)} of {format_count(len(changed))} timelines that "
            "change most; the table has all."
        )
    return [
        Figure(
            id="steady",
            kind="lines",
            topic="Steady state",
            notes=notes,
            views=[_steady_view(state, known[state.cell]) for state in shown],
            table="table-steady",
        )
    ]


def _weight(state: SteadyState) -> tuple[bool, float]:
    """Return a key that sorts first states that left steady state, then by largest change."""
    rates_per_s = [phase.rate.value for phase in state.phases]
    change = max(rates_per_s) / max(min(rates_per_s), 1e-9)
    return (all(phase.state != "left" for phase in state.phases), -change)


def _steady_view(state: SteadyState, summary: CellSummary) -> View:
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
    """Return the values over time, and the seconds per value; 0 for whole rounds."""
    if state.over == "rounds":
        return _rounds(state, counted(summary.samples)), 0.0
    sample = next(each for each in summary.samples if each.round == state.round)
    several = sum(part.completed > 0 for part in sample.operations.values()) > 1
    series = series_of(sample, state.operation if several else None)
    stride = -(-len(series.rates) // _POINTS_MAX)
    step_s = stride * series.step_s
    unit = state.phases[0].rate.unit
    points = [
        _point((index + 0.5) * step_s, float(series.rates[first : first + stride].mean()), unit)
        for index, first in enumerate(range(0, len(series.rates), stride))
    ]
    return points, step_s


def _rounds(state: SteadyState, samples: Sequence[Sample]) -> list[Point]:
    """Return the rate of each round at the time of its end."""
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


_AFTER = (
    address_figures,
    four_figures,
    mix_figures,
    whole_file_figures,
    other_latency,
)


def figures_of_run(summary: Summary, heat_views_max: int = COLUMNS_MAX) -> list[Figure]:
    """Return the charts of a run's block I/O, in the order of the page; none is empty.

    Args:
        summary: The run.
        heat_views_max: Maximum number of heat maps of latency over time.
    """
    return figures_of(
        summary.cells,
        heat_views_max,
        audits_of(summary),
        summary.steady,
        served_by_caches(summary.findings),
    )


def figures_of(
    cells: Sequence[CellSummary],
    heat_views_max: int = COLUMNS_MAX,
    audits: Sequence[TableAudit] = (),
    steady: Sequence[SteadyState] = (),
    served: Served = (),
) -> list[Figure]:
    """Return the charts of some cells, in the order of the page; none is empty.

    Args:
        cells: The cells.
        heat_views_max: Maximum number of heat maps of latency over time.
        audits: Audits of the tables among the cells.
        steady: States of the cells that were measured for long enough.
        served: Cells served by a cache, by identity; titles leave them out.
    """
    return [
        *matrix_figures(cells, audits, served),
        *matrix_latency(cells),
        *steady_figures(steady, cells),
        *heat_figures(cells, views_max=heat_views_max),
        *commit_figures(cells),
        *sequential_figures(cells, served),
        *(figure for make in _AFTER for figure in make(cells)),
    ]
