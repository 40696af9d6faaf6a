"""A recorded load as a closed loop of clients: the faster reads are served, the more are sent.

The think time of a client is that of the recording: the number of clients divided by the recorded
rate, less the recorded response time (interactive response time law; P. Denning and J. Buzen, "The
Operational Analysis of Queueing Network Models", Computing Surveys 10, 1978). So the storage never
gets more reads than recorded, and its recorded times remain valid: with a share m of misses,
response time R and think time Z, it gets m (Z + R) / (Z + m R) times as many, at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SHORTEST: Final = 1 / 64
"""Length of the first attempt to find the end, as a share of the recording."""
_ATTEMPTS_MAX: Final = 12


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """Clients that sent a recorded load.

    Attributes:
        clients: Number of clients.
        think_ns: Think time of a client between two block accesses.
        accesses_per_read: Mean block accesses of a read.
        device_servers: Reads that the cache device serves at once; 0 for no limit.
    """

    clients: int
    think_ns: float
    accesses_per_read: float
    device_servers: int = 0


class TooFewClientsError(ValueError):
    """More requests were in flight than there are clients."""


def closed_loop(
    *,
    clients: int,
    accesses_per_s: float,
    read_share: float,
    accesses_per_read: float,
    read_ns_mean: float,
    device_servers: int,
) -> ClosedLoop:
    """Return clients that send the recorded rate at the recorded response times.

    Args:
        clients: Number of clients.
        accesses_per_s: Accesses to blocks a second.
        read_share: Share of reads, for which clients wait.
        accesses_per_read: Accesses of a read.
        read_ns_mean: Mean response time of reads.
        device_servers: Reads that the cache device serves at once.

    Raises:
        TooFewClientsError: if so few clients cannot send so many.
    """
    waited_ns = read_share * read_ns_mean / accesses_per_read
    think_ns = clients * 1e9 / accesses_per_s - waited_ns
    if think_ns < 0:
        in_flight = accesses_per_s * waited_ns / 1e9
        raise TooFewClientsError(f"{in_flight:.1f} reads were in flight on average")
    return ClosedLoop(
        clients=clients,
        think_ns=think_ns,
        accesses_per_read=accesses_per_read,
        device_servers=device_servers,
    )


def slices_of_one_pass(
    simulate: Callable[[int], Sequence[_core.CacheSlice]], accesses: int, length_ns: int
) -> tuple[Sequence[_core.CacheSlice], int]:
    """Return slices in which all accesses are made once, and their duration (ns).

    Args:
        simulate: Simulates endless clients until a time (ns).
        accesses: Number of accesses.
        length_ns: Approximate upper limit of the duration.
    """
    end_ns = max(1, round(length_ns * _SHORTEST))
    for _ in range(_ATTEMPTS_MAX):
        slices = simulate(end_ns)
        accesses_made = 0
        for number, each in enumerate(slices, start=1):
            accesses_made += each.memory_hits + each.device_hits + each.disk_reads + each.writes
            if accesses_made >= accesses:
                pass_ns = max(1, round(end_ns * number / len(slices)))
                return (slices, pass_ns) if number == len(slices) else (simulate(pass_ns), pass_ns)
        end_ns *= 2
    return slices, end_ns
