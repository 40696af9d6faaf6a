"""Charts of a prediction: the share of reads served by size of cache, and by tier."""

from __future__ import annotations

from typing import Final

from seatrial.report.figures.axes import linear_axis
from seatrial.report.figures.model import Figure, Line, Panel, Point, View
from seatrial.stats.wording import format_share
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.curves import BEST, CachePoint
from seatrial.trials.cache.analysis.prediction import CachePrediction
from seatrial.trials.cache.report.prediction_words import enough_point
from seatrial.trials.watch.report.load_figures import size_axis

_WHOLE_SHARE: Final = 0.97
"""An axis up to here ends at 100 %."""


def prediction_figures(found: CachePrediction) -> list[Figure]:
    """Return the chart of the curves."""
    sizes = [each.cache_bytes for each in found.curves[0].points]
    lines = [
        Line(
            name="best possible" if each.policy == BEST else each.policy,
            style=style,
            points=[_point(point) for point in each.points],
            look="plain",
        )
        for style, each in enumerate(found.curves)
    ]
    enough = enough_point(found)
    panel = Panel(
        title="",
        x=size_axis("Cache", sizes),
        y=linear_axis("Share of reads served", "share", [_WHOLE_SHARE]),
        lines=lines,
    )
    notes = [
        f"Blocks of {format_size(found.block_bytes)}; a cache begins empty. The first read of a "
        "block is served by none, and no cache is better than the best possible one, which knows "
        "all later reads."
    ]
    if found.method == "sampled":
        notes.append("Bands are 95 % intervals over four samples of the blocks.")
    title = (
        f"{format_size(enough.cache_bytes)} of cache would serve {format_share(enough.share)} of "
        "the reads"
    )
    return [
        Figure(
            id="cache-curve",
            kind="lines",
            topic="Cache size",
            notes=notes,
            views=[View(label="curve", title=title, panels=[panel])],
            table="table-cache-curve",
        )
    ]


def _point(point: CachePoint) -> Point:
    is_sampled = point.low < point.high
    return Point(
        point.cache_bytes,
        point.share,
        point.low if is_sampled else None,
        point.high if is_sampled else None,
        f"{format_size(point.cache_bytes)}: {format_share(point.share)} of the reads",
    )
