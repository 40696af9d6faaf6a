"""Queries, or pages, before and after: every one, and all together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from seatrial.stats.compare.ratio import p_value, ratio_estimate
from seatrial.stats.estimate import Estimate
from seatrial.trials.replay.compare import captures
from seatrial.trials.replay.compare.entered import Entrant
from seatrial.trials.replay.compare.fdr import LEVEL, judge
from seatrial.trials.replay.compare.floors import floor_of
from seatrial.trials.replay.compare.model import (
    Answer,
    Basis,
    CallFigures,
    Change,
    OneSided,
    Overall,
    Side,
    Table,
    When,
)
from seatrial.trials.replay.compare.rounds import Contrasts, are_in_turns, contrasts
from seatrial.trials.replay.compare.settled import Judging, Settled, judges
from seatrial.trials.replay.compare.sums import mean_measured
from seatrial.trials.replay.compare.warnings import warnings_of
from seatrial.trials.replay.compare.whole import failing, only_whole

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
        before: The measure.
        after: What is judged.
        margin_share: A difference of less is no difference.
        control: Before, measured once more: no difference as small as theirs is called one.
        offset_s: What was taken off the client's times, to be told; None for nothing.
    """
    measured = (before, after)
    before, after, left_out = only_whole(*measured, paired=basis_of(*measured) == "interleaved")
    basis = basis_of(before, after)
    pair = (before, only_whole(control, control, paired=False)[0]) if control else None
    floor = floor_of((before, after), basis, pair)
    found = _Found.of(before, after, margin_share)
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
    """Return what verdicts rest on."""
    if min(len(before.units), len(after.units)) < 2:
        return "once"
    return "interleaved" if are_in_turns(before, after) else "in_sequence"


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides on the average of their units."""

    sides: tuple[Entrant, Entrant]
    before: dict[str, CallFigures]
    after: dict[str, CallFigures]
    common: list[str]
    failing: dict[str, When]

    @classmethod
    def of(cls, before: Entrant, after: Entrant, margin_share: float) -> _Found:
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
            # What fails early is fast: such a difference is none of speed.
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
        overall: None where the average has no query.
        geometric: Likewise.
        queries: By key.
        averaged: Those that the average has.
        level: Of the intervals of queries.
    """

    overall: Settled | None
    geometric: Estimate | None
    queries: dict[str, Settled]
    averaged: AbstractSet[str]
    level: float = 1 - LEVEL


def _repeated(
    before: Entrant, after: Entrant, found: _Found, judging: tuple[Judging, Judging]
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
    before: Entrant, after: Entrant, found: _Found, judging: tuple[Judging, Judging]
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


def _of_often(judging: Judging, found: _Found, weights: Mapping[str, float]) -> Answer:
    """Return what those queries say together that were called often enough on both sides.

    What was called a few times may be cold on one side and hot on the other; it must not decide.
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
    """Return a side as it is told.

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
    """Return what is not compared, as the other side lacks it or took no time for it."""
    own = [
        OneSided(key=key, text=side.named[key].text, measured=each)
        for key, each in measured.items()
        if key not in compared
    ]
    return sorted(own, key=lambda each: -each.measured.total_s)
