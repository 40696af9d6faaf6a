"""The warm-up of a real cache device and its prediction: pure functions over samples."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from seatrial.published import Amount, Count, named
from seatrial.results.cache import CacheRecord
from seatrial.results.model import Sample
from seatrial.stats.model import AnalysedRun, CellSummary
from seatrial.study.cell import Cell
from seatrial.trials.cache.study.workload import L2ARC, PoolSpec, spec_of
from seatrial.units import NS_PER_S

LEVELS: Final = {"t50": 0.5, "t90": 0.9, "t99": 0.99}
"""Names of times, each with the fill of the device at that time."""
BOUND_SHARE: Final = 0.2
"""Relative error from which a predicted time is a miss."""
BOUND_POINTS: Final = 0.05
"""Error from which a predicted share is a miss."""
PLATEAU_SHARE: Final = 0.2
"""The end of a sample, whose mean is its plateau."""
COLD_SHARE: Final = 0.1
"""A start is cold if the ARC holds no more data than this share of its size: metadata."""
FILLING: Final = (0.05, 0.95)
"""Range of fill in which the hits of the device are compared with its fill."""


class WarmUp(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of a pool.

    Attributes:
        round: The round, from 0.
        is_cold: Whether the counters prove a cold start.
        reads_per_s: Reads of the clients without the cache device: in the second half of the
            baseline; of a sample without one, at its end.
        plateau_reads_per_s: Reads with it, at the end of the sample; null without one.
        predicted_reads_per_s: Prediction of the plateau, without a device of the whole sample;
            null without a prediction.
        memory_share: Share of the reads that memory served at the end.
        predicted_memory_share: Its prediction.
        device_share: Share of the reads that the device served at the end.
        filled_share: Fill of the device at the end, as a share of its capacity for the file.
        warm_s: Time from the moment at which the device was added; null if not reached.
        predicted_warm_s: Their predictions; null if not within the sample.
        fill_law_points: While the device filled, its share of the ARC's misses minus the share of
            the file on it; the mean over seconds, for uniform reads only.
        forecast_points: Its share of the misses minus the prediction at the same fill.
    """

    round: Count
    is_cold: bool
    reads_per_s: Amount
    plateau_reads_per_s: float | None = None
    predicted_reads_per_s: float | None = None
    memory_share: float | None = None
    predicted_memory_share: float | None = None
    device_share: float | None = None
    filled_share: float | None = None
    warm_s: dict[str, float | None] = {}
    predicted_warm_s: dict[str, float | None] = {}
    fill_law_points: float | None = None
    forecast_points: float | None = None

    def error_of(self, level: str) -> float | None:
        """Return the signed error of a predicted time, as a share of the measured one."""
        measured, predicted = self.warm_s.get(level), self.predicted_warm_s.get(level)
        if not measured or predicted is None:
            return None
        return predicted / measured - 1.0

    @property
    def memory_points(self) -> float | None:
        """The signed error of the predicted share that memory serves, without a device."""
        if self.device_share is not None or self.plateau_reads_per_s is not None:
            return None
        if self.memory_share is None or self.predicted_memory_share is None:
            return None
        return self.predicted_memory_share - self.memory_share

    @property
    def plateau_error(self) -> float | None:
        """The signed error of the predicted rate, as a share of the measured one."""
        measured = self.plateau_reads_per_s or self.reads_per_s
        if self.predicted_reads_per_s is None or not measured:
            return None
        return self.predicted_reads_per_s / measured - 1.0


MISS_COLUMNS: Final = ("arc_misses_per_s", "memory_misses_per_s")
"""Columns with the reads that memory did not serve: of a pool, and of a layout."""


def spec_of_sample(sample: Sample) -> PoolSpec:
    """Return what a sample built: a pool, or a layout with a cache device.

    Raises:
        ValueError: when it has no cache device.
    """
    if L2ARC in sample.cell.spec:
        return spec_of(sample.cell)
    record, layout = sample.cache, sample.layout
    if record is None:
        raise ValueError("the sample has no cache device")
    baseline = record.forecast.assumed["baseline_reads_per_s"] if record.forecast else 0.0
    level, drives = (layout.layout.get(each) for each in ("level", "drives")) if layout else (0, 1)
    return PoolSpec(
        has_cache=bool(record.cache_bytes),
        pool=f"{record.zfs} on {level}",
        clients="direct",
        record_bytes=sample.cell.block_size_bytes,
        arc_bytes=0,
        working_set_bytes=record.working_set_bytes,
        cache_bytes=record.cache_bytes,
        client_cache_bytes=0,
        disks=int(drives or 1),
        disk_reads_per_s=0,
        baseline_s=0.0 if not baseline else 1.0,
        watched_s=sample.duration_s,
        pattern="random",
        theta=0.0,
    )


