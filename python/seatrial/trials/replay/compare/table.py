"""Queries or pages before and after: each one, and all together.

A round in which the server accepted no connection is no measurement of either side. A round that
lacks queries with more than 5 % of the time is left out, on both sides if they are compared round
by round; with less, these queries are left out of the average. Both are reported with their time.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.ratio import Contrast, contrast, p_value, ratio_estimate
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_share
from seatrial.trials.replay.compare import captures
from seatrial.trials.replay.compare.floors import LEVEL, floor_of, judge, mean_measured
from seatrial.trials.replay.compare.model import (
    Answer,
    Basis,
    CallFigures,
    Change,
    Entrant,
    OneSided,
    Overall,
    Side,
    Table,
    Unit,
    When,
)
from seatrial.trials.replay.compare.verdict import Judging, Settled, judges
from seatrial.trials.replay.compare.warnings import warnings_of

LACKING_MAX = 0.05
"""Share of a side's time that a round may lack."""
FAILED_MAX = 0.5
"""Share of a query's calls that may fail in a round beyond the usual share."""
BROKEN_MAX = 0.5
"""Share of the rounds that may be left out as broken; beyond it, only empty rounds are."""


Shares = dict[int, float]
"""Missing share of the side's time, by the round's number."""


def only_whole(
    before: Entrant, after: Entrant, *, paired: bool
) -> tuple[Entrant, Entrant, list[str]]:
    """Return both sides without broken rounds, and sentences on what was left out.

    Args:
        before: The baseline.
        after: The side that is judged.
        paired: Whether rounds are compared one by one: then both sides lose the same rounds.
    """
    common = _keys(before) & _keys(after)
    broken = [_broken(side, common) for side in (before, after)]
    numbers = [set(each) for each in broken]
    also = ""
    if paired:
        numbers = [numbers[0] | numbers[1]] * 2
        also = " on both sides"
    kept = [
        msgspec.structs.replace(side, units=units)
        if (units := [unit for unit in side.units if unit.number not in own])
        else side
        for side, own in zip((before, after), numbers, strict=True)
    ]
    reported = [
        f"Round {number + 1} of {side.name} is left out{also}: queries with {format_share(share)} "
        "of the time were missing in it or failed."
        for side, of, kept_side in zip((before, after), broken, kept, strict=True)
        if kept_side is not side
        for number, share in sorted(of.items())
    ]
    return kept[0], kept[1], reported


def whole_rounds(side: Entrant, key: str) -> dict[int, CallFigures]:
    """Return a query's sums by round, for rounds in which it ran and failed no more than usual."""
    found = {
        unit.number: measured
        for unit in side.units
        if (measured := unit.measured.get(key)) and measured.calls > 0 and measured.total_s > 0
    }
    if not found:
        return {}
    usual = statistics.median(map(failed_share, found.values()))
    return {
        number: each for number, each in found.items() if failed_share(each) <= usual + FAILED_MAX
    }


def failed_share(measured: CallFigures) -> float:
    """Return the share of calls that failed."""
    return min(1.0, measured.errors / measured.calls) if measured.calls else 0.0


def failing(before: CallFigures, after: CallFigures, margin_share: float) -> When | None:
    """Return the side on which enough more calls failed to look like a difference.

    Failing calls take no time: a share of failures reduces the mean by at most that share.

    Args:
        before: On the average of the units.
        after: Likewise.
        margin_share: A difference of less is no difference.
    """
    more = failed_share(after) - failed_share(before)
    if abs(more) <= margin_share:
        return None
    return "after" if more > 0 else "before"


def _keys(side: Entrant) -> set[str]:
    return {key for unit in side.units for key, each in unit.measured.items() if each.total_s > 0}


