"""Sweeps over the size of a cache, and the power law that predicts the next size.

The miss rate of a cache over data with unequal access frequencies falls as a power of its size
(Chow, 1974, "On optimization of storage hierarchies", IBM J. Res. Dev. 18; Mattson et al.,
1970, for the curve itself). Each miss costs a read; the rest is CPU time. The law holds within 5 %
on the one published sweep of a database's cache (P. Wetter, 2008, on webobjects-dev: 1.5 to 11 GB
over 40 GB of data), which is a test of it here.

The law is empirical. It does not hold for data with uniform access frequencies, whose misses fall
linearly to zero where the cache holds all of it; so it is rejected if the points do not fit.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.stats.cell_estimates import counted
from seatrial.stats.compare.figures import COMPLETED, figures_of_both
from seatrial.stats.compare.ratio import contrast, ratio_estimate
from seatrial.stats.compare.verdict import ratio_phrase
from seatrial.stats.estimate import Estimate, t_of
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
from seatrial.trials.database.analysis.model import CacheSweep, DatabaseCell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SIZES_MIN: Final = 3
PUBLISHED_SCATTER: Final = 0.04
"""Residual of the logarithms of the published times. Three points estimate it poorly, so theirs is
moderated by this value, weighted like ``PUBLISHED_WEIGHT`` additional degrees of freedom."""
PUBLISHED_WEIGHT: Final = 2
RESIDUAL_SHARE_MAX: Final = 0.10
"""A point with a larger residual than this, and than its variance explains, rejects the law."""
GAIN_RATIO_MIN: Final = 1.05
"""A smaller gain from the smallest cache to the largest is too small to fit the law."""
_CPU_STEPS: Final = 20
_CPU_SHARE_MAX: Final = 0.98
_EXPONENT_MAX: Final = 8.0


@dataclass(frozen=True)
class CacheTime:
    """A size of a cache and the time of one transaction with it.

    Attributes:
        size_bytes: Above 0.
        time_s: Above 0.
        error_share: Standard error of the time, as a share of it; 0 if it was measured once.
        rounds: Number of rounds behind the time.
    """

    size_bytes: int
    time_s: float
    error_share: float = 0.0
    rounds: int = 1


@dataclass(frozen=True)
class _Fit:
    """The law through the points for one processor time."""

    cpu_s: float
    log_k: float  # at the mean of the logarithms of the sizes
    a: float
    square_sum: float

    def time_s(self, log_ratio: float) -> float:
        """Return the time at a size, given as its logarithm less the mean of the points'."""
        return self.cpu_s + math.exp(self.log_k - self.a * log_ratio)


@dataclass(frozen=True)
class CacheLaw:
    """The fitted law, with its uncertainty.

    Attributes:
        points: By size.
        cpu_s: The part that does not depend on the cache.
        k_s: ``k`` with sizes in bytes, so that ``t = cpu + k * C**-a`` in seconds.
        a: The exponent.
        scatter_share: Moderated residual of the times.
        residual_shares: Residual of each point: the logarithm of its time over the fitted one.
        obstacle: Why there is no prediction, as a sentence; empty if the law fits.
    """

    points: tuple[CacheTime, ...]
    cpu_s: Estimate
    k_s: float
    a: Estimate
    scatter_share: float
    residual_shares: tuple[float, ...]
    obstacle: str
    _fits: tuple[_Fit, ...]
    _best: _Fit
    _degrees: float

    def time_s(self, size_bytes: float) -> Estimate:
        """Return the time of one transaction at a size, with a 95 % prediction interval.

        The interval covers every CPU time that the points allow, the uncertainty of ``k`` and
        ``a``, and the residual of a point.
        """
        log_ratio = math.log(size_bytes) - _center(self.points)
        ends = [self._ends(fit, log_ratio) for fit in self._fits]
        return Estimate(
            value=self._best.time_s(log_ratio),
            low=min(low for low, _ in ends),
            high=max(high for _, high in ends),
            rounds=min(point.rounds for point in self.points),
            unit="s",
        )

    def rate_per_s(self, size_bytes: float) -> Estimate:
        """Return transactions per second at a size, with the interval of the time."""
        time = self.time_s(size_bytes)
        low, high = (None if not end else 1 / end for end in (time.high, time.low))
        return Estimate(value=1 / time.value, low=low, high=high, rounds=time.rounds, unit="tps")

    def _ends(self, fit: _Fit, log_ratio: float) -> tuple[float, float]:
        covariance = _covariance(fit, self.points)
        gradient = _gradient(fit, log_ratio)
        of_parameters = sum(
            gradient[i] * covariance[i][j] * gradient[j] for i in (0, 1) for j in (0, 1)
        )
        half = t_of(self._degrees) * self.scatter_share * math.sqrt(1 + of_parameters)
        time_s = fit.time_s(log_ratio)
        return time_s * math.exp(-half), time_s * math.exp(half)


