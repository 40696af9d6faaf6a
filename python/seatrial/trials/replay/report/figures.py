"""What a replay did over time beside the capture, how late it was, and what its queries took."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from seatrial.report.figures.axes import linear_axis, log_axis, time_axis
from seatrial.report.figures.latency import ladder_figure
from seatrial.report.figures.model import Axis, Figure, Line, Panel, Point, Row, View
from seatrial.results.replay import ReplayQuery, ReplayRecord
from seatrial.stats.estimates import entries_needed
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_value,
)
from seatrial.trials.replay.analysis.model import ReplayCell
from seatrial.trials.replay.analysis.pace import answered
from seatrial.trials.replay.report.steps import Step, captured_steps, replayed_steps, step_length_s
from seatrial.trials.replay.report.words import reported_of, round_words, shortened

QUERIES_DRAWN_MAX: Final = 8
_PERCENTS: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
_LABEL_MAX: Final = 72
_UNIT: Final = "statements/s"
_EXACT: Final = 0.0
_SEEN_SHARE: Final = 0.02
_REPLAYED, _CAPTURED, _ASKED, _FAILED = "replayed", "captured", "asked for", "failed"
_OWN_TIMES: Final = (
    "At maximum speed nothing was asked for at a time: replay and capture each stand over their "
    "own time, on the same scale of statements per second."
)
_ASKED_NOTE: Final = (
    "What was asked for is the capture at the speed of the replay, those statements included that "
    "were skipped. The lag is from when a statement was due to when it was sent."
)
_SIDES_NOTE: Final = (
    "The replay's times are from sending to the answer, at the client, of one round; the capture's "
    "are what the server logged of itself. The way between the two is in the first only."
)

_ONE_SIDE_NOTE: Final = (
    "Times are from sending to the answer, at the client, of one round; the capture tells no "
    "durations to stand beside them."
)


def replay_figures(
    reported: ReplayCell, part: CellSummary, cells: Sequence[CellSummary], number: int
) -> list[Figure]:
    """Return the charts of one replay; none of them is ever empty.

    Args:
        reported: The replay.
        part: Its cell.
        cells: All replays of the run.
        number: Of its charts and tables.
    """
    return [
        *_over_time(reported, part, number),
        *_classes(part, cells, number),
        *_queries(reported, part, number),
    ]


def _over_time(reported: ReplayCell, part: CellSummary, number: int) -> list[Figure]:
    sample, record = reported_of(reported, part)
    steps = replayed_steps(record, sample.duration_s)
    captured = captured_steps(record, reported.speed)
    if len(steps) < 2:
        return []
    panels = (
        _beside(steps, captured, sample.duration_s, record.captured_s)
        if reported.speed is None
        else _together(steps, captured)
    )
    length = format_duration_s(step_length_s(record))
    which = round_words(reported, part)
    notes = [
        _OWN_TIMES if reported.speed is None else _ASKED_NOTE,
        f"A value is the mean of {length}{f', of {which}' if which else ''}.",
    ]
    return [
        Figure(
            id=f"replay-time-{number}",
            kind="lines",
            topic="Statements over time",
            notes=notes,
            views=[
                View(
                    label="over time",
                    title=_time_title(reported, answered(record) / sample.duration_s, record),
                    panels=panels,
                )
            ],
            table=f"table-replay-time-{number}",
        )
    ]


def _time_title(reported: ReplayCell, answered_per_s: float, record: ReplayRecord) -> str:
    """Return what the drawn round did, beside what was captured or asked for."""
    done = f"{format_iops(answered_per_s)} statements a second were answered"
    if reported.captured_per_s is None:
        return done
    captured = format_iops(reported.captured_per_s, _EXACT)
    if reported.speed is None:
        return f"{done}, where {captured} had been captured"
    asked = format_iops(reported.captured_per_s * reported.speed, _EXACT)
    longest = format_duration_ns(record.lag.ns_max)
    return f"{done}, where {asked} were asked for; the longest lag was {longest}"


def _together(steps: Sequence[Step], captured: Sequence[Step]) -> list[Panel]:
    """Return what was done and what was asked for on one axis of time, the lag below."""
    end_s = max(step.end_s for step in [*steps, *captured])
    x = time_axis(end_s)
    rates = Panel(
        title="Statements",
        x=x,
        y=_rate_axis([*steps, *captured]),
        lines=[
            _rate_line(_REPLAYED, 0, steps, lambda step: step.answered_per_s),
            _rate_line(_ASKED, 1, captured, lambda step: step.captured_per_s),
            *_failed(steps),
        ],
    )
    late = [step for step in steps if step.lag_ns_mean is not None]
    if not late:
        return [rates]
    values = [v for step in late for v in (step.lag_ns_mean, step.lag_ns_max) if v]
    lag = Panel(
        title="Lag",
        x=x,
        y=_time_scale("Lag (logarithmic)", values),
        lines=[
            _duration_line("lag, mean", 2, late, lambda step: step.lag_ns_mean),
            _duration_line("lag, longest", 3, late, lambda step: step.lag_ns_max),
        ],
        below=True,
    )
    return [rates, lag]


def _time_scale(name: str, values: Sequence[float]) -> Axis:
    positive = [value for value in values if value > 0]
    return log_axis(name, "ns", positive) if positive else linear_axis(name, "ns", [1.0])


def _beside(
    steps: Sequence[Step], captured: Sequence[Step], duration_s: float, captured_s: float
) -> list[Panel]:
    """Return the replay over its time, and the capture over its own, with one scale of rates."""
    y = _rate_axis([*steps, *captured])
    replay = Panel(
        title=f"The replay, over its {format_duration_s(duration_s)}",
        x=time_axis(steps[-1].end_s),
        y=y,
        lines=[
            _rate_line(_REPLAYED, 0, steps, lambda step: step.answered_per_s),
            *_failed(steps),
        ],
    )
    if not captured:
        return [replay]
    capture = Panel(
        title=f"The capture, over its {format_duration_s(captured_s)}",
        x=time_axis(captured[-1].end_s),
        y=y,
        lines=[_rate_line(_CAPTURED, 1, captured, lambda step: step.captured_per_s)],
    )
    return [replay, capture]


def _failed(steps: Sequence[Step]) -> list[Line]:
    """Return the failed statements, where they are enough to be seen; the table has all."""
    highest = max(step.answered_per_s for step in steps)
    if max(step.failed_per_s for step in steps) < _SEEN_SHARE * highest:
        return []
    return [_rate_line(_FAILED, 4, steps, lambda step: step.failed_per_s)]


def _rate_axis(steps: Sequence[Step]) -> Axis:
    rates = [rate for step in steps for rate in (step.answered_per_s, step.captured_per_s)]
    return linear_axis("Statements per second", _UNIT, rates)


def _rate_line(name: str, style: int, steps: Sequence[Step], rate: Callable[[Step], float]) -> Line:
    points = [
        Point(step.middle_s, rate(step), None, None, f"{format_iops(rate(step), _EXACT)} a second")
        for step in steps
    ]
    return Line(name=name, style=style, points=points, look="plain")


def _duration_line(
    name: str, style: int, steps: Sequence[Step], value: Callable[[Step], float | None]
) -> Line:
    points = [
        Point(step.middle_s, known, None, None, format_duration_ns(known, _EXACT))
        for step in steps
        if (known := value(step))
    ]
    return Line(name=name, style=style, points=points, look="plain")


def _classes(part: CellSummary, cells: Sequence[CellSummary], number: int) -> list[Figure]:
    """Return the response times of each class of statements as a ladder."""
    known = [name for name, latency in part.latency.items() if latency]
    if not known:
        return []
    rows = [(part, name, name) for name in known]
    worst = max(known, key=lambda name: part.latency[name]["max"].value)
    slowest = format_value(part.latency[worst]["max"])
    figure = ladder_figure(
        rows,
        cells,
        name=f"replay-classes-{number}",
        topic="Response time by class of statement",
        title=f"The slowest statement took {slowest}: {worst}",
        table=f"table-replay-classes-{number}",
    )
    return [_with_counts(figure, part)]


def _with_counts(figure: Figure, part: CellSummary) -> Figure:
    """Return a ladder of classes whose remarks tell how many statements each has."""
    counts: dict[str, int] = {}
    for sample in part.samples:
        for name, each in sample.operations.items():
            counts[name] = counts.get(name, 0) + each.completed
    (view,) = figure.views
    rows = [
        Row(
            label=row.label,
            points=row.points,
            remark=f"{format_count(counts.get(row.label, 0))} ended well",
        )
        for row in view.rows
    ]
    drawn = View(label=view.label, title=view.title, rows=rows, names=view.names, axis=view.axis)
    return Figure(
        id=figure.id, kind=figure.kind, topic=figure.topic, notes=figure.notes, views=[drawn],
        table=figure.table,
    )  # fmt: skip


def _queries(reported: ReplayCell, part: CellSummary, number: int) -> list[Figure]:
    """Return the times of the queries that took most: now at the client, then on the server."""
    _, record = reported_of(reported, part)
    known = [query for query in record.queries if query.ok >= entries_needed(50.0)]
    shown = known[:QUERIES_DRAWN_MAX]
    rows = [row for query in shown for row in _query_rows(query)]
    if not rows:
        return []
    values = [point.y for row in rows for point in row.points.values()]
    return [
        Figure(
            id=f"replay-queries-{number}",
            kind="ladder",
            topic="Service time by query",
            notes=[_SIDES_NOTE if any(q.captured_known for q in shown) else _ONE_SIDE_NOTE],
            views=[
                View(
                    label="queries",
                    title=_queries_title(shown, record),
                    rows=rows,
                    names=list(_PERCENTS),
                    axis=log_axis("Service time (logarithmic)", "ns", values),
                )
            ],
            table=f"table-replay-queries-{number}",
        )
    ]


def _queries_title(shown: Sequence[ReplayQuery], record: ReplayRecord) -> str:
    whole_ns = math.fsum(query.service_ns_sum for query in record.queries)
    first = shown[0]
    share = first.service_ns_sum / whole_ns if whole_ns else 0.0
    return f"{share:.0%} of the service time went into {shortened(first.text, _LABEL_MAX)}".replace(
        "%", " %", 1
    )


def _query_rows(query: ReplayQuery) -> list[Row]:
    """Return a row for the replay, and one for the capture where that tells durations."""
    statements = f"{format_count(query.ok + query.failed)} statements"
    now = (query.service_ns_p50, query.service_ns_p95, query.service_ns_p99)
    rows = [
        Row(
            label=shortened(query.text, _LABEL_MAX),
            points=_points(now, query.ok),
            remark=f"now, at the client, {statements}",
        )
    ]
    if query.captured_known:
        before = (query.captured_ns_p50, query.captured_ns_p95, query.captured_ns_p99)
        rows.append(
            Row(
                label="",
                points=_points(before, query.captured_known),
                remark=f"captured, on the server, {format_count(query.captured_known)} statements",
            )
        )
    return [row for row in rows if row.points]


def _points(values_ns: Sequence[int], entries: int) -> dict[str, Point]:
    """Return the percentiles that so many statements know."""
    return {
        name: Point(0, value, None, None, format_duration_ns(value))
        for (name, percent), value in zip(_PERCENTS.items(), values_ns, strict=True)
        if value > 0 and entries >= entries_needed(percent)
    }
