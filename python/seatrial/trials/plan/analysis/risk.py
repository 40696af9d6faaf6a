"""The risk of losing an array: scenarios with sampled rates, and simulated lifetimes in each.

A scenario has one value for every unknown: the failure rate (posterior of the failures in a number
of drive-years), the time of a rebuild, unreadable bits, the share of failures with a common cause.
In each scenario lifetimes of a group of drives are simulated from failure to failure. Losses are
too rare to be sampled: the probability of a loss in each time without full redundancy is computed
and summed up. No mean time to data loss is given: it assumes one rate and says nothing about
five years (Greenan, Plank, Wylie, "Mean time to meaningless", HotStorage 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount, Count, one_of
from seatrial.trials.plan.analysis.array import Array, Groups
from seatrial.trials.plan.analysis.figure import Figure
from seatrial.units import MB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seatrial.catalogue.facts import FieldFailures

HOURS_PER_YEAR: Final = 8766.0
SCENARIOS: Final = 600
LIFETIMES: Final = 400
"""Simulated lifetimes in each scenario."""
FAILURES_MAX: Final = 10_000
"""Failures of a group in one lifetime: a bound for the loop."""
LOST_BYTES: Final = {"md": 4096.0, "btrfs": 4096.0, "zfs": 131072.0}
"""Bytes lost with an unreadable sector without redundancy; ``hardware`` loses the array.

