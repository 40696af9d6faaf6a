"""Our part on one host: an actor that Ray starts there, and what it answers.

Between the START and the STOP of a sample it makes no call to Ray and receives none: the engine's
threads measure, and the thread of the actor waits for them in native code.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

from seatrial import _core
from seatrial.fingerprint import Fingerprint
from seatrial.fleet.link import LinkServer, throughput
from seatrial.results.fleet import Reach, Throughput

REACH_S = 3.0
"""How long a server may take to accept a connection."""


class HostPart:
    """The actor; one per host."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._links = LinkServer(address)

    def versions(self) -> dict[str, str]:
        """Return what must be alike on all hosts, and the port for round trips; plain builtins."""
        return {
            "seatrial": _core.__version__,
            "python": platform.python_version(),
            "port": str(self._links.port),
            "host": socket.gethostname(),
        }

    def fingerprint(self, place: str | None) -> Fingerprint:
        """Return the fingerprint of the host, with that of a path where one is given."""
        from seatrial.machine import fingerprint as context  # noqa: PLC0415 - not for every actor

        path = Path(place) if place else None
        return context.fingerprint(path if path and path.exists() else None)

    def load_per_cpu(self) -> float:
        """Return the runnable tasks of the last minute, for each processor."""
        running = float(Path("/proc/loadavg").read_text(encoding="utf-8").split()[0])
        return running / (os.cpu_count() or 1)

    def reach(self, places: list[str]) -> list[Reach]:
        """Return what the host sees at each path or address."""
        return [_reach(place) for place in places]

    def throughput_to(self, address: str, port: int) -> Throughput | str:
        """Return what a connection to another host carries, or why there is none."""
        try:
            return throughput(address, port)
        except OSError as error:
            return error.strerror or str(error)


def _reach(place: str) -> Reach:
    if "://" in place or not place.startswith("/"):
        return _reach_address(place)
    path = Path(place)
    if not path.exists():
        return Reach(place=place, obstacle="it does not exist")
    from seatrial.machine import fingerprint as context  # noqa: PLC0415 - not for an address

    found = context.target_fingerprint(path)
    system = found.filesystem if found else None
    return Reach(
        place=place,
        source=(system.source if system else None) or "",
        filesystem=(system.type if system else None) or "",
        mount_options=system.mount_options if system else [],
        is_writable=os.access(path, os.W_OK),
    )


def _reach_address(place: str) -> Reach:
    parts = urlsplit(place if "://" in place else f"tcp://{place}")
    port = parts.port or {"http": 80, "https": 443, "postgresql": 5432, "postgres": 5432}.get(
        parts.scheme, 0
    )
    if not parts.hostname or not port:
        return Reach(place=place, obstacle="it is neither a path nor HOST:PORT")
    began_ns = time.monotonic_ns()
    try:
        socket.create_connection((parts.hostname, port), timeout=REACH_S).close()
    except OSError as error:
        return Reach(place=place, obstacle=(error.strerror or str(error)).lower())
    return Reach(place=place, connect_ns=time.monotonic_ns() - began_ns)
