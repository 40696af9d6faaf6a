"""Tables of a real cache device: the article's, and prediction next to measurement."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from seatrial.report.table import NO_FIGURE, Group, Table, without_empty
from seatrial.stats.wording import format_iops, format_rate_bytes, format_share
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.warm_up import (
    LEVELS,
    CacheAnalysis,
    CacheCell,
    CacheRow,
    WarmUp,
)
from seatrial.trials.cache.report.pool_phrases import signed_percent, signed_points, time_phrase

FILE: Final = "l2arc-2008.csv"
SOURCE: Final = (
    "Published: 'Performance Improvements Using Read Optimized Solid State Disks', 10 November "
    "2008 (reference/l2arc-2008.csv): 24 disks, one SSD, 8 clients over NFS, a file of 50 GB. The "
    "machine was other than here, so the figures stand next to each other for scale; of the two, "
    "the ratios and the order of the rows can be compared."
)


class PublishedPool(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the article's table.

    Attributes:
        record_bytes: Size of a record.
        pool: ``striped`` or ``raid-z``.
        clients: ``direct`` or ``cached``.
        warm_h: Warm-up time (h).
        with_bytes_per_s: With the SSD.
        without_bytes_per_s: Without it.
    """

    record_bytes: int
    pool: str
    clients: str
    warm_h: float
    with_bytes_per_s: float
    without_bytes_per_s: float


@cache
def published_pools() -> tuple[PublishedPool, ...]:
    """Return the article's table; empty where the installation lacks it."""
    try:
        text = resources.files("seatrial.report.articles").joinpath(FILE).read_text("utf-8")
    except FileNotFoundError:
        return ()
    return tuple(
        PublishedPool(
            record_bytes=int(row["record_size_kib"]) << 10,
            pool=row["layout"],
            clients="direct" if row["direct_io"] == "yes" else "cached",
            warm_h=float(row["warmup_hours"]),
            with_bytes_per_s=float(row["with_ssd_mb_s"]) * 1e6,
            without_bytes_per_s=float(row["without_ssd_mb_s"]) * 1e6,
        )
        for row in csv.DictReader(text.splitlines())
    )


def pool_tables(found: CacheAnalysis) -> list[Table]:
    """Return the article's table and that of the predictions, and that of memory alone."""
    tables = []
    if any(cell.has_cache for cell in found.cells):
        tables += [article_table(found), forecast_table(found)]
    if any(_is_of_memory(cell) for cell in found.cells):
        tables.append(memory_table(found))
    return tables


def article_table(found: CacheAnalysis) -> Table:
    """Return the table with and without a cache device, the figures of 2008 next to it."""
    table = Table(
        id="cache-device",
        title="With and without a cache device",
        labels=4,
        headers=[
            *("Records", "Pool", "Clients", "ARC", "90 % warm", "With", "Without", "Ratio"),
            *("Warm-up", "With", "Without", "Ratio"),
        ],
        groups=[Group("", 4), Group("measured here", 4), Group("2008, for scale", 4)],
        rows=[_article_row(row) for row in found.rows],
    )
    if all(row[-4:] == [NO_FIGURE] * 4 for row in table.rows):
        rows = [row[:-4] for row in table.rows]
        table = msgspec.structs.replace(table, headers=table.headers[:-4], groups=[], rows=rows)
        return without_empty(table)
    return table


def _article_row(row: CacheRow) -> list[str]:
    key = (row.record_bytes, row.pool, row.clients)
    then = next((e for e in published_pools() if (e.record_bytes, e.pool, e.clients) == key), None)
    return [
        *(format_size(row.record_bytes), row.pool, row.clients, _arc(row.arc_bytes)),
        NO_FIGURE if row.warm_s is None else time_phrase(row.warm_s),
        *(_rate(row.with_bytes_per_s), _rate(row.without_bytes_per_s)),
        NO_FIGURE if row.ratio is None else f"{row.ratio:.1f}x",
        *(
            [NO_FIGURE] * 4
            if then is None
            else [
                f"{then.warm_h:g} h",
                *(f"{e / 1e6:g} MB/s" for e in (then.with_bytes_per_s, then.without_bytes_per_s)),
                f"{then.with_bytes_per_s / then.without_bytes_per_s:.1f}x",
            ]
        ),
    ]


def _arc(arc_bytes: int) -> str:
    """Return the size of an ARC; a layout has none."""
    return format_size(arc_bytes) if arc_bytes else NO_FIGURE


def _rate(bytes_per_s: float | None) -> str:
    return NO_FIGURE if bytes_per_s is None else format_rate_bytes(bytes_per_s)


def forecast_table(found: CacheAnalysis) -> Table:
    """Return each sample with a cache device: times, rates and shares with signed errors."""
    levels = [name for level in LEVELS for name in (level, f"{level} off by")]
    return without_empty(
        Table(
            id="cache-forecast",
            title="Warm-up, and how far the prediction made before was off",
            labels=5,
            headers=[
                *("Records", "Pool", "Clients", "ARC", "Round"),
                *levels,
                *("End", "End off by", "Fill law off by", "Forecast off by"),
            ],
            rows=[
                [*_labels(cell), str(sample.round + 1), *_forecast_texts(sample)]
                for cell in found.cells
                if cell.has_cache
                for sample in cell.samples
            ],
        )
    )


def _labels(cell: CacheCell) -> list[str]:
    sizes = format_size(cell.record_bytes), _arc(cell.arc_bytes)
    return [sizes[0], cell.pool, cell.clients, sizes[1]]


def _forecast_texts(sample: WarmUp) -> list[str]:
    times = []
    for level in LEVELS:
        times += [time_phrase(sample.warm_s.get(level)), signed_percent(sample.error_of(level))]
    return [
        *times,
        format_iops(sample.plateau_reads_per_s or 0.0),
        signed_percent(sample.plateau_error),
        signed_points(sample.fill_law_points),
        signed_points(sample.forecast_points),
    ]


def memory_table(found: CacheAnalysis) -> Table:
    """Return each pool without a cache device: what memory served, and what was predicted."""
    return without_empty(
        Table(
            id="cache-memory",
            title="Without a cache device",
            labels=5,
            headers=[
                *("Records", "Pool", "Clients", "ARC", "Round"),
                *("Reads", "Predicted off by", "Memory served", "Predicted"),
            ],
            rows=[
                [
                    *_labels(cell),
                    str(sample.round + 1),
                    format_iops(sample.reads_per_s),
                    signed_percent(sample.plateau_error),
                    _share(sample.memory_share),
                    _share(sample.predicted_memory_share),
                ]
                for cell in found.cells
                if _is_of_memory(cell)
                for sample in cell.samples
            ],
        )
    )


def _is_of_memory(cell: CacheCell) -> bool:
    """Return whether a pool has memory alone; a layout without a cache device has not even that."""
    return not cell.has_cache and bool(cell.arc_bytes)


def _share(share: float | None) -> str:
    return NO_FIGURE if share is None else format_share(share)
