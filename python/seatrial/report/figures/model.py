"""The data of charts, which the page's script reads as JSON.

Every point has the text of its tooltip, formatted by ``stats.wording``, so that charts and tables
show a figure in the same way.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_estimate


class Tick(msgspec.Struct, frozen=True, array_like=True):
    """A labelled tick of an axis; ``value`` is in the axis's unit."""

    value: float
    label: str


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """One axis.

    Attributes:
        name: Its title, with the unit.
        unit: Unit in the heading of the CSV column, such as ``ns``.
        scale: ``log`` or ``linear``.
        low: Its start, in ``unit``.
        high: Its end, in ``unit``.
        ticks: Those between the two, in rising order.
    """

    name: str
    unit: str
    scale: Literal["log", "linear"]
    low: float
    high: float
    ticks: list[Tick]


class Point(msgspec.Struct, frozen=True, array_like=True):
    """One figure with its interval; ``low`` and ``high`` are None when it was measured once.

    With ``is_range`` they are the smallest and the largest round, else a 95 % interval.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    text: str
    is_range: bool = False

    @classmethod
    def of(cls, x: float, estimate: Estimate) -> Point:
        """Return the estimate as a point at ``x``; a range of rounds is not an interval."""
        text = format_estimate(estimate)
        if estimate.over == "reported":
            return cls(x, estimate.value, None, None, text)
        shown = estimate.shown
        return cls(x, shown.value, shown.low, shown.high, text, shown.over == "range")


Look = Literal["measured", "dots", "thin", "plain", "model", "predicted"]
"""How a line is drawn: ``measured``, joined markers; ``dots``, markers alone; ``thin``, a narrow
line with markers; ``plain``, a line without; ``model``, a narrow line without, which belongs to
another; ``predicted``, hollow markers alone."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Points that belong together.

    Attributes:
        name: Its entry in the legend; lines of one name share it.
        style: Picks colour, dash and marker.
        points: In order of x.
        look: Its drawing style.
        of: Name of the line that it belongs to, such as the data that a model describes.
        marker: A marker other than the style's: ``circle``, ``cross``, ``emptyDiamond``.
    """

    name: str
    style: int
    points: list[Point]
    look: Look = "measured"
    of: str = ""
    marker: str = ""


class Ring(msgspec.Struct, frozen=True, array_like=True):
    """A circle around one point.

    Attributes:
        x: Its x value.
        y: Its y value; None at the bottom of the panel, around what is absent.
        label: The number next to it; empty for none.
        text: Text of the tooltip.
        name: Name of the line that it belongs to.
    """

    x: float
    y: float | None
    label: str
    text: str
    name: str


class BottomMark(msgspec.Struct, frozen=True, array_like=True):
    """A mark at the bottom of a panel, for something without a y value.

    Attributes:
        x: Its x value.
        name: Name of the line that it belongs to.
        style: Style of that line.
        text: Text of the tooltip.
        sort: ``absent``, a cross, or ``stalls``, a triangle; the first one has the word next to it.
    """

    x: float
    name: str
    style: int
    text: str
    sort: Literal["absent", "stalls"] = "absent"


Tone = Literal["limit", "answer", "quiet", "none"]
"""Colours of guides: ``limit`` (alarm), ``answer`` (the result), ``quiet``, ``none``."""


class Guide(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A straight line or a band across a panel.

    Attributes:
        axis: The axis of its values: ``x`` is vertical, ``y`` horizontal.
        low: Its value, or the start of a band.
        high: The end of a band; None for a line.
        label: Text next to it; empty for none.
        tone: Its colour.
        inside: Whether the label may only stand inside the band, and is left out of a narrow one.
    """

    axis: Literal["x", "y"]
    low: float
    high: float | None = None
    label: str = ""
    tone: Tone = "quiet"
    inside: bool = False


