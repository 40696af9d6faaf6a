"""Charts of a real cache device: its warm-up with the prediction, and the hits of each tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.report.figures.axes import linear_axis, log_axis, time_axis
from seatrial.report.figures.model import Axis, Figure, Guide, Line, Panel, Point, View
from seatrial.results.model import Sample
from seatrial.stats.wording import format_iops, format_share
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.warm_up import (
    CacheAnalysis,
    CacheCell,
    cache_analysis_of,
    fill_curve,
    full_bytes_of,
    misses_of,
    reads_by_second,
    spec_of_sample,
)
from seatrial.trials.cache.report.pool_phrases import pool_phrase, signed_percent
from seatrial.trials.watch.report.load_figures import size_axis

MEASURED: Final = "measured"
PREDICTED: Final = "predicted before"
TIERS: Final = ("memory", "cache device", "disks")
_WHOLE_SHARE: Final = 0.97


def pool_figures(summary: Summary, views_max: int) -> list[Figure]:
    """Return the charts of a run's cache devices; none if it has none.

    Args:
        summary: The run.
        views_max: The most samples that are drawn.
    """
    found = cache_analysis_of(summary)
    if found is None:
        return []
    charted = _charted_samples(found, summary)[:views_max]
    if not charted:
        return _memory_figures(found)
    return [
        Figure(
            id="cache-warm-up",
            kind="lines",
            topic="Warm-up of the cache device",
            notes=[
                "The prediction was made before the cache device was added, and stored with the "
                "sample. Time counts from that moment; before it, the pool was read without one."
            ],
            views=[_warm_up_view(cell, sample) for cell, sample in charted],
            table="table-cache-forecast",
        ),
        Figure(
            id="cache-tiers",
            kind="lines",
            topic="Reads by tier",
            notes=[
                "Counted by ZFS, or by the cache device of a layout and its drives; what is served "
                "by neither is read from the disks."
            ],
            views=[_tiers_view(cell, sample) for cell, sample in charted],
            table="table-cache-forecast",
        ),
    ]


def _memory_figures(found: CacheAnalysis) -> list[Figure]:
    """Return what memory alone serves by its size; empty without several sizes of one pool."""
    pools: dict[tuple[int, str, str], list[CacheCell]] = {}
    for cell in found.cells:
        share = cell.median_of(each.memory_share for each in cell.samples)
        if cell.arc_bytes and not cell.has_cache and share is not None:
            pools.setdefault((cell.record_bytes, cell.pool, cell.clients), []).append(cell)
    views = [
        _memory_view(sorted(cells, key=lambda each: each.arc_bytes))
        for cells in pools.values()
        if len(cells) > 1
    ]
    if not views:
        return []
    return [
        Figure(
            id="cache-memory",
            kind="lines",
            topic="Reads that memory serves",
            notes=["The prediction was made before each sample, from the settings alone."],
            views=views,
            table="table-cache-memory",
        )
    ]


def _memory_view(cells: Sequence[CacheCell]) -> View:
    """Return the share served by size of the ARC, medians over rounds, of one pool."""
    shares: dict[str, list[tuple[int, float]]] = {MEASURED: [], PREDICTED: []}
    for cell in cells:
        for name, values in (
            (MEASURED, [each.memory_share for each in cell.samples]),
            (PREDICTED, [each.predicted_memory_share for each in cell.samples]),
        ):
            share = cell.median_of(values)
            if share is not None:
                shares[name].append((cell.arc_bytes, share))
    largest = shares[MEASURED][-1]
    panel = Panel(
        title="",
        x=size_axis("ARC", [cell.arc_bytes for cell in cells]),
        y=linear_axis(
            "Share of the reads", "share", [share for each in shares.values() for _, share in each]
        ),
        lines=[
            Line(
                name=name,
                style=style,
                points=[
                    Point(size, share, None, None, f"{format_size(size)}: {format_share(share)}")
                    for size, share in points
                ],
            )
            for style, (name, points) in enumerate(shares.items())
        ],
    )
    title = f"{format_size(largest[0])} of ARC serve {format_share(largest[1])} of the reads"
    return View(label=pool_phrase(cells[-1]), title=title, panels=[panel])


def _charted_samples(found: CacheAnalysis, summary: Summary) -> list[tuple[CacheCell, Sample]]:
    """Return the samples that have a cache device, the first round of each cell first."""
    by_key = {part.cell.key: part for part in summary.cells}
    pairs = [
        (cell, sample)
        for cell in found.cells
        if cell.has_cache and cell.cell.key in by_key
        for sample in by_key[cell.cell.key].samples
        if sample.cache and sample.cache.added_at_s is not None
    ]
    return sorted(pairs, key=lambda pair: pair[1].round)


def _label(cell: CacheCell, sample: Sample) -> str:
    return f"{pool_phrase(cell)}, round {sample.round + 1}"


def _warm_up_view(cell: CacheCell, sample: Sample) -> View:
    record, spec = sample.cache, spec_of_sample(sample)
    forecast = record.forecast if record else None
    added_s = (record.added_at_s if record else None) or 0.0
    rates = [(second - added_s + 1, rate) for second, rate in enumerate(reads_by_second(sample))]
    after = [(at_s, rate) for at_s, rate in rates if at_s > 0]
    predicted_rates = list(enumerate(forecast.reads_per_s, start=1)) if forecast else []
    full_bytes = full_bytes_of(spec)
    fills = [(at_s, fill / full_bytes) for at_s, fill in fill_curve(sample)]
    predicted_fills = (
        [(at_s, fill / full_bytes) for at_s, fill in enumerate(forecast.fill_bytes, start=1)]
        if forecast
        else []
    )
    x = time_axis(max((at_s for at_s, _ in (*after, *fills)), default=1.0))
    all_rates = [rate for _, rate in (*after, *predicted_rates) if rate > 0]
    end = next(each for each in cell.samples if each.round == sample.round)
    panels = [
        Panel(
            title="Reads of the clients",
            x=x,
            y=log_axis("Reads/s", "IOPS", all_rates) if all_rates else _shares("Reads"),
            lines=_lines(after, predicted_rates, x, format_iops),
            guides=[Guide(axis="y", low=end.reads_per_s, label="without the device")],
        ),
        Panel(
            title="Share of the file on the cache device",
            x=x,
            y=_shares("Share of the file"),
            lines=_lines(fills, predicted_fills, x, format_share),
            below=True,
        ),
    ]
    off = signed_percent(end.error_of("t90"))
    title = f"90 % warm: the prediction was off by {off}"
    return View(label=_label(cell, sample), title=title, panels=panels)


def _shares(name: str) -> Axis:
    return linear_axis(name, "share", [_WHOLE_SHARE])


def _lines(
    measured: Sequence[tuple[float, float]],
    predicted: Sequence[tuple[float, float]],
    x: Axis,
    format_phrase: object,
) -> list[Line]:
    format_value = format_phrase if callable(format_phrase) else str
    rows = ((MEASURED, 0, measured), (PREDICTED, 1, predicted))
    return [
        Line(
            name=name,
            style=style,
            points=[
                Point(at_s, value, None, None, f"{at_s:.0f} s, {name}: {format_value(value)}")
                for at_s, value in points
                if value > 0 and at_s <= x.high
            ],
            look="plain",
        )
        for name, style, points in rows
    ]


def _tiers_view(cell: CacheCell, sample: Sample) -> View:
    record, series = sample.cache, sample.series
    added_s = (record.added_at_s if record else None) or 0.0
    columns = series.columns if series else {}
    rates = reads_by_second(sample)
    rows = [
        (second + 1.0, rate, missed, min(served, missed))
        for second, (rate, missed, served) in enumerate(
            zip(
                rates,
                misses_of(columns),
                columns.get("device_hits_per_s", []),
                strict=False,
            )
        )
        if missed is not None and served is not None and rate > 0
    ]
    shares = {
        "memory": [(at_s, max(0.0, 1 - missed / rate)) for at_s, rate, missed, _ in rows],
        "cache device": [(at_s, min(1.0, served / rate)) for at_s, rate, _, served in rows],
        "disks": [
            (at_s, min(1.0, (missed - served) / rate)) for at_s, rate, missed, served in rows
        ],
    }
    x = time_axis(max((row[0] for row in rows), default=1.0))
    panel = Panel(
        title="",
        x=x,
        y=_shares("Share of the reads"),
        lines=[
            Line(
                name=name,
                style=style,
                points=[
                    Point(at_s, share, None, None, f"{at_s:.0f} s, {name}: {format_share(share)}")
                    for at_s, share in shares[name]
                ],
                look="plain",
            )
            for style, name in enumerate(TIERS)
        ],
        guides=[Guide(axis="x", low=added_s, label="device added")],
    )
    return View(label=_label(cell, sample), title="Who served the reads", panels=[panel])
