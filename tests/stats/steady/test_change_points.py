"""Change points are found where they are, and noise that remembers makes few.

``python -m analysis.steady.test_change_points`` in tests/ prints the table of docs/method.md.
"""

import numpy as np
import pytest

from seatrial.stats.running import start_up_steps
from seatrial.stats.steady.change_points import (
    CHANCE_MAX,
    change_points,
    confident_move,
    likeliest_change,
    logarithms,
)
from seatrial.stats.steady.phases import phases

from ..timed import autocorrelated

SEED = 20261121
TRIALS = 200


def flat(values, correlation, spread=1.0, trials=TRIALS):
    return spread * autocorrelated(np.random.default_rng(SEED), values, correlation, trials)


def heavy(values, correlation, trials=TRIALS):
    """Noise of Student's t with 3 degrees of freedom, and one value in fifty at a third."""
    draw = np.random.default_rng(SEED)
    noise = draw.standard_t(3, (trials, values + 100)) / np.sqrt(3)
    for place in range(1, values + 100):
        fresh = np.sqrt(1 - correlation**2) * noise[:, place]
        noise[:, place] = correlation * noise[:, place - 1] + fresh
    dips = np.where(draw.random((trials, values)) < 0.02, np.log(0.3), 0.0)
    return 0.1 * noise[:, 100:] + dips


def rate_of(found, series):
    return float(np.mean([bool(found(own)) for own in series]))


def splits(own):
    return likeliest_change(own).chance <= CHANCE_MAX


def starts_up(own):
    return start_up_steps(1000 * np.exp(own))


def has_states(own):
    rates = (1000 * np.exp(own)).tolist()
    return len(phases(rates, [0.1 * (place + 1) for place in range(len(rates))])) > 1


@pytest.mark.parametrize("values", [20, 50, 200])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_noise_makes_change_points_in_one_of_twenty_series_at_most(values, correlation):
    series = flat(values, correlation)
    assert rate_of(splits, series) <= 0.05
    assert rate_of(change_points, series) <= 0.06


@pytest.mark.parametrize("values", [20, 50, 200])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_noise_of_a_tenth_makes_no_start_up_phase_and_no_states(values, correlation):
    series = flat(values, correlation, spread=0.1)
    assert rate_of(starts_up, series) <= 0.02
    assert rate_of(has_states, series) <= 0.05


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_outliers_make_no_start_up_phase(correlation):
    assert rate_of(starts_up, heavy(50, correlation)) <= 0.03


@pytest.mark.parametrize(("values", "correlation"), [(20, 0.0), (20, 0.8), (50, 0.5), (300, 0.8)])
def test_a_fall_to_a_third_is_found_where_it_is(values, correlation):
    series = flat(values, correlation, spread=0.1, trials=60)
    place = values * 3 // 10
    series[:, :place] += np.log(3)
    found = [change_points(own) for own in series]
    assert np.mean([places == [place] for places in found]) >= 0.9


def test_down_and_up_again_is_found():
    series = flat(100, 0.3, spread=0.05, trials=1)[0]
    series[40:60] -= np.log(1.5)
    assert change_points(series) == [40, 60]


def test_three_levels_are_found():
    series = flat(200, 0.3, spread=0.05, trials=1)[0]
    series[:50] += np.log(4)
    series[50:120] += np.log(2)
    assert change_points(series) == [50, 120]


def test_a_lone_peak_is_no_jump():
    series = flat(30, 0.0, spread=0.05, trials=1)[0]
    series[10] += 3
    assert likeliest_change(series).chance > CHANCE_MAX


def test_equal_values_do_not_change():
    assert change_points(np.zeros(50)) == []
    assert likeliest_change(np.zeros(50)).chance == 1.0


def test_a_clean_step_needs_no_noise_to_be_significant():
    assert change_points(np.array([1.0] * 10 + [2.0] * 20)) == [10]


def test_too_short_a_series_has_no_split():
    assert likeliest_change(np.array([1.0, 1.0, 5.0, 5.0, 5.0])) is None
    assert likeliest_change(np.zeros(40), index_max=2) is None


def test_a_freeze_weighs_no_more_than_an_eighth():
    values = logarithms(np.array([100.0, 0.0, 100.0, 100.0]))
    assert np.exp(values) == pytest.approx([100, 12.5, 100, 100])
    assert logarithms(np.zeros(3)).tolist() == [0, 0, 0]


def test_the_significant_move_is_below_the_true_one_and_above_noise():
    moving = flat(100, 0.3, spread=0.05, trials=100) + np.linspace(0, np.log(2), 100)
    moves = [confident_move(own) for own in moving]
    assert np.mean(np.array(moves) <= np.log(2)) >= 0.98
    assert np.mean(moves) > np.log(1.6)
    assert np.mean([confident_move(own) > 0 for own in flat(100, 0.5)]) <= 0.03


def main():
    """Print the table of docs/method.md."""
    for values in (20, 50, 100, 300):
        for name, found, spread in (
            ("one change point", splits, 1.0),
            ("change points", change_points, 1.0),
            ("start-up phase, 5 %", starts_up, 0.05),
            ("start-up phase, 15 %", starts_up, 0.15),
            ("states, 5 %", has_states, 0.05),
            ("states, 15 %", has_states, 0.15),
        ):
            row = [f"{rate_of(found, flat(values, c, spread, 1000)):.1%}" for c in (0, 0.5, 0.9)]
            print(f"| {values} | {name} |", " | ".join(row))  # noqa: T201


if __name__ == "__main__":
    main()
