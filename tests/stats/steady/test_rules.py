"""SNIA's rule and fio's, against hand calculation, their own definitions, and scipy's line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seatrial.stats.steady.phases import snia
from seatrial.stats.steady.states import fio_deviation, fio_slope

RATES = st.lists(st.floats(1, 1e6), min_size=5, max_size=40)


def test_a_window_exactly_on_the_limit_of_the_range_keeps_snias_rule():
    # Mean 100, range 20 = 20 %; the line through a zigzag hardly leans.
    result = snia([110, 90, 100, 90, 110])
    assert result.met
    assert result.range_share == pytest.approx(0.2)
    assert result.line_share == pytest.approx(0.0)


def test_a_range_just_beyond_breaks_it():
    result = snia([110.1, 90, 100, 90, 110])
    assert not result.met
    assert "not met" in result.sentence
    assert "at most 20 %" in result.sentence


def test_a_lean_of_ten_percent_keeps_it_and_eleven_breaks_it():
    # Even steps of 2.5 % of the mean: the line moves by 4 steps.
    assert snia([95, 97.5, 100, 102.5, 105]).met
    leaning = snia([94.5, 97.25, 100, 102.75, 105.5])
    assert leaning.range_share < 0.2
    assert leaning.line_share == pytest.approx(0.11)
    assert not leaning.met


def test_a_falling_line_counts_like_a_rising_one():
    assert snia([105.5, 102.75, 100, 97.25, 94.5]).line_share == pytest.approx(0.11)


def test_a_fresh_drive_becomes_steady_in_its_ninth_round():
    # The shape of the specification's figure: fresh, transition, steady.
    rounds = [60_000, 48_000, 33_000, 21_000, 12_500, 12_100, 12_300, 11_900, 12_200, 12_000]
    result = snia(rounds, [60.0 * (number + 1) for number in range(len(rounds))])
    assert result.met
    assert result.met_after == 9
    assert result.met_at_s == 540.0


def test_what_was_steady_once_is_not_met_when_it_ends_elsewhere():
    result = snia([100] * 8 + [60], list(range(9)))
    assert not result.met
    assert result.met_after == 5
    assert result.met_at_s == 4


def test_four_rounds_are_too_few():
    result = snia([100] * 4)
    assert (result.met, result.met_after, result.window) == (False, None, 0)
    assert "needs 5 rounds; only 4 were measured" in result.sentence


def test_nothing_completed_is_not_steady():
    result = snia([0, 0, 0, 0, 0])
    assert not result.met
    assert "nothing completed" in result.sentence


@pytest.mark.parametrize(("values", "times"), [([1, -1], None), ([float("nan")], None), ([1], [])])
def test_a_series_that_is_none_is_refused(values, times):
    with pytest.raises(ValueError, match=r"finite|times"):
        snia(values, times)


@given(RATES)
def test_snias_line_is_that_of_scipy(values):
    window = values[-5:]
    slope = stats.linregress(range(5), window).slope
    expected = abs(slope) * 4 / (sum(window) / 5)
    assert snia(values).line_share == pytest.approx(expected, abs=1e-9)


@given(RATES, st.floats(0.01, 1000))
def test_the_rule_does_not_depend_on_the_unit(values, scale):
    one, other = snia(values), snia([value * scale for value in values])
    assert one.range_share == pytest.approx(other.range_share)
    assert one.line_share == pytest.approx(other.line_share, abs=1e-9)


def test_fios_deviation_is_exclusive_at_its_limit():
    assert not fio_deviation([110, 100, 90], window=3).met
    assert fio_deviation([109.9, 100, 90.1], window=3).met


def test_fios_slope_is_what_the_line_moves_from_value_to_value():
    falling = [101, 100, 99]  # 1 % of the mean from value to value
    assert not fio_slope(falling, window=3, limit_share=0.01).met
    assert fio_slope(falling, window=3, limit_share=0.0101).met


def test_fio_ends_at_the_first_window_that_keeps_its_rule():
    values = [200, 150, *[100] * 12]
    result = fio_deviation(values, list(range(1, 15)))
    assert result.met_after == 12
    assert result.met_at_s == 12
    assert "ss=iops:10% is met" in result.sentence


def test_fios_rule_needs_a_whole_window():
    result = fio_slope([100] * 9)
    assert not result.met
    assert result.met_after is None
    assert "cannot be evaluated" in result.sentence


def test_fios_rule_refuses_a_window_of_one():
    with pytest.raises(ValueError, match="at least two"):
        fio_deviation([1, 2, 3], window=1)


@given(st.lists(st.floats(1, 1e6), min_size=10, max_size=30))
def test_fios_slope_is_that_of_scipy(values):
    slope = stats.linregress(range(10), values[-10:]).slope
    share = abs(slope) / (sum(values[-10:]) / 10)
    met = fio_slope(values, limit_share=0.01).met
    if abs(share - 0.01) > 1e-9:
        assert met == (share < 0.01)
