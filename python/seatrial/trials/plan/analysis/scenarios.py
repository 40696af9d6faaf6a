"""Evaluates candidates in thousands of scenarios: whether they fit, response time, price.

A scenario has one value for every unknown: the load of another day, growth, stored bytes, times of
requests on each kind of storage, the share of a data sheet that lasts, prices. All candidates are
evaluated in the same scenarios, so that common influences cancel in a comparison (common random
numbers).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from seatrial.lazy import np
from seatrial.trials.plan.analysis.buckets import (
    FACTOR_MAX,
    FACTOR_MIN,
    UNSERVED_SHARE_MAX,
    buckets_of,
    sustained_factors,
)
from seatrial.trials.plan.analysis.candidates import Candidate, RequestTimes
from seatrial.trials.plan.analysis.figure import FORECAST_Z, TAIL_Z, Figure
from seatrial.trials.plan.analysis.need import PERCENTILES, StorageNeed
from seatrial.trials.plan.analysis.queueing import Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.plan.analysis.demand import Limit
    from seatrial.trials.plan.analysis.stalls import ObservedStalls

SCENARIOS: Final = 10_000
SEED: Final = 20
ENDS_PERCENT: Final = (5, 50, 95)
OTHER_DAY: Final = "what another day asks for"
GROWTH: Final = "growth"
CAPACITY: Final = "what is stored"
FOLLOWS: Final = "what of the log's work reaches storage"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The results of a candidate in all scenarios.

    Attributes:
        candidate: The candidate.
        holds: Multiple of the load that its narrowest limit sustains.
        narrowest: That limit.
        fits: Whether load, capacity and objective fit; shape (scenarios,), as all.
        response_ms: The objective's percentile; infinite if the load is not sustained.
        month: Price of a month.
        fit_share: Share of the scenarios in which it fits.
        response_ends_ms: Quantiles of 5, 50 and 95 % over the scenarios.
        miss: Most frequent cause in the other scenarios: ``load``, ``capacity``, ``objective``.
        inputs: Names of its unknown inputs.
        calm_ms: The median of the percentile without stalls; None where none are known.
    """

    candidate: Candidate
    holds: float
    narrowest: Limit
    fits: NDArray[np.bool_]
    response_ms: NDArray[np.float32]
    month: NDArray[np.float64]
    fit_share: float
    response_ends_ms: tuple[float, float, float]
    miss: str
    inputs: tuple[str, ...]
    calm_ms: float | None


class Scenarios:
    """Random deviates of every input, by its name; the same name gives the same deviates.

    Args:
        count: How many scenarios.
        seed: Seed of the draws.
    """

    def __init__(self, count: int = SCENARIOS, seed: int = SEED) -> None:
        self.count = count
        self._seed = seed
        self._drawn: dict[str, NDArray[np.float64]] = {}

    def of(self, name: str) -> NDArray[np.float64]:
        """Return the standard normal deviates of an input; shape (count,).

        They follow from the name alone, so that the order of candidates does not matter.
        """
        if name not in self._drawn:
            random = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
            self._drawn[name] = random.standard_normal(self.count)
        return self._drawn[name]


Curves = dict[tuple[int, float], Curve]
"""Simulated curves by service times and percentile, so that none is simulated twice."""


def evaluate(
    candidates: Sequence[Candidate],
    need: StorageNeed,
    scenarios: Scenarios,
    curves: Curves | None = None,
) -> list[Evaluation]:
    """Return the results of every candidate in all scenarios, in their order.

    Args:
        candidates: The candidates.
        need: The requirements.
        scenarios: The scenarios.
        curves: Curves of an earlier call with the same percentile and gaps, to be reused.
    """
    sustained = _sustained_load(candidates, need)
    growth = (1 + need.growth.at(scenarios.of(GROWTH))) ** need.years
    load = need.other_day.at(scenarios.of(OTHER_DAY)) * growth
    if need.follows is not None:
        load = load * need.follows.at(scenarios.of(FOLLOWS))
    stored = need.capacity.at(scenarios.of(CAPACITY)) * growth
    curves = {} if curves is None else curves
    months: dict[tuple[float, float, float], NDArray[np.float64]] = {}
    evaluations = []
    for candidate, (factor, cap) in zip(candidates, sustained, strict=True):
        share = candidate.limits_share.at(scenarios.of(f"limits of {candidate.limits_kind}"))
        busy = load / (factor * share)
        response = _response_ms(candidate, need, busy, scenarios, curves)
        price = candidate.month
        ends = (price.low, price.mid, price.high)
        if ends not in months:
            months[ends] = _price_draws(ends, scenarios)
        evaluation = _evaluation(
            candidate, need, (factor, cap), busy, stored, response, months[ends]
        )
        if _request_times(candidate, need).stalls is not None:
            calm = _response_ms(_without_stalls(candidate), need, busy, scenarios, curves)
            evaluation = replace(evaluation, calm_ms=float(np.median(calm)))
        evaluations.append(evaluation)
    return evaluations


