"""The sweeps of a run over the size of a cache, and what the law through them predicts."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from seatrial.stats.compare.figures import COMPLETED, figures_of_both
from seatrial.stats.compare.ratio import contrast, ratio_estimate
from seatrial.stats.compare.verdict import ratio_words
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import t_quantile
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    STATEMENT,
    format_duration_ns,
    format_duration_s,
    format_estimate,
    format_interval,
    format_share,
    format_size,
)
from seatrial.study.cell import Cell, FactorValue
from seatrial.trials.database.analysis.cache_law import SIZES_MIN, CacheLaw, CacheTime, cache_law
from seatrial.trials.database.analysis.model import CacheSweep, DatabaseCell

ALPHA: Final = 0.05
CACHES: Final = ("shared_buffers", "memory_limit_bytes")
"""Factors that are the size of a cache."""
_OTHER_FACTORS: Final = ("target", "workload", "operation", "block_size_bytes", "depth")
_SETTING: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB)?")
_SETTING_BYTES: Final = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_BLOCK_BYTES: Final = 8192
_FASTER_BOUNDS: Final = ("cpu", "client")

Group = tuple[str, str, tuple[tuple[str, FactorValue], ...]]
"""Target, workload, and the factors that the cells of a sweep share."""


def setting_bytes(value: FactorValue) -> int | None:
    """Return a size as postgresql.conf has it, in bytes; a bare number is blocks of 8 KiB.

    None where it is none. Source: PostgreSQL's documentation, "Parameter Names and Values".
    """
    parts = _SETTING.fullmatch(str(value).strip())
    if parts is None:
        return None
    unit_bytes = _SETTING_BYTES[parts[2]] if parts[2] else _BLOCK_BYTES
    return round(float(parts[1]) * unit_bytes)


def cache_sweeps(cells: Sequence[CellSummary], parts: Sequence[DatabaseCell]) -> list[CacheSweep]:
    """Return the sweep of each group of cells that differ in the size of a cache alone.

    Args:
        cells: Of databases.
        parts: What is particular to each of them, in the same order.
    """
    by_key = {part.cell.key: part for part in parts}
    found = []
    for factor in CACHES:
        groups: dict[Group, list[CellSummary]] = defaultdict(list)
        for summary in cells:
            if cache_bytes(summary.cell, factor) and not summary.blank:
                groups[_group(summary.cell, factor)].append(summary)
        for group, members in groups.items():
            if len({cache_bytes(each.cell, factor) for each in members}) > 1:
                found.append(_sweep(factor, group, members, cells, by_key))
    return found


def cache_bytes(cell: Cell, factor: str) -> int | None:
    """Return the size of a cell's cache; None where it does not say."""
    value = cell.factors.get(factor)
    if value is None:
        return None
    return int(value) if factor.endswith("_bytes") else setting_bytes(value)


def is_of_sweep(cell: Cell, sweep: CacheSweep) -> bool:
    """Tell whether a cell is one of those that a sweep is about."""
    shared = (sweep.target, sweep.workload, tuple(sorted(sweep.where.items())))
    is_measured = cache_bytes(cell, sweep.factor) in sweep.sizes_bytes
    return is_measured and _group(cell, sweep.factor) == shared


def _group(cell: Cell, factor: str) -> Group:
    shared = {
        name: value
        for name, value in cell.identity().items()
        if name not in (*_OTHER_FACTORS, factor)
    }
    return cell.target, cell.workload, tuple(sorted(shared.items()))


