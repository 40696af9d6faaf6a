"""The estimate: a figure with its confidence interval. Pure data.

Neighbouring slices of a timeline are correlated, so that a hundred of them contain less information
than a hundred independent values. The circular block bootstrap (Politis and Romano, 1992, "A
circular block-resampling procedure for stationary data") accounts for that by drawing whole blocks
of neighbours. For a mean its variance is that of the means of all blocks, computed without drawing.
So nothing is random here, and the same timeline always gives the same interval.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from seatrial.lazy import np
from seatrial.published import HIDDEN, Positive, one_of

HISTOGRAM_RESOLUTION_SHARE = 1 / 256
"""Half the width of a bucket relative to its value (docs/engine.md)."""


UNITS: Final = (
    *("IOPS", "commits/s", "B/s", "ns", "ratio", "count", "tps", "statements/s", "1/s", "share"),
    *("cores", "s", "ms", "exponent", "requests/s"),
)
"""Units of an estimate's value."""

EXP_ARGUMENT_MAX: Final = 700.0
"""exp(709.8) is the largest exponential of a double."""


class Range(msgspec.Struct, frozen=True):
    """The smallest and the largest of the rounds."""

    low: float
    high: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its confidence interval.

    Attributes:
        value: Median or mean over rounds, depending on the estimator.
        low: Lower end of the 95 % interval, which decisions are based on; None if absent.
        high: Upper end of the 95 % interval; None if absent.
        rounds: Number of rounds.
        unit: Unit of value and interval.
        over: The basis of the interval: ``rounds``, or the ``timeline`` of the only round. The
            latter describes the precision within that round, not the variation between rounds, so
            it is no basis for comparing or stopping. A ``reported`` figure was computed by another
            tool from unknown requests: of several rounds ``value`` is the largest (of means the
            mean), ``low`` and ``high`` are the smallest and the largest, and there is no interval.
            A ``range`` is how a figure with ``scatter`` is shown, without an interval.
        scatter: Range of rounds that differ by more than a factor of two: it is shown with the
            median, which is then ``value``, instead of an interval.
    """

    value: float
    low: float | None
    high: float | None
    rounds: Positive
    unit: Annotated[str, one_of(*UNITS)]
    over: Literal["rounds", "timeline", "reported", "range"] = "rounds"
    scatter: Annotated[Range | None, HIDDEN] = None

    @property
    def is_lower_bound(self) -> bool:
        """Whether the figure is at least this, without an upper end."""
        return self.high is None and self.low == self.value

    @property
    def half_width_share(self) -> float | None:
        """Half of the interval's width over the value; None without an interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)

    @property
    def shown(self) -> Estimate:
        """The figure as shown to readers: with its range where its rounds scatter."""
        if self.scatter is None:
            return self
        low, high = self.scatter.low, self.scatter.high
        return msgspec.structs.replace(self, low=low, high=high, over="range", scatter=None)

    def scaled(self, factor: float, unit: str) -> Estimate:
        """Return a multiple of the figure, in another unit."""

        def times(value: float | None) -> float | None:
            return None if value is None else value * factor

        scatter = self.scatter and Range(self.scatter.low * factor, self.scatter.high * factor)
        return msgspec.structs.replace(
            self,
            value=self.value * factor,
            low=times(self.low),
            high=times(self.high),
            unit=unit,
            scatter=scatter,
        )

    def inverse(self, numerator: float, unit: str) -> Estimate:
        """Return ``numerator`` over the figure, which is not 0; an end of 0 has no inverse."""

        def over(value: float | None) -> float | None:
            return numerator / value if value else None

        scatter = self.scatter and Range(
            numerator / self.scatter.high, over(self.scatter.low) or math.inf
        )
        return msgspec.structs.replace(
            self,
            value=numerator / self.value,
            low=over(self.high),
            high=over(self.low),
            unit=unit,
            scatter=scatter,
        )