def _price_draws(ends: tuple[float, float, float], scenarios: Scenarios) -> NDArray[np.float64]:
    return Figure(low=ends[0], mid=ends[1], high=ends[2], origin="").at(scenarios.of("prices"))


def _evaluation(  # noqa: PLR0917 - the values of the loop above
    candidate: Candidate,
    need: StorageNeed,
    sustained: tuple[float, Limit],
    busy: NDArray[np.float64],
    stored: NDArray[np.float64],
    response: NDArray[np.float64],
    month: NDArray[np.float64],
) -> Evaluation:
    holds = busy < 1.0
    has_room = stored <= candidate.capacity_bytes
    is_fast = np.ones_like(holds)
    if need.objective is not None and not need.forecasts_objective:
        is_fast = response <= need.objective.limit_ms
    fits = holds & has_room & is_fast
    missing = {
        "load": int((~holds).sum()),
        "capacity": int((~has_room).sum()),
        "objective": int((holds & ~is_fast).sum()),
    }
    inputs = [OTHER_DAY, GROWTH, CAPACITY, f"limits of {candidate.limits_kind}"]
    if need.follows is not None:
        inputs.append(FOLLOWS)
    if need.objective is not None:
        inputs.append(f"times of {_request_times(candidate, need).kind}")
        if _request_times(candidate, need).stalls is not None:
            inputs.append(_stalls_input(_request_times(candidate, need)))
    low, mid, high = np.percentile(response, ENDS_PERCENT, method="nearest")
    return Evaluation(
        candidate=candidate,
        holds=sustained[0],
        narrowest=sustained[1],
        fits=fits,
        response_ms=response.astype(np.float32),
        month=month,
        fit_share=float(fits.mean()),
        response_ends_ms=(float(low), float(mid), float(high)),
        miss=max(missing, key=lambda name: missing[name]) if not fits.all() else "",
        inputs=(*inputs, "prices"),
        calm_ms=None,
    )


def with_commit_times(
    each: Evaluation, commit_ms: Figure, limit_ms: float, scenarios: Scenarios
) -> Evaluation:
    """Return an evaluation whose objective is judged by a forecast of its commits.

    Args:
        each: The evaluation; where its load is not sustained, no commit is.
        commit_ms: The objective's percentile of the time that a commit takes; its ends hold 95 %.
        limit_ms: What it may be.
        scenarios: The scenarios of the evaluation.
    """
    normal = scenarios.of(f"times of {each.candidate.writes.kind}")
    times = commit_ms.at(normal * (TAIL_Z / FORECAST_Z))
    response = np.where(np.isfinite(each.response_ms), times, np.inf)
    is_fast = response <= limit_ms
    fits = each.fits & is_fast
    is_missed = (each.fits & ~is_fast).mean() > (~each.fits).mean()
    low, mid, high = commit_ms.at(np.array([-1.0, 0.0, 1.0]) * TAIL_Z**2 / FORECAST_Z)
    if not np.isfinite(response).all():
        low, mid, high = np.percentile(response, ENDS_PERCENT, method="nearest")
    return replace(
        each,
        fits=fits,
        response_ms=response.astype(np.float32),
        fit_share=float(fits.mean()),
        response_ends_ms=(float(low), float(mid), float(high)),
        miss="objective" if is_missed else each.miss,
        calm_ms=None,
    )


def _without_stalls(candidate: Candidate) -> Candidate:
    """Return a candidate without stalls."""
    return replace(
        candidate,
        reads=replace(candidate.reads, stalls=None),
        writes=replace(candidate.writes, stalls=None),
    )


def _request_times(candidate: Candidate, need: StorageNeed) -> RequestTimes:
    of_writes = need.objective is not None and need.objective.is_of_writes
    return candidate.writes if of_writes else candidate.reads