class Panel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pair of axes with its lines.

    Attributes:
        title: Its heading.
        x: Horizontal axis.
        y: Vertical axis.
        lines: Its lines.
        rings: Circles around points of interest.
        ring_name: Meaning of the circles in the legend; gaps by default.
        feet: Marks at its bottom.
        guides: Straight lines and bands.
        below: Whether it is below the previous panel, with the same horizontal axis.
    """

    title: str
    x: Axis
    y: Axis
    lines: list[Line]
    rings: list[Ring] = []
    ring_name: str = ""
    feet: list[BottomMark] = []
    guides: list[Guide] = []
    below: bool = False


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of a ladder or of bars.

    Attributes:
        label: Its name.
        points: Its figures by name; none for a heading above bars.
        remark: Text next to the label.
        quiet: Whether it was not measured here, and is shown for scale only.
        start: Start of the bar of a part that is added to others or subtracted; the figure is its
            length from there. None if bars start at 0.
        tone: Colour of a bar: ``better`` or ``worse`` than before; empty for neither.
    """

    label: str
    points: dict[str, Point]
    remark: str = ""
    quiet: bool = False
    start: float | None = None
    tone: Literal["", "better", "worse"] = ""


class Bubble(msgspec.Struct, frozen=True, array_like=True):
    """One item before (x) and after (y) a change.

    Attributes:
        x: Before, in the unit of its axis.
        y: After.
        low: Lower end of the interval of ``y`` at this ``x``; None if absent.
        high: Upper end; None if absent.
        area_share: Its area, as a share of the largest's.
        name: Its entry in the legend: the answer, such as ``slower``.
        label: The number next to it; empty for none.
        heading: Heading of the tooltip.
        text: Text of the tooltip.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    area_share: float
    name: str
    label: str
    heading: str
    text: str


class Slope(msgspec.Struct, frozen=True, array_like=True):
    """A line on which ``y`` is a multiple of ``x``, with the label at its end."""

    factor: float
    label: str


class Scatter(msgspec.Struct, frozen=True, kw_only=True):
    """Items before and after a change, on two axes of one scale; unchanged ones on the diagonal.

    Attributes:
        x: Before.
        y: After, from the same value to the same value as ``x``.
        bubbles: The largest first, so that they do not hide others.
        slopes: Lines of equal factors.
        margin_share: Distance from the diagonal that counts as no difference.
    """

    x: Axis
    y: Axis
    bubbles: list[Bubble]
    slopes: list[Slope]
    margin_share: float


class View(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One view of a chart; a chart with several views has a list to choose from.

    Attributes:
        label: Its entry in the list.
        title: The chart's heading while this view is shown.
        group: Heading above its entry in the list.
        panels: Data of a line chart.
        rows: Data of a ladder or bars.
        names: Names of the rows' figures, in the order of the legend.
        axis: The value axis of a ladder or bars.
        heat: Data of a heat map.
        timeline: Data of a timeline.
        scatter: Data of a scatter chart.
        notes: Sentences below the chart while this view is shown.
        gaps: Sentences on the circles, in order of their numbers from 1.
        guides: Vertical lines and bands behind the rows of a ladder.
    """

    label: str
    title: str
    group: str = ""
    panels: list[Panel] = []
    rows: list[Row] = []
    names: list[str] = []
    axis: Axis | None = None
    heat: Heat | None = None
    timeline: TimelineChart | None = None
    scatter: Scatter | None = None
    notes: list[str] = []
    gaps: list[str] = []
    guides: list[Guide] = []


POINTS_OVER_TIME_MIN: Final = 8
"""The least readings over time for a chart; fewer are in the tables."""


def has_enough_points(view: View) -> bool:
    """Return whether a view has enough readings over time, or is not over time."""
    if view.heat is not None:
        count = sum(len(sample.columns) for sample in view.heat.samples)
    elif view.timeline is not None:
        columns = [column for panel in view.timeline.panels for column in panel.columns]
        count = max((len(column.values) for column in columns), default=0)
    elif view.panels and all(panel.x.unit == "s" for panel in view.panels):
        lines = [line for panel in view.panels for line in panel.lines if line.look != "model"]
        count = max((len(line.points) for line in lines), default=0)
    else:
        return True
    return count >= POINTS_OVER_TIME_MIN


