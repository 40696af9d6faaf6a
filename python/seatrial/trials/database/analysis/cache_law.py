"""How the time for one transaction falls as a cache grows: ``t = cpu + k * C**-a``.

The misses of a cache over data whose parts are wanted unequally often fall as a power of its size
(Chow, 1974, "On the optimization of storage hierarchies", IBM J. Res. Dev. 18; Mattson et al.,
1970, for the curve itself), and each miss costs a read; what is left is processor time. Found to
hold within 5 % on the one published sweep of a database's cache (P. Wetter, 2008, on
webobjects-dev: 1.5 to 11 GB over 40 GB of data), which is a test of it here.

The law is an empirical one. It is not that of data which are all wanted equally often, whose
misses fall in a straight line and end where the cache holds all of it; so it is refused where the
points do not lie on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial.stats.estimate import Estimate
from seatrial.stats.student import t_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SIZES_MIN: Final = 3
USUAL_SCATTER: Final = 0.04
"""By which the logarithms of the published times lie about the law; three points tell too little
of it, so theirs is moderated by this, as if it were known from ``USUAL_WEIGHT`` spare points."""
USUAL_WEIGHT: Final = 2
OFF_SHARE_MAX: Final = 0.10
"""A point that is farther from the law than this, and than its rounds scatter, breaks it."""
GAIN_RATIO_MIN: Final = 1.05
"""Less, from the smallest cache to the largest, is no gain that a law could be drawn through."""
_CPU_STEPS: Final = 20
_CPU_SHARE_MAX: Final = 0.98
_EXPONENT_MAX: Final = 8.0


@dataclass(frozen=True)
class CacheTime:
    """A size of a cache and the time for one transaction with it.

    Attributes:
        size_bytes: Above 0.
        time_s: Above 0.
        error_share: Standard error of the time, as a share of it; 0 where it was measured once.
        rounds: On how many rounds the time rests.
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

    def time_s(self, place: float) -> float:
        """Return the time at a size, given as its logarithm less the mean of the points'."""
        return self.cpu_s + math.exp(self.log_k - self.a * place)


