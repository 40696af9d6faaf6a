"""Replays against the size of a cache: which cells make a line, and the table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from seatrial.findings.model import Summary
from seatrial.report.figures.naming import grouped
from seatrial.report.published import PublishedLines
from seatrial.report.table import NO_FIGURE, Table, doubt_text, rate_text
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_size
from seatrial.trials.database.analysis.cache_sweep import CACHES, cache_bytes, is_of_sweep
from seatrial.trials.database.analysis.model import CacheSweep, database_of
from seatrial.trials.database.report.words import cell_words, label_names
from seatrial.trials.replay.analysis.samples import is_of_replay

_STORAGES: Final = {"single-hdd": "one disk", "2x-ssd-concatenated": "two SSDs"}


class CacheLine(NamedTuple):
    """The cells of one target and schema at each size of a cache.

    Attributes:
        name: What tells it from the other lines, such as ``ssd, schema new``.
        points: Size in bytes and what was measured, in order of size.
        sweep: The law through them; None where none was sought.
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
        """All that was measured."""
        return [part.iops for line in self.lines for _, part in line.points]


def cache_sizes(summary: Summary) -> list[CacheSizes]:
    """Return the replays of a run by the size of each cache that was varied: often none."""
    played = [part for part in summary.cells if is_of_replay(part.cell) and not part.blank]
    sweeps = analysis.sweeps if (analysis := database_of(summary)) else []
    found = []
    for factor in CACHES:
        sized = [part for part in played if cache_bytes(part.cell, factor)]
        if len({cache_bytes(part.cell, factor) for part in sized}) < 2:
            continue
        names = [name for name in label_names(sized) if name not in (factor, "threads")]
        groups = grouped(sized, partial(cell_words, names=names))
        own = [sweep for sweep in sweeps if sweep.factor == factor]
        lines = [_line(name, members, factor, own) for name, members in groups.items()]
        found.append(CacheSizes(factor, lines))
    return found


def _line(
    name: str, members: Sequence[CellSummary], factor: str, sweeps: Sequence[CacheSweep]
) -> CacheLine:
    points = sorted(
        ((cache_bytes(part.cell, factor) or 0, part) for part in members), key=lambda each: each[0]
    )
    own = (sweep for sweep in sweeps if is_of_sweep(points[0][1].cell, sweep))
    return CacheLine(name or members[0].cell.workload, points, next(own, None))


def predicted(sweep: CacheSweep | None) -> Estimate | None:
    """Return what the law says of the next size, in statements per second; None for nothing."""
    if sweep is None or not sweep.fits or sweep.predicted_per_s is None:
        return None
    return sweep.predicted_per_s


def sweep_sentences(sizes: CacheSizes) -> list[str]:
    """Return what the law says of each line, or why it says nothing."""
    return [f"{each.name}: {each.sweep.sentence}" for each in sizes.lines if each.sweep]


def cache_tables(summary: Summary) -> list[Table]:
    """Return statements per second by the size of the cache, with ranks, and what is predicted."""
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
        foreseen = predicted(line.sweep)
        if line.sweep is not None and foreseen is not None:
            size = line.sweep.next_size_bytes
            figures = [rate_text(foreseen), doubt_text(foreseen)]
            rows.append([line.name, format_size(size), *figures, NO_FIGURE, "predicted"])
    return Table(
        id=f"replay-caches-{number}",
        title=f"Statements per second by the size of the cache ({sizes.factor})",
        labels=2,
        headers=["Replay", "Cache", "Statements/s", "±", "Rank", "Figure"],
        rows=rows,
    )


def rank_text(own: Estimate, all_of_them: Sequence[Estimate]) -> str:
    """Return the places that a rate may have among all, as their intervals tell: ``2``, ``2 to 3``.

    A dash where it was measured once, as its place then is anybody's guess.
    """
    if own.low is None or own.high is None or own.over == "timeline":
        return NO_FIGURE
    others = [each for each in all_of_them if each is not own]
    surely = sum(each.low is not None and each.low > own.high for each in others)
    maybe = sum(each.high is None or each.high > own.low for each in others)
    return str(surely + 1) if surely == maybe else f"{surely + 1} to {maybe + 1}"


def published_words(published: PublishedLines) -> str:
    """Return what a published figure is of: ``published 2008: one disk, new schema, FB5``."""
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
