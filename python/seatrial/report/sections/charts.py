"""The frames of the charts: heading, notes and the place that the script draws into."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.report.figures.model import Figure
from seatrial.report.markup import Markup, element, unbroken


def charts_section(figures: Sequence[Figure], left_out: str = "") -> Markup:
    """Return a frame for each chart; nothing at all when there is none.

    Args:
        figures: The charts.
        left_out: What has none, as a sentence; empty where all is drawn.
    """
    if not figures:
        return Markup("")
    return element(
        "section",
        element("h2", "Charts"),
        unscripted("below"),
        element("p", left_out, class_="lead") if left_out else "",
        *(frame(figure) for figure in figures),
        id="charts",
        aria_label="Charts",
    )


def unscripted(where: str) -> Markup:
    """Return what stands for charts where scripts are off: that their numbers are in tables."""
    reported = f"The charts need scripts; all their numbers are in the tables {where}."
    return element("p", reported, class_="unscripted")


def frame(figure: Figure) -> Markup:
    """Return one chart's frame; the script exchanges what a view alone has (assets/figure.js)."""
    view = figure.views[figure.chosen]
    gaps = (element("li", text) for text in view.gaps)
    return element(
        "figure",
        element("p", figure.topic, class_="topic"),
        element("h3", unbroken(figure.title)),
        element("div", class_="toolbar"),
        element("div", class_="plot", role="img", aria_label=figure.title),
        element(
            "figcaption",
            element("ol", *gaps, class_="gaps", hidden=not view.gaps),
            element("span", " ".join(view.notes), class_="view-notes"),
            " ",
            *(element("span", f"{note} ") for note in figure.notes),
            element("a", "All numbers", href=f"#{figure.table}", class_="numbers"),
        ),
        id=f"figure-{figure.id}",
    )