def _broken(side: Entrant, keys: AbstractSet[str]) -> Shares:
    """Return the rounds of a side that lack much of the queries of both sides."""
    if len(side.units) < 2 or not keys:
        return {}
    rounds = {key: whole_rounds(side, key) for key in keys}
    usual_s = {
        key: statistics.fmean(each.total_s for each in own.values()) for key, own in rounds.items()
    }
    whole_s = math.fsum(usual_s.values())
    lacking = {unit.number: _lacking_s(unit, rounds, usual_s) / whole_s for unit in side.units}
    found = {number: share for number, share in lacking.items() if share > LACKING_MAX}
    if len(found) > BROKEN_MAX * len(side.units):
        return {number: share for number, share in found.items() if share >= 1 - LACKING_MAX}
    return found


def _lacking_s(
    unit: Unit, rounds: Mapping[str, Mapping[int, CallFigures]], usual_s: Mapping[str, float]
) -> float:
    return math.fsum(usual_s[key] for key, own in rounds.items() if unit.number not in own)


Values = dict[int, float]


class Contrasts(msgspec.Struct, frozen=True, kw_only=True):
    """Logarithms of before over after.

    Attributes:
        queries: By key, each over the rounds in which it ran.
        whole: Those in the average, which ran in every round.
        overall: Of the average query; None if there is none.
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
    """Return the contrasts over rounds of each query and of all together.

    Args:
        before: The baseline.
        after: The side that is judged.
        keys: Queries that both sides have.
        paired: Whether both sides of a round were measured close to each other.
        apart: Those of them that are not in the average.
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
    """Return whether each round of both sides was measured before the next round of either.

    The order within pairs may differ: a pair is always subject to drift over its length.
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
    """Return start and end of each round; None if unknown."""
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


MARGIN_SHARE_DEFAULT = 0.05


def compared(
    before: Entrant,
    after: Entrant,
    *,
    margin_share: float = MARGIN_SHARE_DEFAULT,
    control: Entrant | None = None,
    offset_s: float | None = None,
) -> Table:
    """Return after against before.

    Args:
        before: The baseline.
        after: The side that is judged.
        margin_share: A smaller difference does not count.
        control: A second measurement of before (A/A control): the noise floor.
        offset_s: What was subtracted from the client's times; None for nothing.
    """
    measured = (before, after)
    before, after, left_out = only_whole(*measured, paired=basis_of(*measured) == "interleaved")
    basis = basis_of(before, after)
    pair = (before, only_whole(control, control, paired=False)[0]) if control else None
    floor = floor_of((before, after), basis, pair)
    found = _Averages.of(before, after, margin_share)
    judging = judges(basis, margin_share, floor)
    way = _once if basis == "once" else _repeated
    reported = way(before, after, found, judging)
    changes = [
        found.change(key, settled, reported.averaged) for key, settled in reported.queries.items()
    ]
    changes.sort(key=lambda change: -change.before.total_s)
    table = Table(
        before=_side(before, measured[0]),
        after=_side(after, measured[1]),
        basis=basis,
        overall=None
        if reported.overall is None
        else _overall(reported.overall, reported.geometric, changes),
        changes=changes,
        only_before=_one_sided(before, found.before, reported.queries),
        only_after=_one_sided(after, found.after, reported.queries),
        floor=floor,
        margin_share=margin_share,
        level=reported.level,
        offset_s=offset_s,
    )
    warnings = warnings_of(table, (before, after), left_out)
    return msgspec.structs.replace(table, warnings=warnings)


def basis_of(before: Entrant, after: Entrant) -> Basis:
    """Return what verdicts are based on."""
    if min(len(before.units), len(after.units)) < 2:
        return "once"
    return "interleaved" if are_in_turns(before, after) else "in_sequence"


class _Averages(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides on the average of their units."""

    sides: tuple[Entrant, Entrant]
    before: dict[str, CallFigures]
    after: dict[str, CallFigures]
    common: list[str]
    failing: dict[str, When]

    @classmethod
    def of(cls, before: Entrant, after: Entrant, margin_share: float) -> _Averages:
        means = [
            {key: mean_measured(side, key) for unit in side.units for key in unit.measured}
            for side in (before, after)
        ]
        common = [
            key
            for key, measured in means[0].items()
            if key in means[1] and min(measured.total_s, means[1][key].total_s) > 0
        ]
        return cls(
            sides=(before, after),
            before=means[0],
            after=means[1],
            common=common,
            failing={
                key: side
                for key in common
                if (side := failing(means[0][key], means[1][key], margin_share))
            },
        )

    def change(self, key: str, settled: Settled, averaged: AbstractSet[str]) -> Change:
        first, second = self.sides
        named = first.named[key]
        before, after = self.before[key], self.after[key]
        plans_before, plans_after = first.plans.get(key, {}), second.plans.get(key, {})
        is_known = bool(plans_before and plans_after)
        side = self.failing.get(key)
        if side is not None and (side == "after") == (after.mean_s < before.mean_s):
            # Failing early is fast: such a difference is not one of speed.
            settled = Settled(
                speed_up=settled.speed_up, answer="undecided", p_value=settled.p_value,
                p_adjusted=settled.p_adjusted,
            )  # fmt: skip
        return Change(
            key=key,
            text=named.text,
            kind=named.kind,
            before=before,
            after=after,
            saved_s=before.calls * (before.mean_s - after.mean_s),
            server_before=first.server.get(key),
            server_after=second.server.get(key),
            plan_before=_shapes(plans_before),
            plan_after=_shapes(plans_after),
            plan_changed=plans_before.keys().isdisjoint(plans_after) if is_known else None,
            plan_varies=max(len(plans_before), len(plans_after)) > 1,
            in_average=key in averaged,
            failing=side,
            **{name: getattr(settled, name) for name in settled.__struct_fields__},
        )


