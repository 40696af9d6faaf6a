"""Replays by cache size: lines of cells, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.articles import LINES_SOURCE, PublishedLines, published_lines
from seatrial.report.figures.axes import (
    block_size_axis,
    extent,
    linear_axis,
    log_axis,
    scatter_notes,
)
from seatrial.report.figures.model import Axis, Figure, Guide, Line, Panel, Point, View
from seatrial.report.table import NO_FIGURE, Table, doubt_text, rate_text
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_count, format_estimate, format_size
from seatrial.trials.database.analysis.cache_sweep import CACHES, cache_bytes, is_of_sweep
from seatrial.trials.database.analysis.model import CacheSweep, database_of
from seatrial.trials.database.report.figures import model_points
from seatrial.trials.database.report.wording import cell_phrase, label_names
from seatrial.trials.replay.analysis.model import is_replay

_STORAGES: Final = {"single-hdd": "one disk", "2x-ssd-concatenated": "two SSDs"}


class CacheLine(NamedTuple):
    """The cells of one target and schema at each size of a cache.

    Attributes:
        name: What distinguishes it from other lines, such as ``ssd, schema new``.
        points: Size in bytes and the measured cell, in order of size.
        sweep: The fitted model; None if none was fitted.
    """

    name: str
    points: list[tuple[int, CellSummary]]
    sweep: CacheSweep | None


class CacheSizes(NamedTuple):
    """All replays of a run in which one cache had several sizes.

    Attributes:
        factor: ``shared_buffers`` or ``memory_limit_bytes``.
        lines: In the order of the plan.
    """

    factor: str
    lines: list[CacheLine]

    @property
    def measured(self) -> list[Estimate]:
        """All measured rates."""
        return [part.iops for line in self.lines for _, part in line.points]


def cache_sizes(summary: Summary) -> list[CacheSizes]:
    """Return the replays of a run by the size of each cache that was varied; often empty."""
    played = [part for part in summary.cells if is_replay(part.cell) and not part.blank]
    sweeps = analysis.sweeps if (analysis := database_of(summary)) else []
    found = []
    for factor in CACHES:
        sized = [part for part in played if cache_bytes(part.cell, factor)]
        if len({cache_bytes(part.cell, factor) for part in sized}) < 2:
            continue
        names = [name for name in label_names(sized) if name not in (factor, "threads")]
        groups = grouped(sized, partial(cell_phrase, names=names))
        matching = [sweep for sweep in sweeps if sweep.factor == factor]
        lines = [_line(name, members, factor, matching) for name, members in groups.items()]
        found.append(CacheSizes(factor, lines))
    return found


def _line(
    name: str, members: Sequence[CellSummary], factor: str, sweeps: Sequence[CacheSweep]
) -> CacheLine:
    points = sorted(
        ((cache_bytes(part.cell, factor) or 0, part) for part in members), key=lambda each: each[0]
    )
    matching = (sweep for sweep in sweeps if is_of_sweep(points[0][1].cell, sweep))
    return CacheLine(name or members[0].cell.workload, points, next(matching, None))


def predicted(sweep: CacheSweep | None) -> Estimate | None:
    """Return the prediction for the next size, in statements per second; None if there is none."""
    if sweep is None or not sweep.fits or sweep.predicted_per_s is None:
        return None
    return sweep.predicted_per_s


def sweep_sentences(sizes: CacheSizes) -> list[str]:
    """Return the prediction of each line, or why there is none."""
    return [f"{line.name}: {line.sweep.sentence}" for line in sizes.lines if line.sweep]


def cache_tables(summary: Summary) -> list[Table]:
    """Return statements per second by cache size, with ranks and predictions."""
    return [_cache_table(sizes, n) for n, sizes in enumerate(cache_sizes(summary), start=1)]


def _cache_table(sizes: CacheSizes, number: int) -> Table:
    rows = []
    for line in sizes.lines:
        rows += [
            [
                line.name,
                format_size(size),
                rate_text(part.iops),
                doubt_text(part.iops),
                rank_text(part.iops, sizes.measured),
                "measured",
            ]
            for size, part in line.points
        ]
        prediction = predicted(line.sweep)
        if line.sweep is not None and prediction is not None:
            size = line.sweep.next_size_bytes
            figures = [rate_text(prediction), doubt_text(prediction)]
            rows.append([line.name, format_size(size), *figures, NO_FIGURE, "predicted"])
    return Table(
        id=f"replay-caches-{number}",
        title=f"Statements per second by cache size ({sizes.factor})",
        labels=2,
        headers=["Replay", "Cache", "Statements/s", "±", "Rank", "Figure"],
        rows=rows,
    )


def rank_text(rate: Estimate, rates: Sequence[Estimate]) -> str:
    """Return the possible ranks of a rate, by the intervals: ``2``, ``2 to 3``.

    A dash if it was measured once, since its rank is then unknown.
    """
    if rate.low is None or rate.high is None or rate.over == "timeline":
        return NO_FIGURE
    others = [each for each in rates if each is not rate]
    significant = sum(other.low is not None and other.low > rate.high for other in others)
    maybe = sum(other.high is None or other.high > rate.low for other in others)
    return str(significant + 1) if significant == maybe else f"{significant + 1} to {maybe + 1}"


def published_text(published: PublishedLines) -> str:
    """Return the setup of a published figure: ``published 2008: one disk, new schema, FB5``."""
    storage = _STORAGES.get(published.storage, published.storage)
    return f"published 2008: {storage}, {published.schema} schema, {published.database}"


def published_table(published: Sequence[PublishedLines]) -> Table:
    """Return the article's own figures."""
    return Table(
        id="replay-published",
        title="Published in 2008",
        labels=3,
        headers=["Storage", "Schema", "Server", "Cache", "Lines/s"],
        rows=[
            [
                _STORAGES.get(each.storage, each.storage),
                each.schema,
                each.database,
                "any" if each.cache_bytes is None else format_size(each.cache_bytes),
                f"{each.lines_per_s:,.0f}",
            ]
            for each in published
        ],
    )