def _sweep(
    factor: str,
    group: Group,
    members: Sequence[CellSummary],
    cells: Sequence[CellSummary],
    by_key: Mapping[str, DatabaseCell],
) -> CacheSweep:
    ordered = sorted(members, key=lambda each: cache_bytes(each.cell, factor) or 0)
    sizes_bytes = [cache_bytes(each.cell, factor) or 0 for each in ordered]
    times = [time_of(each.iops) for each in ordered]
    known_s = _known_cpu_s(factor, group, ordered, cells, by_key)
    data_bytes = max((by_key[each.cell.key].database_bytes for each in ordered), default=0)
    law = _law(sizes_bytes, times, known_s)
    next_bytes = 2 * sizes_bytes[-1]
    refused = _unfilled(ordered, sizes_bytes, by_key) or _refused(
        law, sizes_bytes, data_bytes, ordered[0].cell
    )
    predicted = law.rate_per_s(next_bytes) if law and not refused else None
    if predicted is not None:  # of a replay in statements, of all else in transactions
        predicted = msgspec.structs.replace(predicted, unit=ordered[0].iops.unit)
    return CacheSweep(
        target=group[0],
        workload=group[1],
        factor=factor,
        where=dict(group[2]),
        sizes_bytes=sizes_bytes,
        time_s=times,
        cpu_s=law.cpu_s if law else _unknown("s"),
        k=law.k_s if law else 0.0,
        a=law.a if law else _unknown("exponent"),
        next_size_bytes=next_bytes,
        predicted_per_s=predicted,
        fits=not refused,
        sentence=_predicting(ordered, law, next_bytes, predicted) if law and predicted else refused,
        evidence=_evidence(law, data_bytes),
    )


def time_of(rate: Estimate) -> Estimate:
    """Return the time for one transaction (s), which is one over the rate of all clients."""
    return rate.inverse(1.0, "s")


def _law(
    sizes_bytes: Sequence[int], times: Sequence[Estimate], cpu_s: tuple[float, float] | None
) -> CacheLaw | None:
    """Return the law through the sweep; None where there are fewer than three sizes."""
    if len(set(sizes_bytes)) < SIZES_MIN or len(set(sizes_bytes)) < len(sizes_bytes):
        return None
    points = [
        CacheTime(size, time.value, _error_share(time), time.rounds)
        for size, time in zip(sizes_bytes, times, strict=True)
    ]
    return cache_law(points, cpu_s=cpu_s)


def _error_share(time: Estimate) -> float:
    """Return the standard error of a time as a share of it; 0 where it was measured once."""
    if time.low is None or time.high is None or time.rounds < 2 or time.low <= 0:
        return 0.0
    return math.log(time.high / time.low) / 2 / t_quantile(time.rounds)


def _known_cpu_s(
    factor: str,
    group: Group,
    members: Sequence[CellSummary],
    cells: Sequence[CellSummary],
    by_key: Mapping[str, DatabaseCell],
) -> tuple[float, float] | None:
    """Return between what the processor time lies, by what the same cells did elsewhere.

    The fastest of the cells that differ in target and cache alone: one that processor or client
    bound tells the time itself, as the SSD did in the article; any other an upper bound of it.
    """
    own_s = min(1 / each.iops.value for each in members)
    alike = [
        other
        for other in cells
        if not other.blank
        and other.cell.target != group[0]
        and _group(other.cell, factor)[1:] == group[1:]
    ]
    fastest = max(alike, key=lambda each: each.iops.value, default=None)
    if fastest is None or 1 / fastest.iops.value >= own_s:
        return None
    fastest_s = 1 / fastest.iops.value
    is_reported = by_key[fastest.cell.key].verdict.bound in _FASTER_BOUNDS
    return (fastest_s, fastest_s) if is_reported else (0.0, fastest_s)


def _unfilled(
    ordered: Sequence[CellSummary], sizes_bytes: Sequence[int], by_key: Mapping[str, DatabaseCell]
) -> str:
    """Return that a cache was never full, as a sentence; empty where each was.

    A cold cache from which less was missed than it holds is one of a smaller size, whatever its
    limit: its cell says nothing of that limit. Where reads are not waited for, all may fit.
    """
    longest_s, short = 0.0, []
    for summary, size_bytes in zip(ordered, sizes_bytes, strict=True):
        part = by_key[summary.cell.key]
        if part.reads is None or part.start_state != "cold" or part.verdict.bound != "read":
            continue
        rounds = len(summary.samples)
        read_bytes = part.reads.device.value * part.reads.blocks / rounds * _BLOCK_BYTES
        if 0 < read_bytes < size_bytes:
            mean_s = sum(sample.duration_s for sample in summary.samples) / rounds
            longest_s = max(longest_s, mean_s * size_bytes / read_bytes)
            short.append((size_bytes, read_bytes))
    if not short:
        return ""
    size_bytes, read_bytes = short[-1]
    return (
        f"The samples were too short to fill the cache: of {format_size(size_bytes)}, "
        f"{format_size(round(read_bytes))} were read in one. Nothing is predicted; measure with "
        f"samples of {format_duration_s(1.5 * longest_s)} or more."
    )


