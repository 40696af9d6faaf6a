"""When it is the same, and how many more rounds would settle what is undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seatrial.stats.compare.ratio import Contrast
from seatrial.stats.estimate import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

POWER = 0.9
ROUNDS_MORE_MAX = 1000


def within_share(ratio: Estimate) -> float | None:
    """Return the share within which a ratio surely is of 1; None when measured once."""
    if ratio.low is None or ratio.high is None:
        return None
    return max(1 - ratio.low, ratio.high - 1, 0.0)


def whole_percent(share: float) -> int:
    """Return the smallest whole percent that a share is within, at least 1."""
    return max(1, math.ceil(share * 100 - 1e-9))


def is_same(ratio: Estimate, margin_share: float) -> bool:
    """Tell whether the whole interval lies within the margin around 1.

    The two one-sided tests of Schuirmann (1987) by inclusion of the interval; at the level at
    which the sides are told apart, which is stricter than the usual one.
    """
    share = within_share(ratio)
    return share is not None and share <= margin_share


def rounds_more(
    contrasts: Sequence[Contrast], alpha: float, margin_share: float
) -> list[int | None]:
    """Return after how many more rounds each question would be settled, with a power of 90 %.

    Settled is a difference that is found, or one that surely is within the margin, if the ratio
    and the spread of the rounds are as they were seen. Both sides get as many rounds. None where
    it was measured once, or a thousand more rounds would not do.

    Args:
        contrasts: What is undecided.
        alpha: The intervals have level 1 - alpha.
        margin_share: What lies within it is the same.
    """
    import numpy as np  # noqa: PLC0415  (0.1 s to import; only an analysis pays)

    known = [place for place, each in enumerate(contrasts) if each.parts]
    found: list[int | None] = [None] * len(contrasts)
    if not known:
        return found
    questions = _Questions([contrasts[place] for place in known], alpha, margin_share)
    low, high = np.zeros(len(known)), np.full(len(known), float(ROUNDS_MORE_MAX))
    settled_at_all = questions.power(high) >= POWER
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        enough = questions.power(middle) >= POWER
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    for place, is_settled, rounds in zip(known, settled_at_all, high, strict=True):
        found[place] = int(rounds) if is_settled else None
    return found


class _Questions:
    """The power of many contrasts at once, as arrays with an entry for each."""

    def __init__(self, contrasts: Sequence[Contrast], alpha: float, margin_share: float) -> None:
        import numpy as np  # noqa: PLC0415

        self._alpha = alpha
        self._low, self._high = math.log(max(1 - margin_share, 1e-9)), math.log(1 + margin_share)
        self._log_ratio = np.array([each.log_ratio for each in contrasts])
        self._resolution = np.array([each.resolution for each in contrasts])
        # A contrast of pairs has one part; another of variance 0 beside it changes nothing.
        pairs = [(each.parts[0], each.parts[-1], len(each.parts) > 1) for each in contrasts]
        self._variances = [
            np.array([first.variance for first, _, _ in pairs]),
            np.array([second.variance * two for _, second, two in pairs]),
        ]
        self._rounds = [
            np.array([first.rounds for first, _, _ in pairs]),
            np.array([second.rounds for _, second, _ in pairs]),
        ]

    def power(self, more: Numbers) -> Numbers:
        """Return how likely so many more rounds settle each question."""
        import numpy as np  # noqa: PLC0415
        from scipy.special import nctdtr, ndtr, stdtrit  # noqa: PLC0415

        shares = [v / (n + more) for v, n in zip(self._variances, self._rounds, strict=True)]
        of_mean = np.maximum(shares[0] + shares[1], 1e-30)
        of_parts = sum(s**2 / (n + more - 1) for s, n in zip(shares, self._rounds, strict=True))
        degrees = of_mean**2 / np.maximum(of_parts, 1e-300)
        error = np.sqrt(of_mean)
        quantile = stdtrit(degrees, 1 - self._alpha / 2)
        half = np.maximum(quantile * error, self._resolution)
        distance = np.abs(self._log_ratio)
        # Noncentral t; where it is far beyond the quantile the normal law is exact enough.
        shift = distance / error
        detected: Any = np.where(
            shift - quantile < 30, 1 - nctdtr(degrees, np.minimum(shift, 1e3), quantile), 1.0
        )
        detected = np.where(distance > self._resolution, detected, 0.0)
        upper = (self._high - half - self._log_ratio) / error
        lower = (self._low + half - self._log_ratio) / error
        inside = np.where(upper > lower, ndtr(upper) - ndtr(lower), 0.0)
        power: Numbers = np.maximum(np.nan_to_num(detected), inside)
        return power
