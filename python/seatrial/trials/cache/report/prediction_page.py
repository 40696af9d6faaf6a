"""The HTML page of a prediction of caches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seatrial.catalogue.units import format_money
from seatrial.report.figures.axes import linear_axis, log_axis
from seatrial.report.figures.model import Figure, Line, Panel, Point, View
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_share,
    moment,
)
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.curves import BEST, CachePoint
from seatrial.trials.cache.analysis.prediction import CachePrediction
from seatrial.trials.cache.report.prediction_phrases import (
    caches_phrase,
    confidence,
    doubts,
    enough_point,
    notable,
    verdict_line,
)
from seatrial.trials.cache.report.prediction_text import prediction_tables
from seatrial.trials.watch.recording import RecordingMetadata
from seatrial.trials.watch.report.load_figures import size_axis
from seatrial.trials.watch.report.load_page import PageWords, page_of


def render(name: str, about: RecordingMetadata, found: CachePrediction, next_step: str) -> str:
    """Return the page as a self-contained HTML document.

    Args:
        name: The recording as the user named it.
        about: Metadata of the recording.
        found: The prediction.
        next_step: What to do next.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    words = PageWords(
        verdict=verdict_line(found),
        notable=notable(found),
        doubts=doubts(found, about),
        confidence=confidence(found, about),
        next_step=next_step,
    )
    return page_of(
        f"caches for {name}", words, _particulars(about, found),
        prediction_figures(found), prediction_tables(found),
    )  # fmt: skip


def _particulars(about: RecordingMetadata, found: CachePrediction) -> dict[str, str]:
    return {
        "Recorded": moment(about.began_at_s) if about.began_at_s > 0 else "unknown",
        "Length": format_duration_s(found.seconds),
        "Reads": f"{format_count(found.reads)} blocks of {format_size(found.block_bytes)}",
        "Different blocks": format_size(found.unique_bytes),
        "Memory keeps": found.policy,
        "SSD": found.device_kind if any(each.device_bytes for each in found.tiers) else "none",
    }


_WHOLE_SHARE: Final = 0.97
"""An axis up to here ends at 100 %."""
_POINTS_MIN: Final = 2


def prediction_figures(found: CachePrediction) -> list[Figure]:
    """Return the chart of the curves, and what each read costs where prices are known."""
    return [_curves(found), *_money(found)]


def _curves(found: CachePrediction) -> Figure:
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
    return Figure(
        id="cache-curve",
        kind="lines",
        topic="Cache size",
        notes=notes,
        views=[View(label="curve", title=title, panels=[panel])],
        table="table-cache-curve",
    )


def _money(found: CachePrediction) -> Iterator[Figure]:
    """Yield response time against price, a line for each size of the SSD."""
    tiers = {(each.memory_bytes, each.device_bytes): each for each in found.tiers}
    points: dict[int, list[Point]] = {}
    is_p99 = all(each.read_ns_p99 is not None for each in found.tiers)
    for cost in sorted(found.costs, key=lambda each: each.month.mid):
        own = tiers[cost.memory_bytes, cost.device_bytes]
        time_ns = own.read_ns_p99 if is_p99 else own.read_ns_mean
        if time_ns:
            words = caches_phrase(cost.memory_bytes, cost.device_bytes)
            text = f"{words}: {format_money(cost.month)}, {format_duration_ns(time_ns)}"
            points.setdefault(cost.device_bytes, []).append(
                Point(cost.month.mid, time_ns, None, None, text)
            )
    if sum(len(each) for each in points.values()) < _POINTS_MIN:
        return
    shown = [point for each in points.values() for point in each]
    currency = found.costs[0].month.currency
    what = "99th percentile" if is_p99 else "Mean"
    panel = Panel(
        title="",
        x=linear_axis(f"{currency} per month", currency, [each.x for each in shown]),
        y=log_axis(f"{what} of reads", "ns", [each.y for each in shown]),
        lines=[
            Line(
                name=f"{format_size(size)} of SSD" if size else "memory alone",
                style=style,
                points=own_points,
            )
            for style, (size, own_points) in enumerate(sorted(points.items()))
        ],
    )
    yield Figure(
        id="cache-costs",
        kind="lines",
        topic="Price",
        notes=["Each point is one size of memory; lower and further left is better."],
        views=[View(label="price", title="Cost of shorter reads", panels=[panel])],
        table="table-cache-costs",
    )


def _point(point: CachePoint) -> Point:
    is_sampled = point.low < point.high
    return Point(
        point.cache_bytes,
        point.share,
        point.low if is_sampled else None,
        point.high if is_sampled else None,
        f"{format_size(point.cache_bytes)}: {format_share(point.share)} of the reads",
    )
