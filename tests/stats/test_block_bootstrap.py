"""The interval of one timeline holds what it promises, where an independent one would not.

``python -m analysis.test_block_bootstrap`` in tests/ prints the table of docs/method.md.
"""

import math

import numpy as np
import pytest

from seatrial.stats.estimate import block_values, half_width_of_mean

from .timed import autocorrelated

TRIALS = 400
SEED = 20261121


def coverage(values, correlation, half_width, trials=TRIALS):
    """Share of timelines whose interval holds the true mean, 0."""
    series = autocorrelated(np.random.default_rng(SEED), values, correlation, trials)
    return float(np.mean([abs(own.mean()) <= half_width(own) for own in series]))


def as_if_independent(values):
    """The bootstrap of single values: its variance is that of their mean."""
    return 1.96 * float(values.std()) / math.sqrt(len(values))


def by_drawing(values, block, draws=4000):
    """The circular block bootstrap's standard error as its authors have it: by drawing."""
    draw = np.random.default_rng(SEED)
    count = len(values)
    starts = draw.integers(0, count, (draws, count // block))
    places = (starts[:, :, None] + np.arange(block)) % count
    return float(values[places].mean(axis=(1, 2)).std())


@pytest.mark.parametrize("values", [100, 300, 600])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_nine_of_ten_intervals_hold_the_truth(values, correlation):
    assert 0.88 <= coverage(values, correlation, half_width_of_mean) <= 0.99


@pytest.mark.parametrize("values", [100, 300, 600])
def test_a_bootstrap_of_single_values_would_not(values):
    assert coverage(values, 0.5, as_if_independent) < 0.82
    assert coverage(values, 0.9, as_if_independent) < 0.5


def test_the_closed_form_is_what_drawing_gives():
    from seatrial.stats.estimate import _variance_of_block_means  # the form under test

    values = autocorrelated(np.random.default_rng(3), 120, 0.6)[0]
    for block in (1, 4, 12):
        closed = math.sqrt(_variance_of_block_means(values, block) / (120 // block))
        assert closed == pytest.approx(by_drawing(values, block), rel=0.05)


def test_blocks_grow_with_correlation():
    draw = np.random.default_rng(5)
    typical = [
        np.median([block_values(own) for own in autocorrelated(draw, 400, correlation, 40)])
        for correlation in (0.0, 0.5, 0.9)
    ]
    assert typical[0] < typical[1] < typical[2]


def test_the_best_block_is_that_of_theory():
    # Of an AR(1) with many values the variance's best block is known: (2 G^2 / D)^(1/3) n^(1/3)
    # with G / sigma^2 = 2 phi / (1 - phi^2) and D = 4/3 sigma^4.
    phi, count = 0.7, 20_000
    theory = (1.5 * (2 * phi / (1 - phi**2)) ** 2) ** (1 / 3) * count ** (1 / 3)
    own = [
        block_values(series) for series in autocorrelated(np.random.default_rng(7), count, phi, 5)
    ]
    assert np.median(own) == pytest.approx(theory, rel=0.15)


def test_nineteen_values_have_no_interval():
    assert half_width_of_mean(np.arange(19.0)) is None
    assert half_width_of_mean(np.arange(20.0)) > 0


def test_equal_values_have_no_width():
    assert half_width_of_mean(np.full(50, 7.0)) == 0


def main():
    """Print the table of docs/method.md."""
    for values in (20, 50, 100, 300, 600):
        for name, half_width in (("block", half_width_of_mean), ("single", as_if_independent)):
            row = [f"{coverage(values, phi, half_width, 2000):.0%}" for phi in (0.0, 0.5, 0.9)]
            print(f"| {values} | {name} |", " | ".join(row))  # noqa: T201


if __name__ == "__main__":
    main()