def cache_law(points: Sequence[CacheTime], *, cpu_s: tuple[float, float] | None = None) -> CacheLaw:
    """Return the law, fitted by least squares to the logarithms of the times.

    Args:
        points: Points of at least three sizes, without duplicates.
        cpu_s: Range of the CPU time in seconds: both ends equal if it is known, as from a run that
            is CPU-bound on fast storage. From 0 to the shortest time by default.

    Raises:
        ValueError: with a sentence, when there are fewer than three sizes, or a duplicate.
    """
    ordered = tuple(sorted(points, key=lambda point: point.size_bytes))
    if len({point.size_bytes for point in ordered}) < max(SIZES_MIN, len(ordered)):
        raise ValueError(
            f"the model needs at least {SIZES_MIN} different sizes without duplicates; "
            f"there {_are(len(ordered))}"
        )
    shortest_s = min(point.time_s for point in ordered)
    low_s, high_s = cpu_s or (0.0, shortest_s)
    high_s = min(high_s, _CPU_SHARE_MAX * shortest_s)
    low_s = min(low_s, high_s)
    steps = 0 if low_s == high_s else _CPU_STEPS
    cpu_times_s = [low_s + (high_s - low_s) * step / max(1, steps) for step in range(steps + 1)]
    fits = [_fitted(ordered, candidate_s) for candidate_s in cpu_times_s]
    best = min(fits, key=lambda fit: fit.square_sum)
    return _checked_law(ordered, fits, best, is_cpu_known=steps == 0)


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def _center(points: Sequence[CacheTime]) -> float:
    return math.fsum(math.log(point.size_bytes) for point in points) / len(points)


def _log_ratios(points: Sequence[CacheTime]) -> list[float]:
    center = _center(points)
    return [math.log(point.size_bytes) - center for point in points]


def _fitted(points: Sequence[CacheTime], cpu_s: float) -> _Fit:
    """Return the least-squares fit of the logarithms for a given CPU time."""
    from scipy.optimize import least_squares  # noqa: PLC0415

    log_ratios = np.array(_log_ratios(points))
    times_s = np.array([point.time_s for point in points])
    logs = np.log(times_s)
    slope, start = np.polyfit(log_ratios, np.log(times_s - cpu_s), 1)

    def residuals(parameters: Array) -> Array:
        found: Array = np.log(cpu_s + np.exp(parameters[0] - parameters[1] * log_ratios)) - logs
        return found

    found = least_squares(
        residuals,
        x0=[start, min(max(-slope, 0.0), _EXPONENT_MAX)],
        bounds=([-np.inf, 0.0], [np.inf, _EXPONENT_MAX * (1 + 1e-9)]),
    )
    log_k, a = (float(value) for value in found.x)
    return _Fit(cpu_s=cpu_s, log_k=log_k, a=a, square_sum=float(2 * found.cost))


def _gradient(fit: _Fit, log_ratio: float) -> tuple[float, float]:
    """Return the derivatives of the logarithm of the time by ``log k`` and by ``a``."""
    share = 1 - fit.cpu_s / fit.time_s(log_ratio)
    return share, -share * log_ratio


def _covariance(fit: _Fit, points: Sequence[CacheTime]) -> tuple[tuple[float, float], ...]:
    """Return the covariance of ``log k`` and ``a`` for a residual of 1."""
    rows = [_gradient(fit, log_ratio) for log_ratio in _log_ratios(points)]
    of_k = math.fsum(row[0] ** 2 for row in rows)
    both = math.fsum(row[0] * row[1] for row in rows)
    of_a = math.fsum(row[1] ** 2 for row in rows)
    whole = of_k * of_a - both**2
    return ((of_a / whole, -both / whole), (-both / whole, of_k / whole))


