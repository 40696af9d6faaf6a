"""Exact mean value analysis of a closed network: one delay and any number of queueing stations.

Source: M. Reiser and S. S. Lavenberg, "Mean-value analysis of closed multichain queuing networks",
Journal of the ACM 27 (2), 1980. One class of customers; stations with one server whose service
times are exponential or that share their processor. A population that is not whole is taken
between its neighbours, linearly: an array that admits 7.7 requests on average admits 7 or 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

SETTLED_SHARE = 1e-8
CHECKED_EVERY = 8


def throughput_per_s(delay_s: Array, demands_s: Sequence[Array], population: Array) -> Array:
    """Return the throughput of closed networks, many at a time.

    All arguments broadcast against each other; the result has their common shape.

    Args:
        delay_s: Time that a customer spends outside of all queues, per pass.
        demands_s: For each queueing station, the time that it works on one customer.
        population: Customers in the network, at least 0, not necessarily whole.

    Raises:
        ValueError: when a population is negative or a network takes no time at all.
    """
    import numpy as np  # noqa: PLC0415

    delay, population, *demands = np.broadcast_arrays(delay_s, population, *demands_s)
    if population.size == 0:
        return np.zeros(population.shape)
    if population.min() < 0:
        raise ValueError("a population is at least 0")
    if (delay + sum(demands)).min() <= 0:
        raise ValueError("a network without delay and demand has no throughput")
    by_population = _by_whole_population(delay, demands, int(np.ceil(population.max())))
    settled = len(by_population) - 1
    below = np.minimum(np.floor(population).astype(np.intp), settled)
    above = np.minimum(np.ceil(population).astype(np.intp), settled)
    at_below = np.take_along_axis(by_population, below[np.newaxis], axis=0)[0]
    at_above = np.take_along_axis(by_population, above[np.newaxis], axis=0)[0]
    interpolated: Array = at_below + (at_above - at_below) * (population - np.floor(population))
    return interpolated


def _by_whole_population(delay: Array, demands: Sequence[Array], population_max: int) -> Array:
    """Return the throughput for 0, 1 ... customers along a first axis: the exact recursion.

    It ends where one more customer adds nothing anywhere; so it is for all that follow.
    """
    import numpy as np  # noqa: PLC0415

    stations = np.stack([*demands]) if demands else np.zeros((0, *delay.shape))
    throughput = np.zeros((population_max + 1, *delay.shape))
    times = np.zeros(stations.shape)  # how many wait at each, then how long; reused, for speed
    for customers in range(1, population_max + 1):
        # The arrival theorem: who arrives meets the queue of a network with one customer less.
        times += 1
        times *= stations
        passing = delay.copy()
        for residence in times:
            passing += residence
        np.divide(customers, passing, out=throughput[customers])
        times *= throughput[customers]
        if customers % CHECKED_EVERY == 0 and _is_settled(throughput, customers):
            return throughput[: customers + 1]
    return throughput


def _is_settled(throughput: Array, customers: int) -> bool:
    """Tell whether one more customer adds nothing; throughput is concave, so neither do others."""
    gained = throughput[customers] - throughput[customers - 1]
    return bool((gained <= SETTLED_SHARE * throughput[customers]).all())
