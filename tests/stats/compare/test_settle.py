"""Equivalence, and the number of rounds that would settle what is open."""

import math

import numpy as np
import pytest
from scipy import stats

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.noise import is_same, rounds_more, whole_percent, within_share
from seatrial.stats.compare.ratio import Contrast, RoundVariance, contrast, ratio_estimate

ALPHA = 0.05


def paired_contrast(log_ratio, spread, rounds):
    return Contrast(
        log_ratio=log_ratio,
        parts=(RoundVariance(spread**2, rounds),),
        resolution=0.0,
        rounds=rounds,
        paired=True,
    )


def test_same_is_two_one_sided_tests_at_the_level_of_the_interval():
    draw = np.random.default_rng(5)
    answers = set()
    for _ in range(200):
        steps = draw.normal(0.01, draw.uniform(0.005, 0.04), 6)
        values = [Rounds(values=dict(enumerate(np.exp(side).tolist())), unit="IOPS",
                         resolution_share=0) for side in (np.zeros(6), steps)]  # fmt: skip
        ratio = ratio_estimate(contrast(*values, paired=True), ALPHA)
        below = stats.ttest_1samp(steps, math.log(1.05), alternative="less").pvalue
        above = stats.ttest_1samp(steps, math.log(0.95), alternative="greater").pvalue
        same = is_same(ratio, 0.05)
        assert same == (max(below, above) <= ALPHA / 2)
        answers.add(same)
    assert answers == {True, False}


def test_the_share_reported_is_the_smallest_whole_percent_that_holds():
    ratio = ratio_estimate(paired_contrast(0.001, 0.01, 5), ALPHA)
    share = within_share(ratio)
    percent = whole_percent(share)
    assert 1 - percent / 100 <= ratio.low
    assert ratio.high <= 1 + percent / 100
    assert percent == 2
    assert share == pytest.approx(max(1 - ratio.low, ratio.high - 1))
    assert [whole_percent(each) for each in (0.0, 0.009, 0.01, 0.0101, 0.05)] == [1, 1, 1, 2, 5]
    assert within_share(ratio_estimate(contrast(_once(), _once(), paired=True), ALPHA)) is None


def _once():
    return Rounds(values={0: 1.0}, unit="IOPS", resolution_share=0)


def power_of_t_test(log_ratio, spread, rounds):
    """The power of a t test, from scipy's noncentral t."""
    shift = abs(log_ratio) * math.sqrt(rounds) / spread
    quantile = stats.t.ppf(1 - ALPHA / 2, rounds - 1)
    return stats.nct.sf(quantile, rounds - 1, shift)


@pytest.mark.parametrize(("log_ratio", "spread"), [(0.1, 0.1), (0.1, 0.21), (0.22, 0.07), (0.3, 2)])
def test_rounds_more_is_the_least_number_with_the_power(log_ratio, spread):
    (more,) = rounds_more([paired_contrast(log_ratio, spread, 3)], ALPHA, 0.01)
    least = next(n for n in range(4, 1004) if power_of_t_test(log_ratio, spread, n) >= 0.9)
    assert more == max(1, least - 3)


def test_rounds_more_holds_when_the_rounds_are_measured():
    """With the rounds that were said to be needed, nine in ten differences are found."""
    log_ratio, spread = math.log(1.10), 0.15
    (more,) = rounds_more([paired_contrast(log_ratio, spread, 4)], ALPHA, 0.01)
    steps = np.random.default_rng(6).normal(log_ratio, spread, (4000, 4 + more))
    found = (stats.ttest_1samp(steps, 0, axis=1).pvalue <= ALPHA).mean()
    assert 0.88 <= found <= 0.94


def test_rounds_more_of_what_is_the_same_is_how_many_prove_it():
    (more,) = rounds_more([paired_contrast(0.0, 0.05, 3)], ALPHA, 0.05)
    steps = np.random.default_rng(8).normal(0, 0.05, (4000, 3 + more))
    half = stats.t.ppf(1 - ALPHA / 2, 2 + more) * steps.std(axis=1, ddof=1) / math.sqrt(3 + more)
    mean = steps.mean(axis=1)
    same = ((mean + half <= math.log(1.05)) & (mean - half >= math.log(0.95))).mean()
    assert 0.87 <= same <= 0.95


def test_rounds_more_of_unpaired_sides_grows_both():
    unpaired = Contrast(
        log_ratio=0.1,
        parts=(RoundVariance(0.1**2, 3), RoundVariance(0.1**2, 3)),
        resolution=0.0,
        rounds=3,
        paired=False,
    )
    (more,) = rounds_more([unpaired], ALPHA, 0.01)
    draw = np.random.default_rng(9)
    a, b = draw.normal(0, 0.1, (3000, 3 + more)), draw.normal(0.1, 0.1, (3000, 3 + more))
    found = (stats.ttest_ind(b, a, axis=1, equal_var=False).pvalue <= ALPHA).mean()
    assert 0.87 <= found <= 0.95


def test_rounds_more_of_unequal_numbers_follow_the_shorter_side():
    unequal = Contrast(
        log_ratio=0.1,
        parts=(RoundVariance(0.1**2, 40), RoundVariance(0.05**2, 2)),
        resolution=0.0,
        rounds=2,
        paired=False,
    )
    (more,) = rounds_more([unequal], ALPHA, 0.01)

    def power(rounds):
        error = math.sqrt(0.1**2 / (40 + rounds) + 0.05**2 / (2 + rounds))
        return stats.nct.sf(stats.t.ppf(1 - ALPHA / 2, 1 + rounds), 1 + rounds, 0.1 / error)

    assert power(more - 1) < 0.9 <= power(more)


def test_rounds_more_that_cannot_be_reported():
    on_the_margin = paired_contrast(math.log(1.0001), 5.0, 3)
    once = Contrast(log_ratio=0.1, parts=(), resolution=0.0, rounds=1, paired=True)
    assert rounds_more([once, on_the_margin], ALPHA, 0.05) == [None, None]
    assert rounds_more([], ALPHA, 0.05) == []
