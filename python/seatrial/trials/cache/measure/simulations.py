"""Simulations of caches on the hosts of a cluster.

The accesses are sent there once, at most 51 MB: of more, samples are simulated. So the recording
has to be on this machine only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from seatrial.fleet.cluster import Cluster
from seatrial.fleet.tasks import results_in_order, shared
from seatrial.trials.cache.analysis.accesses import Accesses
from seatrial.trials.cache.analysis.simulations import Runner, Simulation

TASK_BYTES: Final = 512 << 20
"""Memory that a simulation takes at most, its Python and the accesses too."""


class _RemoteAccesses:
    """A reference to accesses that are on every host, as an argument that is not resolved."""

    def __init__(self, reference: Any) -> None:  # noqa: ANN401 - of an optional module
        self.reference = reference


@lru_cache(maxsize=1)
def _accesses(reference: Any) -> Accesses:  # noqa: ANN401 - of an optional module
    """Return accesses that this process has simulated before, or get them."""
    import ray  # noqa: PLC0415 - this process was started by it

    found: Accesses = ray.get(reference)
    return found


def simulate(
    remote: _RemoteAccesses, function: Callable[..., object], arguments: tuple[Any, ...]
) -> object:
    """Run one simulation on the host that runs this."""
    return function(_accesses(remote.reference), *arguments)


def on_cluster(cluster: Cluster) -> Runner:
    """Return what runs simulations on the hosts of a cluster; it raises ClusterError."""

    def run(accesses: Accesses, simulations: Sequence[Simulation]) -> list[Any]:
        remote = _RemoteAccesses(shared(cluster, accesses))
        calls = [(remote, function, arguments) for function, arguments in simulations]
        return list(results_in_order(cluster, simulate, calls, memory_bytes=TASK_BYTES))

    return run
