"""Latency against load: rates that meet the limit, rates that exceed it, and the sustained rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from seatrial.findings.tile import Tile
from seatrial.report.figures.axes import linear_axis, log_axis
from seatrial.report.figures.model import Axis, BottomMark, Figure, Guide, Line, Panel, Point, View
from seatrial.report.table import NO_FIGURE, Table, doubt_text, latency_text, rate_text
from seatrial.stats.cell_estimates import PERCENTS
from seatrial.stats.model import AtLeast, Estimate
from seatrial.stats.wording import (
    format_at_least,
    format_count,
    format_estimate,
    format_iops,
    format_plural,
    format_share,
    format_value,
)
from seatrial.trials.loadline.analysis.model import LoadLine, LoadStep
from seatrial.trials.loadline.analysis.narrative import exact_duration

Answer = Literal["met", "exceeded", "undecided"]

NOT_KNOWN: Final = "unknown"
_OFFERED_DOUBT_SHARE: Final = 0.01  # an offered rate is exact; three digits are printed
_DIGITS_MORE_MAX: Final = 6


def answer_of(step: LoadStep) -> Answer:
    """Return whether a step significantly meets or exceeds the limit."""
    if step.holds is None:
        return "undecided"
    return "met" if step.holds else "exceeded"


def load_line_tiles(lines: Sequence[LoadLine]) -> list[Tile]:
    """Return the sustained rate of each load line, and what its closed loop reached."""
    found = []
    for line in lines:
        within = f"{line.percentile} within {exact_duration(line.limit_ns)}"
        figures = {f"sustained, {within}": line.sustained, "closed loop": line.closed_loop}
        found += [
            Tile(
                label=label,
                estimate=estimate,
                test=line.workload,
                cell=line.cell,
            )
            for label, estimate in figures.items()
            if estimate
        ]
    return found


def load_line_verdict(line: LoadLine) -> str:
    """Return the answer of a load line in a few words."""
    within = f"{line.percentile} within {exact_duration(line.limit_ns)}"
    if line.sustained is None:
        return f"no rate is confirmed to keep {within}"
    return f"sustains {format_estimate(line.sustained)} with {within}"


def load_lines_table(lines: Sequence[LoadLine]) -> Table:
    """Return a row for each load line: limit, sustained rate, how the limit is exceeded."""
    return Table(
        id="load-lines",
        title="Load lines",
        labels=2,
        headers=[
            "Target",
            "Workload",
            "Limit",
            "Sustained",
            "95 % CI",
            "Closed loop",
            "Exceeded by",
        ],
        rows=[
            [
                line.target,
                line.workload,
                f"{line.percentile} {exact_duration(line.limit_ns)}",
                *_sustained_texts(line),
                NO_FIGURE if line.closed_loop is None else format_value(line.closed_loop),
                "no rate tried" if line.breaks == "none" else line.breaks,
            ]
            for line in lines
        ],
    )


def _sustained_texts(line: LoadLine) -> list[str]:
    """Return the sustained rate and its interval, or what is known instead."""
    sustained = line.sustained
    if sustained is None:
        if line.breaks not in ("undecided", "none"):
            return ["none of the rates", NO_FIGURE]
        if line.broken_per_s is None:
            return [NOT_KNOWN, NO_FIGURE]
        broken = format_iops(line.broken_per_s, line.broken_per_s * _OFFERED_DOUBT_SHARE)
        return [f"below {broken}", NO_FIGURE]
    return [format_value(sustained), doubt_text(sustained)]


def load_line_table(line: LoadLine) -> Table:
    """Return the steps of a load line by offered rate, ascending."""
    percentile = line.percentile
    limit = exact_duration(line.limit_ns)
    return Table(
        id=f"loadline-{line.target}-{line.workload}",
        title=(
            f"Latency against load ({line.workload}), {line.target}: {percentile} <= {limit} "
            f"({100 - PERCENTS[percentile]:g} % of requests may exceed it)"
        ),
        labels=1,
        headers=["Offered", "IOPS", "±", *_columns(percentile), f"{percentile} service",
                 "Late", "Stalls", "Above limit", "Limit"],
        rows=[
            [
                format_iops(step.offered_per_s, step.offered_per_s * _OFFERED_DOUBT_SHARE),
                rate_text(step.completed_per_s),
                doubt_text(step.completed_per_s),
                *(
                    _time_text(step.response, name, step.response_at_least)
                    for name in _columns(percentile)
                ),
                _time_text(step.service, percentile),
                format_share(step.late_share) if step.late_share else NO_FIGURE,
                format_count(step.stalls) if step.stalls else NO_FIGURE,
                _above_text(step.above, percentile),
                answer_of(step),
            ]
            for step in line.steps
        ],
    )  # fmt: skip


def _columns(percentile: str) -> list[str]:
    """Return the percentiles to show: median, limited percentile and maximum."""
    return list(dict.fromkeys(["p50", percentile, "max"]))


def _time_text(
    times: dict[str, Estimate], name: str, bounds: Mapping[str, AtLeast] | None = None
) -> str:
    is_reported = name in times or (bounds is not None and name in bounds)
    return latency_text(times, name, bounds) if is_reported else NOT_KNOWN


def _above_text(above: Estimate, percentile: str) -> str:
    """Return the share above the limit with its interval's ends: ``0.4 % (0.2 to 0.9 %)``.

    The ends decide, so each is rounded to its own side of the allowed share.
    """
    allowed_share = 1 - PERCENTS[percentile] / 100
    value = _percents(above.value, allowed_share)
    if above.low is None or above.high is None:
        return f"{value} %"
    low, high = (_percents(end, allowed_share) for end in (above.low, above.high))
    return f"{value} % ({low} to {high} %)"


def _percents(share: float, allowed_share: float) -> str:
    """Return a share in percent with two digits, or as many as separate it from the limit."""
    if share == 0:
        return "0"
    percent = share * 100
    fewest = max(0, 1 - math.floor(math.log10(percent)))
    texts = [f"{percent:.{digits}f}" for digits in range(fewest, fewest + _DIGITS_MORE_MAX)]
    is_above = share > allowed_share
    return next(
        (text for text in texts if (float(text) / 100 > allowed_share) == is_above), texts[0]
    )


_ENDS_FACTOR_MAX: Final = 10.0  # a very wide interval must not flatten the curve
_BELOW_TOP: Final = 1.15
_Times = Literal["response", "service"]
_MARKS: Final = {"met": (0, "circle"), "exceeded": (1, "cross"), "undecided": (6, "emptyDiamond")}
_STALL_STYLE: Final = 3
_SERVICE_STYLE: Final = 2


def load_line_figures(lines: Sequence[LoadLine]) -> list[Figure]:
    """Return the chart of the load lines that have steps, one view each; none if none has."""
    charted = [line for line in lines if any(step.response for step in line.steps)]
    if not charted:
        return []
    return [
        Figure(
            id="loadline",
            kind="lines",
            topic="Latency against load",
            notes=[
                "Response time counts from the intended start of a request, service time from the "
                "actual start. A percentile that is unknown because too many requests never "
                "completed is marked at the top.",
                "Bands are 95 % intervals.",
            ],
            views=[_view(line) for line in charted],
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
    """Return the steps as marks whose shape shows whether they meet the limit."""
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
    """Return a step's mark: at its percentile, or at the top if that is unknown."""
    estimate = step.response.get(line.percentile)
    bound = step.response_at_least.get(line.percentile)
    texts = [] if estimate else [NOT_KNOWN if bound is None else format_at_least(bound)]
    if step.late_share > 0:
        texts.append(f"{format_share(step.late_share)} skipped as too late or never completed")
    if step.stalls:
        texts.append(format_plural(step.stalls, "stall"))
    y_ns = y_axis.high / _BELOW_TOP if estimate is None else estimate.value
    return Point(step.offered_per_s, y_ns, None, None, ", ".join(texts))


def _stalls(line: LoadLine) -> list[BottomMark]:
    name = _line_name(line, "response")
    return [
        BottomMark(
            step.offered_per_s, name, _STALL_STYLE, format_plural(step.stalls, "stall"), "stalls"
        )
        for step in line.steps
        if step.stalls
    ]


def _guides(line: LoadLine) -> Iterator[Guide]:
    """Yield the limit, the sustained rate and the closed-loop rate."""
    limit = f"limit: {line.percentile} {exact_duration(line.limit_ns)}"
    yield Guide(axis="y", low=line.limit_ns, label=limit, tone="limit")
    if line.sustained is not None:
        yield _sustained_guide(line.sustained)
    if line.closed_loop is not None:
        value = format_value(line.closed_loop)
        yield Guide(axis="x", low=line.closed_loop.value, label=f"closed loop {value}")


def _sustained_guide(sustained: Estimate) -> Guide:
    """Return a band from the highest rate that meets the limit to the lowest that exceeds it."""
    value = format_value(sustained)
    if sustained.low is None or sustained.high is None:
        return Guide(axis="x", low=sustained.value, label=value, tone="answer")
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
    return log_axis("Latency", "ns", [*ends, line.limit_ns, highest_ns * 1.6])