def _shapes(plans: Mapping[str, str]) -> str:
    """Return the shape of a plan, or of all that rounds had."""
    return " or ".join(plans[each] for each in sorted(plans))


class _Together(msgspec.Struct, frozen=True, kw_only=True):
    """The average query, the geometric mean, and every query by key.

    Attributes:
        overall: None if the average has no query.
        geometric: Likewise.
        queries: By key.
        averaged: Those in the average.
        level: Of the intervals of queries.
    """

    overall: Settled | None
    geometric: Estimate | None
    queries: dict[str, Settled]
    averaged: AbstractSet[str]
    level: float = 1 - LEVEL


def _repeated(
    before: Entrant, after: Entrant, found: _Averages, judging: tuple[Judging, Judging]
) -> _Together:
    """Settle what was measured in several rounds of each side."""
    of_whole, of_each = judging
    of: Contrasts = contrasts(
        *(before, after, found.common),
        paired=of_whole.basis == "interleaved",
        apart=found.failing,
    )
    p_values = {key: p for key, each in of.queries.items() if (p := p_value(each)) is not None}
    judged = judge(list(p_values.values()))
    adjusted = dict(zip(p_values, judged.p_adjusted, strict=True))
    settled = {
        key: of_each.of_rounds(
            each, p_value=p_values.get(key), p_adjusted=adjusted.get(key), alpha=judged.alpha
        )
        for key, each in of.queries.items()
    }
    settled = of_each.with_rounds_more(settled, of.queries, judged.alpha)
    reported = _Together(
        overall=None, geometric=None, queries=settled, averaged=set(of.whole),
        level=1 - judged.alpha,
    )  # fmt: skip
    if of.overall is None or of.geometric is None:
        return reported
    p = p_value(of.overall)
    overall = of_whole.of_rounds(of.overall, p_value=p, p_adjusted=p, alpha=LEVEL)
    together = of_whole.with_rounds_more({"": overall}, {"": of.overall}, LEVEL)
    geometric = ratio_estimate(of.geometric, LEVEL)
    return msgspec.structs.replace(reported, overall=together[""], geometric=geometric)


