"""The answer to a need: candidates with price, response time, risk and reason of refusal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from seatrial.catalogue.units import Money
from seatrial.catalogue.volumes import Item
from seatrial.published import Amount, Count
from seatrial.trials.plan.analysis.candidates import Candidate
from seatrial.trials.plan.analysis.commits import CommitForecast, Forecasts
from seatrial.trials.plan.analysis.demand import Demand
from seatrial.trials.plan.analysis.figure import Figure
from seatrial.trials.plan.analysis.need import PERCENTILES, Objective, StorageNeed
from seatrial.trials.plan.analysis.ranking import (
    FIT_SHARE_MIN,
    MISS_FACTOR,
    Measurement,
    RankedCandidate,
    Ranking,
    rank,
)
from seatrial.trials.plan.analysis.scenarios import (
    Curves,
    Evaluation,
    Scenarios,
    evaluate,
    with_commit_times,
)

REFUSED_MAX: Final = 60
"""Refused candidates that are kept, the nearest first."""
FORECASTS_MAX: Final = 12
"""Choices whose commits are simulated: those that are shown."""
REFUSED_FORECASTS_MAX: Final = 3
DOUBLE: Final = 2.0


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate.

    Attributes:
        name: Unique within a plan.
        kind: ``volume``, ``local`` or ``own``.
        month: Its price a month.
        bill: The items of that price.
        fit_share: Share of the scenarios in which it holds load, capacity and objective.
        response_ms_low: The objective's percentile, 5 % of the scenarios are below; null where most
            scenarios cannot be served. Of commits in a recording, it is that of their forecast.
        response_ms_mid: The median of the scenarios.
        response_ms_high: 95 % of the scenarios are below; null where more cannot be served.
        lost_per_year: Probability of losing what it holds in a year.
        holds: How many times the known load it holds.
        binding: Its narrowest limit.
        binding_quantity: ``IOPS`` or ``throughput``.
        binding_per_s: Its rate without burst credits.
        binding_load_per_s: The known load in its busiest slot, as that limit counts it.
        regret: Expected regret a month; null of one that is refused.
        overlaps_best: Whether it does not differ significantly from the first.
        better_share: Share of the scenarios in which it regrets less than the first.
        miss: What it misses most: ``load``, ``capacity``, ``objective``, ``budget``; else empty.
        capacity_bytes: Its capacity.
        reads_origin: Source of the times of requests.
        stalls: Stalls of the storage that a run observed; empty if no run watched for them.
        response_ms_calm: The median of the percentile without stalls; null where none are known.
        is_redundant: Whether its data survive the failure of any one drive.
        disk_share: Share of the reads that a cache in front leaves to it; 1 without one.
        commits: Commits on it in a closed loop of the recorded clients; null where the load shows
            none, and of all but the first choices and the nearest refused ones.
    """

    name: str
    kind: str
    month: Money
    bill: list[Item]
    fit_share: Amount
    response_ms_low: Amount | None
    response_ms_mid: Amount | None
    response_ms_high: Amount | None
    lost_per_year: Figure
    holds: Amount
    binding: str
    binding_quantity: str
    binding_per_s: Amount
    binding_load_per_s: Amount
    regret: Amount | None
    overlaps_best: bool
    better_share: Amount
    miss: str
    capacity_bytes: Amount
    reads_origin: str
    stalls: str
    response_ms_calm: Amount | None
    is_redundant: bool
    disk_share: Amount
    commits: CommitForecast | None


class StoragePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a need.

    Attributes:
        load: Where the load is from.
        unjudged: A test of the run with more requests, in a sentence; empty if there is none.
        load_s: Its length; below a day it was repeated to fill one.
        busiest_per_s: Requests per second in its busiest slot.
        busiest_bytes_per_s: Bytes per second in its busiest slot.
        other_day: The load of another day over that one.
        capacity: Bytes that are stored now.
        growth: Growth of load and capacity a year, as a share.
        years: Age at which the need applies.
        objective: None where only rates count.
        candidates: Number of evaluated candidates.
        worlds: Number of scenarios.
        choices: Those that fit and are not dominated, least regret first.
        dominated: How many fit, but another one is at least as good in all.
        refused: Some of those that do not fit: cheaper than the first, the nearest of them first.
        refused_count: How many are refused in all.
        measurement: None where the first one stands alone.
        twice_fit_share: Share of the scenarios in which the first one fits twice the load; what is
            stored stays. Null without a choice, and where a forecast of commits decides.
        twice_name: The first by price that fits twice the load; empty where none does.
        miss_factor: What a month that misses its objective costs, in prices of the cheapest.
        follows: What of a log's work reaches storage; null where the load was seen there.
        logged: What a log of SQL shows, a sentence each; empty of any other load.
        lacks: The unknown part of the load, which was not evaluated; empty if none.
    """

    load: str
    unjudged: str = ""
    load_s: Amount
    busiest_per_s: Amount
    busiest_bytes_per_s: Amount
    other_day: Figure
    capacity: Figure
    growth: Figure
    years: Amount
    objective: Objective | None
    candidates: Count
    worlds: Count
    choices: list[Choice]
    dominated: Count
    refused: list[Choice]
    refused_count: Count
    measurement: Measurement | None
    twice_fit_share: Amount | None
    twice_name: str
    miss_factor: Amount
    follows: Figure | None
    logged: list[str]
    lacks: str

    @property
    def overlapping(self) -> list[Choice]:
        """The first, and all that do not differ significantly from it."""
        return [self.choices[0], *(each for each in self.choices[1:] if each.overlaps_best)]


def plan_of(
    candidates: Sequence[Candidate],
    need: StorageNeed,
    *,
    budget: float | None = None,
    lost_max: float | None = None,
    miss_factor: float = MISS_FACTOR,
    scenarios: Scenarios | None = None,
) -> StoragePlan:
    """Return the answer to a need.

    Args:
        candidates: What could be had; their order does not matter.
        need: What storage has to do.
        budget: The most that a month may cost; None for any price.
        lost_max: The highest probability of loss in a year; None for any.
        miss_factor: What a month that misses its objective costs, in prices of the cheapest.
        scenarios: For all candidates; sampled if not given.
    """
    scenarios = scenarios or Scenarios()
    curves: Curves = {}
    forecasts = _forecasts(need)
    evaluation = evaluate(candidates, need, scenarios, curves)
    evaluation = _judged_by_commits(evaluation, need, forecasts, scenarios)
    allowed = [each for each in evaluation if not _bound_broken(each, budget, lost_max)]
    ranking = rank(allowed, scenarios, miss_factor)
    refused = [_refused(each, each.miss, need.demand) for each in ranking.refused]
    for each in evaluation:
        if broken := _bound_broken(each, budget, lost_max):
            refused.append(_refused(each, broken, need.demand))
    least = ranking.ranked[0].evaluation.candidate.month.mid if ranking.ranked else math.inf
    refused.sort(key=lambda each: _refusal_order(each, need, least))
    by_name = {each.candidate.name: each.candidate for each in evaluation}
    if forecasts is not None:
        refused[:REFUSED_FORECASTS_MAX] = [
            msgspec.structs.replace(each, commits=forecasts.on(by_name[each.name]))
            for each in refused[:REFUSED_FORECASTS_MAX]
        ]
    twice = _double_load(ranking, need, scenarios, curves)
    count = len(evaluation)
    return _answer(need, ranking, refused, scenarios, twice, miss_factor, count, forecasts)


def _judged_by_commits(
    evaluation: list[Evaluation],
    need: StorageNeed,
    forecasts: Forecasts | None,
    scenarios: Scenarios,
) -> list[Evaluation]:
    """Return evaluations with the objective judged by forecasts of commits, if they are known.

    What does not hold the load or the data is refused without one, and then has no times.
    """
    if forecasts is None or need.objective is None or not need.forecasts_objective:
        return evaluation
    limit_ms = need.objective.limit_ms
    return [
        with_commit_times(each, forecasts.on(each.candidate).commit_ms, limit_ms, scenarios)
        if each.fit_share >= FIT_SHARE_MIN
        else replace(each, response_ends_ms=(math.inf,) * 3)
        for each in evaluation
    ]


def _forecasts(need: StorageNeed) -> Forecasts | None:
    """Return forecasts of the recorded commits; None where they are unknown."""
    if need.commits is None:
        return None
    if need.objective is None or not need.forecasts_objective:
        return Forecasts(need.commits)
    return Forecasts(need.commits, PERCENTILES[need.objective.percentile])


def _bound_broken(each: Evaluation, budget: float | None, lost_max: float | None) -> str:
    """Return the user's bound that a candidate breaks; empty for none."""
    if budget is not None and each.candidate.month.mid > budget:
        return "budget"
    if lost_max is not None and each.candidate.lost_per_year.mid > lost_max:
        return "risk"
    return ""


