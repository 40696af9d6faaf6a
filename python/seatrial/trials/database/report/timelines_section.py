"""The numbers of a chart over time: what happened, and every reading of the round it shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.report.figures.model import Figure, TimelineChart, TimelineMark
from seatrial.report.markup import Markup, element
from seatrial.report.sections.tables import scrolling
from seatrial.report.table import NO_FIGURE
from seatrial.stats.facts import format_number
from seatrial.stats.wording import format_duration_ns, format_iops, format_rate_bytes, format_share

_EXACT: Final = 0.0  # read, not estimated: three digits


def timeline_table(figure: Figure) -> Markup:
    """Return the numbers of the round that the chart shows first, folded.

    Where scripts run, the table follows the round that is picked there (assets/timeline.js).
    """
    view = figure.views[figure.chosen]
    if view.timeline is None:
        return Markup("")
    label = "The timeline in numbers"
    columns = [(panel, column) for panel in view.timeline.panels for column in panel.columns]
    groups = [element("th", ""), *(
        element("th", panel.title, colspan=len(panel.columns), scope="colgroup", class_="group")
        for panel in view.timeline.panels
    )]  # fmt: skip
    heads = ["From (s)", *(column.name for _, column in columns)]
    table = element(
        "table",
        element(
            "thead",
            element("tr", *groups),
            element("tr", *(element("th", head, scope="col") for head in heads)),
        ),
        element("tbody", *_rows(view.timeline)),
    )
    caption = element("p", element("span", view.label, class_="of"), class_="lead")
    events = element("ul", *_mark_items(view.timeline.marks), class_="marks")
    return element(
        "details",
        element("summary", label),
        caption,
        events,
        scrolling(table, label),
        id=figure.table,
    )


def _rows(timeline: TimelineChart) -> Iterator[Markup]:
    columns = [(panel.y.unit, column) for panel in timeline.panels for column in panel.columns]
    steps = max((len(column.values) for _, column in columns), default=0)
    for step in range(steps):
        texts = [format_number(step * timeline.step_s)]
        texts += [_reading(unit, column.values[step]) for unit, column in columns]
        yield element("tr", *(element("td", text) for text in texts))


def _reading(unit: str, value: float | None) -> str:
    """Return one reading in words; assets/timeline.js says it the same way."""
    if value is None:
        return NO_FIGURE
    if unit == "share":
        return format_share(value)
    if unit == "ns":
        return format_duration_ns(value, _EXACT)
    if unit == "B/s":
        return format_rate_bytes(value, _EXACT)
    return format_iops(value, _EXACT)


def _mark_items(marks: Sequence[TimelineMark]) -> Iterator[Markup]:
    for mark in marks:
        yield element("li", mark.text)