md keeps the array and loses the block (measured: 3 bad sectors, 12 KiB lost, array clean); ZFS
loses the record.
"""
ENDS_PERCENT: Final = (5, 95)


REPLACE_H: Final = Figure(low=8.0, mid=24.0, high=168.0, origin="assumed")
DETECT_H: Final = Figure(low=0.01, mid=0.05, high=0.2, origin="assumed")
COMMON_SHARE: Final = Figure(low=0.002, mid=0.01, high=0.05, origin="assumed")
HARD_DISK_UBER: Final = Figure(low=1e-16, mid=1e-15, high=1e-14, origin="assumed")
FLASH_UBER: Final = Figure(low=1e-18, mid=1e-17, high=1e-16, origin="assumed")
"""Unreadable bits per bit read."""


def assumed_rebuild_h(drive_bytes: float) -> Figure:
    """Return how long a rebuild of a drive takes where nothing is known of it."""
    low, mid, high = (drive_bytes / MB / mb_s / 3600 for mb_s in (200, 100, 50))
    return Figure(low=low, mid=mid, high=high, origin="assumed, 50 to 200 MB/s")


class FailureRate(msgspec.Struct, frozen=True, kw_only=True):
    """The failure rate of drives: from a count, or from the spread over models.

    Attributes:
        failures: Failures counted.
        drive_years: Years of service in which they were counted; 0 if the model is unknown.
        models: Failures and drive-years of other models, as the model may be any of them.
        typed: Failures per drive-year as typed, which replaces the others.
        origin: Where it is from.
    """

    failures: Count = 0
    drive_years: Amount = 0.0
    models: list[tuple[int, float]] = []
    typed: Figure | None = None
    origin: str

    def draw(self, random: np.random.Generator, scenarios: int) -> NDArray[np.float64]:
        """Return failures per drive-year in each scenario, of Gamma(failures + 1/2, years)."""
        if self.typed is not None:
            return self.typed.at(random.standard_normal(scenarios))
        if self.drive_years > 0:
            return np.asarray(random.gamma(self.failures + 0.5, 1 / self.drive_years, scenarios))
        known = np.array(self.models, dtype=np.float64)
        picked = known[random.integers(0, len(known), scenarios)]
        return np.asarray(random.gamma(picked[:, 0] + 0.5, 1 / picked[:, 1]))


def rate_of_model(model: str, failures: Sequence[FieldFailures], today_phrase: str) -> FailureRate:
    """Return the failure rate of a model in the field; of one that is not known, of all models.

    Args:
        model: As a user writes it; a part of the catalogue's name is enough.
        failures: Rows of the catalogue.
        today_phrase: The origin of these rows.
    """
    words = model.lower().split()
    fitting = [each for each in failures if words and all(word in each.model for word in words)]
    if fitting:
        count, years = sum(e.failures for e in fitting), sum(e.drive_years for e in fitting)
        names = ", ".join(each.model for each in fitting[:2])
        return FailureRate(
            failures=count,
            drive_years=years,
            origin=f"{today_phrase}, {names}: {count:,} failures in {years:,.0f} drive-years",
        )
    usable = [(e.failures, e.drive_years) for e in failures if e.confidence != "low"]
    return FailureRate(
        models=usable,
        origin=f"{today_phrase}, any of {len(usable)} models of hard disks, as this one is unknown",
    )


class RiskAssumptions(msgspec.Struct, frozen=True, kw_only=True):
    """Assumptions about drives and repairs.

    Attributes:
        failures: How often drives fail.
        rebuild_h: How long a rebuild takes.
        replace_h: Time until a failed drive is replaced.
        detect_h: Time until a spare takes over.
        unreadable_per_bit: Unreadable bits per bit read.
        common_share: Share of the failures that take other drives with them.
        on_unreadable: Reaction of the backend to an unreadable sector.
        years: Age of the array at the end.
    """

    failures: FailureRate
    rebuild_h: Figure
    replace_h: Figure
    detect_h: Figure
    unreadable_per_bit: Figure
    common_share: Figure
    on_unreadable: Annotated[str, one_of("md", "btrfs", "zfs", "hardware")] = "md"
    years: Amount = 5.0


class MeanInterval(msgspec.Struct, frozen=True, kw_only=True):
    """A mean over all scenarios with the range of 90 % of them.

    Attributes:
        mean: Over all scenarios.
        low: 5 % of the scenarios are below.
        high: 5 % of the scenarios are above.
    """

    mean: Amount
    low: Amount
    high: Amount


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """What an array risks in its years.

    Attributes:
        array: The array.
        assumed: The assumptions.
        lost: Probability that the array is lost.
        by_drives: The part of it by more failed drives than it tolerates.
        by_common: The part by a common cause.
        by_unreadable: The part by unreadable sectors; 0 unless these lose an array.
        unreadable: Probability that anything becomes unreadable while the array survives.
        lost_bytes: Expected bytes lost, of both.
        degraded_days: Days without full redundancy, when it is slower than its objective.
        failed_drives: Drives that fail.
        error_share: Standard error of the simulated mean of ``lost`` as a share of it.
        worlds: Number of scenarios.
        lives: Lifetimes simulated in each.
    """

    array: Array
    assumed: RiskAssumptions
    lost: MeanInterval
    by_drives: MeanInterval
    by_common: MeanInterval
    by_unreadable: MeanInterval
    unreadable: MeanInterval
    lost_bytes: MeanInterval
    degraded_days: MeanInterval
    failed_drives: MeanInterval
    error_share: Amount
    worlds: Count
    lives: Count


def risk_of(
    array: Array,
    assumed: RiskAssumptions,
    *,
    seed: int = 1,
    scenarios: int = SCENARIOS,
    lifetimes: int = LIFETIMES,
    exponential: bool = False,
) -> Risk:
    """Return what an array risks.

    Args:
        array: The array.
        assumed: What it depends on.
        seed: Seed of the scenarios; arrays with the same seed get the same scenarios.
        scenarios: Number of scenarios.
        lifetimes: Lifetimes of a group in each.
        exponential: Whether repairs take exponential times, as in a Markov chain, and not always
            the same in a scenario.
    """
    random = np.random.default_rng(seed)
    draws = _draw(assumed, random, scenarios)
    state = _simulate_lifetimes(
        array,
        assumed,
        draws,
        random=np.random.default_rng(seed + 1),
        lifetimes=lifetimes,
        exponential=exponential,
    )
    count = array.groups.number

    def scenario_means(per_lifetime: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(per_lifetime.reshape(scenarios, lifetimes).mean(axis=1))

    def of_array(per_lifetime: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(
            -np.expm1(count * np.log1p(-np.minimum(scenario_means(per_lifetime), 1 - 1e-15)))
        )

    lost = of_array(state.lost)
    kept = scenario_means(state.unreadable_bytes) * count
    batches = scenario_means(state.lost)
    error = _error_share(batches)
    return Risk(
        array=array,
        assumed=assumed,
        lost=_mean_interval(lost),
        by_drives=_mean_interval(of_array(state.by_drives)),
        by_common=_mean_interval(of_array(state.by_common)),
        by_unreadable=_mean_interval(of_array(state.by_unreadable)),
        unreadable=_mean_interval(of_array(state.unreadable)),
        lost_bytes=_mean_interval(lost * array.usable_bytes + kept),
        degraded_days=_mean_interval(scenario_means(state.degraded_h) * count / 24),
        failed_drives=_mean_interval(scenario_means(state.failures) * count),
        error_share=error,
        worlds=scenarios,
        lives=lifetimes,
    )


@dataclass
class _LifetimeSums:
    """Sums over each lifetime of a group; shape (scenarios * lives,)."""

    lost: NDArray[np.float64]
    by_drives: NDArray[np.float64]
    by_common: NDArray[np.float64]
    by_unreadable: NDArray[np.float64]
    unreadable: NDArray[np.float64]
    unreadable_bytes: NDArray[np.float64]
    degraded_h: NDArray[np.float64]
    failures: NDArray[np.float64]


@dataclass(frozen=True)
class _ScenarioDraws:
    """Sampled values of each scenario; shape (scenarios,)."""

    per_h: NDArray[np.float64]
    rebuild_h: NDArray[np.float64]
    replace_h: NDArray[np.float64]
    detect_h: NDArray[np.float64]
    unreadable_per_bit: NDArray[np.float64]
    common_share: NDArray[np.float64]

    def repeated(self, lifetimes: int) -> _ScenarioDraws:
        """Return each scenario repeated for its lifetimes."""
        return _ScenarioDraws(*(np.repeat(each, lifetimes) for each in vars(self).values()))


def _draw(assumed: RiskAssumptions, random: np.random.Generator, scenarios: int) -> _ScenarioDraws:
    normal = random.standard_normal((5, scenarios))
    return _ScenarioDraws(
        per_h=assumed.failures.draw(random, scenarios) / HOURS_PER_YEAR,
        rebuild_h=assumed.rebuild_h.at(normal[0]),
        replace_h=assumed.replace_h.at(normal[1]),
        detect_h=assumed.detect_h.at(normal[2]),
        unreadable_per_bit=assumed.unreadable_per_bit.at(normal[3]),
        common_share=np.minimum(assumed.common_share.at(normal[4]), 1.0),
    )


def _simulate_lifetimes(
    array: Array,
    assumed: RiskAssumptions,
    draws: _ScenarioDraws,
    *,
    random: np.random.Generator,
    lifetimes: int,
    exponential: bool,
) -> _LifetimeSums:
    """Simulate lifetimes of one group from failure to failure.

    The first failure is sampled within the lifetime, and its probability weights all that follows.
    """
    groups = array.groups
    scenario = draws.repeated(lifetimes)
    number = len(scenario.per_h)
    end_h = assumed.years * HOURS_PER_YEAR
    rate_per_h = np.maximum(groups.members * scenario.per_h, 1e-300)
    alive, clean = -np.expm1(-rate_per_h * end_h), np.ones(number)
    now_h = -np.log1p(-random.random(number) * alive) / rate_per_h
    spare_at_h = np.zeros((number, max(array.spares, 1)))
    spare_at_h[:, array.spares :] = np.inf
    sums = _LifetimeSums(*(np.zeros(number) for _ in range(8)))
    for _ in range(FAILURES_MAX):
        active = now_h < end_h
        if not active.any():
            break
        wait_h = _wait_h(scenario, spare_at_h, now_h, active)
        rebuild_h = scenario.rebuild_h
        length_h = (wait_h + rebuild_h) * (random.exponential(size=number) if exponential else 1.0)
        window_h = np.minimum(length_h, np.maximum(end_h - now_h, 0.0))
        next_h = rebuild_h * (random.exponential(size=number) if exponential else 1.0)
        drives, bare = _more_failures(groups, scenario.per_h, window_h, next_h, random)
        common = scenario.common_share if groups.tolerated else np.zeros(number)
        bits = 8.0 * groups.read_members * array.drive_bytes * scenario.unreadable_per_bit
        some = bare * -np.expm1(-bits)
        is_fatal = assumed.on_unreadable == "hardware"
        fatal = some if is_fatal else np.zeros(number)
        weight = np.where(active, alive, 0.0)
        sums.failures += weight
        sums.by_drives += weight * drives
        sums.by_common += weight * common
        sums.by_unreadable += weight * fatal
        survived = (1 - drives) * (1 - common) * (1 - fatal)
        sums.lost += weight * (1 - survived)
        if not is_fatal:
            sums.unreadable += weight * survived * clean * some
            clean = np.where(active, clean * (1 - some), clean)
            lost_bytes = bare * bits * LOST_BYTES[assumed.on_unreadable]
            sums.unreadable_bytes += weight * survived * lost_bytes
        alive = np.where(active, alive * survived, alive)
        sums.degraded_h += weight * window_h
        now_h = np.where(active, now_h + window_h, now_h)
        now_h += random.exponential(size=number) / rate_per_h
    return sums


def _wait_h(
    scenario: _ScenarioDraws,
    spare_at_h: NDArray[np.float64],
    now_h: NDArray[np.float64],
    active: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return how long a rebuild waits for a drive; the spare that is taken is replaced later."""
    first = spare_at_h.argmin(axis=1)
    rows = np.arange(len(first))
    available_h = spare_at_h[rows, first]
    has_spare = np.isfinite(available_h)
    with_spare_h = np.maximum(scenario.detect_h, available_h - now_h)
    wait_h = np.where(has_spare, np.minimum(with_spare_h, scenario.replace_h), scenario.replace_h)
    taken = active & has_spare
    spare_at_h[rows[taken], first[taken]] = (now_h + scenario.replace_h)[taken]
    return np.asarray(wait_h)


