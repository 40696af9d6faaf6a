"""Charts of a replay: rates over time compared with the capture, lag, and query times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from seatrial.report.figures.axes import linear_axis, log_axis, time_axis
from seatrial.report.figures.latency import ladder_figure
from seatrial.report.figures.model import Axis, Figure, Line, Panel, Point, Row, View
from seatrial.results.replay import ReplayMoment, ReplayQuery, ReplayRecord
from seatrial.stats.cell_estimates import entries_needed
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_value,
)
from seatrial.trials.replay.analysis.model import ReplayCell, has_clock
from seatrial.trials.replay.analysis.pace import answered
from seatrial.trials.replay.report.wording import reported_round_of, round_text, shortened

STEPS_MAX: Final = 120


class Step(NamedTuple):
    """A step of time, in s and ns.

    Attributes:
        start_s: Its start.
        end_s: Its end; the last step may be shorter than the others.
        answered_per_s: Statements answered.
        failed_per_s: Statements answered with an error.
        captured_per_s: Statements of the capture in this step.
        lag_ns_mean: Mean lag of the statements sent; None if nothing was scheduled.
        lag_ns_max: The longest.
        response_ns_mean: Mean response time of the statements answered; None if there were none.
        sessions: Connected at its end.
    """

    start_s: float
    end_s: float
    answered_per_s: float
    failed_per_s: float
    captured_per_s: float
    lag_ns_mean: float | None
    lag_ns_max: float | None
    response_ns_mean: float | None
    sessions: int

    @property
    def middle_s(self) -> float:
        """Where its value is drawn."""
        return (self.start_s + self.end_s) / 2


def step_length_s(record: ReplayRecord) -> float:
    """Return the length of a step: a whole number of slices, at most STEPS_MAX steps."""
    return _slices_a_step(record) * record.timeline_slice_s


def _slices_a_step(record: ReplayRecord) -> int:
    return max(1, math.ceil(len(record.timeline) / STEPS_MAX))


def captured_steps(record: ReplayRecord, speed: float | None) -> list[Step]:
    """Return the capture's time in steps: unscaled at maximum speed, otherwise scaled by speed.

    Empty if the capture has no times.
    """
    if not has_clock(record):
        return []
    lasts_s = record.captured_s / speed if speed else record.captured_s
    steps = replayed_steps(record, lasts_s)
    return steps if any(step.captured_per_s for step in steps) else []


def replayed_steps(record: ReplayRecord, lasts_s: float) -> list[Step]:
    """Return the replay's own time in steps, up to its end."""
    size = _slices_a_step(record)
    slice_s = record.timeline_slice_s
    count = min(len(record.timeline), max(1, math.ceil(lasts_s / slice_s - 1e-9)))
    return [
        _step(record.timeline[first : min(first + size, count)], first * slice_s,
              min(min(first + size, count) * slice_s, max(lasts_s, first * slice_s + 1e-3)))
        for first in range(0, count, size)
    ]  # fmt: skip


def _step(moments: Sequence[ReplayMoment], start_s: float, end_s: float) -> Step:
    length_s = end_s - start_s
    lags = [moment.lag_ns_mean for moment in moments if moment.lag_ns_mean is not None]
    longest = [moment.lag_ns_max for moment in moments if moment.lag_ns_max is not None]
    known = [
        (moment.response_ns_mean, moment.answered)
        for moment in moments
        if moment.response_ns_mean is not None and moment.answered
    ]
    answered = sum(count for _, count in known)
    return Step(
        start_s=start_s,
        end_s=end_s,
        answered_per_s=sum(moment.answered for moment in moments) / length_s,
        failed_per_s=sum(moment.failed for moment in moments) / length_s,
        captured_per_s=sum(moment.captured for moment in moments) / length_s,
        lag_ns_mean=math.fsum(lags) / len(lags) if lags else None,
        lag_ns_max=max(longest, default=None),
        response_ns_mean=math.fsum(mean * n for mean, n in known) / answered if answered else None,
        sessions=moments[-1].sessions,
    )


