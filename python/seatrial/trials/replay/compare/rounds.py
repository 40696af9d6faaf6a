"""Rounds against rounds: one number a round and query, as a logarithm, paired where in turns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Mapping, Sequence

import msgspec

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.ratio import Contrast, contrast
from seatrial.trials.replay.compare.entered import Entrant
from seatrial.trials.replay.compare.sums import mean_measured
from seatrial.trials.replay.compare.whole import whole_rounds

Values = dict[int, float]


class Contrasts(msgspec.Struct, frozen=True, kw_only=True):
    """Logarithms of before over after.

    Attributes:
        queries: By key, each over the rounds in which it ran.
        whole: Those that the average has, which ran in every round.
        overall: Of the average query; None where there is none such.
        geometric: Mean over queries of each round's logarithm; likewise.
    """

    queries: dict[str, Contrast]
    whole: list[str]
    overall: Contrast | None
    geometric: Contrast | None


def contrasts(
    before: Entrant,
    after: Entrant,
    keys: Sequence[str],
    *,
    paired: bool,
    apart: Container[str] = (),
) -> Contrasts:
    """Return what rounds say of each query and of all together.

    Args:
        before: The measure.
        after: What is judged.
        keys: Queries that both sides have.
        paired: Whether both sides of a round were measured close to each other.
        apart: Those of them that the average is without.
    """
    means = {key: (_means_s(before, key), _means_s(after, key)) for key in keys}
    known = {key: sides for key, sides in means.items() if all(sides)}
    whole = [
        key
        for key, (of_before, of_after) in known.items()
        if len(of_before) == len(before.units)
        and len(of_after) == len(after.units)
        and key not in apart
    ]
    calls = {key: mean_measured(before, key).calls for key in whole}
    queries = {
        key: found
        for key, (of_before, of_after) in known.items()
        if (found := _contrast(of_before, of_after, paired=paired))
    }

    def together(of_round: Callable[[Mapping[str, float]], float]) -> Contrast | None:
        if not whole:
            return None
        of_before, of_after = (
            {
                unit.number: of_round({key: means[key][side][unit.number] for key in whole})
                for unit in entrant.units
            }
            for side, entrant in enumerate((before, after))
        )
        return _contrast(of_before, of_after, paired=paired)

    return Contrasts(
        queries=queries,
        whole=whole,
        overall=together(lambda of: math.fsum(calls[key] * mean for key, mean in of.items())),
        geometric=together(
            lambda of: math.exp(math.fsum(math.log(mean) for mean in of.values()) / len(of))
        ),
    )


def are_in_turns(before: Entrant, after: Entrant) -> bool:
    """Tell whether each round of both sides was measured before the next round of either.

    Pairs need not be in the same order within: drift over a pair is what a pair is subject to.
    """
    spans = [_spans_s(side) for side in (before, after)]
    if any(each is None for each in spans):
        return False
    of_before, of_after = (each or {} for each in spans)
    common = sorted(of_before.keys() & of_after.keys())
    if len(common) < 2:
        return False
    return all(
        max(of_before[this][1], of_after[this][1]) <= min(of_before[later][0], of_after[later][0])
        for this, later in itertools.pairwise(common)
    )


def _spans_s(side: Entrant) -> dict[int, tuple[float, float]] | None:
    """Return from when to when each round was measured; None where that is not known."""
    found = {}
    for unit in side.units:
        if unit.begin_s is None or unit.covered_s is None:
            return None
        found[unit.number] = (unit.begin_s, unit.begin_s + unit.covered_s)
    return found


def _means_s(side: Entrant, key: str) -> Values:
    return {number: each.mean_s for number, each in whole_rounds(side, key).items()}


def _contrast(of_before: Values, of_after: Values, *, paired: bool) -> Contrast | None:
    """Return ln(before / after); times are exact to a nanosecond, so nothing limits reading."""
    sides = [
        Rounds(values=values, unit="s", resolution_share=0.0) for values in (of_after, of_before)
    ]
    return contrast(*sides, paired=paired)