@dataclass(frozen=True)
class CacheLaw:
    """The law through some points, with its doubt.

    Attributes:
        points: By size.
        cpu_s: The part that no cache shortens.
        k_s: ``k`` where sizes are in bytes, so that ``t = cpu + k * C**-a`` in seconds.
        a: The exponent.
        scatter_share: By which a time lies about the law, moderated.
        off_shares: Of each point, the logarithm of its time over the law's.
        refused: Why nothing can be predicted of it, as a sentence; empty where it holds.
    """

    points: tuple[CacheTime, ...]
    cpu_s: Estimate
    k_s: float
    a: Estimate
    scatter_share: float
    off_shares: tuple[float, ...]
    refused: str
    _fits: tuple[_Fit, ...]
    _best: _Fit
    _degrees: float

    def time_s(self, size_bytes: float) -> Estimate:
        """Return the time for one transaction at a size, with a 95 % interval of prediction.

        The interval holds every processor time that the points allow, the doubt of ``k`` and
        ``a``, and the scatter of a point about the law.
        """
        place = math.log(size_bytes) - _center(self.points)
        ends = [self._ends(fit, place) for fit in self._fits]
        return Estimate(
            value=self._best.time_s(place),
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

    def _ends(self, fit: _Fit, place: float) -> tuple[float, float]:
        covariance = _covariance(fit, self.points)
        gradient = _gradient(fit, place)
        of_parameters = sum(
            gradient[i] * covariance[i][j] * gradient[j] for i in (0, 1) for j in (0, 1)
        )
        half = t_of(self._degrees) * self.scatter_share * math.sqrt(1 + of_parameters)
        time_s = fit.time_s(place)
        return time_s * math.exp(-half), time_s * math.exp(half)


def cache_law(points: Sequence[CacheTime], *, cpu_s: tuple[float, float] | None = None) -> CacheLaw:
    """Return the law through points, fitted by least squares to the logarithms of the times.

    Args:
        points: Of at least three sizes, none twice.
        cpu_s: Between what the processor time lies, in seconds: both the same where it is known,
            as from a run on storage so fast that the processor is all that is waited for. From 0
            to the shortest time unless given.

    Raises:
        ValueError: with a sentence, when there are fewer than three sizes, or one is there twice.
    """
    ordered = tuple(sorted(points, key=lambda point: point.size_bytes))
    if len({point.size_bytes for point in ordered}) < max(SIZES_MIN, len(ordered)):
        raise ValueError(
            f"the law takes at least {SIZES_MIN} different sizes; "
            f"there {_are(len(ordered))}, some perhaps twice"
        )
    shortest_s = min(point.time_s for point in ordered)
    low_s, high_s = cpu_s or (0.0, shortest_s)
    high_s = min(high_s, _CPU_SHARE_MAX * shortest_s)
    low_s = min(low_s, high_s)
    steps = 0 if low_s == high_s else _CPU_STEPS
    tried = [low_s + (high_s - low_s) * step / max(1, steps) for step in range(steps + 1)]
    fits = [_fitted(ordered, each_s) for each_s in tried]
    best = min(fits, key=lambda fit: fit.square_sum)
    return _judged(ordered, fits, best, is_cpu_known=steps == 0)


def law_of_rates(
    sizes_bytes: Sequence[int], rates_per_s: Sequence[float], *, cpu_s: float | None = None
) -> CacheLaw:
    """Return the law through rates that are not from a run, such as published ones.

    Args:
        sizes_bytes: Of the cache, at least three.
        rates_per_s: Transactions (lines, queries) per second at each of them.
        cpu_s: Processor time of one transaction, where it is known.

    Raises:
        ValueError: with a sentence, when there are fewer than three sizes, or one is there twice.
    """
    points = [
        CacheTime(size_bytes=size, time_s=1 / rate)
        for size, rate in zip(sizes_bytes, rates_per_s, strict=True)
    ]
    return cache_law(points, cpu_s=None if cpu_s is None else (cpu_s, cpu_s))


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def _center(points: Sequence[CacheTime]) -> float:
    return math.fsum(math.log(point.size_bytes) for point in points) / len(points)


def _places(points: Sequence[CacheTime]) -> list[float]:
    center = _center(points)
    return [math.log(point.size_bytes) - center for point in points]


def _fitted(points: Sequence[CacheTime], cpu_s: float) -> _Fit:
    """Return the least squares of the logarithms for a processor time."""
    import numpy as np  # noqa: PLC0415
    from scipy.optimize import least_squares  # noqa: PLC0415

    places = np.array(_places(points))
    times_s = np.array([point.time_s for point in points])
    logs = np.log(times_s)
    slope, start = np.polyfit(places, np.log(times_s - cpu_s), 1)

    def off(parameters: Array) -> Array:
        found: Array = np.log(cpu_s + np.exp(parameters[0] - parameters[1] * places)) - logs
        return found

    found = least_squares(
        off,
        x0=[start, min(max(-slope, 0.0), _EXPONENT_MAX)],
        bounds=([-np.inf, 0.0], [np.inf, _EXPONENT_MAX * (1 + 1e-9)]),
    )
    log_k, a = (float(each) for each in found.x)
    return _Fit(cpu_s=cpu_s, log_k=log_k, a=a, square_sum=float(2 * found.cost))


def _gradient(fit: _Fit, place: float) -> tuple[float, float]:
    """Return how the logarithm of the time moves with ``log k`` and with ``a``."""
    share = 1 - fit.cpu_s / fit.time_s(place)
    return share, -share * place


def _covariance(fit: _Fit, points: Sequence[CacheTime]) -> tuple[tuple[float, float], ...]:
    """Return the covariance of ``log k`` and ``a`` for a scatter of 1."""
    rows = [_gradient(fit, place) for place in _places(points)]
    of_k = math.fsum(row[0] ** 2 for row in rows)
    both = math.fsum(row[0] * row[1] for row in rows)
    of_a = math.fsum(row[1] ** 2 for row in rows)
    whole = of_k * of_a - both**2
    return ((of_a / whole, -both / whole), (-both / whole, of_k / whole))


def _judged(
    points: tuple[CacheTime, ...], fits: Sequence[_Fit], best: _Fit, *, is_cpu_known: bool
) -> CacheLaw:
    """Return the law with the processor times that the points allow, and whether it holds."""
    spare = len(points) - (2 if is_cpu_known else 3)
    degrees = float(spare + USUAL_WEIGHT)
    moderated = (USUAL_WEIGHT * USUAL_SCATTER**2 + best.square_sum) / degrees
    of_rounds = math.fsum(point.error_share**2 for point in points) / len(points)
    scatter = math.sqrt(max(moderated, of_rounds))
    allowed = best.square_sum + (t_of(degrees) * scatter) ** 2
    possible = tuple(fit for fit in fits if fit.square_sum <= allowed)
    rounds = min(point.rounds for point in points)
    halves = [t_of(degrees) * scatter * math.sqrt(_covariance(f, points)[1][1]) for f in possible]
    off = tuple(
        math.log(point.time_s / best.time_s(place))
        for point, place in zip(points, _places(points), strict=True)
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
        off_shares=off,
        refused=_refused(points, off),
        _fits=possible,
        _best=best,
        _degrees=degrees,
    )


def _refused(points: Sequence[CacheTime], off_shares: Sequence[float]) -> str:
    """Return why the law does not hold for these points; empty where it does."""
    first, last = points[0], points[-1]
    gain = math.log(first.time_s / last.time_s)
    noise = t_of(max(1, first.rounds - 1)) * math.hypot(first.error_share, last.error_share)
    if gain < max(math.log(GAIN_RATIO_MIN), noise):
        return "A larger cache gains nothing that can be told from noise"
    worst = max(range(len(points)), key=lambda place: abs(off_shares[place]))
    allowed = max(OFF_SHARE_MAX, 3 * points[worst].error_share)
    if abs(off_shares[worst]) > allowed:
        return (
            f"The points do not lie on the law: one is off by {abs(off_shares[worst]):.0%}"
        ).replace("%", " %")
    return ""
