"""A recorded load as clients that each wait for a read: the faster it is served, the more they ask.

What a client does between its requests takes as long as it did when it was recorded: the number of
clients divided by the recorded rate, less the recorded response time (interactive response time
law; P. Denning and J. Buzen, "The Operational Analysis of Queueing Network Models", Computing
Surveys 10, 1978). The storage never gets more reads so than it got, and its recorded times hold:
with a share m of misses, clients that wait a time R and do other things for Z send it
m (Z + R) / (Z + m R) times as many, at most as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SHORTEST: Final = 1 / 64
"""Of the recording, how long the first attempt to find the end is."""
_ATTEMPTS_MAX: Final = 12


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Clients that sent a recorded load.

    Attributes:
        clients: How many there are.
        other_ns: Time between two accesses to blocks in which a client waits for no read.
        accesses_per_read: Accesses to blocks of a read, in the mean.
        device_servers: How many reads the cache device serves at once; 0 for all that come.
    """

    clients: int
    other_ns: float
    accesses_per_read: float
    device_servers: int = 0


class TooFewClientsError(ValueError):
    """More requests were in flight than clients that wait for each could have sent."""


def loop_of(
    *,
    clients: int,
    accesses_per_s: float,
    read_share: float,
    accesses_per_read: float,
    read_ns_mean: float,
    device_servers: int,
) -> Loop:
    """Return clients that send a load at the recorded rate, if reads take as long.

    Args:
        clients: How many there are.
        accesses_per_s: Accesses to blocks a second.
        read_share: Share of them that are reads, for which clients wait.
        accesses_per_read: Accesses of a read.
        read_ns_mean: Mean response time of reads.
        device_servers: How many reads the cache device serves at once.

    Raises:
        TooFewClientsError: if so few clients cannot send so many.
    """
    waited_ns = read_share * read_ns_mean / accesses_per_read
    other_ns = clients * 1e9 / accesses_per_s - waited_ns
    if other_ns < 0:
        in_flight = accesses_per_s * waited_ns / 1e9
        raise TooFewClientsError(f"{in_flight:.1f} reads were in flight in the mean")
    return Loop(
        clients=clients,
        other_ns=other_ns,
        accesses_per_read=accesses_per_read,
        device_servers=device_servers,
    )


def slices_of_one_pass(
    simulate: Callable[[int], Sequence[_core.CacheSlice]], accesses: int, length_ns: int
) -> tuple[Sequence[_core.CacheSlice], int]:
    """Return slices in which all accesses are made once, and how long that takes (ns).

    Args:
        simulate: The simulation, whose clients go on for ever, until a time.
        accesses: How many there are.
        length_ns: About how long they take at most.
    """
    end_ns = max(1, round(length_ns * _SHORTEST))
    for _ in range(_ATTEMPTS_MAX):
        slices = simulate(end_ns)
        made = 0
        for place, each in enumerate(slices, start=1):
            made += each.memory_hits + each.device_hits + each.disk_reads + each.writes
            if made >= accesses:
                found_ns = max(1, round(end_ns * place / len(slices)))
                return (
                    (slices, found_ns) if place == len(slices) else (simulate(found_ns), found_ns)
                )
        end_ns *= 2
    return slices, end_ns