def misses_of(columns: Mapping[str, list[float | None]]) -> list[float | None]:
    """Return the misses of memory by second."""
    return next((columns[name] for name in MISS_COLUMNS if name in columns), [])


class CacheCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that builds a pool, with its samples.

    Attributes:
        cell: The cell.
        has_cache: Whether it has a cache device.
        pool: ``striped`` or ``raid-z``.
        clients: ``direct`` or ``cached``.
        record_bytes: Size of a record and of a read.
        arc_bytes: Size of the ARC.
        law: The method of prediction, as a phrase; empty without one.
        samples: In order of rounds.
    """

    cell: Annotated[Cell, named("key")]
    has_cache: bool
    pool: str
    clients: str
    record_bytes: Count
    arc_bytes: Count
    law: str = ""
    samples: list[WarmUp]

    def median_of(self, values: Iterable[float | None]) -> float | None:
        """Return the median of the samples' values; None unless all have one."""
        found = list(values)
        known = [each for each in found if each is not None]
        return statistics.median(known) if known and len(known) == len(found) else None

    @property
    def plateau_bytes_per_s(self) -> float:
        """Median over rounds of the clients' throughput at the end."""
        rates = [each.plateau_reads_per_s or each.reads_per_s for each in self.samples]
        return statistics.median(rates) * self.record_bytes


class CacheRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the article's table: one pool with and without a cache device.

    Attributes:
        record_bytes: Size of a record.
        pool: ``striped`` or ``raid-z``.
        clients: ``direct`` or ``cached``.
        arc_bytes: Size of the ARC.
        warm_s: Median over rounds of the time until 90 % of the file are on the device.
        with_bytes_per_s: Throughput of clients with the warm device; null if not measured.
        without_bytes_per_s: Throughput without it.
    """

    record_bytes: Count
    pool: str
    clients: str
    arc_bytes: Count
    warm_s: float | None
    with_bytes_per_s: float | None
    without_bytes_per_s: float | None

    @property
    def ratio(self) -> float | None:
        """Throughput with the device over that without it."""
        if not self.with_bytes_per_s or not self.without_bytes_per_s:
            return None
        return self.with_bytes_per_s / self.without_bytes_per_s


class CacheAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """All pools of a run.

    Attributes:
        cells: The cells, in the order of the plan.
        rows: The table with and without a cache device.
    """

    cells: list[CacheCell]
    rows: list[CacheRow]


def cache_analysis_of(analysed: AnalysedRun) -> CacheAnalysis | None:
    """Return the analysis of a run's pools; None if it has none."""
    found: CacheAnalysis | None = analysed.analyses.get("cache")
    return found


def analyse_caches(cells: Sequence[CellSummary]) -> CacheAnalysis | None:
    """Return the analysis of a run's pools; None if it has none."""
    pools = [part for part in cells if part.cell.kind == L2ARC]
    found = [each for each in map(_pool_cell, pools) if each.samples]
    found += cells_of_layouts(cells)
    return CacheAnalysis(cells=found, rows=_rows(found)) if found else None


def cells_of_layouts(cells: Sequence[CellSummary]) -> list[CacheCell]:
    """Return the cells of layouts whose cache device begins empty, and their controls.

    A control has the same workload and layout without the cache device.
    """
    cached = [
        part
        for part in cells
        if any(each.layout and each.cache and each.cache.forecast for each in part.samples)
    ]
    found = []
    for part in cached:
        record = next(each for each in part.samples if each.cache)
        spec = spec_of_sample(record)
        plain = next((each for each in cells if _is_same_without_cache(each, part)), None)
        for each, has_cache in ((plain, False), (part, True)):
            if each is None:
                continue
            samples = [_without_device(sample) for sample in each.samples]
            if has_cache:
                samples = [warm_up_of(sample) for sample in each.samples if sample.cache]
            found.append(
                CacheCell(
                    cell=each.cell,
                    has_cache=has_cache,
                    pool=spec.pool,
                    clients=spec.clients,
                    record_bytes=spec.record_bytes,
                    arc_bytes=0,
                    law=record.cache.forecast.law
                    if has_cache and record.cache and record.cache.forecast
                    else "",
                    samples=samples,
                )
            )
    return found