_UNIT: Final = "statements/s"
_WIDE_FACTOR: Final = 5.0
_HEADROOM_FACTOR: Final = 1.3
_MEASURED, _WITH_PUBLISHED = "measured", "with figures published in 2008"


def cache_figures(summary: Summary, *, with_published: bool) -> list[Figure]:
    """Return a chart for each cache whose size was varied; usually one or none.

    Args:
        summary: The run.
        with_published: Whether the published figures are shown first; the reader can switch them
            on and off in any case.
    """
    return [
        Figure(
            id=f"replay-caches-{number}",
            kind="lines",
            topic=f"Statements per second by cache size ({sizes.factor})",
            notes=[
                "Bands and bars are 95 % intervals over the rounds. A thin line without marks is "
                "the model t = cpu + k * C^-a, fitted to the time of one statement. A hollow mark "
                "is its prediction for twice the largest size.",
                *scatter_notes("bands and bars", sizes.measured),
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
    lines = [line for n, each in enumerate(sizes.lines) for line in _lines(each, n)]
    lines += _published_lines(published, len(sizes.lines))
    sized = [each.cache_bytes for each in published if each.cache_bytes is not None]
    at_bytes = [size for line in sizes.lines for size, _ in line.points]
    prediction = [(each.sweep, rate) for each in sizes.lines if (rate := predicted(each.sweep))]
    at_bytes += [sweep.next_size_bytes for sweep, _ in prediction if sweep]
    rates_per_s = extent([*sizes.measured, *(rate for _, rate in prediction)])
    rates_per_s += [each.lines_per_s for each in published]
    rates_per_s.append(_HEADROOM_FACTOR * max(rates_per_s))  # for a label above the highest
    panel = Panel(
        title="Replays of one trace",
        x=block_size_axis([*at_bytes, *sized], name=f"Cache size ({sizes.factor})"),
        y=_rate_axis(rates_per_s),
        lines=lines,
        guides=[
            Guide(axis="y", low=each.lines_per_s, label=f"{published_text(each)}, any cache")
            for each in published
            if each.cache_bytes is None
        ],
    )
    return View(
        label=_WITH_PUBLISHED if published else _MEASURED,
        title=_title(sizes),
        panels=[panel],
        notes=[LINES_SOURCE] if published else [],
    )


def _rate_axis(rates_per_s: Sequence[float]) -> Axis:
    """Return a linear axis from 0, or a logarithmic one if the rates differ widely."""
    positive = [rate for rate in rates_per_s if rate > 0]
    if max(positive) > _WIDE_FACTOR * min(positive):
        return log_axis("Statements per second (logarithmic)", _UNIT, positive)
    return linear_axis("Statements per second", _UNIT, positive)


def _lines(line: CacheLine, style: int) -> Iterator[Line]:
    """Yield the measured line, the fitted model and its prediction."""
    points = [Point.of(size, part.iops) for size, part in line.points]
    yield Line(name=line.name, style=style, points=points)
    prediction = predicted(line.sweep)
    if line.sweep is None or prediction is None:
        return
    yield Line(
        name="fitted model",
        style=style,
        points=model_points(line.sweep, _UNIT),
        look="model",
        of=line.name,
    )
    point = Point.of(line.sweep.next_size_bytes, prediction)
    yield Line(name="predicted", style=style, points=[point], look="predicted", of=line.name)


def _published_lines(published: Sequence[PublishedLines], style: int) -> list[Line]:
    """Return the article's figures with a cache size, by storage and schema."""
    sized = [each for each in published if each.cache_bytes is not None]
    return [
        Line(
            name=name,
            style=style + index,
            look="thin",
            points=[
                Point(
                    member.cache_bytes or 0, member.lines_per_s, None, None,
                    f"{format_count(round(member.lines_per_s))} lines/s, measured once",
                )
                for member in members
            ],
        )
        for index, (name, members) in enumerate(grouped(sized, published_text).items())
    ]  # fmt: skip


def _title(sizes: CacheSizes) -> str:
    """Return the highest and the lowest rate; targets keep the user's spelling."""
    rates = [
        (part.iops, f"{line.name} with {format_size(size)}")
        for line in sizes.lines
        for size, part in line.points
    ]
    most, least = (pick(rates, key=lambda rate: rate[0].value) for pick in (max, min))
    return (
        f"{most[1]}: {format_estimate(most[0])}, the highest of {len(rates)}; "
        f"{least[1]}: {format_estimate(least[0])}, the lowest"
    )
