"""Statements per second against the size of a cache: a line for each target and schema."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.report.figures.axes import block_size_axis, extent, linear_axis, log_axis
from seatrial.report.figures.model import Axis, Figure, Guide, Line, Panel, Point, View
from seatrial.report.figures.naming import grouped
from seatrial.report.figures.notes import scatter_notes
from seatrial.report.published import LINES_SOURCE, PublishedLines, published_lines
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_count, format_estimate, format_size, format_value
from seatrial.trials.database.analysis.model import CacheSweep
from seatrial.trials.replay.report.caches import (
    CacheLine,
    CacheSizes,
    cache_sizes,
    predicted,
    published_words,
)

_UNIT: Final = "statements/s"
_LAW_POINTS: Final = 24
_WIDE_FACTOR: Final = 5.0
_ROOM: Final = 1.3
_MEASURED, _BESIDE = "measured here", "beside the figures published in 2008"


def cache_figures(summary: Summary, *, with_published: bool) -> list[Figure]:
    """Return a chart for each cache of which replays had several sizes; usually one or none.

    Args:
        summary: The run.
        with_published: Whether the published figures are shown from the start; the reader can
            switch them on and off in any case.
    """
    return [
        Figure(
            id=f"replay-caches-{number}",
            kind="lines",
            topic=f"Statements per second by the size of the cache ({sizes.factor})",
            notes=[
                "Bands and strokes are 95 % intervals over the rounds. A thin line without marks "
                "is the law t = cpu + k * C^-a, fitted to the time of one statement; a hollow mark "
                "is what it predicts for twice the largest size.",
                *scatter_notes("bands and strokes", sizes.measured),
            ],
            views=_views(sizes),
            chosen=-1 % len(_views(sizes)) if with_published else 0,
            table=f"table-replay-caches-{number}",
        )
        for number, sizes in enumerate(cache_sizes(summary), start=1)
    ]


def _views(sizes: CacheSizes) -> list[View]:
    views = [_view(sizes, ())]
    if published := published_lines():
        views.append(_view(sizes, published))
    return views


def _view(sizes: CacheSizes, published: Sequence[PublishedLines]) -> View:
    lines = [line for n, each in enumerate(sizes.lines) for line in _drawn(each, n)]
    lines += _published_lines(published, len(sizes.lines))
    sized = [each.cache_bytes for each in published if each.cache_bytes is not None]
    at_bytes = [size for line in sizes.lines for size, _ in line.points]
    foreseen = [(each.sweep, rate) for each in sizes.lines if (rate := predicted(each.sweep))]
    at_bytes += [sweep.next_size_bytes for sweep, _ in foreseen if sweep]
    rates_per_s = extent([*sizes.measured, *(rate for _, rate in foreseen)])
    rates_per_s += [each.lines_per_s for each in published]
    rates_per_s.append(_ROOM * max(rates_per_s))  # for a label above the highest
    panel = Panel(
        title="Replays of one trace",
        x=block_size_axis([*at_bytes, *sized], name=f"Size of the cache ({sizes.factor})"),
        y=_rate_axis(rates_per_s),
        lines=lines,
        guides=[
            Guide(axis="y", low=each.lines_per_s, label=f"{published_words(each)}, any cache")
            for each in published
            if each.cache_bytes is None
        ],
    )
    return View(
        label=_BESIDE if published else _MEASURED,
        title=_title(sizes),
        panels=[panel],
        notes=[LINES_SOURCE] if published else [],
    )


def _rate_axis(rates_per_s: Sequence[float]) -> Axis:
    """Return a linear axis from 0; a logarithmic one where the rates are far from each other."""
    positive = [rate for rate in rates_per_s if rate > 0]
    if max(positive) > _WIDE_FACTOR * min(positive):
        return log_axis("Statements per second (logarithmic)", _UNIT, positive)
    return linear_axis("Statements per second", _UNIT, positive)


def _drawn(line: CacheLine, style: int) -> Iterator[Line]:
    """Yield what was measured, the law through it, and what that says of the next size."""
    points = [Point.of(size, part.iops) for size, part in line.points]
    yield Line(name=line.name, style=style, points=points)
    foreseen = predicted(line.sweep)
    if line.sweep is None or foreseen is None:
        return
    yield Line(name="fitted law", style=style, points=_law(line.sweep), look="model", of=line.name)
    point = Point.of(line.sweep.next_size_bytes, foreseen)
    yield Line(name="predicted", style=style, points=[point], look="foreseen", of=line.name)


def _law(sweep: CacheSweep) -> list[Point]:
    """Return the fitted law from the smallest size to the next after the largest."""
    low, high = math.log(sweep.sizes_bytes[0]), math.log(sweep.next_size_bytes)
    points = []
    for step in range(_LAW_POINTS + 1):
        size_bytes = math.exp(low + (high - low) * step / _LAW_POINTS)
        time_s = sweep.cpu_s.value + sweep.k * size_bytes**-sweep.a.value
        rate = Estimate(value=1 / time_s, low=None, high=None, rounds=0, unit=_UNIT)
        points.append(Point(size_bytes, rate.value, None, None, format_value(rate)))
    return points


def _published_lines(published: Sequence[PublishedLines], style: int) -> list[Line]:
    """Return the article's figures that have a size of the cache, by storage and schema."""
    sized = [each for each in published if each.cache_bytes is not None]
    return [
        Line(
            name=name,
            style=style + place,
            look="thin",
            points=[
                Point(
                    each.cache_bytes or 0, each.lines_per_s, None, None,
                    f"{format_count(round(each.lines_per_s))} lines/s, measured once",
                )
                for each in members
            ],
        )
        for place, (name, members) in enumerate(grouped(sized, published_words).items())
    ]  # fmt: skip


def _title(sizes: CacheSizes) -> str:
    """Return the most and the fewest statements a second; targets as the user spells them."""
    reported = [
        (part.iops, f"{line.name} with {format_size(size)}")
        for line in sizes.lines
        for size, part in line.points
    ]
    most, least = (pick(reported, key=lambda each: each[0].value) for pick in (max, min))
    return (
        f"{most[1]}: {format_estimate(most[0])}, the most of {len(reported)}; "
        f"{least[1]}: {format_estimate(least[0])}, the fewest"
    )
