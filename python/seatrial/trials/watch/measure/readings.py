"""Readings besides requests: how long tasks waited for I/O, and a server's own statistics.

Both need no rights on the disks. The server's figures are of all its databases, and of its requests
to the kernel: a read may be served by the page cache.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from seatrial.machine.fingerprint.counters import pressures
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.trials.database.analysis.readings import ON_CPU
from seatrial.trials.database.measure.observe_server import (
    FACTS,
    WAITS,
    Session,
    moment_queries,
    report_queries,
)
from seatrial.trials.watch.analysis.activity import Readings
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from seatrial.postgres.connection import Address, Secret

_PRESSURES: Final = {"some": "some tasks", "full": "all tasks"}
_AGAIN_S: Final = 5.0
"""From one connection to the next, where a server was lost."""
_END_S: Final = 1.0
"""How long the end waits for a thread that connects; it ends with the program."""
_OPERATIONS: Final = {"read": "reads", "write": "writes", "extend": "extends", "fsync": "fsyncs"}
_WAL_OPERATIONS: Final = {"WAL write": "wal_write", "WAL sync": "wal_sync"}
_BUFFERS: Final = {
    "written by the checkpointer": "checkpoint_buffers",
    "written by the background writer": "bgwriter_buffers",
    "written by backends": "backend_buffers",
}


class Pressure:
    """How long tasks waited for I/O (the kernel's Documentation/accounting/psi.rst)."""

    def __init__(self) -> None:
        self._before, self._before_s = self._read(), time.monotonic()

    def take(self) -> Readings:
        """Return shares of the time since the last call; none where the kernel does not say it."""
        now, now_s = self._read(), time.monotonic()
        seconds = max(now_s - self._before_s, 1e-3)
        shares = {
            name: (now[key] - self._before[key]) / (seconds * NS_PER_S)
            for line, name in _PRESSURES.items()
            if (key := f"psi_io_{line}_ns") in now and key in self._before
        }
        self._before, self._before_s = now, now_s
        return {"pressure": shares} if shares else {}

    @staticmethod
    def _read() -> dict[str, float]:
        return pressures(LIVE, [("io", line) for line in _PRESSURES])


class ServerThread(ABC):
    """Queries a server in a thread of its own until it is stopped.

    A server that hangs delays nothing else, and one that was lost is tried again.
    """

    def __init__(self, address: Address, secret: Secret | None) -> None:
        """Connect, and start.

        Raises:
            TargetError: when the server cannot be reached.
        """
        self._address, self._secret = address, secret
        self._session: Session | None = Session(address, secret)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and the connection, also while a query hangs."""
        self._ended.set()
        if (session := self._session) is not None:
            session.disconnect()
        self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._ended.is_set():
            again_s = time.monotonic() + _AGAIN_S
            if (session := self._session) is not None:
                with suppress(Exception):  # the server is gone, or refuses: try again
                    self._poll(session)
                self._session = None
                with suppress(Exception):
                    session.close()
            if self._ended.wait(max(0.0, again_s - time.monotonic())):
                return
            with suppress(Exception):
                self._session = Session(self._address, self._secret)

    @abstractmethod
    def _poll(self, session: Session) -> None:
        """Query until the end.

        Raises:
            psycopg.Error: when the server is lost.
        """


class ServerWatch(ServerThread):
    """Reads a server's statistics; there are no readings until it answers."""

    def __init__(self, address: Address, secret: Secret | None, every_s: float) -> None:
        """Connect, and start to read.

        Raises:
            TargetError: when the server cannot be reached.
        """
        self._every_s = every_s
        self._lock = threading.Lock()
        self._latest: Readings = {}
        super().__init__(address, secret)

    def take(self) -> Readings:
        """Return what the server has answered since the last call; none where it has not."""
        with self._lock:
            taken, self._latest = self._latest, {}
        return taken

    def _poll(self, session: Session) -> None:
        (facts,) = session.records(FACTS, {"databases": []}) or [{}]
        before: tuple[float, dict[str, float]] | None = None
        while not self._ended.wait(self._every_s if before else 0.0):
            values = {"all": True, "oids": [], **facts}
            now_s, counters = time.monotonic(), _counters(session, values)
            waits = session.rows(WAITS, values) or []
            if before is not None:
                found = server_readings(before[1], counters, now_s - before[0])
                with self._lock:
                    self._latest = {**found, "server_waits": waiting(waits)}
            before = now_s, counters


def _counters(session: Session, values: Mapping[str, Any]) -> dict[str, float]:
    """Return the server's counters by name; those of several contexts are summed up."""
    queries = [*report_queries(session.version).values(), *moment_queries(session.version).values()]
    found: dict[str, float] = {}
    for query in queries:
        for record in session.records(query, values) or []:
            for name, value in record.items():
                if name != "context" and value is not None:
                    found[name] = found.get(name, 0.0) + float(value)
    return found


def server_readings(
    before: Mapping[str, float], now: Mapping[str, float], seconds: float
) -> dict[str, Mapping[str, float]]:
    """Return rates of what a server counts between two readings, by panel and name."""

    def rate_per_s(name: str) -> float | None:
        if name not in before or name not in now or now[name] < before[name]:
            return None  # not counted by this version, or reset meanwhile
        return (now[name] - before[name]) / seconds

    def panel(names: Iterable[tuple[str, str]]) -> dict[str, float]:
        rates = {label: rate_per_s(name) for label, name in names}
        return {label: value for label, value in rates.items() if value is not None}

    wal = [(label, f"{name}s") for label, name in _WAL_OPERATIONS.items()]
    wal_ns = [(label, f"{name}_ns") for label, name in _WAL_OPERATIONS.items()]
    own = [*_OPERATIONS.items()] if "reads" in now else [("read", "shared_reads")]
    own_ns = [(label, f"{label}_ns") for label in _OPERATIONS]
    if "reads" not in now:
        own_ns = [("read", "shared_read_ns")]
    found = {
        "server_requests": panel([*own, *wal]),
        "server_ns": panel([*own_ns, *wal_ns]),
        "server_wal": panel([("WAL", "wal_bytes")]),
        "server_buffers": panel([(label, name) for label, name in _BUFFERS.items()]),
    }
    return {name: readings for name, readings in found.items() if readings}


def waiting(rows: Iterable[tuple[Any, ...]]) -> dict[str, float]:
    """Return how many active sessions were in each wait; those without one are on a CPU."""
    found: Counter[str] = Counter()
    for state, kind, event, count in rows:
        if state == "active":
            found[f"{kind}: {event}" if kind else ON_CPU] += count
    return {name: float(count) for name, count in found.items()}