def _is_same_without_cache(part: CellSummary, cached: CellSummary) -> bool:
    """Return whether a cell is the control of another one, without its cache device."""
    layouts = [next((e.layout for e in each.samples if e.layout), None) for each in (part, cached)]
    if None in layouts or part.cell.workload != cached.cell.workload:
        return False
    own, other = (each.layout for each in layouts if each)
    names = ("name", "backend", "level", "drives", "filesystem")
    is_same_layout = all(own.get(name) == other.get(name) for name in names)
    cells = (part.cell, cached.cell)
    facts = {(e.operation, e.block_size_bytes, e.threads) for e in cells}
    return is_same_layout and len(facts) == 1 and own.get("cache", "none") == "none"


def _without_device(sample: Sample) -> WarmUp:
    return WarmUp(round=sample.round, is_cold=True, reads_per_s=sample.completed_per_s)


def _pool_cell(part: CellSummary) -> CacheCell:
    spec = spec_of(part.cell)
    records = [sample.cache for sample in part.samples if sample.cache]
    return CacheCell(
        cell=part.cell,
        has_cache=spec.has_cache,
        pool=spec.pool,
        clients=spec.clients,
        record_bytes=spec.record_bytes,
        arc_bytes=spec.arc_bytes,
        law=next((each.forecast.law for each in records if each.forecast), ""),
        samples=[warm_up_of(sample) for sample in part.samples if sample.cache],
    )


def _rows(cells: Sequence[CacheCell]) -> list[CacheRow]:
    """Return a row for each pool, in the order of the cells."""
    pools = dict.fromkeys((e.record_bytes, e.pool, e.clients, e.arc_bytes) for e in cells)
    rows = []
    for pool in pools:
        own = [e for e in cells if (e.record_bytes, e.pool, e.clients, e.arc_bytes) == pool]
        with_device = next((each for each in own if each.has_cache), None)
        without = next((each for each in own if not each.has_cache), None)
        warm_s = None
        if with_device:
            warm_s = with_device.median_of(e.warm_s.get("t90") for e in with_device.samples)
        rows.append(
            CacheRow(
                record_bytes=pool[0],
                pool=pool[1],
                clients=pool[2],
                arc_bytes=pool[3],
                warm_s=warm_s,
                with_bytes_per_s=with_device.plateau_bytes_per_s if with_device else None,
                without_bytes_per_s=without.plateau_bytes_per_s if without else None,
            )
        )
    return rows


def warm_up_of(sample: Sample) -> WarmUp:
    """Return the warm-up in a sample of a pool.

    Raises:
        ValueError: when the sample is not one of a pool.
    """
    record = sample.cache
    if record is None:
        raise ValueError("the sample has no pool")
    spec = spec_of_sample(sample)
    rates = reads_by_second(sample)
    forecast = record.forecast
    memory, device = _shares_at_end(sample)
    found = WarmUp(
        round=sample.round,
        is_cold=_is_cold(record),
        reads_per_s=_plateau(rates) or 0.0,
        memory_share=memory,
        predicted_reads_per_s=_plateau(forecast.reads_per_s) if forecast else None,
        predicted_memory_share=_plateau(forecast.memory_share) if forecast else None,
    )
    if record.added_at_s is None:
        return found
    added_s = record.added_at_s
    before = rates[int(added_s / 2) : int(added_s)]
    curve = fill_curve(sample)
    full_bytes = full_bytes_of(spec)
    by_law, by_forecast = _fill_errors(sample, curve, spec)
    predicted = list(enumerate(forecast.fill_bytes, start=1)) if forecast else []
    return msgspec.structs.replace(
        found,
        reads_per_s=_mean(before) if added_s else _baseline_per_s(record),
        plateau_reads_per_s=_plateau(rates[int(added_s) :]),
        device_share=device,
        filled_share=curve[-1][1] / full_bytes if curve else None,
        warm_s={name: _reached_s(curve, share * full_bytes) for name, share in LEVELS.items()},
        predicted_warm_s={
            name: _reached_s(predicted, share * full_bytes) for name, share in LEVELS.items()
        },
        fill_law_points=by_law,
        forecast_points=by_forecast,
    )


def _baseline_per_s(record: CacheRecord) -> float:
    """Return the reads a second without the device just before the sample."""
    return record.forecast.assumed["baseline_reads_per_s"] if record.forecast else 0.0


def full_bytes_of(spec: PoolSpec) -> float:
    """Return the capacity of a cache device for the file."""
    return float(min(spec.records * spec.record_bytes, spec.cache_bytes))


