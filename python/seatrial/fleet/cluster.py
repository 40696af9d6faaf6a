"""The connection to a Ray cluster: the one module that imports Ray.

Ray is the optional extra ``seatrial[ray]``. It starts and watches our actor on each host and
collects the results; it is never called inside the measured phase.
"""

from __future__ import annotations

import importlib
import os
import socket
from typing import Any, Final, Self

import msgspec

from seatrial.errors import SeatrialError

ANSWER_S: Final = 5.0
"""Timeout of connecting to an address."""

SETTINGS: Final = {
    # Nodes with another patch version of Python may join.
    "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray would otherwise warn of a change that does not concern us.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # An address that no longer answers fails after this time, not after a minute.
    "RAY_gcs_server_request_timeout_seconds": "15",
}
"""Set before Ray is imported, unless the user has set them."""


class ClusterError(SeatrialError):
    """No Ray cluster can be used: Ray is not installed, or the address does not answer."""

    exit_code = 6


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One host of a cluster.

    Attributes:
        id: Ray's identifier.
        host: Its host name.
        address: Its address in the cluster's network.
        cpus: Processors that the cluster may use there.
        is_head: Whether the cluster's own daemons run there.
    """

    id: str
    host: str
    address: str
    cpus: float
    is_head: bool


class Cluster:
    """A connection to a cluster; a context manager that closes it.

    Attributes:
        address: Address of its head, as ``HOST:PORT``.
        ray: The module, for actors and tasks.
        is_lost: Whether its head is gone.
    """

    def __init__(self, address: str, ray: Any) -> None:  # noqa: ANN401 - an optional module
        self.address = address
        self.ray = ray
        self.is_lost = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def nodes(self) -> list[Node]:
        """Return the live hosts: the head first, the others by address."""
        alive = [_node(entry) for entry in self.ray.nodes() if entry["Alive"]]
        return sorted(alive, key=lambda each: (not each.is_head, _address_key(each.address)))

    def close(self) -> None:
        """Disconnect; the cluster keeps running. Without a head it takes 5 s."""
        self.ray.shutdown()


def _node(entry: dict[str, Any]) -> Node:
    resources = entry["Resources"]
    return Node(
        id=entry["NodeID"],
        host=entry["NodeManagerHostname"],
        address=entry["NodeManagerAddress"],
        cpus=resources.get("CPU", 0.0),
        is_head="node:__internal_head__" in resources,
    )


def _address_key(address: str) -> tuple[int | str, ...]:
    parts = address.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else (0, address)


def ray_module() -> Any:  # noqa: ANN401 - an optional module
    """Import Ray with our settings.

    Raises:
        ClusterError: when it is not installed.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ClusterError(
            seen="Ray is not installed",
            cause="It is an optional extra, needed only for more than one host",
            next_step="Install it with `pip install 'seatrial[ray]'` on every host",
        ) from None


def connect(address: str) -> Cluster:
    """Connect to a running cluster, of which this machine must be a node.

    Args:
        address: ``HOST:PORT`` of the head, as `ray start --head` prints it (port 6379), or
            ``auto`` for the cluster that was started on this machine.

    Raises:
        ClusterError: when Ray is not installed, nothing answers at the address, or this machine is
            not a node of the cluster.
    """
    ray = ray_module()
    if address != "auto":
        _require_answer(address)
    try:
        started = ray.init(
            address=address,
            namespace="seatrial",
            log_to_driver=False,
            logging_level="ERROR",
            ignore_reinit_error=False,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        ray.shutdown()
        raise ClusterError(
            seen=f"The Ray cluster at {address} cannot be used: {_first_line(error)}",
            cause="It is not running, has another version of Ray or Python, or this machine is not "
            "one of its nodes",
            next_step="Run `ray status` here; join a cluster with `ray start --address=HOST:6379`",
        ) from None
    _silence_ray(ray)
    return Cluster(started.address_info["gcs_address"], ray)


def _silence_ray(ray: Any) -> None:  # noqa: ANN401 - Ray has no types, and is optional
    """Suppress Ray's messages about dead hosts on standard output, which is for documents.

    Ray has no option for it: `log_to_driver` only affects workers (listen_error_messages of Ray 2).
    """
    ray._private.worker.print_to_stdstream = lambda *_arguments, **_named: None


def _require_answer(address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or address.startswith("ray://"):
        raise ClusterError(
            seen=f"{address!r} is not the address of a Ray head",
            cause="An address is HOST:PORT, or auto for the cluster of this machine; ray:// is "
            "for clients outside of a cluster, which cannot measure",
            next_step="Use the address that `ray start --head` printed, such as 10.0.0.1:6379",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        raise ClusterError(
            seen=f"Nothing answers at {address}: {error.strerror or error}",
            cause="No head runs there, or a firewall drops its port",
            next_step="Start one with `ray start --head --port=6379`, and open the ports that "
            "docs/fleet.md lists",
        ) from None


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
