"""The HTML page of a sweep of shared buffers: curves with bands, checks as points."""

from __future__ import annotations

from typing import Final

from seatrial.report.figures.axes import linear_axis
from seatrial.report.figures.model import Axis, Figure, Guide, Line, Panel, Point, View
from seatrial.stats.wording import format_count, format_share
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.sweep import CacheSweepResult
from seatrial.trials.cache.report.sweep_phrases import doubts, notable, verdict_line
from seatrial.trials.cache.report.sweep_text import sweep_tables
from seatrial.trials.watch.report.load_figures import size_axis
from seatrial.trials.watch.report.load_page import PageWords, page_of

_WHOLE: Final = 0.97
_RELATIONS: Final = 6


def render(found: CacheSweepResult, next_step: str) -> str:
    """Return the page as a self-contained HTML document.

    Args:
        found: The sweep.
        next_step: What to do next.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    words = PageWords(
        verdict=verdict_line(found),
        notable=notable(found),
        doubts=doubts(found),
        confidence=" ".join(doubts(found)),
        next_step=next_step,
    )
    particulars = {
        "Load": found.load,
        "Server": found.server,
        "Counted": f"{format_count(found.operations)} {found.unit}",
        "Sessions": f"{found.sessions:.3g}",
        "Tables and indexes": format_size(found.data_bytes),
        "Recorded with": format_size(found.smallest_bytes),
    }
    return page_of(
        f"shared buffers for {found.load}", words, particulars, sweep_figures(found),
        sweep_tables(found),
    )  # fmt: skip


def sweep_figures(found: CacheSweepResult) -> list[Figure]:
    """Return the charts: hit ratio and rate by size, and by table and index."""
    return [_hits(found), _rates(found), *_relations(found)]


def _guides(found: CacheSweepResult) -> list[Guide]:
    return [Guide(axis="x", low=float(found.present_bytes), label="present", tone="answer")]


def _hits(found: CacheSweepResult) -> Figure:
    predicted = [
        _share(
            each.buffers_bytes,
            each.hit_share,
            each.hit_low if each.hit_low < each.hit_high else None,
            each.hit_high if each.hit_low < each.hit_high else None,
        )
        for each in found.curve
    ]
    run = [_share(each.buffers_bytes, each.measured_hit_share) for each in found.checks]
    behind = [_share(each.memory_bytes, each.served_share) for each in found.behind]
    lines = [
        Line(name="predicted", style=0, look="plain", points=predicted),
        Line(name="measured", style=1, look="dots", points=run),
        Line(
            name="page cache behind the present size, of what it reads",
            style=2,
            look="plain",
            points=behind,
        ),
    ]
    y = linear_axis("Share served", "share", [_WHOLE])
    panel = _panel(found, "Memory", y, lines)
    return _figure("sweep-hits", "Hit ratio", "Share of page accesses served, by size", panel)


def _rates(found: CacheSweepResult) -> Figure:
    predicted = [
        _rate(each.buffers_bytes, each.per_s, each.per_s_low, each.per_s_high)
        for each in found.curve
    ]
    run = [
        _rate(each.buffers_bytes, each.measured_per_s, each.measured_low, each.measured_high)
        for each in found.checks
    ]
    lines = [
        Line(name="predicted", style=0, look="plain", points=predicted),
        Line(name="measured", style=1, look="dots", points=run),
    ]
    highs = [each.per_s_high for each in found.curve]
    highs += [each.measured_high or each.measured_per_s for each in found.checks]
    what = f"{found.unit.capitalize()} per second"
    panel = _panel(found, "Shared buffers", linear_axis(what, "/s", highs), lines)
    return _figure("sweep-rates", "Rate", f"{what}, by size", panel)


def _relations(found: CacheSweepResult) -> list[Figure]:
    if not found.relations:
        return []
    sizes = [each.buffers_bytes for each in found.curve]
    lines = [
        Line(
            name=each.name,
            style=style,
            look="plain",
            points=[_share(*point) for point in zip(sizes, each.hit_shares, strict=True)],
        )
        for style, each in enumerate(found.relations[:_RELATIONS])
    ]
    panel = _panel(found, "Shared buffers", linear_axis("Share served", "share", [_WHOLE]), lines)
    title = "Share of the accesses of each table and index that is served"
    return [_figure("sweep-relations", "Tables and indexes", title, panel)]


def _share(
    size_bytes: int, share: float, low: float | None = None, high: float | None = None
) -> Point:
    return Point(size_bytes, share, low, high, f"{format_size(size_bytes)}: {format_share(share)}")


def _rate(size_bytes: int, per_s: float, low: float | None, high: float | None) -> Point:
    text = f"{format_size(size_bytes)}: {format_count(round(per_s))}/s"
    return Point(size_bytes, per_s, low, high, text)


def _panel(found: CacheSweepResult, what: str, y: Axis, lines: list[Line]) -> Panel:
    return Panel(
        title="",
        x=size_axis(what, [each.buffers_bytes for each in found.curve]),
        y=y,
        lines=[each for each in lines if each.points],
        guides=_guides(found),
    )


def _figure(name: str, topic: str, title: str, panel: Panel) -> Figure:
    table = "sweep-relations" if name == "sweep-relations" else "sweep-curve"
    return Figure(
        id=f"{name}-chart",
        kind="lines",
        topic=topic,
        notes=["The upright line is the present size; points are sizes that were measured."],
        views=[View(label="curve", title=title, panels=[panel])],
        table=f"table-{table}",
    )