QUERIES_SHOWN_MAX: Final = 8
_PERCENTS: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
_LABEL_MAX: Final = 72
_UNIT: Final = "statements/s"
_EXACT: Final = 0.0
_VISIBLE_SHARE: Final = 0.02
_REPLAYED, _CAPTURED, _REQUESTED, _FAILED = "replayed", "captured", "requested", "failed"
_SEPARATE_AXES_NOTE: Final = (
    "At maximum speed statements have no scheduled time: replay and capture have separate time "
    "axes, with the same scale of statements per second."
)
_REQUESTED_NOTE: Final = (
    "The requested rate is the capture at the speed of the replay, including skipped statements. "
    "The lag is the time from when a statement was scheduled to when it was sent."
)
_BOTH_TIMES_NOTE: Final = (
    "Times of the replay are measured at the client, from sending to the answer, in one round. "
    "Times of the capture were logged by the server and do not include the network."
)

_REPLAY_TIMES_NOTE: Final = (
    "Times are measured at the client, from sending to the answer, in one round. The capture has "
    "no durations."
)


def replay_figures(
    replay: ReplayCell, part: CellSummary, cells: Sequence[CellSummary], number: int
) -> list[Figure]:
    """Return the charts of one replay; none of them is ever empty.

    Args:
        replay: The replay.
        part: Its cell.
        cells: All replays of the run.
        number: Number of the replay on its page, which ids of charts contain.
    """
    return [
        *_over_time(replay, part, number),
        *_classes(part, cells, number),
        *_queries(replay, part, number),
    ]


def _over_time(replay: ReplayCell, part: CellSummary, number: int) -> list[Figure]:
    sample, record = reported_round_of(replay, part)
    steps = replayed_steps(record, sample.duration_s)
    captured = captured_steps(record, replay.speed)
    if len(steps) < 2:
        return []
    panels = (
        _separate_axes(steps, captured, sample.duration_s, record.captured_s)
        if replay.speed is None
        else _common_axis(steps, captured)
    )
    length = format_duration_s(step_length_s(record))
    which = round_text(replay, part)
    notes = [
        _SEPARATE_AXES_NOTE if replay.speed is None else _REQUESTED_NOTE,
        f"Each value is the mean over {length}{f' of {which}' if which else ''}.",
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
                    title=_time_title(replay, answered(record) / sample.duration_s, record),
                    panels=panels,
                )
            ],
            table=f"table-replay-time-{number}",
        )
    ]


def _time_title(replay: ReplayCell, answered_per_s: float, record: ReplayRecord) -> str:
    """Return the rate of the drawn round, and the captured or requested rate."""
    answered = f"{format_iops(answered_per_s)} statements/s answered"
    if replay.captured_per_s is None:
        return answered
    captured = format_iops(replay.captured_per_s, _EXACT)
    if replay.speed is None:
        return f"{answered}, {captured}/s captured"
    requested = format_iops(replay.captured_per_s * replay.speed, _EXACT)
    longest = format_duration_ns(record.lag.ns_max)
    return f"{answered}, {requested}/s requested; the longest lag was {longest}"


def _common_axis(steps: Sequence[Step], captured: Sequence[Step]) -> list[Panel]:
    """Return the replayed and the requested rate on one time axis, with the lag below."""
    end_s = max(step.end_s for step in [*steps, *captured])
    x = time_axis(end_s)
    rates = Panel(
        title="Statements",
        x=x,
        y=_rate_axis([*steps, *captured]),
        lines=[
            _rate_line(_REPLAYED, 0, steps, lambda step: step.answered_per_s),
            _rate_line(_REQUESTED, 1, captured, lambda step: step.captured_per_s),
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
            _duration_line("lag, max", 3, late, lambda step: step.lag_ns_max),
        ],
        below=True,
    )
    return [rates, lag]


def _time_scale(name: str, values: Sequence[float]) -> Axis:
    positive = [value for value in values if value > 0]
    return log_axis(name, "ns", positive) if positive else linear_axis(name, "ns", [1.0])