def _response_ms(
    candidate: Candidate,
    need: StorageNeed,
    busy: NDArray[np.float64],
    scenarios: Scenarios,
    curves: Curves,
) -> NDArray[np.float64]:
    """Return the objective's percentile in each scenario, of k servers simulated."""
    times = _request_times(candidate, need)
    percentile = PERCENTILES[need.objective.percentile] if need.objective else 99.0
    key = (id(times.service), percentile)
    curve = curves.setdefault(key, Curve(times.service, percentile, need.gaps))
    mean_ms = times.mean_ms.at(scenarios.of(f"times of {times.kind}"))
    of_it = "write" if need.objective is not None and need.objective.is_of_writes else "read"
    iops = min(
        cap.per_s
        for cap in candidate.caps
        if cap.quantity == "IOPS" and cap.operation in ("", of_it)
    )
    servers = iops * times.mean_ms.mid / 1000
    if times.stalls is None:
        return mean_ms * curve.at(servers, busy)
    per_s = times.stalls.per_s(scenarios.of(_stalls_input(times)))
    return _response_with_stalls(times.stalls, per_s, curve, percentile, servers, mean_ms, busy)


def _stalls_input(times: RequestTimes) -> str:
    """Return the input that is the rate of stalls, the same for reads and writes."""
    return f"stalls of {times.kind.rpartition(' ')[0]}"


def _response_with_stalls(  # noqa: PLR0917 - the values of the call above
    stalls: ObservedStalls,
    per_s: NDArray[np.float64],
    curve: Curve,
    percentile: float,
    servers: float,
    mean_ms: NDArray[np.float64],
    busy: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the percentile where some of the slowest requests wait for stalls.

    Fewer of the others are then above it: it is a higher percentile of the queue. If stalls alone
    delay more requests than may be above it, it is one of their times.
    """
    above = 1 - percentile / 100
    share = stalls.waiting_share(per_s, busy)
    left = np.clip((above - share) / above / np.maximum(1 - share, 1e-9), 0.0, 1.0)
    queued_ms = mean_ms * curve.at(servers, busy, left)
    stalled_ms = stalls.wait_s(per_s, busy, above) * 1000 + mean_ms
    evaluations = np.where(share < above, queued_ms, np.maximum(stalled_ms, queued_ms))
    return np.asarray(np.where(busy < 1.0, evaluations, np.inf))


def _sustained_load(
    candidates: Sequence[Candidate], need: StorageNeed
) -> list[tuple[float, Limit]]:
    """Return the multiple of the load that each candidate sustains, and its limit.

    Equal limits are computed once.
    """
    row_of: dict[tuple[object, ...], int] = {}
    rows: list[Limit] = []
    for cap in (cap for candidate in candidates for cap in candidate.caps):
        if _limit_key(cap) not in row_of:
            row_of[_limit_key(cap)] = len(rows)
            rows.append(cap)
    factors = np.empty(len(rows))
    plain = [row for row, cap in enumerate(rows) if cap.bucket is None]
    bursting = [row for row, cap in enumerate(rows) if cap.bucket is not None]
    if bursting:
        limits = buckets_of([(rows[row].per_s, rows[row].bucket) for row in bursting])
        factors[bursting] = np.min(
            [
                sustained_factors(
                    np.stack([demand.counted_by(rows[row]) for row in bursting]),
                    demand.slot_s,
                    limits,
                )
                for demand in need.demand.for_simulation()
            ],
            axis=0,
        )
    for row in plain:
        factors[row] = _factor_without_burst(need.demand.counted_by(rows[row]), rows[row].per_s)
    evaluations = []
    for candidate in candidates:
        best = min(candidate.caps, key=lambda cap: factors[row_of[_limit_key(cap)]])
        evaluations.append((float(factors[row_of[_limit_key(best)]]), best))
    return evaluations


def _factor_without_burst(load: NDArray[np.float64], limit_per_s: float) -> float:
    """Return the multiple of a load that a limit without a burst sustains, without bisection.

    The share above a limit falls with the limit; the smallest allowed limit is found among the
    sorted slots.
    """
    ordered = np.sort(load)[::-1]
    total = ordered.sum()
    if total <= 0 or not np.isfinite(limit_per_s):
        return FACTOR_MAX
    counts = np.arange(1, len(ordered) + 1)
    levels = (np.cumsum(ordered) - UNSERVED_SHARE_MAX * total) / counts
    level = float(levels.max())
    return float(np.clip(limit_per_s / max(level, 1e-300), FACTOR_MIN, FACTOR_MAX))


def _limit_key(cap: Limit) -> tuple[object, ...]:
    return (
        cap.quantity, cap.per_s, cap.bucket, cap.operation, cap.unit_bytes, cap.merges,
        cap.writes_cost, cap.reads_share,
    )  # fmt: skip
