"""Ranks candidates by regret, and finds the measurement that would separate the first ones.

The regret of a candidate in a scenario is its price a month above that of the cheapest candidate
that fits there. Where it does not fit, a multiple of the cheapest price is added for a month that
misses its objective. Candidates whose regrets overlap are not ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.plan.analysis.scenarios import Evaluation, Scenarios

FIT_SHARE_MIN: Final = 0.5
"""A candidate that fits in fewer scenarios is refused."""
MISS_FACTOR: Final = 3.0
"""What a month that misses its objective costs, in prices of the cheapest that fits."""
OVERLAP_SHARE: Final = 0.1
"""Two candidates overlap if either is better in more of the scenarios than this."""
SAME_REGRET_SHARE: Final = 0.02
"""Of the better one's price: regrets that differ by less are the same."""
BINS: Final = 25


@dataclass(frozen=True, kw_only=True)
class RankedCandidate:
    """A candidate with its regret.

    Attributes:
        evaluation: The candidate in all scenarios.
        regret: Mean over all scenarios, a month.
        overlaps_best: Whether it does not differ significantly from the first.
        better_share: Share of the scenarios in which it regrets less than the first.
    """

    evaluation: Evaluation
    regret: float
    overlaps_best: bool
    better_share: float


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The one measurement that would separate candidates.

    Attributes:
        name: The unknown input.
        worth: Expected saving a month if it is known.
        other: The candidate that it would separate from the first.
    """

    name: str
    worth: Amount
    other: str


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Ranked, dominated and refused candidates.

    Attributes:
        ranked: Those that fit and are not dominated, least regret first.
        dominated: How many fit, but are no cheaper, faster or safer than another one.
        refused: Those that do not fit, the nearest first.
        measurement: The best one to separate overlapping candidates; None if none overlaps.
    """

    ranked: list[RankedCandidate]
    dominated: int
    refused: list[Evaluation]
    measurement: Measurement | None


def rank(
    candidates: Sequence[Evaluation], scenarios: Scenarios, miss_factor: float = MISS_FACTOR
) -> Ranking:
    """Rank candidates by expected regret.

    Args:
        candidates: Each in the same scenarios.
        scenarios: These scenarios.
        miss_factor: What a month that misses its objective costs, in prices of the cheapest that
            fits.
    """
    ordered = sorted(candidates, key=lambda each: each.candidate.name)
    fitting = [each for each in ordered if each.fit_share >= FIT_SHARE_MIN]
    refused = [each for each in ordered if each.fit_share < FIT_SHARE_MIN]
    refused.sort(key=lambda each: (-each.fit_share, -each.holds, each.candidate.month.mid))
    if not fitting:
        return Ranking(ranked=[], dominated=0, refused=refused, measurement=None)
    kept = pareto(fitting)
    cheapest = np.full(scenarios.count, np.inf)
    for each in ordered:
        np.minimum(cheapest, np.where(each.fits, each.month, np.inf), out=cheapest)
    known = np.isfinite(cheapest)
    fallback = min(each.candidate.month.mid for each in kept)
    cheapest = np.where(known, cheapest, fallback)
    regrets = {each.candidate.name: _regret(each, cheapest, miss_factor) for each in kept}
    kept.sort(key=lambda each: float(regrets[each.candidate.name].mean()))
    first = kept[0]
    first_regret = regrets[first.candidate.name]
    ranked = []
    for each in kept:
        own = regrets[each.candidate.name]
        difference = own - first_regret
        tolerance = SAME_REGRET_SHARE * first.candidate.month.mid
        better = float((difference < 0).mean())
        near = float(difference.mean()) <= tolerance
        ranked.append(
            RankedCandidate(
                evaluation=each,
                regret=float(own.mean()),
                overlaps_best=each is not first and (near or better > OVERLAP_SHARE),
                better_share=better,
            )
        )
    return Ranking(
        ranked=ranked,
        dominated=len(fitting) - len(kept),
        refused=refused,
        measurement=_separating_measurement(ranked, regrets, scenarios),
    )


def _regret(
    each: Evaluation, cheapest: NDArray[np.float64], miss_factor: float
) -> NDArray[np.float64]:
    extra = np.where(each.fits, 0.0, miss_factor * cheapest)
    return np.asarray(np.maximum(each.month - cheapest, 0.0) + extra)


def pareto(candidates: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the Pareto front in price, response time, fit and risk.

    Of candidates that are equal in all four, the first by name is kept.
    """
    criteria = np.array([_criteria(each) for each in candidates])
    kept = []
    for index, each in enumerate(candidates):
        no_worse = (criteria <= criteria[index]).all(axis=1)
        better = (criteria < criteria[index]).any(axis=1)
        equals = no_worse & ~better
        if not (no_worse & better).any() and int(equals.argmax()) == index:
            kept.append(each)
    return kept


def _criteria(each: Evaluation) -> tuple[float, float, float, float]:
    response = each.response_ends_ms[1]
    return (
        each.candidate.month.mid,
        response if response < float("inf") else 1e12,
        each.candidate.lost_per_year.mid,
        1 - each.fit_share,
    )


def _separating_measurement(
    ranked: Sequence[RankedCandidate], regrets: dict[str, NDArray[np.float64]], scenarios: Scenarios
) -> Measurement | None:
    """Return the input whose knowledge would change the choice between the first and another most.

    Source: expected value of partial perfect information, with scenarios sorted into bins by the
    input (Strong, Oakley, "An efficient method for computing single-parameter partial EVPI", 2013).
    """
    first = ranked[0]
    best: Measurement | None = None
    for other in ranked[1:]:
        if not other.overlaps_best:
            continue
        name = other.evaluation.candidate.name
        difference = regrets[name] - regrets[first.evaluation.candidate.name]
        for input_name in dict.fromkeys((*first.evaluation.inputs, *other.evaluation.inputs)):
            worth = _value_of_information(difference, scenarios.of(input_name))
            if worth > 0 and (best is None or worth > best.worth):
                best = Measurement(name=input_name, worth=worth, other=name)
    return best


def _value_of_information(difference: NDArray[np.float64], deviates: NDArray[np.float64]) -> float:
    """Return the saving a month of choosing after the input is known."""
    order = np.argsort(deviates, kind="stable")
    means = np.array([part.mean() for part in np.array_split(difference[order], BINS)])
    return float(min(difference.mean(), 0.0) - np.minimum(means, 0.0).mean())
