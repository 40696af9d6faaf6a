"""The intervals hold what they promise: the simulation behind the table of docs/method.md.

Run as a script it prints the table.
"""

import math

import numpy as np
import pytest
from scipy import stats

from seatrial.stats.cell_estimates import ROUNDS_MIN_SETTLED, estimate_of_rounds
from seatrial.stats.estimate import t_of

TRIALS = 2000
SEED = 20261121


def normal(draw, shape):
    """Rounds with a spread of 5 %."""
    return np.exp(0.05 * draw.standard_normal(shape))


def wide(draw, shape):
    """Rounds with a spread of 30 %."""
    return np.exp(0.3 * draw.standard_normal(shape))


def skewed(draw, shape):
    """Rounds as a tail latency spreads: gamma distributed, shape 4."""
    return draw.gamma(4, 1, shape)


def two_states(draw, shape):
    """Rounds at one of two rates, 30 % apart."""
    return normal(draw, shape) * np.where(draw.random(shape) < 0.5, 0.7, 1.0)


def rare_stall(draw, shape):
    """Rounds of which one in ten loses half of its rate to a freeze."""
    return normal(draw, shape) * np.where(draw.random(shape) < 0.1, 0.5, 1.0)


def drifting(draw, shape):
    """Rounds each of which resembles the one before: correlation 0.6."""
    noise = draw.standard_normal(shape)
    for i in range(1, shape[1]):
        noise[:, i] = 0.6 * noise[:, i - 1] + 0.8 * noise[:, i]
    return np.exp(0.1 * noise)


SHAPES = (normal, wide, skewed, two_states, rare_stall, drifting)


def truth_of(shape):
    """The geometric mean of very many rounds."""
    return float(np.exp(np.log(shape(np.random.default_rng(SEED), (4000, 500))).mean()))


def coverage_of_estimate(shape, rounds, trials=TRIALS):
    """Share of trials in which the interval that Seatrial prints holds the truth."""
    truth = truth_of(shape)
    draws = shape(np.random.default_rng(rounds), (trials, rounds))
    estimates = (estimate_of_rounds(list(map(float, draw)), "IOPS") for draw in draws)
    return sum(e.low <= truth <= e.high for e in estimates) / trials


def coverage_of_bootstrap(shape, rounds, method, trials=500):
    """The same for a bootstrap over rounds of the same figure."""
    truth = math.log(truth_of(shape))
    draws = np.log(shape(np.random.default_rng(rounds), (trials, rounds)))
    interval = stats.bootstrap(
        (draws,),
        np.mean,
        axis=-1,
        vectorized=True,
        method=method,
        n_resamples=599,
        batch=100,
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(((interval.low <= truth) & (truth <= interval.high)).mean())


def coverage_when_stopped(spread, rounds_max, precision=0.05, trials=20_000):
    """Coverage and mean number of rounds when a cell stops as soon as it has settled."""
    draws = spread * np.random.default_rng(SEED).standard_normal((trials, rounds_max))
    open_trials = np.ones(trials, bool)
    held, used = np.zeros(trials, bool), np.zeros(trials)
    for rounds in range(ROUNDS_MIN_SETTLED, rounds_max + 1):
        seen = draws[:, :rounds]
        half = t_of(rounds - 1) * seen.std(1, ddof=1) / math.sqrt(rounds)
        stops = open_trials & ((np.sinh(half) <= precision) | (rounds == rounds_max))
        held[stops] = (np.abs(seen.mean(1)) <= half)[stops]
        used[stops] = rounds
        open_trials &= ~stops
    return float(held.mean()), float(used.mean())


@pytest.mark.parametrize("rounds", [2, 3, 5, 10])
@pytest.mark.parametrize("shape", [normal, wide, skewed])
def test_nineteen_of_twenty_intervals_hold_the_truth(shape, rounds):
    assert 0.92 <= coverage_of_estimate(shape, rounds) <= 0.975


def test_a_bootstrap_of_few_rounds_would_not():
    for method in ("percentile", "BCa"):
        assert coverage_of_bootstrap(normal, 3, method) < 0.85
        assert coverage_of_bootstrap(normal, 5, method) < 0.91


def test_stopping_when_settled_costs_little():
    for spread in (0.02, 0.05, 0.1):
        held, _ = coverage_when_stopped(spread, 10)
        assert 0.89 <= held <= 0.97


def main():
    """Print the tables of docs/method.md."""
    counts = (2, 3, 4, 5, 8, 12, 20)
    for shape in SHAPES:
        row = [f"{coverage_of_estimate(shape, n):.1%}" for n in counts]
        print(f"| {shape.__name__} | t on logarithms |", " | ".join(row))  # noqa: T201
    for method in ("percentile", "BCa"):
        for shape in (normal, skewed):
            row = [f"{coverage_of_bootstrap(shape, n, method):.1%}" for n in counts[1:]]
            print(f"| {shape.__name__} | {method} | |", " | ".join(row))  # noqa: T201
    for spread in (0.02, 0.05, 0.1, 0.2):
        row = [coverage_when_stopped(spread, rounds_max) for rounds_max in (5, 10, 20)]
        reported = " | ".join(f"{held:.1%} ({used:.1f})" for held, used in row)
        print(f"| {spread:.0%} | {reported} |")  # noqa: T201


if __name__ == "__main__":
    main()
