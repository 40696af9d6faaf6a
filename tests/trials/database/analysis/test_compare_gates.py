"""What a comparison of databases promises: at most 5 in 100 false, a tenth slower is found.

Two sources of noise, both of this project's own machine (2 shared processors, virtual). Quiet:
research/database.md 4.6, 30 identical runs of ``pgbench -S``, whose rates drift (CV 19 %) and whose
neighbours differ by 6.4 % (standard deviation of the logarithm of their ratio). Loud: the recorded
rounds below, 3 s each, of one directory measured as two targets in turns while compilers and other
databases ran at the same time; a single round differs by half.
"""

import numpy as np
import pytest

from seatrial.stats.compare.comparison import compare
from stats.compare.sides import driver_sample, side_of

from .hand import cell_of

TRIALS = 200
ALPHA = 0.05
FALSE_SHARE_MAX = ALPHA + 2 * (ALPHA * (1 - ALPHA) / TRIALS) ** 0.5
"""With the binomial error of so many trials, twice."""
FOUND_SHARE_MIN = 0.9
ROUNDS = 10
"""Of the shipped study, studies/ssd-vs-hdd.toml, as of the article."""
SLOWER = 0.9
DRIFT = 0.19
PAIR_SCATTER = 0.064
CLIENTS = 10

RECORDED_PER_S = {
    "tpcb-like": (
        [
            619.0,
            303.0,
            290.0,
            755.0,
            1250.0,
            2000.0,
            934.0,
            809.0,
            440.0,
            795.0,
            770.0,
            1352.0,
            998.0,
            1121.0,
            1197.0,
            1349.0,
            746.0,
            1203.0,
            750.0,
            1379.0,
            1124.0,
            2033.0,
            2483.0,
            2842.0,
        ],
        [
            418.0,
            714.0,
            566.0,
            1405.0,
            795.0,
            1792.0,
            1003.0,
            333.0,
            521.0,
            490.0,
            450.0,
            930.0,
            1314.0,
            1109.0,
            1236.0,
            1384.0,
            1157.0,
            1114.0,
            1014.0,
            1215.0,
            1315.0,
            2060.0,
            1943.0,
            1433.0,
        ],
    ),
    "select-only": (
        [
            7811.0,
            8101.0,
            8021.0,
            30587.0,
            15554.0,
            19003.0,
            22273.0,
            11637.0,
            10959.0,
            14120.0,
            9389.0,
            9991.0,
            14211.0,
            22888.0,
            14147.0,
            14772.0,
            14171.0,
            17185.0,
            24493.0,
            16409.0,
            17606.0,
            19998.0,
            24341.0,
            32472.0,
        ],
        [
            7122.0,
            6102.0,
            6750.0,
            7111.0,
            9311.0,
            27693.0,
            20455.0,
            12662.0,
            6308.0,
            8398.0,
            5603.0,
            8449.0,
            19159.0,
            18240.0,
            16413.0,
            15573.0,
            18199.0,
            15487.0,
            11829.0,
            18798.0,
            21390.0,
            19093.0,
            20530.0,
            17655.0,
        ],
    ),
}
"""Rounds of a target and of the same once more, in tps, in the order in which they came."""


def compared(rates_a, rates_b, tails):
    """B against A, of a cell whose median follows the rate and whose p99 has noise of its own."""
    cell = cell_of(clients=CLIENTS)
    sides = []
    for name, rates, tail in (("A", rates_a, tails[0]), ("B", rates_b, tails[1])):
        samples = [
            driver_sample(
                cell,
                number,
                rate,
                {"p50": CLIENTS * 1e9 / rate, "p99": 4 * CLIENTS * 1e9 / rate * tail[number]},
                started_at=100.0 * number,
            )
            for number, rate in enumerate(rates)
        ]
        sides.append(side_of(name, samples, run_id="one"))
    (found,) = compare(sides[0], [sides[1]])
    assert found.paired
    assert len(found.comparands) == 3
    return found


