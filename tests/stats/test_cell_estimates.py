"""Figures from rounds: values, intervals, edge cases, percentiles, settling."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seatrial.stats.cell_estimates import (
    bandwidth_estimate,
    counted,
    entries_needed,
    estimate_of_rounds,
    latency_estimates,
    paired_ratio,
    rate_estimate,
    rounds_needed,
    settled,
)
from seatrial.stats.estimate import t_of

from .builders import MS_NS, cell_of, sample_of

rates = st.lists(st.floats(min_value=1e-3, max_value=1e12), min_size=2, max_size=30)


def samples_of(*completed, **rest):
    return [sample_of(completed=n, round=i, **rest) for i, n in enumerate(completed)]


def test_the_interval_is_students_on_the_logarithms():
    values = [90.0, 100.0, 120.0]
    estimate = estimate_of_rounds(values, "IOPS")
    logs = [math.log(value) for value in values]
    expected = stats.t.interval(0.95, 2, statistics.fmean(logs), stats.sem(logs))
    assert estimate.value == pytest.approx(stats.gmean(values))
    assert (estimate.low, estimate.high) == pytest.approx([math.exp(end) for end in expected])
    assert (estimate.rounds, estimate.unit) == (3, "IOPS")


@pytest.mark.parametrize("rounds", [2, 3, 5, 8, 30, 200])
def test_t_quantiles_are_scipys(rounds):
    assert t_of(rounds - 1) == pytest.approx(stats.t.ppf(0.975, rounds - 1))


def test_one_round_has_no_interval():
    estimate = estimate_of_rounds([42.0], "ns")
    assert (estimate.value, estimate.low, estimate.high, estimate.rounds) == (42.0, None, None, 1)


def test_a_round_of_zero_gives_the_plain_interval_with_a_floor():
    estimate = estimate_of_rounds([0.0, 90.0, 90.0], "IOPS")
    assert estimate.value == 90.0, "rounds that differ so have their median"
    assert estimate_of_rounds([0.0, 90.0, 90.0], "ratio").value == pytest.approx(60.0)
    assert estimate.low == 0.0
    assert estimate.high == pytest.approx(60 + stats.t.ppf(0.975, 2) * 30)


def test_only_zeros_are_zero():
    estimate = estimate_of_rounds([0.0, 0.0], "IOPS")
    assert (estimate.value, estimate.low, estimate.high) == (0.0, 0.0, 0.0)


def test_equal_readings_are_no_more_exact_than_they_can_be_read():
    estimate = estimate_of_rounds([10.0, 10.0, 10.0], "IOPS", resolution_share=0.05)
    assert (estimate.low, estimate.high) == pytest.approx((9.5, 10.5))


def test_extreme_rounds_do_not_overflow():
    estimate = estimate_of_rounds([1e-300, 1e300], "IOPS")
    assert math.isfinite(estimate.high)
    assert estimate.low >= 0


@pytest.mark.parametrize("values", [[], [1.0, -1.0], [math.nan], [math.inf, 1.0]])
def test_what_is_no_rate_is_refused(values):
    with pytest.raises(ValueError, match="rounds must be finite"):
        estimate_of_rounds(values, "IOPS")


@given(rates)
def test_the_value_lies_within_rounds_and_interval(values):
    estimate = estimate_of_rounds(values, "IOPS")
    assert min(values) * (1 - 1e-9) <= estimate.value <= max(values) * (1 + 1e-9)
    assert 0 <= estimate.low <= estimate.value <= estimate.high


@given(rates, st.floats(min_value=1e-3, max_value=1e3))
def test_the_unit_of_measure_does_not_matter(values, factor):
    plain = estimate_of_rounds(values, "IOPS")
    scaled = estimate_of_rounds([value * factor for value in values], "IOPS")
    assert scaled.value == pytest.approx(plain.value * factor)
    assert scaled.low == pytest.approx(plain.low * factor, rel=1e-6)


def test_rates_and_bandwidth_of_rounds():
    samples = samples_of(900, 1000, 1100, duration_s=2.0)
    assert rate_estimate(samples).value == pytest.approx(stats.gmean([450, 500, 550]))
    assert bandwidth_estimate(samples).value == pytest.approx(8192 * stats.gmean([450, 500, 550]))
    assert rate_estimate(samples).unit == "IOPS"
    commits = samples_of(10, 10, cell=cell_of(workload="commit", operation="commit"))
    assert rate_estimate(commits).unit == "commits/s"


def test_few_requests_leave_half_a_request_of_doubt():
    estimate = rate_estimate(samples_of(10, 10, 10))
    assert (estimate.low, estimate.high) == pytest.approx((9.5, 10.5))


def test_samples_cut_short_count_only_where_there_is_nothing_else():
    whole, cut = sample_of(round=1), sample_of(round=0, status="interrupted")
    assert counted([whole, cut]) == [whole]
    assert counted([cut]) == [cut]


@pytest.mark.parametrize(
    ("percent", "needed"), [(50.0, 20), (90.0, 100), (99.0, 1_000), (99.9, 10_000)]
)
def test_a_percentile_takes_ten_requests_beyond_it(percent, needed):
    assert entries_needed(percent) == needed


def test_percentiles_are_of_rounds_and_never_of_too_few_requests():
    def of(count, latency_ns, number):
        return sample_of(completed=count, latency_ns=latency_ns, round=number)

    figures = latency_estimates([of(1000, MS_NS, 0), of(1000, 2 * MS_NS, 1)])["read"]
    assert set(figures) == {"p50", "p90", "p99", "mean", "max"}
    assert figures["p99"].value == pytest.approx(math.sqrt(2) * MS_NS, rel=0.004)
    assert figures["p99"].rounds == 2
    fewer = latency_estimates([of(1000, MS_NS, 0), of(999, MS_NS, 1)])["read"]
    assert "p99" not in fewer
    assert "p90" in fewer


def test_the_maximum_is_the_largest_of_all_rounds_without_interval():
    samples = [
        sample_of(completed=3, response_ns=[1, 2, n], round=i) for i, n in enumerate((9, 70, 8))
    ]
    largest = latency_estimates(samples)["read"]["max"]
    assert (largest.value, largest.low, largest.high, largest.rounds) == (70, None, None, 3)


def test_skipped_requests_are_slower_than_all_that_ended():
    def figures(late_skipped):
        times = [MS_NS] * 900 + [5 * MS_NS] * 100
        sample = sample_of(completed=1000, response_ns=times, late_skipped=late_skipped)
        return latency_estimates([sample])["read"]

    assert figures(0)["p90"].value == pytest.approx(MS_NS, rel=0.004)
    assert figures(20)["p90"].value == pytest.approx(5 * MS_NS, rel=0.004)
    assert "p99" in figures(10)
    assert "p99" not in figures(11)  # more than one in a hundred has no response time at all


def test_a_request_that_never_ended_counts_with_its_age():
    hung = sample_of(completed=100, in_flight=1, oldest_in_flight_ns=12_000_000_000)
    assert latency_estimates([hung])["read"]["max"].value == 12_000_000_000
    blank = sample_of(completed=0, in_flight=1, oldest_in_flight_ns=12_000_000_000)
    assert set(latency_estimates([blank])["read"]) == {"max"}


def test_the_mean_is_exact():
    samples = [sample_of(completed=2, response_ns=[1000, 3000])]
    assert latency_estimates(samples)["read"]["mean"].value == 2000


def test_a_round_without_entries_hides_percentiles_but_not_the_maximum():
    figures = latency_estimates([sample_of(completed=1000), sample_of(completed=0, round=1)])
    assert set(figures["read"]) == {"max"}
    assert latency_estimates([sample_of(completed=0)]) == {}


def test_equal_percentiles_keep_the_doubt_of_a_bucket():
    figures = latency_estimates(samples_of(100, 100))["read"]
    assert figures["p50"].half_width_share == pytest.approx(1 / 256)


@pytest.mark.parametrize(
    ("completed", "is_settled"),
    [
        ((1000, 1000), False),  # two rounds never settle, however well they agree
        ((1000, 1001, 1002), True),
        ((1000, 1100, 900), False),
        ((0, 0, 0), False),
        ((1000, 1030, 970, 1010, 990, 1000, 1005, 995), True),
    ],
)
def test_settling(completed, is_settled):
    assert settled(samples_of(*completed), 0.05) is is_settled


def test_samples_cut_short_settle_nothing():
    assert not settled(samples_of(1000, 1000, 1000, status="interrupted"), 0.05)


def test_ratios_are_paired_by_round():
    slow, fast = samples_of(100, 200, 400), samples_of(200, 400, 800, 999)
    ratio = paired_ratio(fast, slow, lambda sample: sample.completed_per_s)
    assert (ratio.value, ratio.rounds, ratio.unit) == (pytest.approx(2), 3, "ratio")
    assert ratio.half_width_share == pytest.approx(0, abs=1e-9)
    assert paired_ratio(fast, samples_of(0), lambda sample: sample.completed_per_s) is None


def test_rounds_needed_reach_what_is_requested_in_half_of_the_cases():
    draw = np.random.default_rng(20261121)

    def estimate_of(spread, rounds):
        return estimate_of_rounds(np.exp(spread * draw.standard_normal(rounds)).tolist(), "IOPS")

    for spread, measured in ((0.05, 3), (0.1, 3), (0.1, 8), (0.2, 5)):
        reported = [rounds_needed(estimate_of(spread, measured), 0.05) or 1000 for _ in range(300)]
        reached = [estimate_of(spread, rounds).half_width_share <= 0.05 for rounds in reported]
        assert 0.45 <= np.mean(reached) <= 0.72
        # And what is reported is, in the middle, what the true spread takes.
        true = next(n for n in range(3, 1000) if t_of(n - 1) * spread / math.sqrt(n) <= 0.05)
        assert np.median(reported) == pytest.approx(true, rel=0.15)


@pytest.mark.parametrize(("apart", "rounds"), [(0.1, 20), (0.4, 274), (0.6, 611)])
def test_rounds_needed_after_two_rounds_follow_from_their_spread(apart, rounds):
    """The interval of two rounds 0.4 apart reaches from a sixth to six times their mean."""
    estimate = estimate_of_rounds([1.0, math.exp(apart)], "IOPS")
    assert rounds_needed(estimate, 0.05) == pytest.approx(rounds, abs=2)


def test_rounds_needed_with_a_round_of_0_follow_from_the_end_that_is_not_cut_off():
    estimate = estimate_of_rounds([0.0, 10.0, 20.0], "share")
    spread = 10 / 10 * math.sqrt(2 / stats.chi2.ppf(0.5, 2))
    needed = rounds_needed(estimate, 0.2)
    assert needed == next(n for n in range(3, 999) if t_of(n - 1) * spread / n**0.5 <= 0.2)
    assert rounds_needed(estimate_of_rounds([0.0, 0.0, 20.0], "IOPS"), 0.2) is None


def test_rounds_needed_are_not_reported_where_nobody_knows():
    estimate = estimate_of_rounds([100, 104, 96, 102], "IOPS")
    assert rounds_needed(estimate, 1e-6) is None
    assert rounds_needed(estimate_of_rounds([1.0], "IOPS"), 0.05) is None