def _refusal_order(
    choice: Choice, need: StorageNeed, least: float
) -> tuple[bool, float, float, float, float, str]:
    """Return a sort key of refused candidates: cheaper ones first, the nearest of them.

    Of those that fit in as many scenarios, the nearest has most of the load and the room, then most
    of the speed.
    """
    is_dearer = choice.month.mid > least
    distance = choice.month.mid if is_dearer else -choice.fit_share
    has = min(1.0, choice.holds, choice.capacity_bytes / max(need.capacity.mid, 1.0))
    speed = 0.0
    if need.objective is not None and choice.response_ms_mid:
        speed = need.objective.limit_ms / choice.response_ms_mid
    return is_dearer, distance, -has, -speed, choice.month.mid, choice.name


def _refused(each: Evaluation, miss: str, demand: Demand) -> Choice:
    refused = RankedCandidate(evaluation=each, regret=-1.0, overlaps_best=False, better_share=0.0)
    return _choice(refused, miss, demand)


def _choice(
    ranked: RankedCandidate, miss: str, demand: Demand, forecasts: Forecasts | None = None
) -> Choice:
    each = ranked.evaluation
    candidate, calm = each.candidate, each.calm_ms
    low, mid, high = (value if math.isfinite(value) else None for value in each.response_ends_ms)
    return Choice(
        name=candidate.name,
        kind=candidate.kind,
        month=candidate.month,
        bill=list(candidate.bill),
        fit_share=each.fit_share,
        response_ms_low=low,
        response_ms_mid=mid,
        response_ms_high=high,
        lost_per_year=candidate.lost_per_year,
        holds=each.holds,
        binding=each.narrowest.subject,
        binding_quantity=each.narrowest.quantity,
        binding_per_s=each.narrowest.per_s,
        binding_load_per_s=float(demand.counted_by(each.narrowest).max()),
        regret=ranked.regret if ranked.regret >= 0 else None,
        overlaps_best=ranked.overlaps_best,
        better_share=ranked.better_share,
        miss=miss,
        capacity_bytes=candidate.capacity_bytes,
        reads_origin=candidate.reads.origin,
        stalls=candidate.reads.stalls.words() if candidate.reads.stalls is not None else "",
        response_ms_calm=calm if calm is not None and math.isfinite(calm) else None,
        is_redundant=candidate.is_redundant,
        disk_share=candidate.disk_share,
        commits=None if forecasts is None else forecasts.on(candidate),
    )


def _answer(  # noqa: PLR0917 - parts of one answer
    need: StorageNeed,
    ranking: Ranking,
    refused: list[Choice],
    scenarios: Scenarios,
    twice: tuple[float | None, str],
    miss_factor: float,
    candidates: int,
    forecasts: Forecasts | None,
) -> StoragePlan:
    return StoragePlan(
        load=need.demand.origin,
        unjudged=need.unjudged,
        load_s=need.demand.seconds,
        busiest_per_s=float(need.demand.requests_per_s.max()),
        busiest_bytes_per_s=float(need.demand.bytes_per_s.max()),
        other_day=need.other_day,
        capacity=need.capacity,
        growth=need.growth,
        years=need.years,
        objective=need.objective,
        candidates=candidates,
        worlds=scenarios.count,
        choices=[
            _choice(
                each,
                each.evaluation.miss,
                need.demand,
                forecasts if rank_number < FORECASTS_MAX else None,
            )
            for rank_number, each in enumerate(ranking.ranked)
        ],
        dominated=ranking.dominated,
        refused=refused[:REFUSED_MAX],
        refused_count=len(refused),
        measurement=ranking.measurement,
        twice_fit_share=twice[0],
        twice_name=twice[1],
        miss_factor=miss_factor,
        follows=need.follows,
        logged=list(need.logged),
        lacks=need.lacks,
    )


def _double_load(
    ranking: Ranking, need: StorageNeed, scenarios: Scenarios, curves: Curves
) -> tuple[float | None, str]:
    """Return how well the first one fits twice the load, and the cheapest of all that does.

    Commits are forecast of the recorded clients, so it is not known of an objective of commits.
    """
    if not ranking.ranked or need.forecasts_objective:
        return None, ""
    more = replace(need, other_day=need.other_day.times(DOUBLE))
    evaluation = evaluate(
        [each.evaluation.candidate for each in ranking.ranked], more, scenarios, curves
    )
    fitting = [each for each in evaluation if each.fit_share >= 0.5]
    cheapest = min(fitting, key=lambda each: each.candidate.month.mid, default=None)
    return evaluation[0].fit_share, cheapest.candidate.name if cheapest else ""
