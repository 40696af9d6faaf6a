"""The throughput of a closed loop of clients, from the demands of an operation.

A closed loop of clients, a storage where they queue, and a delay for all else, solved by mean value
analysis (M. Reiser and S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks",
J. ACM 27, 1980). A client that comes while one is served waits for the rest of that one's time,
which depends on how much these times vary (M. Reiser, "A Queueing Network Analysis of Computer
Communication Networks with Window Flow Control", IEEE Trans. Commun. 27, 1979). A storage that
serves several at once is one that is as much faster, and a delay (A. Seidmann, P. Schweitzer and
S. Shalev-Oren, "Computerized Closed Queueing Network Models of Flexible Manufacturing Systems",
Large Scale Systems 12, 1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_STEPS = 60


@dataclass(frozen=True)
class Storage:
    """A storage that serves reads.

    Attributes:
        alone_per_s: Reads a second of one client.
        most_per_s: Reads a second of many clients; at least ``alone_per_s``.
        variation: Squared coefficient of variation of the time of a read: 0 if constant, 1 if
            exponential.
    """

    alone_per_s: float
    most_per_s: float
    variation: float = 1.0

    def scaled(self, factor: float) -> Storage:
        """Return a storage that is faster by a factor."""
        return replace(
            self, alone_per_s=self.alone_per_s * factor, most_per_s=self.most_per_s * factor
        )


def operations_per_s(storage: Storage, reads: float, delay_s: float, clients: float) -> float:
    """Return the operations a second that clients get.

    Args:
        storage: The storage.
        reads: Sequential reads of an operation.
        delay_s: Rest of its time (s), without waiting for other clients.
        clients: Number of clients; interpolated between whole numbers.

    Raises:
        ValueError: if there is no client, or an operation takes no time.
    """
    if clients < 1:
        raise ValueError("a closed loop needs a client")
    most = math.ceil(clients)
    rates = _rates_per_s(storage, reads, delay_s, most)
    if most == clients:
        return rates[-1]
    return rates[-2] + (rates[-1] - rates[-2]) * (clients - (most - 1))


def _rates_per_s(storage: Storage, reads: float, delay_s: float, most: int) -> list[float]:
    """Return the operations a second of 1, 2, ... clients."""
    served_s = 1 / storage.most_per_s
    fixed_s = delay_s + reads * max(0.0, 1 / storage.alone_per_s - served_s)
    waiting = busy = 0.0
    rates = []
    for clients in range(1, most + 1):
        read_s = served_s * (1 + waiting - busy * (1 - storage.variation) / 2)
        whole_s = fixed_s + reads * read_s
        if whole_s <= 0:
            raise ValueError("an operation takes no time")
        rate = clients / whole_s
        if reads > 0:
            # The approximation may exceed what the storage serves by a little.
            rate = min(rate, storage.most_per_s / reads)
        waiting, busy = clients - rate * fixed_s, rate * reads * served_s
        rates.append(rate)
    return rates


def calibrated(
    storage: Storage, reads: float, delay_s: float, clients: float, measured_per_s: float
) -> Storage:
    """Return the storage scaled so that the measured rate of operations results.

    If no factor does, as when the delay alone allows less, the nearest one is used.
    """
    low, high = 1e-3, 1e3
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        if operations_per_s(storage.scaled(middle), reads, delay_s, clients) < measured_per_s:
            low = middle
        else:
            high = middle
    return storage.scaled(math.sqrt(low * high))