class HeatColumn(msgspec.Struct, frozen=True, array_like=True):
    """One period of one sample.

    Attributes:
        index: Its number: it begins at ``index * column_s`` from the sample's start.
        p50_ns: Median of the full counts, three digits.
        p99_ns: 99th percentile of the full counts, three digits.
        max_ns: Slowest request, three digits.
        first_row: Row of the first entry of ``counts``.
        counts: Completed requests by row, from ``first_row`` up.
    """

    index: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    first_row: int
    counts: list[int]


class HeatStall(msgspec.Struct, frozen=True, array_like=True):
    """A stall, in s from its sample's start."""

    start_s: float
    length_s: float
    cause: str
    text: str


class HeatSample(msgspec.Struct, frozen=True, kw_only=True):
    """One round of a heat map."""

    round: int
    duration_s: float
    columns: list[HeatColumn]
    stalls: list[HeatStall]


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """Completed requests by time and latency.

    Row ``r`` covers ``2 ** (r / rows_per_doubling)`` ns up to the same of ``r + 1``.
    """

    column_s: float
    rows_per_doubling: int
    samples: list[HeatSample]


class TimelineColumn(msgspec.Struct, frozen=True, array_like=True):
    """One reading over the time of a sample; None for missing values.

    Attributes:
        name: Its entry in the legend, unique within the chart.
        style: Picks its colour and dash.
        values: One for each step, in the unit of its panel.
    """

    name: str
    style: int
    values: list[float | None]


class TimelinePanel(msgspec.Struct, frozen=True, kw_only=True):
    """Readings of one unit, drawn together.

    Attributes:
        title: Its heading, with the unit if the ticks have none.
        y: Vertical axis.
        stacked: Whether the readings are parts of a whole, drawn as a stack.
        columns: From the bottom of the stack up.
    """

    title: str
    y: Axis
    stacked: bool
    columns: list[TimelineColumn]


class TimelineMark(msgspec.Struct, frozen=True, array_like=True):
    """An event, in s from the sample's start.

    A ``stall``, a ``checkpoint`` or the ``dip`` of a failure is shaded; an ``event`` is a line.
    """

    start_s: float
    end_s: float
    sort: Literal["stall", "checkpoint", "dip", "event"]
    text: str


class TimelineChart(msgspec.Struct, frozen=True, kw_only=True):
    """All readings of one sample over its time.

    Attributes:
        step_s: Value ``i`` of a column covers ``[i, i + 1) * step_s``.
        x: The axis of time.
        panels: Its panels in order.
        marks: Marks behind all panels.
    """

    step_s: float
    x: Axis
    panels: list[TimelinePanel]
    marks: list[TimelineMark]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One chart.

    Attributes:
        id: Its name in the page and in saved files.
        kind: The drawing function of the script.
        topic: Short heading above the title, such as ``Commit latency``.
        notes: Sentences below the chart: how to read it, and what is missing and why.
        views: At least one.
        chosen: Index of the view that is shown first.
        table: Identifier of the table with its numbers.
    """

    id: str
    kind: Literal["lines", "ladder", "bars", "heat", "timeline", "scatter"]
    topic: str
    notes: list[str]
    views: list[View]
    chosen: int = 0
    table: str

    @property
    def title(self) -> str:
        """The heading of the view that is shown first."""
        return self.views[self.chosen].title

    def long_enough(self) -> Figure | None:
        """Return the chart with the views that have enough points; None without any."""
        views = [view for view in self.views if has_enough_points(view)]
        if not views:
            return None
        shown = self.views[self.chosen]
        chosen = next((index for index, view in enumerate(views) if view is shown), 0)
        return msgspec.structs.replace(self, views=views, chosen=chosen)
