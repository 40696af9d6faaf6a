"""A Ray cluster of small nodes on this machine, any of which can be killed."""

from __future__ import annotations

import os
from typing import Final, Self

from seatrial.fleet.cluster import ray_module

SIZES: Final = {"num_cpus": 1, "memory": 1 << 30, "object_store_memory": 128 << 20}


class Nodes:
    """A head and further nodes, of one processor each; a context manager that ends them."""

    def __init__(self, count: int) -> None:
        os.environ.setdefault("RAY_TMPDIR", "/var/tmp")
        ray_module()
        from ray.cluster_utils import Cluster  # noqa: PLC0415 - optional

        head = {**SIZES, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, connect=False, head_node_args=head)
        self._others = [self._cluster.add_node(**SIZES) for _ in range(count - 1)]

    @property
    def address(self) -> str:
        """Address of the head."""
        return str(self._cluster.address)

    def add(self) -> None:
        """Add a node to replace one that was killed."""
        self._others.append(self._cluster.add_node(**SIZES))

    def kill(self) -> None:
        """Kill all processes of the youngest node at once."""
        self._cluster.remove_node(self._others.pop(), allow_graceful=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._cluster.shutdown()
