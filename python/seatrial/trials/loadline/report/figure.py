"""Latency against load: what holds the limit, what breaks it, and the rate between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from seatrial.report.figures.axes import linear_axis, log_axis
from seatrial.report.figures.model import Axis, Figure, Foot, Guide, Line, Panel, Point, View
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_at_least, format_plural, format_share, format_value
from seatrial.trials.loadline.analysis.model import LoadLine, LoadStep
from seatrial.trials.loadline.report.tables import answer_of, exact_duration

_ENDS_FACTOR_MAX: Final = 10.0  # an interval that is hardly known must not flatten the curve
_BELOW_TOP: Final = 1.15
_Times = Literal["response", "service"]
_MARKS: Final = {"holds": (0, "circle"), "breaks": (1, "cross"), "undecided": (6, "emptyDiamond")}
_STALL_STYLE: Final = 3
_SERVICE_STYLE: Final = 2


def load_line_figures(lines: Sequence[LoadLine]) -> list[Figure]:
    """Return the chart of the load lines that have a step, a view for each; none if none has."""
    drawn = [line for line in lines if any(step.response for step in line.steps)]
    if not drawn:
        return []
    return [
        Figure(
            id="loadline",
            kind="lines",
            topic="Latency against load",
            notes=[
                "Response time counts from the moment at which a request was to start, service "
                "time from the moment at which it did. A percentile that is not known, because "
                "too many requests never ended, is marked at the top.",
                "Bands are 95 % intervals.",
            ],
            views=[_view(line) for line in drawn],
            table="table-loadline",
        )
    ]


def _view(line: LoadLine) -> View:
    x_axis = _load_axis(line)
    y_axis = _latency_axis(line)
    panel = Panel(
        title=f"{line.percentile} by offered load",
        x=x_axis,
        y=y_axis,
        lines=[*_timelines(line), *_answers(line, y_axis)],
        feet=_stalls(line),
        guides=[*_guides(line)],
    )
    notes = [line.cause] if line.cause else []
    if line.generator:
        notes.append(f"{line.generator}.")
    return View(
        label=f"{line.target}: {line.workload}", title=line.sentence, panels=[panel], notes=notes
    )


def _timelines(line: LoadLine) -> list[Line]:
    """Return the percentile of response times, and of service times, over the offered rates."""
    response = Line(
        name=_line_name(line, "response"),
        style=0,
        look="plain",
        points=_points(line, "response"),
    )
    service = Line(
        name=_line_name(line, "service"),
        style=_SERVICE_STYLE,
        look="thin",
        points=_points(line, "service"),
    )
    return [timeline for timeline in (response, service) if timeline.points]


def _line_name(line: LoadLine, times: _Times) -> str:
    return f"{line.percentile}, {times} time"


def _points(line: LoadLine, times: _Times) -> list[Point]:
    return [
        Point.of(step.offered_per_s, getattr(step, times)[line.percentile])
        for step in line.steps
        if line.percentile in getattr(step, times)
    ]


def _answers(line: LoadLine, y_axis: Axis) -> list[Line]:
    """Return the steps as marks whose shape says whether they hold."""
    found = []
    for answer, (style, marker) in _MARKS.items():
        points = [_mark(line, step, y_axis) for step in line.steps if answer_of(step) == answer]
        if points:
            found.append(
                Line(
                    name=answer,
                    style=style,
                    marker=marker,
                    look="dots",
                    of=_line_name(line, "response"),
                    points=points,
                )
            )
    return found


def _mark(line: LoadLine, step: LoadStep, y_axis: Axis) -> Point:
    """Return a step's place: its percentile, or the top where that is not known."""
    estimate = step.response.get(line.percentile)
    bound = step.response_at_least.get(line.percentile)
    reported = [] if estimate else ["not known" if bound is None else format_at_least(bound)]
    if step.late_share > 0:
        reported.append(f"{format_share(step.late_share)} skipped as too late or never ended")
    if step.stalls:
        reported.append(format_plural(step.stalls, "stall"))
    place_ns = y_axis.high / _BELOW_TOP if estimate is None else estimate.value
    return Point(step.offered_per_s, place_ns, None, None, ", ".join(reported))


def _stalls(line: LoadLine) -> list[Foot]:
    name = _line_name(line, "response")
    return [
        Foot(step.offered_per_s, name, _STALL_STYLE, format_plural(step.stalls, "stall"), "stalls")
        for step in line.steps
        if step.stalls
    ]


def _guides(line: LoadLine) -> Iterator[Guide]:
    """Yield the limit, the rate that is sustained, and what a closed loop reached."""
    limit = f"limit: {line.percentile} {exact_duration(line.limit_ns)}"
    yield Guide(axis="y", low=line.limit_ns, label=limit, tone="limit")
    if line.sustained is not None:
        yield _sustained_guide(line.sustained)
    if line.closed_loop is not None:
        value = format_value(line.closed_loop)
        yield Guide(axis="x", low=line.closed_loop.value, label=f"closed loop {value}")


def _sustained_guide(sustained: Estimate) -> Guide:
    """Return a band from the highest rate that holds to the lowest that breaks."""
    value = format_value(sustained)
    if sustained.low is None or sustained.high is None:
        return Guide(axis="x", low=sustained.value, label=f"at least {value}", tone="answer")
    return Guide(
        axis="x",
        low=sustained.low,
        high=sustained.high,
        label=f"sustained {value}",
        tone="answer",
    )


def _load_axis(line: LoadLine) -> Axis:
    rates_per_s = [step.offered_per_s for step in line.steps]
    if line.closed_loop is not None:
        rates_per_s.append(line.closed_loop.value)
    return linear_axis("Offered requests per second (IOPS)", "IOPS", rates_per_s)


def _latency_axis(line: LoadLine) -> Axis:
    """Return the axis of latencies, with the limit on it and room above the highest."""
    estimates = [
        times[line.percentile]
        for step in line.steps
        for times in (step.response, step.service)
        if line.percentile in times
    ]
    highest_ns = max([line.limit_ns, *(estimate.value for estimate in estimates)])
    ends = [estimate.value for estimate in estimates]
    ends += [
        min(end, highest_ns * _ENDS_FACTOR_MAX)
        for estimate in (each.shown for each in estimates)
        for end in (estimate.low, estimate.high)
        if end is not None
    ]
    return log_axis("Time of a request", "ns", [*ends, line.limit_ns, highest_ns * 1.6])
