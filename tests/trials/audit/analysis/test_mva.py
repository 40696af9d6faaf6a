"""Mean value analysis against oracles that know nothing of it."""

import heapq
import itertools
from fractions import Fraction
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.trials.audit.queueing.forms import throughput_per_s

TIMES = st.integers(min_value=1, max_value=50)


def product_form(delay, demands, population):
    """Throughput from the normalising constants, summed over every state, in exact fractions.

    J. P. Buzen's product form: a state with k customers in delay and n_i at station i weighs
    delay^k / k! times the product of demand_i^n_i; throughput is G(N - 1) / G(N).
    """

    def constant(customers):
        weights = [Fraction(delay) ** k / factorial(k) for k in range(customers + 1)]
        for demand in demands:
            weights = [
                sum(weights[n - here] * Fraction(demand) ** here for here in range(n + 1))
                for n in range(customers + 1)
            ]
        return weights[customers]

    return float(constant(population - 1) / constant(population))


def one(delay, demands, population):
    return float(
        throughput_per_s(
            np.array([float(delay)]),
            [np.array([float(demand)]) for demand in demands],
            np.array([float(population)]),
        )[0]
    )


@settings(max_examples=60, deadline=None)
@given(delay=st.integers(0, 50), demands=st.lists(TIMES, max_size=3), population=st.integers(1, 12))
def test_equals_the_product_form(delay, demands, population):
    if not demands:
        delay += 1
    wanted = product_form(delay, demands, population)
    assert one(delay, demands, population) == pytest.approx(wanted, rel=1e-9)


def test_equals_a_simulation():
    """Two exponential servers and a delay, simulated event by event."""
    delay, demands, population = 5.0, (2.0, 3.0), 6
    random = np.random.default_rng(7)
    events, queues, passes, now = [], ([], []), 0, 0.0
    for customer in range(population):
        heapq.heappush(events, (random.exponential(delay), customer, 0))
    while passes < 40_000:
        now, customer, station = heapq.heappop(events)
        if station:
            queues[station - 1].pop(0)
            if queues[station - 1]:
                after = now + random.exponential(demands[station - 1])
                heapq.heappush(events, (after, queues[station - 1][0], station))
        if station == len(demands):
            passes += 1
            heapq.heappush(events, (now + random.exponential(delay), customer, 0))
            continue
        queues[station].append(customer)
        if len(queues[station]) == 1:
            served = now + random.exponential(demands[station])
            heapq.heappush(events, (served, customer, station + 1))
    assert passes / now == pytest.approx(one(delay, demands, population), rel=0.02)


@pytest.mark.parametrize("population", [1.25, 7.7, 39.5])
def test_a_population_between_two_lies_between_theirs(population):
    low, high = int(population), int(population) + 1
    share = population - low
    wanted = (1 - share) * one(12, (16, 5), low) + share * one(12, (16, 5), high)
    assert one(12, (16, 5), population) == pytest.approx(wanted, rel=1e-12)


def test_bounds_and_limits():
    alone = one(12, (16, 5), 1)
    assert alone == pytest.approx(1 / 33)
    assert one(12, (16, 5), 0) == 0
    assert one(12, (16, 5), 2000) == pytest.approx(1 / 16, rel=1e-6)
    rates = [one(12, (16, 5), n) for n in range(1, 50)]
    assert all(b >= a for a, b in itertools.pairwise(rates))


def test_many_networks_at_once_are_as_each_alone():
    delays, link = np.array([[1.0], [20.0]]), np.array([[0.5, 2.0, 30.0]])
    counts = np.array([[1.0, 7.5, 40.0]])
    together = throughput_per_s(delays, [np.full((2, 1), 4.0), link], counts)
    for row in range(2):
        for column in range(3):
            demands = (4.0, link[0, column])
            alone = one(delays[row, 0], demands, counts[0, column])
            assert together[row, column] == pytest.approx(alone, rel=1e-9)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="at least 0"):
        one(1, (1,), -1)
    with pytest.raises(ValueError, match="no throughput"):
        one(0, (), 1)