def reads_by_second(sample: Sample) -> list[float]:
    """Return the reads in each second of a sample but the last, incomplete one."""
    slice_ns = sample.timeline.slice_ns
    reads = [0.0] * int(sample.duration_s)
    for each in sample.timeline.slices:
        begin_ns, end_ns = each.index * slice_ns, (each.index + 1) * slice_ns
        for second in range(begin_ns // NS_PER_S, min(len(reads), -(-end_ns // NS_PER_S))):
            own_ns = min(end_ns, (second + 1) * NS_PER_S) - max(begin_ns, second * NS_PER_S)
            reads[second] += each.completed * own_ns / slice_ns
    return reads


def fill_curve(sample: Sample) -> list[tuple[float, float]]:
    """Return time since the device was added (s), and data on the device (bytes), by second."""
    if sample.cache is None or sample.cache.added_at_s is None or sample.series is None:
        return []
    column = sample.series.columns.get("device_fill_bytes", [])
    period_s, added_s = sample.series.period_s, sample.cache.added_at_s
    ends = ((index * period_s - added_s, fill) for index, fill in enumerate(column, start=1))
    return [(at_s, fill) for at_s, fill in ends if fill is not None and at_s > 0]


def _reached_s(curve: Sequence[tuple[float, float]], level: float) -> float | None:
    """Return when a rising curve reached a level, between two of its points; None if it did not."""
    before_s, before = 0.0, 0.0
    for at_s, value in curve:
        if value >= level:
            share = (level - before) / (value - before) if value > before else 1.0
            return before_s + share * (at_s - before_s)
        before_s, before = at_s, value
    return None


def _fill_errors(
    sample: Sample, curve: Sequence[tuple[float, float]], spec: PoolSpec
) -> tuple[float | None, float | None]:
    """Return the device's share of the ARC's misses minus its fill, and minus the forecast."""
    record, series = sample.cache, sample.series
    if record is None or record.added_at_s is None or series is None:
        return None, None
    served = _ratios(series.columns.get("device_hits_per_s", []), misses_of(series.columns))
    full_bytes = full_bytes_of(spec)
    by_law, by_forecast = [], []
    for at_s, fill in curve:
        index = round((at_s + record.added_at_s) / series.period_s) - 1
        share, before = served[index], _fill_before(curve, at_s)
        filled_share = (fill + before) / 2 / full_bytes
        if share is None or not FILLING[0] < filled_share < FILLING[1]:
            continue
        by_law.append(share - filled_share)
        if (predicted_share := _predicted_share(record, filled_share * full_bytes)) is not None:
            by_forecast.append(share - predicted_share)
    is_uniform = spec.pattern != "zipf"
    return (
        statistics.fmean(by_law) if by_law and is_uniform else None,
        statistics.fmean(by_forecast) if by_forecast else None,
    )


def _fill_before(curve: Sequence[tuple[float, float]], at_s: float) -> float:
    return max((fill for each_s, fill in curve if each_s < at_s), default=0.0)


def _predicted_share(record: CacheRecord, fill_bytes: float) -> float | None:
    """Return the predicted share of memory's misses that the device serves at a fill."""
    forecast = record.forecast
    if forecast is None:
        return None
    before = 0.0
    for index, fill in enumerate(forecast.fill_bytes):
        if (before + fill) / 2 >= fill_bytes:
            missed = 1.0 - forecast.memory_share[index]
            return forecast.device_share[index] / missed if missed > 0 else None
        before = fill
    return None


def _ratios(part: Sequence[float | None], total: Sequence[float | None]) -> list[float | None]:
    pairs = zip(part, total, strict=True)
    return [None if a is None or not b else min(1.0, a / b) for a, b in pairs]


def _shares_at_end(sample: Sample) -> tuple[float | None, float | None]:
    """Return the shares of the clients' reads that memory and device served at the end."""
    series = sample.series
    if series is None:
        return None, None
    rates = reads_by_second(sample)
    columns = [misses_of(series.columns), series.columns.get("device_hits_per_s", [])]
    rows = [row for row in zip(rates, *columns, strict=False) if None not in row]
    last = rows[-max(1, int(len(rows) * PLATEAU_SHARE)) :]
    reads = sum(row[0] for row in last)
    if not reads:
        return None, None
    missed, served = (sum(row[index] or 0.0 for row in last) for index in (1, 2))
    return max(0.0, 1 - missed / reads), served / reads


def _is_cold(record: CacheRecord) -> bool:
    """Return whether the counters before the sample prove that nothing of the file was cached."""
    if "fill_bytes" in record.cold:
        return record.cold["fill_bytes"] <= COLD_SHARE * record.cache_bytes
    cached_bytes = record.cold.get("data_size")
    if cached_bytes is None or cached_bytes > COLD_SHARE * record.arc_bytes:
        return False
    return not record.cold.get("l2_size")


def _plateau(values: Sequence[float]) -> float | None:
    return _mean(values[-max(1, int(len(values) * PLATEAU_SHARE)) :]) if values else None


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0
