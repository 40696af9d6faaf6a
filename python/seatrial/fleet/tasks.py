"""Independent tasks on a cluster, their results in the order of the calls.

Ray restarts a task when its host or process dies, and recomputes results that were lost with a
host. A task depends only on its arguments, so its result is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from seatrial.fleet.cluster import Cluster, ClusterError

TASKS_PER_CPU: Final = 2
"""Submitted tasks per processor: one that runs, one that waits."""
TASKS_MAX: Final = 512
"""Maximum of submitted tasks, which bounds the memory of their results."""
RETRIES: Final = 5
"""Restarts of a task whose host or process dies."""
STREAMED_MAX: Final = 4
"""Unread results of a streamed task."""


def shared(cluster: Cluster, value: Any) -> Any:  # noqa: ANN401 - any value that can be pickled
    """Return a reference to a value, for the arguments of tasks."""
    return cluster.ray.put(value)


def results_in_order(
    cluster: Cluster,
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    *,
    memory_bytes: int,
    is_streamed: bool = False,
) -> Iterator[Any]:
    """Yield the result of each call of a function, in the order of the calls.

    Args:
        cluster: Where the tasks run.
        function: Importable on every host.
        calls: The arguments of each call.
        memory_bytes: Maximum of a task; limits the tasks per host.
        is_streamed: Whether the function is a generator, whose values are yielded one by one.

    Raises:
        ClusterError: when a task fails on every try, or no host has room for one.
    """
    ray = cluster.ray
    options: dict[str, Any] = {"num_cpus": 1, "memory": memory_bytes, "max_retries": RETRIES}
    if is_streamed:
        options |= {"num_returns": "streaming"}
        options["_generator_backpressure_num_objects"] = STREAMED_MAX
    _require_room(cluster, memory_bytes)
    remote = ray.remote(function).options(**options)
    cpus = sum(each.cpus for each in cluster.nodes())
    in_flight_max = max(1, min(TASKS_MAX, int(cpus * TASKS_PER_CPU)))
    waiting: deque[Any] = deque()
    remaining = iter(calls)
    try:
        while True:
            for call in remaining:
                waiting.append(remote.remote(*call))
                if len(waiting) >= in_flight_max:
                    break
            if not waiting:
                return
            first = waiting.popleft()
            if is_streamed:
                yield from map(ray.get, first)
            else:
                yield ray.get(first)
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ClusterError(
            seen=f"A task failed on the cluster: {lines[-1].rstrip('.')}",
            cause=f"Its hosts died, or have too little memory; it was tried {RETRIES + 1} times",
            next_step="See the hosts with `ray status`, then start the command again",
        ) from None
    finally:
        for left in waiting:
            ray.cancel(left)


def _require_room(cluster: Cluster, memory_bytes: int) -> None:
    """Refuse a cluster that would let tasks wait for ever; raises ClusterError."""
    alive = [each["Resources"] for each in cluster.ray.nodes() if each["Alive"]]
    if any(each.get("CPU", 0) >= 1 and each.get("memory", 0) >= memory_bytes for each in alive):
        return
    raise ClusterError(
        seen=f"No host of the cluster has a processor and {memory_bytes >> 20} MiB for a task",
        cause="Its hosts were started with --num-cpus=0 or little --memory",
        next_step="See the hosts with `ray status`, and add one",
    )