def _once(
    before: Entrant, after: Entrant, found: _Averages, judging: tuple[Judging, Judging]
) -> _Together:
    """Settle what was measured once on one side or both; several rounds count as one then."""
    of_whole, of_each = judging
    weights = {key: found.before[key].calls for key in found.common if key not in found.failing}
    a, b = (
        captures.known(_as_one(side, means), found.common, weights)
        for side, means in ((before, found.before), (after, found.after))
    )
    settled = {
        key: of_each.of_once(
            captures.once_estimate(
                math.log(a.mean_s[key] / b.mean_s[key]), a.half.get(key), b.half.get(key)
            )
        )
        for key in found.common
    }
    reported = _Together(overall=None, geometric=None, queries=settled, averaged=weights.keys())
    if not weights:
        return reported
    overall = captures.once_estimate(
        math.log(a.overall_s / b.overall_s), a.overall_half, b.overall_half
    )
    geometric = captures.once_estimate(
        a.geometric_log - b.geometric_log, a.geometric_half, b.geometric_half
    )
    whole = of_whole.of_once(overall)
    if whole.answer != _of_often(of_whole, found, weights):
        whole = msgspec.structs.replace(whole, answer="undecided")
    return msgspec.structs.replace(reported, overall=whole, geometric=geometric)


def _of_often(judging: Judging, found: _Averages, weights: Mapping[str, float]) -> Answer:
    """Return the answer from the queries that were called often enough on both sides.

    Queries with few calls may be cold on one side and hot on the other; they must not decide.
    """
    often = [
        key
        for key in weights
        if min(found.before[key].calls, found.after[key].calls) >= captures.CALLS_MIN
    ]
    if not often:
        return "undecided"
    before_s, after_s = (
        math.fsum(weights[key] * side[key].mean_s for key in often)
        for side in (found.before, found.after)
    )
    return judging.of_once(captures.once_estimate(math.log(before_s / after_s), None)).answer


def _as_one(side: Entrant, means: Mapping[str, CallFigures]) -> Entrant:
    """Return a side of several rounds as if it were one."""
    if len(side.units) == 1:
        return side
    unit = msgspec.structs.replace(side.units[0], measured=means, timeline=None)
    return msgspec.structs.replace(side, units=[unit])


def _overall(settled: Settled, geometric: Estimate | None, changes: Sequence[Change]) -> Overall:
    counts = Counter(change.answer for change in changes)
    plans = [change.plan_changed for change in changes if change.plan_changed is not None]
    averaged = [change for change in changes if change.in_average]
    return Overall(
        speed_up=settled.speed_up,
        geometric=geometric or settled.speed_up,
        answer=settled.answer,
        p_value=settled.p_value,
        below_floor=settled.below_floor,
        within_share=settled.within_share,
        rounds_more=settled.rounds_more,
        before_s=math.fsum(change.before.total_s for change in averaged),
        after_s=math.fsum(change.before.calls * change.after.mean_s for change in averaged),
        faster=counts["faster"],
        slower=counts["slower"],
        same=counts["same"],
        undecided=counts["undecided"],
        plans_changed=sum(plans) if plans else None,
    )


def _side(entrant: Entrant, whole: Entrant) -> Side:
    """Return a side as it is reported.

    Args:
        entrant: Without the rounds that were left out.
        whole: With them.
    """
    covered_s = [unit.covered_s for unit in entrant.units if unit.covered_s is not None]
    measured = [each for unit in entrant.units for each in unit.measured.values()]
    units = len(entrant.units)
    return Side(
        name=entrant.name,
        kind=entrant.kind,
        clock=entrant.clock,
        units=units,
        covered_s=math.fsum(covered_s) / len(covered_s) if covered_s else None,
        calls=math.fsum(each.calls for each in measured) / units,
        total_s=math.fsum(each.total_s for each in measured) / units,
        detail=entrant.detail,
        left_out=len(whole.units) - units,
    )


def _one_sided(
    side: Entrant, measured: Mapping[str, CallFigures], compared: Container[str]
) -> list[OneSided]:
    """Return what is not compared because the other side lacks it or took no time for it."""
    own = [
        OneSided(key=key, text=side.named[key].text, measured=each)
        for key, each in measured.items()
        if key not in compared
    ]
    return sorted(own, key=lambda each: -each.measured.total_s)
