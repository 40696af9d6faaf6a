"""Ratios of one cell: held against scipy.stats, and what has no logarithm."""

import math

import numpy as np
import pytest
from scipy import stats

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.ratio import contrast, half_width, p_value, ratio_estimate


def rounds_of(values, resolution_share=0.0):
    return Rounds(
        values=dict(enumerate(map(float, values))), unit="IOPS", resolution_share=resolution_share
    )


def drawn(rounds_a, rounds_b, seed):
    draw = np.random.default_rng(seed)
    a = np.exp(0.1 * draw.standard_normal(rounds_a))
    return a, 1.05 * np.exp(0.2 * draw.standard_normal(rounds_b))


@pytest.mark.parametrize("rounds", [2, 3, 5, 12])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 30])
def test_pairs_are_scipys_paired_t_test_of_logarithms(rounds, alpha):
    a, b = drawn(rounds, rounds, rounds)
    found = contrast(rounds_of(a), rounds_of(b), paired=True)
    oracle = stats.ttest_rel(np.log(b), np.log(a))
    assert p_value(found) == pytest.approx(oracle.pvalue, rel=1e-9)
    low, high = oracle.confidence_interval(1 - alpha)
    estimate = ratio_estimate(found, alpha)
    assert (estimate.low, estimate.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-9)
    assert estimate.value == pytest.approx(stats.gmean(b / a))
    assert (estimate.rounds, estimate.unit, found.paired) == (rounds, "ratio", True)


@pytest.mark.parametrize(("rounds_a", "rounds_b"), [(2, 2), (4, 4), (3, 8), (10, 4)])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 30])
def test_others_are_welchs_t_test_of_logarithms(rounds_a, rounds_b, alpha):
    """Of unequal numbers of rounds with the degrees of freedom of the smaller one."""
    a, b = drawn(rounds_a, rounds_b, rounds_a)
    found = contrast(rounds_of(a), rounds_of(b), paired=False)
    oracle = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    degrees = oracle.df if rounds_a == rounds_b else min(rounds_a, rounds_b) - 1
    assert found.degrees == pytest.approx(degrees)
    assert p_value(found) == pytest.approx(2 * stats.t.sf(abs(oracle.statistic), degrees), rel=1e-9)
    error = found.log_ratio / oracle.statistic
    low, high = stats.t.interval(1 - alpha, degrees, found.log_ratio, error)
    estimate = ratio_estimate(found, alpha)
    assert (estimate.low, estimate.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-9)
    assert (estimate.rounds, found.paired) == (min(rounds_a, rounds_b), False)


def test_pairs_need_two_common_rounds_else_all_rounds_count():
    a = Rounds(values={0: 10.0, 1: 11.0, 2: 12.0}, unit="IOPS", resolution_share=0)
    b = Rounds(values={2: 12.0, 3: 14.0, 4: 13.0}, unit="IOPS", resolution_share=0)
    assert not contrast(a, b, paired=True).paired
    b.values[1] = 11.5
    found = contrast(a, b, paired=True)
    assert found.paired
    assert found.log_ratio == pytest.approx((math.log(11.5 / 11) + math.log(12 / 12)) / 2)


@pytest.mark.parametrize("paired", [True, False])
def test_measured_once_is_a_ratio_without_interval(paired):
    found = contrast(rounds_of([100]), rounds_of([125]), paired=paired)
    estimate = ratio_estimate(found, 0.05)
    assert (estimate.value, estimate.low, estimate.high) == (1.25, None, None)
    assert p_value(found) is None
    assert half_width(found, 0.05) is None
    once_against_many = contrast(rounds_of([100]), rounds_of([125, 126]), paired=False)
    assert p_value(once_against_many) is None


def test_a_round_of_zero_has_no_logarithm():
    assert contrast(rounds_of([100, 0]), rounds_of([100, 100]), paired=True) is None
    assert contrast(rounds_of([100, 100]), rounds_of([0, 0]), paired=False) is None


def test_equal_readings_prove_nothing_finer_than_the_step_of_reading():
    step = 0.004
    equal = contrast(rounds_of([100] * 3, step), rounds_of([100] * 3, step), paired=True)
    assert p_value(equal) == 1
    assert half_width(equal, 0.05) >= 2 * step
    a_step_apart = contrast(rounds_of([100] * 3, step), rounds_of([100.7] * 3, step), paired=True)
    assert p_value(a_step_apart) == 1
    # Three readings that are equal by chance, two steps apart, are not certain beyond all doubt.
    two_steps_apart = contrast(
        rounds_of([100] * 3, step), rounds_of([101.6] * 3, step), paired=True
    )
    assert 0.001 < p_value(two_steps_apart) < 0.05
    far_apart = contrast(rounds_of([100] * 3, step), rounds_of([125] * 3, step), paired=True)
    assert p_value(far_apart) < 0.001


@pytest.mark.parametrize("seed", range(40))
def test_an_interval_leaves_out_one_exactly_where_the_test_rejects(seed):
    a, b = drawn(4, 4, seed)
    for paired in (True, False):
        found = contrast(rounds_of(a, 0.01), rounds_of(b, 0.01), paired=paired)
        for alpha in (0.01, 0.05, 0.3):
            estimate = ratio_estimate(found, alpha)
            assert (p_value(found) > alpha) == (estimate.low <= 1 <= estimate.high)
