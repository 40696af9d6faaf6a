"""The noise floor: the difference between two measurements of the same thing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from seatrial.lazy import np
from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.model import NoiseFloor, SideSamples
from seatrial.stats.compare.pairing import is_interleaved, match
from seatrial.stats.compare.questions import CellQuestion, ask
from seatrial.stats.compare.ratio import Contrast, contrast
from seatrial.stats.estimate import EXP_ARGUMENT_MAX, Estimate

PERCENT_OF_CELLS = 95.0
CONTROL_SUFFIX = "-aa"
"""Suffix of a target's label that marks it as an A/A control of another target."""


def floor_of_pair(
    a: SideSamples, control: SideSamples, wanted: Collection[str] | None = None
) -> NoiseFloor:
    """Return the difference between another measurement of A and A, by cell and overall.

    Raises:
        UsageError: When the two have no cell in common.
    """
    requested = ask(match(a, control).cells, paired=is_interleaved(a, control), wanted=wanted)
    logs: dict[str, list[float]] = defaultdict(list)
    for question in requested.cells:
        if question.of:
            logs[question.figure].append(question.of.log_ratio)
    overall = {each.figure: _distance_share(each.of.log_ratio) for each in requested.overall}
    return NoiseFloor(
        source="pair", name=control.side.name, cells=_at_percentile(logs), overall=overall
    )


def floor_of_halves(questions: Sequence[CellQuestion]) -> NoiseFloor | None:
    """Return the difference between odd and even rounds of each side; None if too few.

    Half of the rounds scatter more than all by the square root of two, which is divided out. The
    intervals are computed from the same rounds and are more precise, so this is for information
    only.
    """
    logs: dict[str, list[float]] = defaultdict(list)
    for question in questions:
        for rounds in (question.a, question.b):
            halves = _halves(rounds)
            if halves and (found := contrast(*halves, paired=False)):
                logs[question.figure].append(found.log_ratio / math.sqrt(2))
    return NoiseFloor(source="halves", cells=_at_percentile(logs)) if logs else None


def _halves(rounds: Rounds) -> tuple[Rounds, Rounds] | None:
    """Return the odd and the even rounds; None of fewer than two."""
    numbers = sorted(rounds.values)
    numbers = numbers[: len(numbers) // 2 * 2]
    if not numbers:
        return None
    first, second = (
        msgspec.structs.replace(rounds, values={each: rounds.values[each] for each in half})
        for half in (numbers[::2], numbers[1::2])
    )
    return first, second


def _at_percentile(logs: dict[str, list[float]]) -> dict[str, float]:
    """Return the 95th percentile of the ratios' distance from 1, by figure."""
    return {
        figure: float(np.percentile([_distance_share(each) for each in values], PERCENT_OF_CELLS))
        for figure, values in logs.items()
    }


def _distance_share(log_ratio: float) -> float:
    """Return the distance of a ratio from 1; half and twice as much are equally far."""
    return math.expm1(min(abs(log_ratio), EXP_ARGUMENT_MAX))


def control_label(labels: Sequence[str], paths: Sequence[str]) -> str:
    """Return the label of the A/A control of the first target; empty if there is none.

    It has the same path as the first one, or its label with ``-aa`` appended.
    """
    for label, path in zip(labels[1:], paths[1:], strict=True):
        if label == labels[0] + CONTROL_SUFFIX or (path and path == paths[0]):
            return label
    return ""


if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

POWER = 0.9
ROUNDS_MORE_MAX = 1000


def within_share(ratio: Estimate) -> float | None:
    """Return the share within which a ratio is of 1 with confidence; None when measured once."""
    if ratio.low is None or ratio.high is None:
        return None
    return max(1 - ratio.low, ratio.high - 1, 0.0)


def whole_percent(share: float) -> int:
    """Return the smallest whole percent, at least 1, that is not below a share."""
    return max(1, math.ceil(share * 100 - 1e-9))


def is_same(ratio: Estimate, margin_share: float) -> bool:
    """Return whether the whole interval lies within the margin around 1.

    The two one-sided tests of Schuirmann (1987) by inclusion of the interval; at the level at
    which the sides are distinguished, which is stricter than the usual one.
    """
    share = within_share(ratio)
    return share is not None and share <= margin_share


def rounds_more(
    contrasts: Sequence[Contrast], alpha: float, margin_share: float
) -> list[int | None]:
    """Return after how many more rounds each question would be decided, with a power of 90 %.

    Decided is a significant difference, or a ratio significantly within the margin, if the ratio
    and the spread of the rounds stay as observed. Both sides get as many rounds. None if measured
    once, or if a thousand more rounds would not be enough.

    Args:
        contrasts: The undecided contrasts.
        alpha: The intervals have level 1 - alpha.
        margin_share: Ratios within it count as the same.
    """
    known = [index for index, each in enumerate(contrasts) if each.parts]
    found: list[int | None] = [None] * len(contrasts)
    if not known:
        return found
    questions = _Questions([contrasts[index] for index in known], alpha, margin_share)
    low, high = np.zeros(len(known)), np.full(len(known), float(ROUNDS_MORE_MAX))
    settled_at_all = questions.power(high) >= POWER
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        enough = questions.power(middle) >= POWER
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    for index, is_settled, rounds in zip(known, settled_at_all, high, strict=True):
        found[index] = int(rounds) if is_settled else None
    return found


class _Questions:
    """The power of many contrasts at once, as arrays with an entry for each."""

    def __init__(self, contrasts: Sequence[Contrast], alpha: float, margin_share: float) -> None:
        self._alpha = alpha
        self._low, self._high = math.log(max(1 - margin_share, 1e-9)), math.log(1 + margin_share)
        self._log_ratio = np.array([each.log_ratio for each in contrasts])
        self._resolution = np.array([each.resolution for each in contrasts])
        # A contrast of pairs has one part; a second part of variance 0 changes nothing.
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
        """Return the probability that more rounds decide each question."""
        from scipy.special import nctdtr, ndtr, stdtrit  # noqa: PLC0415

        shares = [v / (n + more) for v, n in zip(self._variances, self._rounds, strict=True)]
        of_mean = np.maximum(shares[0] + shares[1], 1e-30)
        of_parts = sum(s**2 / (n + more - 1) for s, n in zip(shares, self._rounds, strict=True))
        welch = of_mean**2 / np.maximum(of_parts, 1e-300)
        of_a, of_b = self._rounds
        fewest = np.minimum(of_a, of_b) + more - 1
        degrees = np.where(np.isclose(of_a, of_b, rtol=1e-9), welch, fewest)  # Contrast.degrees
        error = np.sqrt(of_mean)
        quantile = stdtrit(degrees, 1 - self._alpha / 2)
        half = np.maximum(quantile * error, self._resolution)
        distance = np.abs(self._log_ratio)
        # Noncentral t; far beyond the quantile the normal distribution is exact enough.
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
