"""A chart as a static picture (SVG), for readers without scripts and for mail.

It has the same data as the chart with which the page's script replaces it. Colours are attributes,
which remain if styles are stripped, and classes, for the light and dark styles of the page
(assets/page.css).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, Literal

from markupsafe import Markup

from seatrial.report.figures.model import (
    Axis,
    Figure,
    Guide,
    Heat,
    HeatColumn,
    Line,
    Panel,
    Point,
    Row,
    Scatter,
    TimelineChart,
    TimelinePanel,
    View,
)

WIDTH: Final = 880
PANELS_MAX: Final = 4
ROWS_MAX: Final = 24
_LEFT: Final = 58
_RIGHT: Final = 12
_GAP: Final = 26
_PANEL_HEIGHT: Final = 190
_BELOW_HEIGHT: Final = 80
_TITLE_HEIGHT: Final = 22
_FOOT: Final = 40
_LETTER: Final = 6.6
"""Approximate width of a letter of 12 px."""
_HEAT_COLUMNS_MAX: Final = 90
_HEAT_ROWS_MAX: Final = 34
_HEAT_LEVELS: Final = 8
LINES: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
HEAT: Final = (
    "#fde725", "#aadc32", "#5ec962", "#27ad81", "#21918c", "#2c728e", "#3b528b", "#440154",
)  # fmt: skip
_DASHES: Final = ("", "7 4", "2 3", "10 4 2 4", "4 2", "12 4")
_NAMED_STYLES: Final = {
    "higher": 2, "lower": 3, "undecided": 4, "same": 6, "p50": 0, "p90": 1, "p95": 1, "p99": 2,
    "p99.9": 3, "max": 4,
}  # fmt: skip

Box = tuple[float, float, float, float]
"""Left, top, width and height of a panel inside its axes."""


def static_picture(figure: Figure) -> Markup:
    """Return the view that a chart shows first as an SVG element."""
    view = figure.views[figure.chosen]
    canvas = Canvas()
    if view.heat is not None:
        height = _heat(canvas, view.heat)
    elif view.timeline is not None:
        height = _timeline(canvas, view.timeline)
    elif view.scatter is not None:
        height = _scatter(canvas, view.scatter)
    elif view.panels:
        height = _panels(canvas, view.panels)
    else:
        height = _rows(canvas, view, bars=figure.kind == "bars")
    return canvas.picture(height)


class Canvas:
    """The elements of a picture, in the order in which they are painted."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def picture(self, height: float) -> Markup:
        """Return the SVG element; its texts have been escaped."""
        return Markup(  # noqa: S704 - every text went through escape
            f'<svg class="static" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
            f'height="{height:.0f}" font-family="sans-serif" font-size="12" '
            f'aria-hidden="true">{"".join(self.parts)}</svg>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: Literal["start", "middle", "end"] = "start",
        tone: Literal["ink", "muted"] = "muted",
    ) -> None:
        """Add a text whose baseline is at ``y``."""
        colour = "#17202a" if tone == "ink" else "#5a6672"
        self.parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" fill="{colour}" '
            f'class="{tone}">{escape(text)}</text>'
        )

    def rule(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Add a faint straight line."""
        self.parts.append(
            f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" stroke="#dde3e9" class="rule"/>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], style: int, width: float = 2, dash: str = ""
    ) -> None:
        """Add a line through points."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<path d="{_through(points)}" fill="none" stroke="{_colour(style)}" '
            f'stroke-width="{width:g}"{dashes} stroke-linejoin="round" class="s{style % 7}"/>'
        )

    def area(
        self, points: Sequence[tuple[float, float]], style: int, opacity: float = 0.14
    ) -> None:
        """Add a filled area."""
        self.parts.append(
            f'<path d="{_through(points)}Z" fill="{_colour(style)}" fill-opacity="{opacity:g}" '
            f'class="f{style % 7}"/>'
        )

    def shade(self, x: float, y: float, width: float, height: float, tone: str) -> None:
        """Add a shaded rectangle of a tone: ``alarm``, ``caution`` or ``muted``."""
        colour = {"alarm": "#b84500", "caution": "#8a6100"}.get(tone, "#5a6672")
        self.parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 1))}" height="{_n(height)}" '
            f'fill="{colour}" fill-opacity="0.18" class="{tone}"/>'
        )

    def dot(self, x: float, y: float, style: int, radius: float = 3.5) -> None:
        """Add a round mark."""
        self.parts.append(
            f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{radius:g}" fill="{_colour(style)}" '
            f'class="f{style % 7}"/>'
        )

    def legend(
        self, names: Sequence[tuple[str, int]], x: float, y: float, end: float = WIDTH
    ) -> float:
        """Add names with their colours in rows; return the height that they take."""
        left, top = x, y
        for name, style in names:
            width = 30 + len(name) * _LETTER
            if left + width > end and left > x:
                left, top = x, top + 18
            self.line([(left, top - 4), (left + 16, top - 4)], style, 3)
            self.text(left + 21, top, name)
            left += width + 10
        return top - y + 18


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _through(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _colour(style: int) -> str:
    return LINES[style % len(LINES)]


def _share(axis: Axis, value: float) -> float:
    """Return the position of a value on an axis, limited to 0 to 1."""
    low, high = axis.low, axis.high
    if axis.scale == "log":
        low, high = math.log10(low), math.log10(high)
        value = math.log10(value) if value > 0 else low
    share = (value - low) / (high - low) if high > low else 0.5
    return min(max(share, 0.0), 1.0)


def _x(box: Box, axis: Axis, value: float) -> float:
    return box[0] + box[2] * _share(axis, value)


def _y(box: Box, axis: Axis, value: float) -> float:
    return box[1] + box[3] * (1 - _share(axis, value))


def _y_axis(canvas: Canvas, box: Box, axis: Axis) -> None:
    for tick in axis.ticks:
        y = _y(box, axis, tick.value)
        canvas.rule(box[0], y, box[0] + box[2], y)
        canvas.text(box[0] - 7, y + 4, tick.label, "end")


def _x_axis(canvas: Canvas, box: Box, axis: Axis, *, name: bool = True) -> None:
    bottom = box[1] + box[3]
    canvas.rule(box[0], bottom, box[0] + box[2], bottom)
    free_from = box[0] - 100.0
    for tick in axis.ticks:
        x = _x(box, axis, tick.value)
        half = len(tick.label) * _LETTER / 2
        if x - half < free_from:
            continue
        free_from = x + half + 8
        canvas.text(x, bottom + 16, tick.label, "middle")
    if name:
        canvas.text(box[0] + box[2], bottom + 33, axis.name, "end")


# Lines


def _panels(canvas: Canvas, panels: Sequence[Panel]) -> float:
    """Draw panels of lines, two next to each other; what is below another shares its column."""
    stacks: list[list[Panel]] = []
    for panel in panels:
        if panel.below and stacks:
            stacks[-1].append(panel)
        else:
            stacks.append([panel])
    shown = stacks[:PANELS_MAX]
    names = {line.name: line.style for stack in shown for p in stack for line in p.lines}
    top = canvas.legend(list(names.items()), _LEFT, 14) + 8 if len(names) > 1 else 0.0
    columns = 2 if len(shown) > 1 else 1
    width = (WIDTH - (columns - 1) * _GAP) / columns
    for first in range(0, len(shown), columns):
        row = shown[first : first + columns]
        bottoms = [
            _stack(canvas, stack, index * (width + _GAP), top, width)
            for index, stack in enumerate(row)
        ]
        top = max(bottoms) + 10
    if len(stacks) > len(shown):
        canvas.text(_LEFT, top + 8, f"and {len(stacks) - len(shown)} more, drawn by the script")
        top += 18
    return top


def _stack(canvas: Canvas, stack: Sequence[Panel], left: float, top: float, width: float) -> float:
    for panel in stack:
        height = _BELOW_HEIGHT if panel.below else _PANEL_HEIGHT
        if panel.title:
            canvas.text(left + _LEFT, top + 14, panel.title, tone="ink")
        box = (left + _LEFT, top + _TITLE_HEIGHT, width - _LEFT - _RIGHT, float(height))
        _panel(canvas, panel, box, name=panel is stack[-1])
        top += _TITLE_HEIGHT + height + (_FOOT if panel is stack[-1] else 18)
    return top


def _panel(canvas: Canvas, panel: Panel, box: Box, *, name: bool) -> None:
    for guide in panel.guides:
        _guide(canvas, guide, panel, box)
    _y_axis(canvas, box, panel.y)
    _x_axis(canvas, box, panel.x, name=name)
    for line in panel.lines:
        _line(canvas, line, panel, box)
    for ring in panel.rings:
        if ring.y is not None:
            x, y = _x(box, panel.x, ring.x), _y(box, panel.y, ring.y)
            canvas.parts.append(
                f'<circle cx="{_n(x)}" cy="{_n(y)}" r="8" fill="none" stroke="#b84500" '
                f'stroke-width="1.5" class="alarm-line"/>'
            )


def _guide(canvas: Canvas, guide: Guide, panel: Panel, box: Box) -> None:
    tone = "alarm" if guide.tone == "limit" else "muted"
    high = guide.low if guide.high is None else guide.high
    if guide.tone == "none":
        return
    if guide.axis == "x":
        left, right = _x(box, panel.x, guide.low), _x(box, panel.x, high)
        canvas.shade(left, box[1], right - left, box[3], tone)
    else:
        bottom, top = _y(box, panel.y, guide.low), _y(box, panel.y, high)
        canvas.shade(box[0], top, box[2], bottom - top, tone)


def _line(canvas: Canvas, line: Line, panel: Panel, box: Box) -> None:
    if not line.points:
        return
    points = [(_x(box, panel.x, each.x), _y(box, panel.y, each.y)) for each in line.points]
    ranged = [each for each in line.points if each.low is not None and each.high is not None]
    if len(ranged) > 1 and line.look not in ("dots", "predicted"):
        upper = [(_x(box, panel.x, p.x), _y(box, panel.y, p.high or p.y)) for p in ranged]
        lower = [(_x(box, panel.x, p.x), _y(box, panel.y, p.low or p.y)) for p in ranged]
        canvas.area([*upper, *reversed(lower)], line.style)
    if line.look not in ("dots", "predicted"):
        width = 2 if line.look == "measured" else 1.4
        dash = "" if line.look == "model" else _DASHES[line.style % len(_DASHES)]
        canvas.line(points, line.style, width, dash)
    if line.look not in ("plain", "model"):
        for x, y in points:
            canvas.dot(x, y, line.style, 3 if len(points) <= ROWS_MAX else 1.8)


# Rows: ladders and bars


def _rows(canvas: Canvas, view: View, *, bars: bool) -> float:
    """Draw a row for each label: a bar, or marks with their intervals."""
    axis = view.axis
    if axis is None:
        return 0.0
    rows = view.rows[:ROWS_MAX]
    label_width = min(max((len(row.label) for row in rows), default=0), 44) * _LETTER + 14
    remark_letters = min(max((len(row.remark) for row in rows), default=0), 40)
    remark_width = remark_letters * _LETTER + 12 if bars else 0.0
    names = [] if bars else [(name, _NAMED_STYLES.get(name, 0)) for name in view.names]
    top = canvas.legend(names, label_width, 14) + 4 if names else 4.0
    height = 24.0 * len(rows)
    box = (label_width, top, WIDTH - label_width - remark_width - 20, height)
    for guide in view.guides:
        left = _x(box, axis, guide.low)
        right = _x(box, axis, guide.low if guide.high is None else guide.high)
        canvas.shade(left, top, right - left, height, "muted")
    for tick in axis.ticks:
        x = _x(box, axis, tick.value)
        canvas.rule(x, top, x, top + height)
    _x_axis(canvas, box, axis)
    for number, row in enumerate(rows):
        _row(canvas, row, axis, box, top + 24 * number + 12, bars=bars)
    bottom = top + height + _FOOT
    if len(view.rows) > len(rows):
        canvas.text(0, bottom, f"and {len(view.rows) - len(rows)} more, drawn by the script")
    return bottom + 6


def _row(canvas: Canvas, row: Row, axis: Axis, box: Box, y: float, *, bars: bool) -> None:
    label = row.label if len(row.label) <= 44 else f"{row.label[:43]}…"
    canvas.text(0, y + 4, label, tone="ink" if row.points else "muted")
    for name, point in row.points.items():
        style = 0 if bars else _NAMED_STYLES.get(name, 0)
        if bars:
            start = 0.0 if row.start is None else row.start
            ends = [start, start + point.y] if row.start is not None else [0.0, point.y]
            left, right = _x(box, axis, min(ends)), _x(box, axis, max(ends))
            colour = {"better": 2, "worse": 1}.get(row.tone, 6 if row.quiet else 0)
            canvas.area(
                [(left, y - 7), (right, y - 7), (right, y + 7), (left, y + 7)], colour, 0.75
            )
        _whisker(canvas, point, axis, box, y=y, style=6 if bars else style)
        if not bars:
            canvas.dot(_x(box, axis, point.y), y, style, 4)
    if bars and row.points:
        canvas.text(box[0] + box[2] + 12, y + 4, row.remark[:40])


def _whisker(canvas: Canvas, point: Point, axis: Axis, box: Box, *, y: float, style: int) -> None:
    if point.low is not None and point.high is not None:
        ends = [(_x(box, axis, point.low), y), (_x(box, axis, point.high), y)]
        canvas.line(ends, style, 1.2)


# Heat map


def _heat(canvas: Canvas, heat: Heat) -> float:
    """Draw requests by time and latency, coarsened, with median and 99th percentile."""
    columns = _heat_columns(heat)
    rows = [row for cells, *_ in columns for row in cells]
    if not rows:
        return 0.0
    low, high = min(rows), max(rows) + 1
    stride = max(1, math.ceil((high - low) / _HEAT_ROWS_MAX))
    box = (_LEFT, 8.0, float(WIDTH - _LEFT - _RIGHT), 230.0)
    y_scale = box[3] / (high - low)
    width = box[2] / len(columns)
    merged = [_merged_rows(cells, low, stride) for cells, *_ in columns]
    largest = max(count for cells in merged for count in cells.values())
    paths: dict[int, list[str]] = {}
    for index, cells in enumerate(merged):
        for row, count in cells.items():
            level = round(math.log1p(count) / math.log1p(largest) * (_HEAT_LEVELS - 1))
            top = box[1] + box[3] - min((row + 1) * stride, high - low) * y_scale
            paths.setdefault(level, []).append(
                f"M{_n(box[0] + index * width)} {_n(top)}h{_n(width)}v{_n(stride * y_scale)}"
                f"h-{_n(width)}z"
            )
    for level, path in sorted(paths.items()):
        canvas.parts.append(
            f'<path d="{"".join(path)}" fill="{HEAT[level]}" class="h{level}" '
            'shape-rendering="crispEdges"/>'
        )
    axis = _latency_axis(2 ** (low / heat.rows_per_doubling), 2 ** (high / heat.rows_per_doubling))
    _y_axis(canvas, box, axis)
    medians = [p50_ns for _, p50_ns, _ in columns]
    tails = [p99_ns for _, _, p99_ns in columns]
    for style, values in ((1, medians), (3, tails)):
        for first, run in _runs(values):
            points = [
                (box[0] + (first + index + 0.5) * width, _y(box, axis, value))
                for index, value in enumerate(run)
            ]
            if len(run) == 1:  # as wide as its column, or it would be invisible
                points = [(points[0][0] + side * width / 2, points[0][1]) for side in (-1, 1)]
            canvas.line(points, style, 1.6)
    bottom = box[1] + box[3]
    seconds = sum(sample.duration_s for sample in heat.samples)
    canvas.text(box[0], bottom + 16, "0 s")
    canvas.text(box[0] + box[2], bottom + 16, f"{seconds:.3g} s, rounds one after another", "end")
    canvas.legend([("median", 1), ("p99", 3)], box[0], bottom + 36)
    return bottom + 46


def _runs(values: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield each row of values above 0 with its first index."""
    for is_known, members in itertools.groupby(enumerate(values), key=lambda pair: pair[1] > 0):
        if is_known:
            run = list(members)
            yield run[0][0], [value for _, value in run]


def _heat_columns(heat: Heat) -> list[tuple[dict[int, int], int, int]]:
    """Return equal periods that fit: counts by row, the largest median and the largest p99.

    A period without completions has no counts and both are 0.
    """
    placed: dict[int, HeatColumn] = {}
    end = 0
    for sample in heat.samples:
        placed |= {end + column.index: column for column in sample.columns}
        last = max((column.index for column in sample.columns), default=-1)
        end += max(math.ceil(sample.duration_s / heat.column_s - 1e-9), last + 1)
    stride = max(1, math.ceil(end / _HEAT_COLUMNS_MAX))
    found = []
    for first in range(0, end, stride):
        group = [placed[index] for index in range(first, first + stride) if index in placed]
        cells: dict[int, int] = {}
        for column in group:
            for position, count in enumerate(column.counts):
                if count:
                    row = column.first_row + position
                    cells[row] = cells.get(row, 0) + count
        p50_ns = max((column.p50_ns for column in group), default=0)
        p99_ns = max((column.p99_ns for column in group), default=0)
        found.append((cells, p50_ns, p99_ns))
    return found


def _merged_rows(cells: dict[int, int], low: int, stride: int) -> dict[int, int]:
    merged: dict[int, int] = {}
    for row, count in cells.items():
        position = (row - low) // stride
        merged[position] = merged.get(position, 0) + count
    return merged


def _latency_axis(low_ns: float, high_ns: float) -> Axis:
    from seatrial.report.figures.axes import log_axis  # noqa: PLC0415 - loads the analysis

    wide = log_axis("Response time", "ns", [low_ns, high_ns])
    ticks = [tick for tick in wide.ticks if low_ns <= tick.value <= high_ns]
    return Axis(name=wide.name, unit="ns", scale="log", low=low_ns, high=high_ns, ticks=ticks)


# Timelines


def _timeline(canvas: Canvas, chart: TimelineChart) -> float:
    """Draw readings over time, two panels next to each other, with stalls shaded behind."""
    shown = chart.panels[:PANELS_MAX]
    columns = 2 if len(shown) > 1 else 1
    width = (WIDTH - (columns - 1) * _GAP) / columns
    top = 0.0
    for first in range(0, len(shown), columns):
        row = shown[first : first + columns]
        bottoms = [
            _timeline_panel(canvas, chart, panel, (index * (width + _GAP), top, width))
            for index, panel in enumerate(row)
        ]
        top = max(bottoms)
    return top


def _timeline_panel(
    canvas: Canvas, chart: TimelineChart, panel: TimelinePanel, frame: tuple[float, float, float]
) -> float:
    left, top, width = frame
    canvas.text(left + _LEFT, top + 14, panel.title, tone="ink")
    top += _TITLE_HEIGHT
    if len(panel.columns) > 1:
        names = [(each.name, each.style) for each in panel.columns[:4]]
        top += canvas.legend(names, left + _LEFT, top + 10, left + width) + 2
    box = (left + _LEFT, top, width - _LEFT - _RIGHT, 120.0)
    for mark in chart.marks:
        if mark.start_s <= chart.x.high:
            x, end = _x(box, chart.x, mark.start_s), _x(box, chart.x, mark.end_s)
            tone = {"stall": "alarm", "dip": "caution"}.get(mark.sort, "muted")
            canvas.shade(x, box[1], end - x, box[3], tone)
    _y_axis(canvas, box, panel.y)
    _x_axis(canvas, box, chart.x)
    base = [0.0] * max(len(each.values) for each in panel.columns)
    for column in panel.columns:
        known = [(i, v) for i, v in enumerate(column.values) if v is not None]
        if not known:
            continue
        xs = {i: _x(box, chart.x, min((i + 0.5) * chart.step_s, chart.x.high)) for i, _ in known}
        if panel.stacked:
            lower = [(xs[i], _y(box, panel.y, base[i])) for i, _ in known]
            for i, value in known:
                base[i] += value
            upper = [(xs[i], _y(box, panel.y, base[i])) for i, _ in known]
            canvas.area([*upper, *reversed(lower)], column.style, 0.55)
        else:
            canvas.line([(xs[i], _y(box, panel.y, v)) for i, v in known], column.style, 1.8)
    return top + box[3] + _FOOT + 8


# Before and after


def _scatter(canvas: Canvas, scatter: Scatter) -> float:
    """Draw bubbles by their times before and after, with the diagonal of no change."""
    side = 360.0
    box = (_LEFT + 30.0, 24.0, side, side)
    canvas.text(box[0], 14, scatter.y.name, tone="ink")
    _y_axis(canvas, box, scatter.y)
    _x_axis(canvas, box, scatter.x)
    low, high = max(scatter.x.low, scatter.y.low), min(scatter.x.high, scatter.y.high)
    canvas.line(
        [
            (_x(box, scatter.x, low), _y(box, scatter.y, low)),
            (_x(box, scatter.x, high), _y(box, scatter.y, high)),
        ],
        6,
        1,
        "4 3",
    )
    styles = _styles_of(bubble.name for bubble in scatter.bubbles)
    for bubble in scatter.bubbles:
        radius = 3 + 15 * math.sqrt(max(bubble.area_share, 0))
        x, y = _x(box, scatter.x, bubble.x), _y(box, scatter.y, bubble.y)
        style = styles[bubble.name]
        canvas.parts.append(
            f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill="{_colour(style)}" '
            f'fill-opacity="0.45" class="f{style % 7}"/>'
        )
    for row, (name, style) in enumerate(styles.items()):
        canvas.dot(box[0] + side + 40, 40 + 20 * row, style, 5)
        canvas.text(box[0] + side + 52, 44 + 20 * row, name)
    return box[1] + side + _FOOT + 6


def _styles_of(names: Iterable[str]) -> dict[str, int]:
    known = {"slower": 1, "faster": 2, "same": 6, "undecided": 4}
    return {name: known.get(name, 0) for name in dict.fromkeys(names)}
