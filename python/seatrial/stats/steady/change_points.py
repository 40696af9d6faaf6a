"""Change points of a rate with autocorrelated noise.

Storage noise is autocorrelated: a slow tenth of a second is followed by another. A test for
independent values mistakes such wandering for change. Here the noise about the levels is modelled
as AR(1) (each value is similar to the one before), and a difference of two levels is judged by
Student's t with the effective number of independent values: ``n (1 - phi) / (1 + phi)``. ``phi`` is
estimated from the residuals, corrected for its bias (Marriott and Pope, 1954, for each fitted
level) and raised by one standard error (``1 / sqrt(n)``), as too small a value causes false alarms.
docs/method.md has the rate of false alarms by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from seatrial.lazy import np
from seatrial.stats.timeline import median

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

STRETCH_MIN = 3
CHANCE_MAX = 0.01
FLOOR_FACTOR = 8.0
PHI_MAX = 0.98
JUMP_LASTING_SHARE_MIN = 0.5
PENALTY_FACTOR = 2.0
_BLOCKS_LOOKED_AT = 24
_LOOK_CLOSER = 3.5


@dataclass(frozen=True)
class ChangePoint:
    """The most likely position of one change.

    Attributes:
        index: Number of values before it.
        chance: Probability that noise alone makes such a change somewhere.
    """

    index: int
    chance: float


def logarithms(rates: Array) -> Array:
    """Return the logarithms of rates, none lower than an eighth of the median's.

    A freeze has no logarithm; and however long it is, it must not outweigh everything else.
    """
    middle = median(rates) or float(rates.mean())
    if middle <= 0:
        return np.zeros(len(rates))
    return np.log(np.maximum(rates, middle / FLOOR_FACTOR))


def likeliest_change(values: Array, index_max: int | None = None) -> ChangePoint | None:
    """Return the position that best divides a series into two levels; None if it is too short.

    The position of the largest cumulative sum of deviations, weighted by the likelihood of one
    change in normal noise.

    Args:
        values: A series of logarithms.
        index_max: The last position to consider; all by default.
    """
    count = len(values)
    last = min(count - STRETCH_MIN, count if index_max is None else index_max)
    if last < STRETCH_MIN:
        return None
    indexes = np.arange(STRETCH_MIN, last + 1)
    sums = values.cumsum()
    distance = np.abs(sums[indexes - 1] - indexes * (sums[-1] / count))
    weighted = distance / np.sqrt(indexes * (count - indexes) / count)
    best = int(weighted.argmax())
    index = int(indexes[best])
    noise = _noise(_residuals(values, [index]), levels=2)
    chance = _chance(float(weighted[best]), noise)
    return ChangePoint(index, min(chance, _chance_of_jump(values, index, 0, count)))


def change_points(values: Array) -> list[int]:
    """Return the significant level changes of a series of logarithms, in order.

    PELT (Killick, Fearnhead and Eckley, 2012; library ruptures) proposes positions by the squared
    distance from the levels; then the least significant is removed, one by one, until each of the
    rest could come from noise in 1 % of the cases at most.
    """
    if len(values) < 2 * STRETCH_MIN or not _may_have_changes(values):
        return []
    indexes = _proposed(values)
    while indexes:
        steps = _steps(values, indexes)
        least = min(range(len(indexes)), key=steps.__getitem__)
        noise = _noise(_residuals(values, indexes), levels=len(indexes) + 1)
        bounds = [0, *indexes, len(values)]
        chance = _chance_of_jump(values, indexes[least], bounds[least], bounds[least + 2])
        if min(chance, _chance(steps[least], noise)) <= CHANCE_MAX:
            break
        del indexes[least]
    return indexes


def confident_move(values: Array) -> float:
    """Return the significant move of the fitted line over a series of logarithms; 0 if none.

    The end of the line's 99 % interval that is closer to 0; the noise about the line is modelled as
    AR(1).
    """
    from scipy.special import stdtrit  # noqa: PLC0415

    count = len(values)
    if count <= STRETCH_MIN:
        return 0.0
    indexes = np.arange(count, dtype=float)
    slope, height = np.polyfit(indexes, values, 1)
    noise = _noise(values - height - slope * indexes, levels=2)
    degrees = noise.independent - 2
    if degrees < 1:
        return 0.0
    error = noise.long_run * math.sqrt(12 / count)  # of the move: slope times length
    confident = (
        abs(float(slope)) * (count - 1) - float(stdtrit(degrees, 1 - CHANCE_MAX / 2)) * error
    )
    return max(0.0, confident)


def _may_have_changes(values: Array) -> bool:
    """Return quickly whether any stretch might differ from the rest.

    The largest deviation of any stretch of whole blocks (circular binary segmentation, Olshen and
    others, 2004), over a scale that levels cannot inflate: that of steps from block to block.
    """
    blocks = min(_BLOCKS_LOOKED_AT, len(values) // 2)
    size = len(values) // blocks
    means = values[: blocks * size].reshape(blocks, size).mean(axis=1)
    scale = median(np.abs(np.diff(means))) / (0.6745 * math.sqrt(2))
    sums = np.concatenate([[0.0], (means - means.mean()).cumsum()])
    width = np.abs(np.subtract.outer(np.arange(blocks + 1), np.arange(blocks + 1)))
    inner = np.maximum(width * (blocks - width) / blocks, 0.5)
    largest = float((np.abs(np.subtract.outer(sums, sums)) / np.sqrt(inner)).max())
    return largest > _LOOK_CLOSER * scale and largest > 1e-9


def _proposed(values: Array) -> list[int]:
    """Return the positions that PELT proposes, rather too many than too few."""
    import ruptures  # noqa: PLC0415  (0.6 s to import; only a series that seems to change pays)

    steps = np.diff(values)
    variance = (median(np.abs(steps)) / 0.6745) ** 2 / 2
    variance = max(variance, 1e-4 * float(values.var()), 1e-12)
    search = ruptures.KernelCPD(kernel="linear", min_size=STRETCH_MIN)
    penalty = PENALTY_FACTOR * math.log(len(values)) * variance
    found = search.fit(values.reshape(-1, 1)).predict(pen=penalty)
    return [int(index) for index in found[:-1]]


def _steps(values: Array, indexes: Sequence[int]) -> list[float]:
    """Return the step at each position, weighted by the number of values of both levels."""
    bounds = [0, *indexes, len(values)]
    steps = []
    for start, middle, end in zip(bounds[:-2], indexes, bounds[2:], strict=True):
        before, after = values[start:middle], values[middle:end]
        weight = math.sqrt(len(before) * len(after) / (len(before) + len(after)))
        steps.append(abs(float(before.mean() - after.mean())) * weight)
    return steps


def _residuals(values: Array, indexes: Sequence[int]) -> Array:
    """Return the residuals of a series without its levels."""
    left = values.copy()
    bounds = [0, *indexes, len(values)]
    for start, end in pairwise(bounds):
        left[start:end] -= left[start:end].mean()
    return left


@dataclass(frozen=True)
class _Noise:
    """The noise of a series: its long-run size, and its effective number of values."""

    long_run: float
    independent: float
    levels: int


def _noise(left: Array, levels: int) -> _Noise:
    """Return the noise of residuals about the given number of levels, modelled as AR(1)."""
    count = len(left)
    squares = float(left @ left)
    phi = float(left[1:] @ left[:-1]) / squares if squares > 0 else 0.0
    bias = levels * (1 + 3 * max(phi, 0.0)) / count
    phi = min(PHI_MAX, max(0.0, phi + bias + 1 / math.sqrt(count)))
    redundancy = (1 + phi) / (1 - phi)
    variance = squares / max(count - levels * redundancy, 1.0)
    return _Noise(math.sqrt(variance * redundancy), count / redundancy, levels)


def _chance(step: float, noise: _Noise) -> float:
    """Return the probability that noise alone makes a weighted step of that size anywhere."""
    from scipy.special import stdtr  # noqa: PLC0415

    degrees = noise.independent - noise.levels
    if degrees < 1:
        return 1.0
    if noise.long_run <= 0:
        return 0.0 if step > 0 else 1.0
    looks = max(1.0, 2 * math.log(noise.independent)) * (noise.levels - 1)
    return min(1.0, 2 * looks * float(stdtr(degrees, -step / noise.long_run)))


def _chance_of_jump(values: Array, index: int, start: int, end: int) -> float:
    """Return the probability that noise makes a step between neighbours as large as this one.

    Student's t of that step against all others of the series. 1 where the levels on both sides
    differ by less than half of the step: it did not last.

    Args:
        values: The series.
        index: The first value after the step.
        start: Start of the level before the step.
        end: End of the level after it.
    """
    from scipy.special import stdtr  # noqa: PLC0415

    steps = np.diff(values)
    own = float(steps[index - 1])
    lasting = float(values[index:end].mean() - values[start:index].mean())
    others = np.delete(steps, index - 1)
    scale = math.sqrt(float(others @ others) / len(others))
    if own == 0 or lasting / own < JUMP_LASTING_SHARE_MIN:
        return 1.0
    if scale == 0:
        return 0.0
    return min(1.0, 2 * len(steps) * float(stdtr(len(others), -abs(own) / scale)))