class AtLeast(msgspec.Struct, frozen=True, kw_only=True):
    """A lower bound of an unknown figure: it is never averaged or compared.

    Attributes:
        value: The figure is at least this.
        rounds: Number of rounds.
        unit: As in :class:`Estimate`.
    """

    value: float
    rounds: int
    unit: str


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The distribution of the rounds of a figure, without an assumed law.

    Attributes:
        median: Median of the rounds.
        mean: Their arithmetic mean, as in published tables ("the mean of 10 runs"); an estimate's
            own value is the geometric mean.
        low: The smallest round.
        high: The largest round.
        mad_share: Median of the distances from the median, over the median; None for a median of 0.
        rounds: Number of rounds.
        unit: As in :class:`Estimate`.
    """

    median: float
    mean: float
    low: float
    high: float
    mad_share: float | None
    rounds: int
    unit: str


CONFIDENCE = 0.95


@functools.cache
def t_of(degrees: float) -> float:
    """Return the quantile of Student's t for a two-sided 95 % interval; ``degrees`` above 0."""
    from scipy.special import stdtrit  # noqa: PLC0415  (0.3 s to import; only an analysis pays)

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


@functools.cache
def spread_correction(values: int) -> float:
    """Return the true spread over the median spread of at least 2 normal values."""
    from scipy.special import chdtri  # noqa: PLC0415

    return math.sqrt((values - 1) / float(chdtri(values - 1, 0.5)))


def variance(values: Iterable[float]) -> float:
    """Return the sample variance of at least two values.

    ``statistics.variance`` is exact to the last bit and thirty times slower.
    """
    listed = list(values)
    mean = math.fsum(listed) / len(listed)
    return math.fsum((value - mean) ** 2 for value in listed) / (len(listed) - 1)


if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

VALUES_MIN = 20
BLOCKS_MIN = 4
LENGTHENED = 2.0
"""The automatic length is optimal for the variance; an interval needs longer blocks for coverage
(docs/method.md has the coverage of both)."""


def half_width_of_mean(values: Array) -> float | None:
    """Return half of the width of the mean's 95 % interval; None for fewer than 20 values.

    Student's t with one degree of freedom fewer than blocks, which are the independent units.
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
    """Return the automatic block length for the variance of a mean, at least 1.

    Politis and White, 2004, "Automatic block-length selection for the dependent bootstrap", with
    the correction of Patton, Politis and White, 2009: the flat-top window is twice as long as the
    first lag after which five successive correlations are within the noise.
    """
    count = len(values)
    covariances = _autocovariances(values, math.ceil(math.sqrt(count)) + 5)
    if covariances[0] <= 0:
        return 1.0
    reach = _window_lags(covariances / covariances[0], count)
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
    """Return the lengthened block, an integer, that leaves at least four blocks."""
    return max(1, min(math.ceil(LENGTHENED * block_values(values)), len(values) // BLOCKS_MIN))


def _autocovariances(values: Array, lag_max: int) -> Array:
    """Return the autocovariances of lags 0 to ``lag_max``, by the Fourier transform."""
    count = len(values)
    transform = np.fft.rfft(values - values.mean(), 2 * count)
    lag_max = min(lag_max, count - 1)
    return np.fft.irfft(transform * transform.conj())[: lag_max + 1] / count


def _window_lags(correlations: Array, count: int) -> int:
    """Return the width of the window in lags, at least 1."""
    in_a_row = 5
    noise = 2 * math.sqrt(math.log10(count) / count)
    is_noise = np.abs(correlations[1:]) < noise
    calm = np.convolve(is_noise, np.ones(in_a_row), "valid") >= in_a_row - 0.5
    last = int(np.argmax(calm)) if calm.any() else int(np.flatnonzero(~is_noise)[-1]) + 1
    return min(2 * max(last, 1), len(correlations) - 1)


def _variance_of_block_means(values: Array, block: int) -> float:
    """Return the variance of the means of all blocks of neighbours on a circle."""
    joined = np.concatenate([[0.0], values, values[: block - 1]]).cumsum()
    means = (joined[block:] - joined[:-block]) / block
    return float(((means - values.mean()) ** 2).mean())
