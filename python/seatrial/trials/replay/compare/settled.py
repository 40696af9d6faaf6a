"""From a ratio, its interval and the noise to an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from seatrial.stats.compare.ratio import Contrast, ratio_estimate
from seatrial.stats.compare.settle import is_same, rounds_more, within_share
from seatrial.stats.estimate import Estimate
from seatrial.trials.replay.compare.fdr import LEVEL
from seatrial.trials.replay.compare.floors import overruling
from seatrial.trials.replay.compare.model import Answer, Basis, Floor


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What is certain; the attributes are those of a Change."""

    speed_up: Estimate
    answer: Answer
    p_value: float | None = None
    p_adjusted: float | None = None
    below_floor: bool = False
    within_share: float | None = None
    rounds_more: int | None = None


class Judging(msgspec.Struct, frozen=True, kw_only=True):
    """What answers are given by.

    Attributes:
        basis: What they rest on.
        margin_share: A difference of less is none.
        floor: A factor: no difference is called so that is smaller.
        is_of_query: Whether it is of one query, not of whole runs, which is what floors are of. It
            has to know its own scatter, by which the noise is wider then.
    """

    basis: Basis
    margin_share: float
    floor: float
    is_of_query: bool = False

    def of_rounds(
        self, of: Contrast, *, p_value: float | None, p_adjusted: float | None, alpha: float
    ) -> Settled:
        """Return what rounds settle.

        Args:
            of: ln(before / after).
            p_value: Of no difference; None where a side has one round.
            p_adjusted: After adjustment.
            alpha: The interval has level 1 - alpha.
        """
        speed_up = ratio_estimate(of, alpha)
        found = Settled(
            speed_up=speed_up, answer="undecided", p_value=p_value, p_adjusted=p_adjusted
        )
        if p_adjusted is None:
            return found
        # What was measured one after the other cannot be shown to be the same: a drift between
        # may have hidden a difference.
        if self.basis == "interleaved" and is_same(speed_up, self.margin_share):
            return _with(found, answer="same", within_share=within_share(speed_up))
        if p_adjusted <= LEVEL and abs(of.log_ratio) >= math.log1p(self.margin_share):
            return self._beyond_noise(found, of.log_ratio)
        return found

    def with_rounds_more(
        self, settled: Mapping[str, Settled], of: Mapping[str, Contrast], alpha: float
    ) -> dict[str, Settled]:
        """Return the same, with how many more rounds in turns would settle what is undecided.

        Args:
            settled: By key.
            of: ln(before / after), by key.
            alpha: The intervals have level 1 - alpha.
        """
        undecided = [
            key
            for key, each in settled.items()
            if each.answer == "undecided" and not each.below_floor and each.p_value is not None
        ]
        if self.basis != "interleaved":
            return dict(settled)
        more = rounds_more([of[key] for key in undecided], alpha, self.margin_share)
        reported = dict(zip(undecided, more, strict=True))
        return {key: _with(each, rounds_more=reported.get(key)) for key, each in settled.items()}

    def of_once(self, speed_up: Estimate) -> Settled:
        """Return what one measurement of each side settles: never that they are the same.

        Nor anything of a query that does not know its own scatter: what was called once may take
        any time, cold or hot.
        """
        found = Settled(speed_up=speed_up, answer="undecided")
        low, high = speed_up.low, speed_up.high
        if self.is_of_query and (low is None or high is None):
            return found
        if low is not None and high is not None and low <= 1 <= high:
            return found
        log_ratio = math.log(speed_up.value)
        if abs(log_ratio) < math.log1p(self.margin_share):
            return found
        return self._beyond_noise(found, log_ratio)

    def noise_log(self, speed_up: Estimate) -> float:
        """Return what counts as noise, as a logarithm; a query's own scatter comes on top.

        Rounds in turns know all of it, and so does a pair of the same in such rounds.
        """
        own = half_of(speed_up) if self.is_of_query and self.basis != "interleaved" else 0.0
        return math.hypot(math.log(self.floor), own)

    def _beyond_noise(self, found: Settled, log_ratio: float) -> Settled:
        if abs(log_ratio) <= self.noise_log(found.speed_up):
            return _with(found, below_floor=True)
        return _with(found, answer="faster" if log_ratio > 0 else "slower")


def judges(basis: Basis, margin_share: float, floor: Floor | None) -> tuple[Judging, Judging]:
    """Return what answers are given by: of all together, and of one query."""
    whole, single = overruling(floor, basis)
    return (
        Judging(basis=basis, margin_share=margin_share, floor=whole),
        Judging(basis=basis, margin_share=margin_share, floor=single, is_of_query=True),
    )


def half_of(speed_up: Estimate) -> float:
    """Return half of an interval on the scale of logarithms; 0 where there is none."""
    low, high = speed_up.low, speed_up.high
    return (math.log(high) - math.log(low)) / 2 if low and high else 0.0


def _with(found: Settled, **changes: object) -> Settled:
    return msgspec.structs.replace(found, **changes)
