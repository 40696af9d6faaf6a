"""Which candidate regrets least, which cannot be told apart, and what measurement would tell.

The regret of a candidate in a world is what its month costs above the cheapest candidate that fits
in that world; where it does not fit, that and a multiple of the cheapest one's price, for a month
that misses its objective. Candidates whose regrets overlap are not ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seatrial.trials.plan.analysis.worlds import Judged, Worlds

FIT_SHARE_MIN: Final = 0.5
"""A candidate that fits in fewer worlds is refused."""
MISS_FACTOR: Final = 3.0
"""What a month that misses its objective costs, in prices of the cheapest that fits."""
OVERLAP_SHARE: Final = 0.1
"""Two candidates overlap if either is better in more of the worlds than this."""
SAME_REGRET_SHARE: Final = 0.02
"""Of the better one's price: regrets that differ by less are the same."""
BINS: Final = 25


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A candidate with its regret.

    Attributes:
        judged: The candidate in all worlds.
        regret: Mean over all worlds, a month.
        overlaps_best: Whether it cannot be told apart from the first.
        better_share: Share of the worlds in which it regrets less than the first.
    """

    judged: Judged
    regret: float
    overlaps_best: bool
    better_share: float


@dataclass(frozen=True, kw_only=True)
class Separating:
    """The one measurement that would best separate the first from those that overlap.

    Attributes:
        name: The unknown input.
        worth: What knowing it saves a month, in expectation.
        other: The candidate that it would separate from the first.
    """

    name: str
    worth: float
    other: str


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """All candidates, by what is to be done with them.

    Attributes:
        ranked: Those that fit and are not dominated, least regret first.
        dominated: How many fit, and cost no less, are no faster and no safer than another one.
        refused: Those that do not fit, the nearest first.
        separating: None where the first one stands alone.
    """

    ranked: list[Ranked]
    dominated: int
    refused: list[Judged]
    separating: Separating | None


def rank(found: Sequence[Judged], worlds: Worlds, miss_factor: float = MISS_FACTOR) -> Ranking:
    """Rank candidates by expected regret.

    Args:
        found: Each in the same worlds.
        worlds: These worlds.
        miss_factor: What a month that misses its objective costs, in prices of the cheapest that
            fits.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    ordered = sorted(found, key=lambda each: each.candidate.name)
    fitting = [each for each in ordered if each.fit_share >= FIT_SHARE_MIN]
    refused = [each for each in ordered if each.fit_share < FIT_SHARE_MIN]
    refused.sort(key=lambda each: (-each.fit_share, -each.holds, each.candidate.month.mid))
    if not fitting:
        return Ranking(ranked=[], dominated=0, refused=refused, separating=None)
    kept = pareto(fitting)
    cheapest = np.full(worlds.count, np.inf)
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
            Ranked(
                judged=each,
                regret=float(own.mean()),
                overlaps_best=each is not first and (near or better > OVERLAP_SHARE),
                better_share=better,
            )
        )
    return Ranking(
        ranked=ranked,
        dominated=len(fitting) - len(kept),
        refused=refused,
        separating=_separating(ranked, regrets, worlds),
    )


def _regret(each: Judged, cheapest: NDArray[np.float64], miss_factor: float) -> NDArray[np.float64]:
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    extra = np.where(each.fits, 0.0, miss_factor * cheapest)
    return np.asarray(np.maximum(each.month - cheapest, 0.0) + extra)


def pareto(found: Sequence[Judged]) -> list[Judged]:
    """Return those that no other one is at least as good as in price, response, fit and risk.

    Of those that are alike in all, the first by name is kept.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    marks = np.array([_marks(each) for each in found])
    kept = []
    for place, each in enumerate(found):
        no_worse = (marks <= marks[place]).all(axis=1)
        better = (marks < marks[place]).any(axis=1)
        alike = no_worse & ~better
        if not (no_worse & better).any() and int(alike.argmax()) == place:
            kept.append(each)
    return kept


def _marks(each: Judged) -> tuple[float, float, float, float]:
    response = each.response_ends_ms[1]
    return (
        each.candidate.month.mid,
        response if response < float("inf") else 1e12,
        each.candidate.lost_per_year.mid,
        1 - each.fit_share,
    )


def _separating(
    ranked: Sequence[Ranked], regrets: dict[str, NDArray[np.float64]], worlds: Worlds
) -> Separating | None:
    """Return the input whose knowledge would change the choice between the first and another most.

    Source: expected value of partial perfect information, with worlds sorted into bins by the
    input (Strong, Oakley, "An efficient method for computing single-parameter partial EVPI", 2013).
    """
    first = ranked[0]
    best: Separating | None = None
    for other in ranked[1:]:
        if not other.overlaps_best:
            continue
        name = other.judged.candidate.name
        difference = regrets[name] - regrets[first.judged.candidate.name]
        for given in dict.fromkeys((*first.judged.inputs, *other.judged.inputs)):
            worth = _worth(difference, worlds.of(given))
            if worth > 0 and (best is None or worth > best.worth):
                best = Separating(name=given, worth=worth, other=name)
    return best


def _worth(difference: NDArray[np.float64], deviates: NDArray[np.float64]) -> float:
    """Return what is saved by choosing after the input is known, a month."""
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    order = np.argsort(deviates, kind="stable")
    means = np.array([part.mean() for part in np.array_split(difference[order], BINS)])
    return float(min(difference.mean(), 0.0) - np.minimum(means, 0.0).mean())
