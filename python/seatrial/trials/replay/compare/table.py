"""The comparison of queries or pages before and after: each one, and all together.

A round in which the server accepted no connection does not count for either side. A round that
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
from seatrial.trials.replay.compare.false_discovery import LEVEL, adjust_p_values
from seatrial.trials.replay.compare.floors import common_share, floor_of, mean_figures
from seatrial.trials.replay.compare.model import (
    Answer,
    Basis,
    CallFigures,
    Change,
    MeasuredSide,
    OneSided,
    Overall,
    Side,
    Table,
    Unit,
    When,
)
from seatrial.trials.replay.compare.verdict import Conclusion, Criteria, criteria_of
from seatrial.trials.replay.compare.warnings import warnings_of

MISSING_SHARE_MAX = 0.05
"""Share of a side's time that a round may lack."""
FAILED_SHARE_MAX = 0.5
"""Share of a query's calls that may fail in a round beyond the usual share."""
BROKEN_SHARE_MAX = 0.5
"""Share of the rounds that may be left out as broken; beyond it, only empty rounds are."""

CONTROL_SHARE_MIN = 0.5
"""Share of before's time that an A/A control must have in common with it to show its noise."""


MissingShares = dict[int, float]
"""Missing share of the side's time, by the round's number."""


def without_broken_rounds(
    before: MeasuredSide, after: MeasuredSide, *, paired: bool
) -> tuple[MeasuredSide, MeasuredSide, list[str]]:
    """Return both sides without broken rounds, and sentences on what was left out.

    Args:
        before: The baseline.
        after: The side that is judged.
        paired: Whether rounds are compared one by one: then both sides lose the same rounds.
    """
    common = _keys(before) & _keys(after)
    broken = [_broken(side, common) for side in (before, after)]
    excluded = [set(each) for each in broken]
    scope = ""
    if paired:
        excluded = [excluded[0] | excluded[1]] * 2
        scope = " on both sides"
    kept = [
        msgspec.structs.replace(side, units=units)
        if (units := [unit for unit in side.units if unit.number not in rounds])
        else side
        for side, rounds in zip((before, after), excluded, strict=True)
    ]
    sentences = [
        f"Round {number + 1} of {side.name} is left out{scope}: queries with {format_share(share)} "
        "of the time were missing in it or failed."
        for side, shares, kept_side in zip((before, after), broken, kept, strict=True)
        if kept_side is not side
        for number, share in sorted(shares.items())
    ]
    return kept[0], kept[1], sentences


