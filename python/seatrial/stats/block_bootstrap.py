"""How well one timeline knows its own mean: the circular block bootstrap, in closed form.

Neighbouring slices of a timeline resemble each other, so that a hundred of them know less than
a hundred independent values would. The circular block bootstrap (Politis and Romano, 1992, "A
circular block-resampling procedure for stationary data") pays for that by drawing whole blocks of
neighbours. Of a mean its variance needs no drawing: it is that of the blocks' means, all of them
known. So nothing is random here, and the same timeline always gives the same interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from seatrial.stats.student import t_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

VALUES_MIN = 20
BLOCKS_MIN = 4
LENGTHENED = 2.0
"""The automatic length serves the variance best; an interval, which should hold the truth, needs
longer blocks (docs/method.md has the coverage of both)."""


def half_width_of_mean(values: Array) -> float | None:
    """Return half of the width of the mean's 95 % interval; None of fewer than 20 values.

    Student's t with one degree of freedom less than there are blocks: blocks are what is
    independent.
    """
    count = len(values)
    if count < VALUES_MIN:
        return None
    block = _lengthened_block(values)
    blocks = count / block
    bias = blocks / (blocks - 1)  # as in the variance of any sample about its own mean
    error = math.sqrt(_variance_of_block_means(values, block) / blocks * bias)
    return t_of(blocks - 1) * error


def block_values(values: Array) -> float:
    """Return how many values the automatic block has for the variance of a mean, at least 1.

    Politis and White, 2004, "Automatic block-length selection for the dependent bootstrap", with
    the correction of Patton, Politis and White, 2009: the flat-top window reaches twice as far
    as the first lag after which five correlations in a row are within the noise.
    """
    import numpy as np  # noqa: PLC0415

    count = len(values)
    covariances = _autocovariances(values, math.ceil(math.sqrt(count)) + 5)
    if covariances[0] <= 0:
        return 1.0
    reach = _reach(covariances / covariances[0], count)
    lags = np.arange(1, reach + 1)
    window = np.clip(2 * (1 - lags / reach), 0, 1)
    weighted = window * covariances[1 : reach + 1]
    long_run = covariances[0] + 2 * weighted.sum()
    if long_run <= 0:
        return 1.0
    lean = 2 * (lags * weighted).sum()
    block = (2 * lean**2 / (4 / 3 * long_run**2)) ** (1 / 3) * count ** (1 / 3)
    return float(min(max(block, 1.0), math.ceil(min(3 * math.sqrt(count), count / 3))))


def _lengthened_block(values: Array) -> int:
    """Return the lengthened block, a whole number, that leaves at least four blocks."""
    return max(1, min(math.ceil(LENGTHENED * block_values(values)), len(values) // BLOCKS_MIN))


def _autocovariances(values: Array, lag_max: int) -> Array:
    """Return the autocovariances of lags 0 to ``lag_max``, by the Fourier transform."""
    import numpy as np  # noqa: PLC0415

    count = len(values)
    transform = np.fft.rfft(values - values.mean(), 2 * count)
    lag_max = min(lag_max, count - 1)
    return np.fft.irfft(transform * transform.conj())[: lag_max + 1] / count


def _reach(correlations: Array, count: int) -> int:
    """Return how many lags the window reaches over, at least 1."""
    import numpy as np  # noqa: PLC0415

    in_a_row = 5
    noise = 2 * math.sqrt(math.log10(count) / count)
    is_noise = np.abs(correlations[1:]) < noise
    calm = np.convolve(is_noise, np.ones(in_a_row), "valid") >= in_a_row - 0.5
    last = int(np.argmax(calm)) if calm.any() else int(np.flatnonzero(~is_noise)[-1]) + 1
    return min(2 * max(last, 1), len(correlations) - 1)


def _variance_of_block_means(values: Array, block: int) -> float:
    """Return the variance of the means of all blocks of neighbours, the ends joined."""
    import numpy as np  # noqa: PLC0415

    joined = np.concatenate([[0.0], values, values[: block - 1]]).cumsum()
    means = (joined[block:] - joined[:-block]) / block
    return float(((means - values.mean()) ** 2).mean())
