"""The HTML page of a sweep of shared buffers: curves with bands, checks as points."""

from __future__ import annotations

from typing import Final

from seatrial.report.figures.axes import linear_axis
from seatrial.report.figures.model import Figure, Guide, Line, Panel, Point, View
from seatrial.stats.wording import format_count, format_share
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.sweep import CacheSweepResult
from seatrial.trials.cache.report.sweep_text import sweep_tables
from seatrial.trials.cache.report.sweep_words import doubts, notable, verdict_line
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
    sizes = [each.buffers_bytes for each in found.curve]
    predicted = Line(
        name="predicted",
        style=0,
        look="plain",
        points=[
            Point(
                each.buffers_bytes,
                each.hit_share,
                each.hit_low if each.hit_low < each.hit_high else None,
                each.hit_high if each.hit_low < each.hit_high else None,
                f"{format_size(each.buffers_bytes)}: {format_share(each.hit_share)}",
            )
            for each in found.curve
        ],
    )
    behind = Line(
        name="page cache behind the present size, of what it reads",
        style=2,
        look="plain",
        points=[
            Point(each.memory_bytes, each.served_share, None, None,
                  f"{format_size(each.memory_bytes)}: {format_share(each.served_share)}")
            for each in found.behind
        ],
    )  # fmt: skip
    run = Line(
        name="really run",
        style=1,
        look="dots",
        points=[
            Point(each.buffers_bytes, each.measured_hit_share, None, None,
                  f"{format_size(each.buffers_bytes)}: {format_share(each.measured_hit_share)}")
            for each in found.checks
        ],
    )  # fmt: skip
    panel = Panel(
        title="",
        x=size_axis("Memory", sizes),
        y=linear_axis("Share served", "share", [_WHOLE]),
        lines=[each for each in (predicted, run, behind) if each.points],
        guides=_guides(found),
    )
    return _figure("sweep-hits", "Hit ratio", "Share of page accesses served, by size", panel)


def _rates(found: CacheSweepResult) -> Figure:
    sizes = [each.buffers_bytes for each in found.curve]
    predicted = Line(
        name="predicted",
        style=0,
        look="plain",
        points=[
            Point(each.buffers_bytes, each.per_s, each.per_s_low, each.per_s_high,
                  f"{format_size(each.buffers_bytes)}: {format_count(round(each.per_s))}/s")
            for each in found.curve
        ],
    )  # fmt: skip
    run = Line(
        name="really run",
        style=1,
        look="dots",
        points=[
            Point(each.buffers_bytes, each.measured_per_s, each.measured_low, each.measured_high,
                  f"{format_size(each.buffers_bytes)}: {format_count(round(each.measured_per_s))}"
                  "/s")
            for each in found.checks
        ],
    )  # fmt: skip
    highs = [each.per_s_high for each in found.curve]
    highs += [each.measured_high or each.measured_per_s for each in found.checks]
    panel = Panel(
        title="",
        x=size_axis("Shared buffers", sizes),
        y=linear_axis(f"{found.unit.capitalize()} per second", "/s", highs),
        lines=[each for each in (predicted, run) if each.points],
        guides=_guides(found),
    )
    return _figure("sweep-rates", "Rate", f"{found.unit.capitalize()} per second, by size", panel)


def _relations(found: CacheSweepResult) -> list[Figure]:
    if not found.relations:
        return []
    sizes = [each.buffers_bytes for each in found.curve]
    lines = [
        Line(
            name=each.name,
            style=style,
            look="plain",
            points=[
                Point(size, share, None, None, f"{format_size(size)}: {format_share(share)}")
                for size, share in zip(sizes, each.hit_shares, strict=True)
            ],
        )
        for style, each in enumerate(found.relations[:_RELATIONS])
    ]
    panel = Panel(
        title="",
        x=size_axis("Shared buffers", sizes),
        y=linear_axis("Share served", "share", [_WHOLE]),
        lines=lines,
        guides=_guides(found),
    )
    title = "Share of the accesses of each table and index that is served"
    return [_figure("sweep-relations", "Tables and indexes", title, panel)]


def _figure(name: str, topic: str, title: str, panel: Panel) -> Figure:
    table = "sweep-relations" if name == "sweep-relations" else "sweep-curve"
    return Figure(
        id=f"{name}-chart",
        kind="lines",
        topic=topic,
        notes=["The upright line is the present size; points are sizes that were really run."],
        views=[View(label="curve", title=title, panels=[panel])],
        table=f"table-{table}",
    )