def _more_failures(
    groups: Groups,
    per_h: NDArray[np.float64],
    window_h: NDArray[np.float64],
    next_h: NDArray[np.float64],
    random: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probability that too many drives fail, and that none more may.

    The times of the failures before the last one are sampled within the window, so that the
    probability of the last one is of what remains of it; drives are rebuilt one after the other.
    """
    if groups.tolerated == 0:
        return np.ones_like(per_h), np.zeros_like(per_h)

    def rebuild(
        of_h: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        probability, bare, left_h = np.ones_like(per_h), np.ones_like(per_h), of_h.copy()
        for failed in range(1, groups.tolerated + 1):
            rate_per_h = np.maximum((groups.members - failed) * per_h, 1e-300)
            within = -np.expm1(-rate_per_h * left_h)
            at_h = -np.log1p(-random.random(len(per_h)) * within) / rate_per_h
            bare = probability.copy()
            probability = probability * within
            left_h = np.maximum(left_h - at_h, 0.0)
        return probability, bare, within

    probability, bare, last = rebuild(window_h)
    if groups.tolerated > 1:
        # A drive that failed during the rebuild is rebuilt next, with others that may fail.
        again, _, _ = rebuild(next_h)
        probability = probability + bare * (1 - last) * again
    return probability, bare


def _mean_interval(values: NDArray[np.float64]) -> MeanInterval:
    low, high = np.percentile(values, ENDS_PERCENT)
    return MeanInterval(mean=float(values.mean()), low=float(low), high=float(high))


def _error_share(scenarios: NDArray[np.float64]) -> float:
    """Return the standard error of the mean over all scenarios, as a share of the mean."""
    mean = float(scenarios.mean())
    if mean == 0:
        return 0.0
    return float(np.std(scenarios, ddof=1) / np.sqrt(len(scenarios)) / mean)