def _checked_law(
    points: tuple[CacheTime, ...], fits: Sequence[_Fit], best: _Fit, *, is_cpu_known: bool
) -> CacheLaw:
    """Return the law with the CPU times that the points allow, and whether it fits."""
    spare = len(points) - (2 if is_cpu_known else 3)
    degrees = float(spare + PUBLISHED_WEIGHT)
    moderated = (PUBLISHED_WEIGHT * PUBLISHED_SCATTER**2 + best.square_sum) / degrees
    of_rounds = math.fsum(point.error_share**2 for point in points) / len(points)
    scatter = math.sqrt(max(moderated, of_rounds))
    allowed = best.square_sum + (t_of(degrees) * scatter) ** 2
    possible = tuple(fit for fit in fits if fit.square_sum <= allowed)
    rounds = min(point.rounds for point in points)
    halves = [t_of(degrees) * scatter * math.sqrt(_covariance(f, points)[1][1]) for f in possible]
    residuals = tuple(
        math.log(point.time_s / best.time_s(log_ratio))
        for point, log_ratio in zip(points, _log_ratios(points), strict=True)
    )
    return CacheLaw(
        points=points,
        cpu_s=Estimate(
            value=best.cpu_s,
            low=min(fit.cpu_s for fit in possible),
            high=max(fit.cpu_s for fit in possible),
            rounds=rounds,
            unit="s",
        ),
        k_s=math.exp(min(best.log_k + best.a * _center(points), 700.0)),
        a=Estimate(
            value=best.a,
            low=max(0.0, min(f.a - half for f, half in zip(possible, halves, strict=True))),
            high=max(f.a + half for f, half in zip(possible, halves, strict=True)),
            rounds=rounds,
            unit="exponent",
        ),
        scatter_share=scatter,
        residual_shares=residuals,
        obstacle=_misfit(points, residuals),
        _fits=possible,
        _best=best,
        _degrees=degrees,
    )


def _misfit(points: Sequence[CacheTime], residual_shares: Sequence[float]) -> str:
    """Return why the law does not fit these points; empty if it does."""
    first, last = points[0], points[-1]
    gain = math.log(first.time_s / last.time_s)
    fewest = min(first.rounds, last.rounds)
    noise = t_of(max(1, fewest - 1)) * math.hypot(first.error_share, last.error_share)
    if gain < max(math.log(GAIN_RATIO_MIN), noise):
        return "A larger cache has no significant effect"
    worst = max(range(len(points)), key=lambda index: abs(residual_shares[index]))
    allowed = max(RESIDUAL_SHARE_MAX, 3 * points[worst].error_share)
    if abs(residual_shares[worst]) > allowed:
        return (
            f"The model does not fit: the largest deviation is {abs(residual_shares[worst]):.0%}"
        ).replace("%", " %")
    return ""


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
    """Return a size from postgresql.conf in bytes; a plain number is in blocks of 8 KiB.

    None when invalid. Source: PostgreSQL's documentation, "Parameter Names and Values".
    """
    parts = _SETTING.fullmatch(str(value).strip())
    if parts is None:
        return None
    unit_bytes = _SETTING_BYTES[parts[2]] if parts[2] else _BLOCK_BYTES
    return round(float(parts[1]) * unit_bytes)


def cache_sweeps(cells: Sequence[CellSummary], parts: Sequence[DatabaseCell]) -> list[CacheSweep]:
    """Return the sweep of each group of cells that differ only in the size of a cache.

    Args:
        cells: Cells of databases.
        parts: The database analysis of each of them, in the same order.
    """
    by_key = {part.cell.key: part for part in parts}
    found = []
    for factor in CACHES:
        groups: dict[Group, list[CellSummary]] = defaultdict(list)
        for summary in cells:
            if cache_bytes(summary.cell, factor) and not summary.blank:
                groups[_group(summary.cell, factor)].append(summary)
        for group, members in groups.items():
            if len({cache_bytes(member.cell, factor) for member in members}) > 1:
                found.append(_sweep(factor, group, members, cells, by_key))
    return found


def cache_bytes(cell: Cell, factor: str) -> int | None:
    """Return the size of a cell's cache; None if it has none."""
    value = cell.factors.get(factor)
    if value is None:
        return None
    return int(value) if factor.endswith("_bytes") else setting_bytes(value)


