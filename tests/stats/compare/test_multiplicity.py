"""Holm's method and the two halves of the 5 %."""

import numpy as np
import pytest
from scipy import stats

from seatrial.stats.compare.ratio import ALPHA, holm, judge


def rejected_step_by_step(p_values, alpha):
    """Holm's own words (1979): smallest first, at alpha over the number still open."""
    left = dict(enumerate(p_values))
    while left:
        place = min(left, key=left.get)
        if left[place] > alpha / len(left):
            break
        del left[place]
    return [place not in left for place in range(len(p_values))]


@pytest.mark.parametrize("seed", range(30))
def test_holm_rejects_as_holm_says(seed):
    p_values = np.random.default_rng(seed).beta(0.2, 2, 12).tolist()
    for alpha in (0.01, 0.05, 0.2):
        adjusted = [p <= alpha for p in holm(p_values)]
        assert adjusted == rejected_step_by_step(p_values, alpha)


@pytest.mark.parametrize("seed", range(10))
def test_holm_stands_between_hochbergs_rate_and_bonferroni(seed):
    p_values = np.random.default_rng(seed).beta(0.3, 1, 20)
    found = np.array(holm(p_values.tolist()))
    assert np.all(found <= np.minimum(1, 20 * p_values) + 1e-15)
    assert np.all(found >= stats.false_discovery_control(p_values, method="bh") - 1e-15)


def test_holm_of_few():
    assert holm([]) == []
    assert holm([0.03]) == [0.03]
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_halves_share_five_percent_and_pass_on_what_they_do_not_need():
    # The overall is not found at 2.5 %: the cells have only their half.
    overall, cells = judge([0.04], [0.03, 0.9])
    assert overall.p_adjusted == pytest.approx([0.08])
    assert cells.p_adjusted == pytest.approx([0.08, 0.9])
    assert cells.alpha == pytest.approx(ALPHA / 2 / 2)
    # It is found: its half passes to the cells.
    overall, cells = judge([0.02], [0.024, 0.9])
    assert overall.p_adjusted == pytest.approx([0.04])
    assert cells.p_adjusted == pytest.approx([0.048, 0.9])
    assert cells.alpha == pytest.approx(ALPHA / 1)
    # All cells are found: their half passes to the overall.
    overall, cells = judge([0.045], [0.001, 0.002])
    assert overall.p_adjusted == pytest.approx([0.045])
    assert overall.alpha == ALPHA


def test_cells_alone_have_all_of_it():
    overall, cells = judge([], [0.049])
    assert overall.p_adjusted == []
    assert cells.p_adjusted == [0.049]
    assert cells.alpha == ALPHA


@pytest.mark.parametrize("seed", range(30))
def test_levels_fit_the_answers(seed):
    """At the level of its half a p value is below alpha exactly where Holm finds a difference."""
    draw = np.random.default_rng(seed)
    p_overall, p_cells = draw.beta(0.3, 3, 3).tolist(), draw.beta(0.2, 3, 15).tolist()
    for judged, p_values in zip(judge(p_overall, p_cells), (p_overall, p_cells), strict=True):
        for p, adjusted in zip(p_values, judged.p_adjusted, strict=True):
            assert (adjusted <= ALPHA) == (p <= judged.alpha)


def test_true_nulls_are_called_different_in_at_most_five_percent():
    draw = np.random.default_rng(7)
    wrong = 0
    for _ in range(4000):
        false_p, true_p = draw.uniform(size=9), draw.beta(0.05, 5, 6)
        overall, cells = judge(false_p[:2].tolist(), [*false_p[2:], *true_p])
        wrong += min(*overall.p_adjusted, *cells.p_adjusted[:7]) <= ALPHA
    assert wrong / 4000 <= ALPHA + 3 * (0.05 * 0.95 / 4000) ** 0.5
