"""The search on devices that are formulas: it ends, near the truth, and does not trust luck."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest

from seatrial.stats.estimate import Estimate
from seatrial.trials.loadline.analysis.decider import next_step
from seatrial.trials.loadline.analysis.rate_verdicts import RateVerdict, bracket
from seatrial.trials.loadline.study import SAMPLES_MAX, RateStep, SearchEnd
from trials.loadline.analysis.fake import MS_NS, Sought, latency_target_of


def queue(capacity_per_s, limit_ns=5 * MS_NS):
    """One server with exponential service: the share of slow requests is exp(-(mu - r) t)."""

    def slow_share(rate_per_s, _number):
        if rate_per_s >= capacity_per_s:
            return min(1.0, 0.05 + 2 * (rate_per_s / capacity_per_s - 1))
        return math.exp(-(capacity_per_s - rate_per_s) * limit_ns / 1e9)

    return slow_share


def sustained_by(capacity_per_s, limit_ns=5 * MS_NS):
    return capacity_per_s - math.log(100) / (limit_ns / 1e9)


@pytest.mark.parametrize("capacity_per_s", [3_000, 20_000, 750_000])
@pytest.mark.parametrize("luck", [1, 2, 3])
def test_the_boundary_of_a_queue_is_found(capacity_per_s, luck):
    sought = Sought(queue(capacity_per_s), capacity_per_s, latency_target_of(), luck=luck)
    truth = sustained_by(capacity_per_s)
    low = max(step.rate_per_s for step in sought.sure(holds=True))
    high = min(step.rate_per_s for step in sought.sure(holds=False))
    assert low < high
    assert low * 0.99 <= truth <= high * 1.01
    assert high / low < 1.35
    assert len(sought.offers) <= 40


def test_rates_rise_by_half_until_one_breaks_and_then_halve_the_span():
    sought = Sought(queue(20_000), 20_000, latency_target_of())
    rising = sought.rates_per_s[:7]
    assert rising[0] == 2_500
    assert all(1.45 < after / before < 1.55 for before, after in itertools.pairwise(rising))
    assert sought.rates_per_s[7] == pytest.approx(math.sqrt(rising[5] * rising[6]), rel=0.01)


def test_a_first_rate_that_breaks_is_followed_by_lower_ones():
    sought = Sought(queue(1_400), 20_000, latency_target_of(sample_s=2.0))
    assert sought.rates_per_s[:3] == [2_500, 625, 156]
    low = max(step.rate_per_s for step in sought.sure(holds=True))
    assert low == pytest.approx(sustained_by(1_400), rel=0.2)


def test_where_nothing_holds_it_ends_at_the_lowest_rate_that_can_be_judged():
    latency_target = latency_target_of()
    sought = Sought(lambda _rate, _number: 1.0, 20_000, latency_target)
    assert "Even 87 requests/s exceed the limit" in sought.reason
    assert min(sought.rates_per_s) == pytest.approx(latency_target.floor_per_s, rel=0.01)
    assert len(sought.offers) < 8


def test_where_nothing_breaks_it_ends_at_the_ceiling():
    sought = Sought(lambda _rate, _number: 0.0, 1_000, latency_target_of())
    assert max(sought.rates_per_s) >= 8_000
    assert max(sought.rates_per_s) < 12_001
    assert "meet the limit" in sought.reason
    assert 3 <= sought.verdicts[-1].rounds <= 10


def test_one_freeze_on_the_way_up_does_not_end_the_search_below():
    truth = queue(20_000)

    def freezes_once(rate_per_s, number):
        return 0.3 if number == 3 else truth(rate_per_s, number)

    sought = Sought(freezes_once, 20_000, latency_target_of(), luck=1)
    holding, _ = bracket(sought.verdicts)
    assert holding.rate_per_s > 0.9 * sustained_by(20_000)
    assert not sought.sure(holds=True), "0.6 s in a minute: whether that is usual is not known"


def test_one_rise_by_accident_on_the_way_up_is_measured_again_at_once():
    sought = Sought(queue(20_000), 20_000, latency_target_of(), luck=1, rises_at=3)
    usual = Sought(queue(20_000), 20_000, latency_target_of(), luck=1)
    assert sought.rates_per_s[3] == sought.rates_per_s[2]
    assert sought.rates_per_s[4:8] == usual.rates_per_s[3:7]
    low = max(step.rate_per_s for step in sought.sure(holds=True))
    assert low > 0.9 * sustained_by(20_000)


def test_the_rates_around_the_boundary_are_measured_again_in_random_order():
    sought = Sought(queue(3_000), 3_000, latency_target_of(), luck=4)
    again = [
        rate for place, rate in enumerate(sought.rates_per_s) if rate in sought.rates_per_s[:place]
    ]
    assert len(again) >= 6
    assert again != sorted(again)
    assert again != sorted(again, reverse=True)
    repeated = [step for step in sought.verdicts if step.rounds > 1]
    assert len(repeated) >= 3
    assert (
        sought.rates_per_s == Sought(queue(3_000), 3_000, latency_target_of(), luck=4).rates_per_s
    )


def test_a_share_that_stays_at_the_border_ends_undecided_rather_than_never():
    sought = Sought(
        lambda rate, _n: 0.01 if rate > 900 else 0.0, 1_000, latency_target_of(), luck=5
    )
    assert len(sought.offers) <= SAMPLES_MAX
    undecided = [step for step in sought.verdicts if step.holds is None]
    assert undecided
    assert all(step.rounds <= 10 for step in undecided)


def test_the_number_of_samples_is_bounded():
    verdicts = Sought(queue(20_000), 20_000, latency_target_of()).verdicts
    often = msgspec.structs.replace(verdicts[0], rounds=SAMPLES_MAX)
    assert isinstance(next_step(verdicts[:3], 20_000, latency_target_of()), RateStep)
    ended = next_step([often, *verdicts[1:3]], 20_000, latency_target_of())
    assert isinstance(ended, SearchEnd)
    assert "80 samples" in ended.reason


def test_a_closed_loop_in_which_nothing_completed_seeks_nothing():
    step = next_step([], 0.0, latency_target_of())
    assert isinstance(step, SearchEnd)
    assert "No request completed" in step.reason


def test_only_after_an_overload_the_target_rests():
    sought = Sought(queue(20_000), 20_000, latency_target_of())
    for before, offer in itertools.pairwise(sought.offers):
        overloaded = before.rate_per_s > 20_000
        assert (offer.rest_s > 0) == overloaded


def test_samples_are_longer_where_requests_are_few_or_the_limit_is_wide():
    latency_target = latency_target_of(sample_s=1.0, budget_s=90)
    assert latency_target.sample_s_at(100_000) == 1.0
    assert latency_target.sample_s_at(200) == pytest.approx(6.5)
    assert latency_target.sample_s_at(1) == 15, "a sixth of the budget is the most"
    assert latency_target_of(limit_ns=200 * MS_NS, sample_s=1.0).sample_s_at(
        100_000
    ) == pytest.approx(4.0)
    assert latency_target_of("p99.9", sample_s=1.0).sample_s_at(2_000) == pytest.approx(6.5)
    offer = next_step([], 100, latency_target)
    assert isinstance(offer, RateStep)
    assert offer.rate_per_s * offer.sample_s >= 1_000, "even a slow device gets enough requests"


def test_the_lowest_rate_that_can_be_judged_is_measured_again():
    """Rounded to three digits it is below the exact one, 43.33 per s."""
    latency_target = latency_target_of(budget_s=180.0)
    lowest_per_s = next_step([], 100, latency_target).rate_per_s
    assert lowest_per_s < latency_target.floor_per_s
    unsure = RateVerdict(
        rate_per_s=lowest_per_s,
        rounds=1,
        above=Estimate(value=0.003, low=0.0, high=0.02, rounds=1, unit="ratio"),
        grows=False,
        holds=None,
        seems_met=True,
    )
    broken = msgspec.structs.replace(
        unsure,
        rate_per_s=1.1 * lowest_per_s,
        rounds=3,
        above=Estimate(value=0.03, low=0.011, high=1.0, rounds=3, unit="ratio"),
        holds=False,
        seems_met=False,
    )
    assert next_step([unsure, broken], 1_000, latency_target).rate_per_s == lowest_per_s


def test_the_bracket_is_of_the_lowest_rate_that_breaks():
    sought = Sought(queue(20_000), 20_000, latency_target_of())
    holding, broken = bracket(sought.verdicts)
    assert holding is not None
    assert broken is not None
    assert holding.rate_per_s < broken.rate_per_s
    assert all(step.seems_met for step in sought.verdicts if step.rate_per_s <= holding.rate_per_s)