def _separate_axes(
    steps: Sequence[Step], captured: Sequence[Step], duration_s: float, captured_s: float
) -> list[Panel]:
    """Return replay and capture over their separate times, with one scale of rates."""
    y = _rate_axis([*steps, *captured])
    replay = Panel(
        title=f"Replay ({format_duration_s(duration_s)})",
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
        title=f"Capture ({format_duration_s(captured_s)})",
        x=time_axis(captured[-1].end_s),
        y=y,
        lines=[_rate_line(_CAPTURED, 1, captured, lambda step: step.captured_per_s)],
    )
    return [replay, capture]


def _failed(steps: Sequence[Step]) -> list[Line]:
    """Return the failed statements if there are enough to be visible; the table has all."""
    highest = max(step.answered_per_s for step in steps)
    if max(step.failed_per_s for step in steps) < _VISIBLE_SHARE * highest:
        return []
    return [_rate_line(_FAILED, 4, steps, lambda step: step.failed_per_s)]


def _rate_axis(steps: Sequence[Step]) -> Axis:
    rates = [rate for step in steps for rate in (step.answered_per_s, step.captured_per_s)]
    return linear_axis("Statements per second", _UNIT, rates)


def _rate_line(name: str, style: int, steps: Sequence[Step], rate: Callable[[Step], float]) -> Line:
    points = [
        Point(step.middle_s, rate(step), None, None, f"{format_iops(rate(step), _EXACT)}/s")
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
    """Return the response time percentiles of each statement class."""
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
        topic="Response time by statement class",
        title=f"The slowest statement took {slowest}: {worst}",
        table=f"table-replay-classes-{number}",
    )
    return [_with_counts(figure, part)]


def _with_counts(figure: Figure, part: CellSummary) -> Figure:
    """Return a chart of classes whose remarks have the number of statements."""
    counts: dict[str, int] = {}
    for sample in part.samples:
        for name, operation in sample.operations.items():
            counts[name] = counts.get(name, 0) + operation.completed
    (view,) = figure.views
    rows = [
        msgspec.structs.replace(row, remark=f"{format_count(counts.get(row.label, 0))} succeeded")
        for row in view.rows
    ]
    return msgspec.structs.replace(figure, views=[msgspec.structs.replace(view, rows=rows)])


def _queries(replay: ReplayCell, part: CellSummary, number: int) -> list[Figure]:
    """Return the times of the most expensive queries: at the client, and captured at the server."""
    _, record = reported_round_of(replay, part)
    known = [query for query in record.queries if query.ok >= entries_needed(50.0)]
    shown = known[:QUERIES_SHOWN_MAX]
    rows = [row for query in shown for row in _query_rows(query)]
    if not rows:
        return []
    values = [point.y for row in rows for point in row.points.values()]
    return [
        Figure(
            id=f"replay-queries-{number}",
            kind="ladder",
            topic="Service time by query",
            notes=[
                _BOTH_TIMES_NOTE if any(q.captured_known for q in shown) else _REPLAY_TIMES_NOTE
            ],
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
    return (
        f"{share:.0%} of the service time was spent in {shortened(first.text, _LABEL_MAX)}".replace(
            "%", " %", 1
        )
    )


def _query_rows(query: ReplayQuery) -> list[Row]:
    """Return a row for the replay, and one for the capture if it has durations."""
    statements = f"{format_count(query.ok + query.failed)} statements"
    now = (query.service_ns_p50, query.service_ns_p95, query.service_ns_p99)
    rows = [
        Row(
            label=shortened(query.text, _LABEL_MAX),
            points=_points(now, query.ok),
            remark=f"replay (client), {statements}",
        )
    ]
    if query.captured_known:
        before = (query.captured_ns_p50, query.captured_ns_p95, query.captured_ns_p99)
        rows.append(
            Row(
                label="",
                points=_points(before, query.captured_known),
                remark=f"capture (server), {format_count(query.captured_known)} statements",
            )
        )
    return [row for row in rows if row.points]


def _points(values_ns: Sequence[int], entries: int) -> dict[str, Point]:
    """Return the percentiles that this number of statements can estimate."""
    return {
        name: Point(0, value, None, None, format_duration_ns(value))
        for (name, percent), value in zip(_PERCENTS.items(), values_ns, strict=True)
        if value > 0 and entries >= entries_needed(percent)
    }
