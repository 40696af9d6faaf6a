"""What was measured once has the interval of its own timeline, and says that it is no more."""

import numpy as np
import pytest

from seatrial.stats.cell_estimates import (
    bandwidth_estimate,
    latency_estimates,
    phases_of,
    rate_estimate,
    rate_spread,
    rounds_needed,
    settled,
)
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_estimate, format_value

from .builders import MS_NS, cell_of, sample_of
from .timed import autocorrelated, noisy_counts, timed_sample


def test_one_round_with_a_timeline_has_an_interval_and_says_whose():
    estimate = rate_estimate([timed_sample(noisy_counts(60))])
    assert estimate.low < estimate.value < estimate.high
    assert (estimate.over, estimate.rounds) == ("timeline", 1)
    assert format_estimate(estimate).endswith("within one round)")


def test_two_rounds_have_the_interval_of_rounds():
    samples = [timed_sample(noisy_counts(60, seed=n), round=n) for n in range(2)]
    estimate = rate_estimate(samples)
    assert (estimate.over, estimate.rounds) == ("rounds", 2)
    assert "within" not in format_estimate(estimate)


def test_a_short_sample_is_measured_once_without_interval():
    estimate = rate_estimate([timed_sample(noisy_counts(19))])
    assert estimate.low is None
    assert format_estimate(estimate) == "1,000 IOPS (measured once)"
    assert rate_estimate([sample_of()]).low is None


def test_correlation_widens_the_interval():
    def width(correlation):
        shares = [
            rate_estimate(
                [timed_sample(noisy_counts(100, correlation=correlation, seed=seed))]
            ).half_width_share
            for seed in range(8)
        ]
        return np.median(shares)

    assert width(0.8) > 2 * width(0.0)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_rate_and_median_hold_the_truth(correlation):
    draw = np.random.default_rng(11)
    held = {"rate": [], "p50": [], "p90": []}
    for noise in autocorrelated(draw, 80, correlation, 80):
        level = np.exp(0.1 * noise)
        counts = np.rint(200 * level)
        # A slice that is slow has slow requests: times of an exponential, scaled by its level.
        times = [
            draw.exponential(MS_NS / own, int(count)) + 1
            for own, count in zip(level, counts, strict=True)
        ]
        sample = timed_sample(counts, latency_ns=times)
        rate = rate_estimate([sample])
        held["rate"].append(rate.low <= 2000 * np.exp(0.005) <= rate.high)
        for name, share in (("p50", 0.5), ("p90", 0.9)):
            figure = latency_estimates([sample])["read"][name]
            truth = -np.log(1 - share) * MS_NS
            held[name].append(figure.low <= truth <= figure.high)
    assert all(np.mean(found) >= 0.85 for found in held.values()), held
    assert np.mean(held["p50"]) < 1


def test_a_narrow_interval_of_a_percentile_holds_the_truth_too():
    """Its ends are a bucket or two apart, and each is read from the middle of one."""
    draw = np.random.default_rng(12)
    truth_ns = MS_NS * np.exp(0.1 * 1.2815515655)
    held = []
    for _ in range(60):
        counts = draw.poisson(30, 100)
        times = [MS_NS * np.exp(0.1 * draw.standard_normal(count)) for count in counts]
        figure = latency_estimates([timed_sample(counts, latency_ns=times)])["read"]["p90"]
        held.append(figure.low <= truth_ns <= figure.high)
    assert np.mean(held) >= 0.95


def test_bandwidth_and_rate_are_known_alike_where_all_requests_are_of_one_size():
    sample = timed_sample(noisy_counts(60))
    rate, bandwidth = rate_estimate([sample]), bandwidth_estimate([sample])
    assert bandwidth.half_width_share == pytest.approx(rate.half_width_share)
    assert bandwidth.over == "timeline"


def test_the_maximum_has_no_interval():
    figures = latency_estimates([timed_sample(noisy_counts(60, level=400))])["read"]
    assert figures["max"].low is None
    assert {name for name, figure in figures.items() if figure.over == "timeline"} == {
        "p50", "p90", "p99", "p99.9", "mean",
    }  # fmt: skip


def test_kinds_are_known_apart():
    sample = timed_sample({"read": noisy_counts(60), "write": noisy_counts(60, seed=2)})
    figures = latency_estimates([sample])
    assert figures["read"]["p50"].over == figures["write"]["p50"].over == "timeline"


def test_an_interval_within_one_round_shows_two_digits():
    known = Estimate(value=74_321, low=74_300, high=74_340, rounds=1, unit="IOPS", over="timeline")
    assert format_value(known) == "74k IOPS"
    vague = Estimate(value=74_321, low=50_000, high=110_000, rounds=1, unit="IOPS", over="timeline")
    assert format_value(vague) == "70k IOPS"


def test_nothing_is_settled_or_planned_on_one_round():
    samples = [timed_sample(noisy_counts(60))]
    assert not settled(samples, 0.5)
    assert rounds_needed(rate_estimate(samples), 0.05) is None


def test_the_same_timeline_gives_the_same_interval():
    assert rate_estimate([timed_sample(noisy_counts(60))]) == rate_estimate(
        [timed_sample(noisy_counts(60))]
    )


def test_spread_of_rounds_is_reported_without_a_law():
    cell = cell_of()
    samples = [sample_of(cell, completed=n, round=n) for n in (100, 110, 90, 400, 105)]
    spread = rate_spread(samples, phases_of(samples))
    assert (spread.median, spread.low, spread.high, spread.rounds) == (105, 90, 400, 5)
    assert spread.mad_share == pytest.approx(5 / 105)
    assert spread.unit == "IOPS"
    assert rate_spread(samples[:1], phases_of(samples[:1])) is None


def test_equal_response_times_are_known_no_better_than_their_bucket():
    (figures,) = latency_estimates([timed_sample(noisy_counts(60))]).values()
    share = figures["p50"].half_width_share
    assert share == pytest.approx(1 / 256)
    assert figures["p50"].over == "timeline"