def _refused(law: CacheLaw | None, sizes_bytes: Sequence[int], data_bytes: int, cell: Cell) -> str:
    """Return why nothing is predicted, as a sentence; empty where it is."""
    if law is None:
        return (
            f"{len(set(sizes_bytes))} sizes do not make a law: measure at least {SIZES_MIN}, "
            "each twice the last."
        )
    held = [size for size in sizes_bytes if data_bytes and size >= data_bytes]
    if held:
        return (
            f"From {format_size(held[0])} on the cache holds the whole database "
            f"({format_size(data_bytes)}): there is nothing more to gain, and no law to draw."
        )
    if law.refused:
        return (
            f"{law.refused}: from {format_size(sizes_bytes[0])} to "
            f"{format_size(sizes_bytes[-1])} a {_asked(cell)} took "
            f"{format_duration_ns(law.points[0].time_s * 1e9)} and "
            f"{format_duration_ns(law.points[-1].time_s * 1e9)}. The data may fit another cache, "
            "or it is not reads that are waited for; nothing is predicted."
        )
    if data_bytes and 2 * sizes_bytes[-1] >= data_bytes:
        return (
            f"Twice the largest cache ({format_size(2 * sizes_bytes[-1])}) would hold the whole "
            f"database ({format_size(data_bytes)}), for which the law does not speak: measure it."
        )
    return ""


def _predicting(
    members: Sequence[CellSummary],
    law: CacheLaw,
    next_bytes: int,
    predicted: Estimate | None,
) -> str:
    if predicted is None:
        return ""
    first, last = members[0].iops, members[-1].iops
    return (
        f"With a cache of {format_size(next_bytes)}, twice the largest, "
        f"{format_estimate(predicted)} are to be expected. From "
        f"{format_size(law.points[0].size_bytes)} to {format_size(law.points[-1].size_bytes)} "
        f"the rate grew {_gain_words(members[0], members[-1])}, from {format_estimate(first)} to "
        f"{format_estimate(last)}; the time for a {_asked(members[0].cell)} falls with the power "
        f"{law.a.value:.2f} of the size ({format_interval(law.a)}) down to "
        f"{_of_processor(law)}, and its points lie within "
        f"{format_share(max(abs(off) for off in law.off_shares))} of that."
    )


def _gain_words(first: CellSummary, last: CellSummary) -> str:
    """Return by what factor the rate grew, with the interval that the rounds of both give."""
    both = figures_of_both(first.samples, last.samples, COMPLETED)
    (name,) = both.a.keys() & both.b.keys()
    of = contrast(both.a[name], both.b[name], paired=False)
    if of is None:  # a round in which nothing completed
        return f"{last.iops.value / first.iops.value:.2g}x"
    return ratio_words(ratio_estimate(of, ALPHA))


def _asked(cell: Cell) -> str:
    """Return what a cell asks of its database again and again."""
    return STATEMENT if cell.operation == STATEMENT else "transaction"


def _of_processor(law: CacheLaw) -> str:
    reported = format_duration_ns(law.cpu_s.value * 1e9) if law.cpu_s.value else "next to nothing"
    if law.cpu_s.high == law.cpu_s.low:
        return f"{reported} of processor time"
    most = format_duration_ns((law.cpu_s.high or 0.0) * 1e9)
    return f"{reported} (at most {most}) of processor time"


def _unknown(unit: str) -> Estimate:
    return Estimate(value=0.0, low=None, high=None, rounds=0, unit=unit)


def _evidence(law: CacheLaw | None, data_bytes: int) -> dict[str, float]:
    reported = {"database_bytes": float(data_bytes)} if data_bytes else {}
    if law is None:
        return reported
    return reported | {
        "cpu_s": law.cpu_s.value,
        "exponent": law.a.value,
        "scatter_share": law.scatter_share,
        "off_share_max": max(abs(off) for off in law.off_shares),
    }