def is_of_sweep(cell: Cell, sweep: CacheSweep) -> bool:
    """Return whether a cell belongs to a sweep."""
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
    ordered = sorted(members, key=lambda member: cache_bytes(member.cell, factor) or 0)
    sizes_bytes = [cache_bytes(member.cell, factor) or 0 for member in ordered]
    times = [time_of(member.iops) for member in ordered]
    known_s = _known_cpu_s(factor, group, ordered, cells, by_key)
    data_bytes = max((by_key[member.cell.key].database_bytes for member in ordered), default=0)
    law = _law(sizes_bytes, times, known_s)
    next_bytes = 2 * sizes_bytes[-1]
    obstacle = _never_full(ordered, sizes_bytes, by_key) or _obstacle(
        law, sizes_bytes, data_bytes, ordered[0].cell
    )
    predicted = law.rate_per_s(next_bytes) if law and not obstacle else None
    if predicted is not None:  # statements of a replay, transactions otherwise
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
        fits=not obstacle,
        sentence=_prediction_text(ordered, law, next_bytes, predicted)
        if law and predicted
        else obstacle,
        evidence=_evidence(law, data_bytes),
    )


def time_of(rate: Estimate) -> Estimate:
    """Return the time of one transaction (s), the inverse of the rate of all clients."""
    return rate.inverse(1.0, "s")


def _law(
    sizes_bytes: Sequence[int], times: Sequence[Estimate], cpu_s: tuple[float, float] | None
) -> CacheLaw | None:
    """Return the law fitted to the sweep; None if there are fewer than three sizes."""
    if len(set(sizes_bytes)) < SIZES_MIN or len(set(sizes_bytes)) < len(sizes_bytes):
        return None
    points = [
        CacheTime(size, time.value, _error_share(time), time.rounds)
        for size, time in zip(sizes_bytes, times, strict=True)
    ]
    return cache_law(points, cpu_s=cpu_s)


def _error_share(time: Estimate) -> float:
    """Return the standard error of a time as a share of it; 0 if it was measured once."""
    if time.low is None or time.high is None or time.rounds < 2 or time.low <= 0:
        return 0.0
    return math.log(time.high / time.low) / 2 / t_of(time.rounds - 1)


def _known_cpu_s(
    factor: str,
    group: Group,
    members: Sequence[CellSummary],
    cells: Sequence[CellSummary],
    by_key: Mapping[str, DatabaseCell],
) -> tuple[float, float] | None:
    """Return the range of the CPU time, from the same cells on other targets.

    Uses the fastest of the cells that differ only in target and cache. If it is CPU- or
    client-bound, its time is the CPU time, as with the SSD in the article; otherwise its time is
    an upper bound.
    """
    own_s = min(1 / member.iops.value for member in members)
    same_elsewhere = [
        other
        for other in cells
        if not other.blank
        and other.cell.target != group[0]
        and _group(other.cell, factor)[1:] == group[1:]
    ]
    fastest = max(same_elsewhere, key=lambda other: other.iops.value, default=None)
    if fastest is None or 1 / fastest.iops.value >= own_s:
        return None
    fastest_s = 1 / fastest.iops.value
    is_cpu_time = by_key[fastest.cell.key].verdict.bound in _FASTER_BOUNDS
    return (fastest_s, fastest_s) if is_cpu_time else (0.0, fastest_s)


def _never_full(
    ordered: Sequence[CellSummary], sizes_bytes: Sequence[int], by_key: Mapping[str, DatabaseCell]
) -> str:
    """Return that a cache was never full, as a sentence; empty if each was.

    A cold cache with fewer misses than its size acts like a smaller one, so its cell
    says nothing about that size. If the load is not read-bound, the whole working set may fit.
    """
    longest_s, short = 0.0, []
    for summary, size_bytes in zip(ordered, sizes_bytes, strict=True):
        part = by_key[summary.cell.key]
        if part.reads is None or part.start_state != "cold" or part.verdict.bound != "read":
            continue
        samples = counted(summary.samples)
        rounds = len(samples)
        read_bytes = part.reads.device.value * part.reads.blocks / rounds * _BLOCK_BYTES
        if 0 < read_bytes < size_bytes:
            mean_s = sum(sample.duration_s for sample in samples) / rounds
            longest_s = max(longest_s, mean_s * size_bytes / read_bytes)
            short.append((size_bytes, read_bytes))
    if not short:
        return ""
    size_bytes, read_bytes = short[-1]
    return (
        f"The samples were too short to fill the cache of {format_size(size_bytes)}: only "
        f"{format_size(round(read_bytes))} were read per sample. There is no prediction; use "
        f"samples of at least {format_duration_s(1.5 * longest_s)}."
    )