def complete_rounds(side: MeasuredSide, key: str) -> dict[int, CallFigures]:
    """Return a query's sums by round, for rounds in which it ran and failed no more than usual."""
    figures = {
        unit.number: measured
        for unit in side.units
        if (measured := unit.measured.get(key)) and measured.calls > 0 and measured.total_s > 0
    }
    if not figures:
        return {}
    usual_floor = statistics.median(map(failed_share, figures.values()))
    return {
        number: figure
        for number, figure in figures.items()
        if failed_share(figure) <= usual_floor + FAILED_SHARE_MAX
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
        margin_share: A difference of less is not a difference.
    """
    more = failed_share(after) - failed_share(before)
    if abs(more) <= margin_share:
        return None
    return "after" if more > 0 else "before"


def _keys(side: MeasuredSide) -> set[str]:
    return {key for unit in side.units for key, each in unit.measured.items() if each.total_s > 0}


def _broken(side: MeasuredSide, keys: AbstractSet[str]) -> MissingShares:
    """Return the rounds of a side that lack much of the queries of both sides."""
    if len(side.units) < 2 or not keys:
        return {}
    rounds = {key: complete_rounds(side, key) for key in keys}
    usual_s = {
        key: statistics.fmean(each.total_s for each in rounds_of_query.values())
        for key, rounds_of_query in rounds.items()
    }
    whole_s = math.fsum(usual_s.values())
    missing = {unit.number: _missing_s(unit, rounds, usual_s) / whole_s for unit in side.units}
    found = {number: share for number, share in missing.items() if share > MISSING_SHARE_MAX}
    if len(found) > BROKEN_SHARE_MAX * len(side.units):
        return {number: share for number, share in found.items() if share >= 1 - MISSING_SHARE_MAX}
    return found


def _missing_s(
    unit: Unit, rounds: Mapping[str, Mapping[int, CallFigures]], usual_s: Mapping[str, float]
) -> float:
    return math.fsum(
        usual_s[key]
        for key, rounds_of_query in rounds.items()
        if unit.number not in rounds_of_query
    )


Values = dict[int, float]


class Contrasts(msgspec.Struct, frozen=True, kw_only=True):
    """Logarithms of before over after.

    Attributes:
        queries: By key, each over the rounds in which it ran.
        whole: Those in the average, which ran in every round.
        overall: The average query; None if there is none.
        geometric: Mean over queries of each round's logarithm; likewise.
    """

    queries: dict[str, Contrast]
    whole: list[str]
    overall: Contrast | None
    geometric: Contrast | None


def contrasts(
    before: MeasuredSide,
    after: MeasuredSide,
    keys: Sequence[str],
    *,
    paired: bool,
    excluded: Container[str] = (),
) -> Contrasts:
    """Return the contrasts over rounds of each query and of all together.

    Args:
        before: The baseline.
        after: The side that is judged.
        keys: Queries that both sides have.
        paired: Whether both sides of a round were measured close to each other.
        excluded: Queries that are not in the average.
    """
    means = {key: (_means_s(before, key), _means_s(after, key)) for key in keys}
    timed = {key: sides for key, sides in means.items() if all(sides)}
    whole = [
        key
        for key, (of_before, of_after) in timed.items()
        if len(of_before) == len(before.units)
        and len(of_after) == len(after.units)
        and key not in excluded
    ]
    calls = {key: mean_figures(before, key).calls for key in whole}
    queries = {
        key: found
        for key, (of_before, of_after) in timed.items()
        if (found := _contrast(of_before, of_after, paired=paired))
    }

    def over_all(of_round: Callable[[Mapping[str, float]], float]) -> Contrast | None:
        if not whole:
            return None
        of_before, of_after = (
            {
                unit.number: of_round({key: means[key][side][unit.number] for key in whole})
                for unit in measured_side.units
            }
            for side, measured_side in enumerate((before, after))
        )
        return _contrast(of_before, of_after, paired=paired)

    return Contrasts(
        queries=queries,
        whole=whole,
        overall=over_all(lambda of: math.fsum(calls[key] * mean for key, mean in of.items())),
        geometric=over_all(
            lambda of: math.exp(math.fsum(math.log(mean) for mean in of.values()) / len(of))
        ),
    )


def are_interleaved(before: MeasuredSide, after: MeasuredSide) -> bool:
    """Return whether each round of both sides was measured before the next round of either.

    The order within pairs may differ: a pair is always subject to drift over its length.
    """
    spans = [_spans_s(side) for side in (before, after)]
    if any(span is None for span in spans):
        return False
    of_before, of_after = (span or {} for span in spans)
    common = sorted(of_before.keys() & of_after.keys())
    if len(common) < 2:
        return False
    return all(
        max(of_before[this][1], of_after[this][1]) <= min(of_before[later][0], of_after[later][0])
        for this, later in itertools.pairwise(common)
    )


def _spans_s(side: MeasuredSide) -> dict[int, tuple[float, float]] | None:
    """Return start and end of each round; None if unknown."""
    found = {}
    for unit in side.units:
        if unit.begin_s is None or unit.covered_s is None:
            return None
        found[unit.number] = (unit.begin_s, unit.begin_s + unit.covered_s)
    return found


def _means_s(side: MeasuredSide, key: str) -> Values:
    return {number: each.mean_s for number, each in complete_rounds(side, key).items()}


def _contrast(of_before: Values, of_after: Values, *, paired: bool) -> Contrast | None:
    """Return ln(before / after); times are exact to a nanosecond, so nothing limits reading."""
    sides = [
        Rounds(values=values, unit="s", resolution_share=0.0) for values in (of_after, of_before)
    ]
    return contrast(*sides, paired=paired)


MARGIN_SHARE_DEFAULT = 0.05


def compared(
    before: MeasuredSide,
    after: MeasuredSide,
    *,
    margin_share: float = MARGIN_SHARE_DEFAULT,
    control: MeasuredSide | None = None,
    offset_s: float | None = None,
) -> Table:
    """Compare two sides.

    Args:
        before: The baseline.
        after: The side that is judged.
        margin_share: A smaller difference does not count.
        control: A second measurement of before (A/A control): the noise floor.
        offset_s: What was subtracted from the client's times; None for nothing.
    """
    all_rounds = (before, after)
    before, after, left_out = without_broken_rounds(
        *all_rounds, paired=basis_of(*all_rounds) == "interleaved"
    )
    basis = basis_of(before, after)
    pair = (before, without_broken_rounds(control, control, paired=False)[0]) if control else None
    if pair and (share := common_share(*pair)) < CONTROL_SHARE_MIN:
        left_out.append(
            f"{pair[1].name} has only queries with {format_share(share)} of the time of "
            f"{before.name}: it is not used as the noise floor."
        )
        pair = None
    floor = floor_of((before, after), basis, pair)
    averages = _Averages.of(before, after, margin_share)
    criteria = criteria_of(basis, margin_share, floor)
    conclude = _conclude_once if basis == "once" else _conclude_rounds
    conclusions = conclude(before, after, averages, criteria)
    changes = [
        averages.change(key, settled, conclusions.averaged)
        for key, settled in conclusions.queries.items()
    ]
    changes.sort(key=lambda change: -change.before.total_s)
    table = Table(
        before=_side(before, all_rounds[0]),
        after=_side(after, all_rounds[1]),
        basis=basis,
        overall=None
        if conclusions.overall is None
        else _overall(conclusions.overall, conclusions.geometric, changes),
        changes=changes,
        only_before=_one_sided(before, averages.before, conclusions.queries),
        only_after=_one_sided(after, averages.after, conclusions.queries),
        floor=floor,
        margin_share=margin_share,
        level=conclusions.level,
        offset_s=offset_s,
    )
    warnings = warnings_of(table, (before, after), left_out)
    return msgspec.structs.replace(table, warnings=warnings)


def basis_of(before: MeasuredSide, after: MeasuredSide) -> Basis:
    """Return what verdicts are based on."""
    if min(len(before.units), len(after.units)) < 2:
        return "once"
    return "interleaved" if are_interleaved(before, after) else "in_sequence"


class _Averages(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides on the average of their units."""

    sides: tuple[MeasuredSide, MeasuredSide]
    before: dict[str, CallFigures]
    after: dict[str, CallFigures]
    common: list[str]
    failing: dict[str, When]

    @classmethod
    def of(cls, before: MeasuredSide, after: MeasuredSide, margin_share: float) -> _Averages:
        means = [
            {key: mean_figures(side, key) for unit in side.units for key in unit.measured}
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

    def change(self, key: str, conclusion: Conclusion, averaged: AbstractSet[str]) -> Change:
        first, second = self.sides
        label = first.labels[key]
        before, after = self.before[key], self.after[key]
        plans_before, plans_after = first.plans.get(key, {}), second.plans.get(key, {})
        is_known = bool(plans_before and plans_after)
        side = self.failing.get(key)
        if side is not None and (side == "after") == (after.mean_s < before.mean_s):
            # Failing early is fast: such a difference is not one of speed.
            conclusion = Conclusion(
                speed_up=conclusion.speed_up, answer="undecided", p_value=conclusion.p_value,
                p_adjusted=conclusion.p_adjusted,
            )  # fmt: skip
        return Change(
            key=key,
            text=label.text,
            kind=label.kind,
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
            **{name: getattr(conclusion, name) for name in conclusion.__struct_fields__},
        )


def _shapes(plans: Mapping[str, str]) -> str:
    """Return the shape of a plan, or of all that rounds had."""
    return " or ".join(plans[plan] for plan in sorted(plans))


class _Conclusions(msgspec.Struct, frozen=True, kw_only=True):
    """The average query, the geometric mean, and every query by key.

    Attributes:
        overall: None if the average has no query.
        geometric: Likewise.
        queries: By key.
        averaged: Those in the average.
        level: Level of the intervals of queries.
    """

    overall: Conclusion | None
    geometric: Estimate | None
    queries: dict[str, Conclusion]
    averaged: AbstractSet[str]
    level: float = 1 - LEVEL


def _conclude_rounds(
    before: MeasuredSide,
    after: MeasuredSide,
    averages: _Averages,
    criteria: tuple[Criteria, Criteria],
) -> _Conclusions:
    """Return the conclusions from several rounds of each side."""
    overall_criteria, query_criteria = criteria
    of: Contrasts = contrasts(
        *(before, after, averages.common),
        paired=overall_criteria.basis == "interleaved",
        excluded=averages.failing,
    )
    p_values = {key: p for key, each in of.queries.items() if (p := p_value(each)) is not None}
    adjustment = adjust_p_values(list(p_values.values()))
    adjusted = dict(zip(p_values, adjustment.p_adjusted, strict=True))
    queries = {
        key: query_criteria.from_rounds(
            each, p_value=p_values.get(key), p_adjusted=adjusted.get(key), alpha=adjustment.alpha
        )
        for key, each in of.queries.items()
    }
    queries = query_criteria.with_rounds_more(queries, of.queries, adjustment.alpha)
    conclusions = _Conclusions(
        overall=None, geometric=None, queries=queries, averaged=set(of.whole),
        level=1 - adjustment.alpha,
    )  # fmt: skip
    if of.overall is None or of.geometric is None:
        return conclusions
    p = p_value(of.overall)
    overall = overall_criteria.from_rounds(of.overall, p_value=p, p_adjusted=p, alpha=LEVEL)
    together = overall_criteria.with_rounds_more({"": overall}, {"": of.overall}, LEVEL)
    geometric = ratio_estimate(of.geometric, LEVEL)
    return msgspec.structs.replace(conclusions, overall=together[""], geometric=geometric)


def _conclude_once(
    before: MeasuredSide,
    after: MeasuredSide,
    averages: _Averages,
    criteria: tuple[Criteria, Criteria],
) -> _Conclusions:
    """Return the conclusions if a side was measured once; several rounds then count as one."""
    overall_criteria, query_criteria = criteria
    weights = {
        key: averages.before[key].calls for key in averages.common if key not in averages.failing
    }
    a, b = (
        captures.capture_means(_as_one(side, means), averages.common, weights)
        for side, means in ((before, averages.before), (after, averages.after))
    )
    queries = {
        key: query_criteria.from_once(
            captures.once_estimate(
                math.log(a.mean_s[key] / b.mean_s[key]), a.half.get(key), b.half.get(key)
            )
        )
        for key in averages.common
    }
    conclusions = _Conclusions(
        overall=None, geometric=None, queries=queries, averaged=weights.keys()
    )
    if not weights:
        return conclusions
    overall = captures.once_estimate(
        math.log(a.overall_s / b.overall_s), a.overall_half, b.overall_half
    )
    geometric = captures.once_estimate(
        a.geometric_log - b.geometric_log, a.geometric_half, b.geometric_half
    )
    whole = overall_criteria.from_once(overall)
    if whole.answer != _answer_of_frequent(overall_criteria, averages, weights):
        whole = msgspec.structs.replace(whole, answer="undecided")
    return msgspec.structs.replace(conclusions, overall=whole, geometric=geometric)


def _answer_of_frequent(
    criteria: Criteria, averages: _Averages, weights: Mapping[str, float]
) -> Answer:
    """Return the answer from the queries that were called often enough on both sides.

    Queries with few calls may be cold on one side and hot on the other; they must not decide.
    """
    frequent = [
        key
        for key in weights
        if min(averages.before[key].calls, averages.after[key].calls) >= captures.CALLS_MIN
    ]
    if not frequent:
        return "undecided"
    before_s, after_s = (
        math.fsum(weights[key] * side[key].mean_s for key in frequent)
        for side in (averages.before, averages.after)
    )
    return criteria.from_once(captures.once_estimate(math.log(before_s / after_s), None)).answer


def _as_one(side: MeasuredSide, means: Mapping[str, CallFigures]) -> MeasuredSide:
    """Return a side with the means of its rounds as one unit."""
    if len(side.units) == 1:
        return side
    unit = msgspec.structs.replace(side.units[0], measured=means, timeline=None)
    return msgspec.structs.replace(side, units=[unit])


def _overall(
    conclusion: Conclusion, geometric: Estimate | None, changes: Sequence[Change]
) -> Overall:
    counts = Counter(change.answer for change in changes)
    plans = [change.plan_changed for change in changes if change.plan_changed is not None]
    averaged = [change for change in changes if change.in_average]
    return Overall(
        speed_up=conclusion.speed_up,
        geometric=geometric or conclusion.speed_up,
        answer=conclusion.answer,
        p_value=conclusion.p_value,
        below_floor=conclusion.below_floor,
        within_share=conclusion.within_share,
        rounds_more=conclusion.rounds_more,
        before_s=math.fsum(change.before.total_s for change in averaged),
        after_s=math.fsum(change.before.calls * change.after.mean_s for change in averaged),
        faster=counts["faster"],
        slower=counts["slower"],
        same=counts["same"],
        undecided=counts["undecided"],
        plans_changed=sum(plans) if plans else None,
    )


def _side(side: MeasuredSide, all_rounds: MeasuredSide) -> Side:
    """Return the summary of a side.

    Args:
        side: Without the rounds that were left out.
        all_rounds: With them.
    """
    covered_s = [unit.covered_s for unit in side.units if unit.covered_s is not None]
    measured = [each for unit in side.units for each in unit.measured.values()]
    units = len(side.units)
    return Side(
        name=side.name,
        kind=side.kind,
        clock=side.clock,
        units=units,
        covered_s=math.fsum(covered_s) / len(covered_s) if covered_s else None,
        calls=math.fsum(each.calls for each in measured) / units,
        total_s=math.fsum(each.total_s for each in measured) / units,
        detail=side.detail,
        left_out=len(all_rounds.units) - units,
    )


def _one_sided(
    side: MeasuredSide, measured: Mapping[str, CallFigures], compared: Container[str]
) -> list[OneSided]:
    """Return the queries that are not compared: the other side lacks them or took no time."""
    rows = [
        OneSided(key=key, text=side.labels[key].text, measured=figures)
        for key, figures in measured.items()
        if key not in compared
    ]
    return sorted(rows, key=lambda row: -row.measured.total_s)
