"""What a topic adds to the page of a run, and how much of it there is room for."""

from __future__ import annotations

from typing import NamedTuple

from seatrial.report.figures.model import Figure
from seatrial.report.markup import Markup


class Detail(NamedTuple):
    """How much of a run the page shows; its tables, findings and charts of rates always.

    Attributes:
        heat_views_max: How many cells may have their latency over time drawn.
        every_figure: Whether every figure of every cell has room.
        rounds_max: How many rounds of a cell may be drawn over time.
        timelines_max: How many cells may be drawn over time.
        charted_cells_max: How many cells may have charts at all.
        with_published: Whether figures published in 2008 and 2010 are shown from the start.
    """

    heat_views_max: int
    every_figure: bool
    rounds_max: int
    timelines_max: int
    charted_cells_max: int = 1_000_000
    with_published: bool = False


class PagePart(NamedTuple):
    """The section of a topic on the page of a run.

    Attributes:
        key: The section's ``id``, by which the page leads to it.
        heading: What the page calls it.
        section: What it shows; empty where the run has nothing of it.
        figures: Its charts, which the page's script draws.
    """

    key: str
    heading: str
    section: Markup
    figures: list[Figure]