def _obstacle(law: CacheLaw | None, sizes_bytes: Sequence[int], data_bytes: int, cell: Cell) -> str:
    """Return why there is no prediction, as a sentence; empty if there is one."""
    twice = next((size for size in sizes_bytes if sizes_bytes.count(size) > 1), None)
    if twice is not None:
        return (
            f"Two tests have the same size, {format_size(twice)}: there is a prediction only if "
            "each size occurs once."
        )
    if law is None:
        return (
            f"{len(set(sizes_bytes))} sizes are too few for a prediction: measure at least "
            f"{SIZES_MIN}, each twice the previous one."
        )
    sufficient = [size for size in sizes_bytes if data_bytes and size >= data_bytes]
    if sufficient:
        return (
            f"A cache of {format_size(sufficient[0])} holds the whole database "
            f"({format_size(data_bytes)}): a larger one gains nothing, and there is no prediction."
        )
    if law.obstacle:
        return (
            f"{law.obstacle}: a {_unit_of_work(cell)} took "
            f"{format_duration_ns(law.points[0].time_s * 1e9)} with {format_size(sizes_bytes[0])} "
            f"and {format_duration_ns(law.points[-1].time_s * 1e9)} with "
            f"{format_size(sizes_bytes[-1])}. The data may fit into another cache, or reads are "
            "not the bottleneck. There is no prediction."
        )
    if data_bytes and 2 * sizes_bytes[-1] >= data_bytes:
        return (
            f"Twice the largest cache ({format_size(2 * sizes_bytes[-1])}) would hold the whole "
            f"database ({format_size(data_bytes)}). The model does not cover that: measure it."
        )
    return ""


def _prediction_text(
    members: Sequence[CellSummary],
    law: CacheLaw,
    next_bytes: int,
    predicted: Estimate,
) -> str:
    first, last = members[0].iops, members[-1].iops
    return (
        f"A cache of {format_size(next_bytes)}, twice the largest, would give "
        f"{format_estimate(predicted)}. From "
        f"{format_size(law.points[0].size_bytes)} to {format_size(law.points[-1].size_bytes)} "
        f"the rate grew {_gain_text(members[0], members[-1])}, from {format_estimate(first)} to "
        f"{format_estimate(last)}. Model: the time per {_unit_of_work(members[0].cell)} falls as "
        f"size^-{law.a.value:.2f} ({format_interval(law.a)}) towards "
        f"{_cpu_time_text(law)}; the points deviate by at most "
        f"{format_share(max(abs(off) for off in law.residual_shares))}."
    )


def _gain_text(first: CellSummary, last: CellSummary) -> str:
    """Return the factor by which the rate grew, with its interval over the rounds of both."""
    both = figures_of_both(first.samples, last.samples, COMPLETED)
    (name,) = both.a.keys() & both.b.keys()
    of = contrast(both.a[name], both.b[name], paired=False)
    if of is None:  # a round in which nothing completed
        return f"{last.iops.value / first.iops.value:.2g}x"
    return ratio_phrase(ratio_estimate(of, ALPHA))


def _unit_of_work(cell: Cell) -> str:
    """Return the unit of work of a cell: statement or transaction."""
    return STATEMENT if cell.operation == STATEMENT else "transaction"


def _cpu_time_text(law: CacheLaw) -> str:
    text = format_duration_ns(law.cpu_s.value * 1e9) if law.cpu_s.value else "almost 0"
    if law.cpu_s.high == law.cpu_s.low:
        return f"{text} of CPU time"
    most = format_duration_ns((law.cpu_s.high or 0.0) * 1e9)
    return f"{text} (at most {most}) of CPU time"


def _unknown(unit: str) -> Estimate:
    return Estimate(value=0.0, low=None, high=None, rounds=0, unit=unit)


def _evidence(law: CacheLaw | None, data_bytes: int) -> dict[str, float]:
    figures = {"database_bytes": float(data_bytes)} if data_bytes else {}
    if law is None:
        return figures
    return figures | {
        "cpu_s": law.cpu_s.value,
        "exponent": law.a.value,
        "scatter_share": law.scatter_share,
        "off_share_max": max(abs(off) for off in law.residual_shares),
    }
