"""All cells together: per-round means where rounds are whole, clusters where they are not."""

import numpy as np
import pytest
from scipy import stats

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.ratio import overall_contrast, p_value, ratio_estimate


def sides(draw, cells, rounds, *, drift=0.1, noise=0.05, factor=1.0):
    shared = drift * draw.standard_normal((2, rounds))
    return [
        np.exp(noise * draw.standard_normal((cells, rounds)) + shared[side]) * scale
        for side, scale in ((0, 1.0), (1, factor))
    ]


def as_pairs(a, b):
    return [tuple(Rounds(values=dict(enumerate(row.tolist())), unit="IOPS", resolution_share=0)
                  for row in rows) for rows in zip(a, b, strict=True)]  # fmt: skip


def test_whole_rounds_are_the_t_interval_of_per_round_means():
    a, b = sides(np.random.default_rng(1), 30, 5, factor=1.2)
    means = (np.log(b) - np.log(a)).mean(axis=0)
    oracle = stats.ttest_1samp(means, 0)
    found, cells = overall_contrast(as_pairs(a, b), paired=True)
    assert cells == 30
    assert p_value(found) == pytest.approx(oracle.pvalue, rel=1e-9)
    low, high = np.exp(oracle.confidence_interval(0.95))
    estimate = ratio_estimate(found, 0.05)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), rel=1e-9)
    assert estimate.value == pytest.approx(stats.gmean((b / a).ravel()))
    assert estimate.rounds == 5


def test_unpaired_whole_rounds_are_welchs_test_of_per_round_means():
    draw = np.random.default_rng(2)
    a, b = sides(draw, 20, 4)
    oracle = stats.ttest_ind(np.log(b).mean(axis=0), np.log(a).mean(axis=0), equal_var=False)
    found, _ = overall_contrast(as_pairs(a, b), paired=False)
    assert p_value(found) == pytest.approx(oracle.pvalue, rel=1e-9)
    assert found.degrees == pytest.approx(oracle.df)
    longer, _ = overall_contrast(as_pairs(a, sides(draw, 20, 7)[1]), paired=False)
    assert longer.degrees == pytest.approx(3)


def uneven(draw, cells=30, few=3, many=8, drift=0.1):
    """Two thirds of the cells settle after a few rounds; what is left goes on."""
    a, b = sides(draw, cells, many, drift=drift)
    pairs = as_pairs(a, b)
    for one, other in pairs[: cells * 2 // 3]:
        for number in range(few, many):
            del one.values[number], other.values[number]
    return pairs


@pytest.mark.parametrize("drift", [0.0, 0.01, 0.1])
def test_uneven_rounds_keep_the_promised_level(drift):
    trials = 1000
    wrong = 0
    for seed in range(trials):
        found, _ = overall_contrast(uneven(np.random.default_rng(seed), drift=drift), paired=True)
        wrong += p_value(found) <= 0.05
    assert 0.01 <= wrong / trials <= 0.065


def test_cells_that_share_a_drift_are_not_taken_for_independent():
    """The drift here is not shared by the sides; thirty cells make no ninety observations of it."""
    wrong = naive = 0
    for seed in range(400):
        a, b = sides(np.random.default_rng(seed), 30, 3)
        found, _ = overall_contrast(as_pairs(a, b), paired=True)
        wrong += p_value(found) <= 0.05
        naive += stats.ttest_1samp((np.log(b) - np.log(a)).ravel(), 0).pvalue <= 0.05
    assert wrong / 400 <= 0.08
    assert naive / 400 > 0.5


def test_cells_with_a_zero_or_measured_once_are_left_out():
    a, b = sides(np.random.default_rng(3), 4, 3)
    pairs = as_pairs(a, b)
    pairs[0][1].values[1] = 0.0
    for side in pairs[1]:
        del side.values[0], side.values[1]
    found, cells = overall_contrast(pairs, paired=True)
    assert cells == 2
    assert found.log_ratio == pytest.approx((np.log(b) - np.log(a))[2:].mean())


def test_a_cell_with_a_zero_does_not_coarsen_the_others():
    """Of a round in which one request of a test completed, the resolution is that request."""
    pairs = as_pairs(*sides(np.random.default_rng(3), 3, 3))
    pairs.append((pairs[0][0], Rounds(values={0: 0, 1: 0, 2: 1}, unit="IOPS", resolution_share=1)))
    found, cells = overall_contrast(pairs, paired=True)
    assert (cells, found.resolution) == (3, 0)


@pytest.mark.parametrize("paired", [True, False])
def test_measured_once_has_no_interval(paired):
    a, b = sides(np.random.default_rng(4), 4, 1)
    found, cells = overall_contrast(as_pairs(a, b), paired=paired)
    assert cells == 4
    assert p_value(found) is None
    assert found.log_ratio == pytest.approx((np.log(b) - np.log(a)).mean())


def test_nothing_but_zeros_has_no_overall():
    zero = Rounds(values={0: 0.0, 1: 0.0}, unit="IOPS", resolution_share=0)
    assert overall_contrast([(zero, zero)], paired=True) is None