def says_different(found):
    answers = [*found.comparands, *found.overall_answers.values()]
    return any(answer.answer in ("higher", "lower") for answer in answers)


def drawn_quiet(draw, rounds):
    """Two sides that share a drift, round by round, and scatter by themselves."""
    drift = np.cumsum(draw.standard_normal(rounds)) * DRIFT / np.sqrt(rounds)
    own = PAIR_SCATTER / np.sqrt(2) * draw.standard_normal((2, rounds))
    return 2000 * np.exp(drift + own)


def drawn_recorded(draw, rounds, name):
    """Rounds as recorded, of which either side may have been the one that is called A."""
    pairs = np.array(RECORDED_PER_S[name])
    chosen = pairs[:, np.sort(draw.choice(pairs.shape[1], rounds, replace=False))]
    swapped = draw.random(rounds) < 0.5
    return np.where(swapped, chosen[::-1], chosen)


def tails_of(draw, rounds):
    return np.exp(1.5 * PAIR_SCATTER * draw.standard_normal((2, rounds)))


def test_of_100_comparisons_of_equal_databases_at_most_5_are_false():
    """The issue's own gate: half of quiet rounds, half of recorded ones."""
    draw = np.random.default_rng(2010)
    sides = [drawn_quiet(draw, ROUNDS) for _ in range(50)]
    sides += [drawn_recorded(draw, ROUNDS, name) for name in RECORDED_PER_S for _ in range(25)]
    assert len(sides) == 100
    assert sum(says_different(compared(*side, tails_of(draw, ROUNDS))) for side in sides) <= 5


@pytest.mark.parametrize("rounds", [3, 5, ROUNDS])
def test_of_equal_databases_at_most_5_in_100_are_called_different(rounds):
    draw = np.random.default_rng(rounds)
    false = sum(
        says_different(compared(*drawn_quiet(draw, rounds), tails_of(draw, rounds)))
        for _ in range(TRIALS)
    )
    assert false / TRIALS <= FALSE_SHARE_MAX


@pytest.mark.parametrize("name", RECORDED_PER_S)
@pytest.mark.parametrize("rounds", [5, ROUNDS])
def test_nor_on_a_machine_that_is_not_quiet(rounds, name):
    draw = np.random.default_rng(rounds)
    false = sum(
        says_different(compared(*drawn_recorded(draw, rounds, name), tails_of(draw, rounds)))
        for _ in range(TRIALS)
    )
    assert false / TRIALS <= FALSE_SHARE_MAX


def test_the_recorded_rounds_as_they_came_are_equal():
    """Every stretch of ten rounds, sides and order untouched; one in twenty may differ."""
    draw = np.random.default_rng(1)
    false = [
        says_different(compared(a[at : at + ROUNDS], b[at : at + ROUNDS], tails_of(draw, ROUNDS)))
        for a, b in RECORDED_PER_S.values()
        for at in range(len(a) - ROUNDS + 1)
    ]
    assert len(false) > 20
    assert sum(false) / len(false) <= ALPHA


def share_found(rounds, trials=TRIALS):
    draw = np.random.default_rng(100 + rounds)
    found = 0
    for _ in range(trials):
        a, b = drawn_quiet(draw, rounds)
        reported = compared(a, SLOWER * b, tails_of(draw, rounds))
        rate = reported.comparands[0]
        assert rate.a.unit == "tps"
        found += rate.answer == "lower"
    return found / trials


def test_a_tenth_slower_is_found_in_9_of_10_with_the_rounds_of_the_shipped_study():
    assert share_found(ROUNDS) >= FOUND_SHARE_MIN


def test_five_rounds_are_too_few_for_a_tenth():
    """So that nobody takes the rounds of the quick trial for enough: docs/method.md says so."""
    assert share_found(5) < FOUND_SHARE_MIN
