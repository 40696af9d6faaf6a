"""How fast clients that each wait for an answer are served, by what each answer needs.

A closed network of one class of customers: stations whose speed depends on how many are at them,
and a delay for all else, solved exactly by mean value analysis. Sources: M. Reiser and
S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", J. ACM 27 (1980); a disk
as one station of measured speed is a flow equivalent (Chandy, Herzog and Woo, IBM J. Res. Dev. 19,
1975).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = 60


@dataclass(frozen=True)
class Station:
    """What serves clients.

    Attributes:
        visits: How often an operation comes here.
        rates_per_s: Visits served a second while 1, 2, ... clients are here; those beyond are
            served as the last.
    """

    visits: float
    rates_per_s: tuple[float, ...]

    def rate_per_s(self, clients: int) -> float:
        """Return the visits served a second while so many clients are here."""
        return self.rates_per_s[min(clients, len(self.rates_per_s)) - 1]


def operations_per_s(stations: Sequence[Station], delay_s: float, clients: float) -> float:
    """Return the operations a second that clients get.

    Args:
        stations: What they visit.
        delay_s: What an operation needs besides, in seconds, without waiting for other clients.
        clients: How many there are; between whole numbers by interpolation.

    Raises:
        ValueError: if there is no client, or an operation takes no time.
    """
    if clients < 1:
        raise ValueError("a closed loop needs a client")
    most = math.ceil(clients)
    rates = _solved(stations, delay_s, most)
    if most == clients:
        return rates[-1]
    return rates[-2] + (rates[-1] - rates[-2]) * (clients - (most - 1))


def _solved(stations: Sequence[Station], delay_s: float, most: int) -> list[float]:
    """Return the operations a second of 1, 2, ... clients."""
    used = [each for each in stations if each.visits > 0]
    # Probabilities that so many clients are at each station.
    at = [[1.0] for _ in used]
    rates = []
    for clients in range(1, most + 1):
        times_s = [
            each.visits
            * sum((j + 1) / each.rate_per_s(j + 1) * own[j] for j in range(min(clients, len(own))))
            for each, own in zip(used, at, strict=True)
        ]
        whole_s = delay_s + sum(times_s)
        if whole_s <= 0:
            raise ValueError("an operation takes no time")
        rate = clients / whole_s
        rates.append(rate)
        following = []
        for each, own in zip(used, at, strict=True):
            more = [each.visits * rate / each.rate_per_s(j + 1) * own[j] for j in range(len(own))]
            following.append([max(0.0, 1 - sum(more)), *more])
        at = following
    return rates


def scaled_to(
    stations: Sequence[Station], delay_s: float, clients: float, known_per_s: float
) -> list[Station]:
    """Return stations, all by one factor faster or slower, so that a known rate comes out.

    Without a factor that does it, as where the delay alone allows less, the nearest one.
    """

    def of(factor: float) -> list[Station]:
        return [
            Station(each.visits, tuple(rate * factor for rate in each.rates_per_s))
            for each in stations
        ]

    low, high = 1e-3, 1e3
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        if operations_per_s(of(middle), delay_s, clients) < known_per_s:
            low = middle
        else:
            high = middle
    return of(math.sqrt(low * high))
