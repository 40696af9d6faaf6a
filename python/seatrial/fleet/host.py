"""Our actor on one host, started by Ray.

Between the START and the STOP of a sample it makes no call to Ray and receives none: the engine's
threads measure, and the thread of the actor waits for them in native code.
"""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import time
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from seatrial import _core
from seatrial.errors import native_errors
from seatrial.fingerprint import Fingerprint
from seatrial.fleet.link import LinkServer, throughput
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import SilentWatcher
from seatrial.measure.stage import Stage, StageRequest, TargetState
from seatrial.results.fleet import Reachability, Throughput
from seatrial.study.cell import Cell, SpecDocument
from seatrial.study.model import Plan

REACH_S: Final = 3.0
"""Timeout of connecting to a server."""
WAIT_S: Final = 0.5
POLL_S: Final = 0.02
CONTENT_SAMPLE_BYTES: Final = 1 << 16
"""Size of the samples of a shared file's start and end that identify it."""


class Work(Protocol):
    """A topic's part of a sample on one host; it is pickled."""

    def prepare(self) -> Any:  # noqa: ANN401 - as the topic needs it
        """Check that it can run; return what must be equal on all hosts."""

    def run(self, start_at_ns: int) -> Any:  # noqa: ANN401 - likewise
        """Run from an instant of this host's monotonic clock; return the result."""

    def stop(self) -> None:
        """End it early; called by another thread."""


class HostActor:
    """The actor; one per host."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._links = LinkServer(address)
        self._running: _core.Running | None = None
        self._playback: _core.SqlPlayback | None = None
        self._own: tuple[UndoJournal, Stage] | None = None
        self._work: Work | None = None

    def versions(self) -> dict[str, str]:
        """Return what must be equal on all hosts, the port for round trips, and processors."""
        return {
            "seatrial": _core.__version__,
            "python": platform.python_version(),
            "port": str(self._links.port),
            "cpus": str(os.cpu_count() or 1),
        }

    def fingerprint(self, path_text: str | None) -> Fingerprint:
        """Return the fingerprint of the host, with that of a path if given."""
        from seatrial.machine.fingerprint import take_fingerprint  # noqa: PLC0415 - as late

        path = Path(path_text) if path_text else None
        return take_fingerprint(path if path and path.exists() else None)

    def load_per_cpu(self) -> float:
        """Return the load average of the last minute per processor."""
        running = float(Path("/proc/loadavg").read_text(encoding="utf-8").split()[0])
        return running / (os.cpu_count() or 1)

    def reach(self, targets: list[str]) -> list[Reachability]:
        """Return whether the host can use each path or address."""
        return [_reach(target) for target in targets]

    def throughput_to(self, address: str, port: int) -> Throughput | str:
        """Return the throughput to another host, or why there is none."""
        try:
            return throughput(address, port)
        except OSError as error:
            return error.strerror or str(error)

    def content(self, path: str) -> dict[str, str | int]:
        """Return what identifies a shared file, and its mount on this host."""
        seen = _reach(path)
        if seen.obstacle:
            return {"obstacle": seen.obstacle}
        with open(path, "rb", buffering=0) as opened:  # noqa: PTH123 - unbuffered
            head = opened.read(CONTENT_SAMPLE_BYTES)
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - CONTENT_SAMPLE_BYTES))
            tail = opened.read(CONTENT_SAMPLE_BYTES)
        return {
            "size_bytes": os.stat(path).st_size,  # noqa: PTH116 - its text may not be a Path
            "head": hashlib.sha256(head).hexdigest(),
            "tail": hashlib.sha256(tail).hexdigest(),
            "mount": f"{seen.source} {seen.filesystem} {','.join(seen.mount_options)}",
        }

    def open_own(self, plan: Plan, run_id: str, target_state: TargetState) -> None:
        """Create and fill this host's own files; every change is in its own undo journal.

        Raises:
            SeatrialError: when the target cannot be used.
        """
        journal = UndoJournal(run_id)
        stage = Stage(StageRequest(plan, run_id, journal, target_state=target_state))
        # What a failure leaves is removed by ``close_own``.
        self._own = journal, stage
        stage.__enter__()
        stage.prepare(SilentWatcher())

    def close_own(self) -> None:
        """Remove this host's own files.

        Raises:
            SeatrialError: when something could not be undone.
        """
        if self._own is None:
            return
        journal, stage = self._own
        self._own = None
        try:
            stage.__exit__(None, None, None)
        finally:
            journal.__exit__(None, None, None)

    def measure(
        self, cell: Cell, spec: SpecDocument, round_number: int, start_at_ns: int
    ) -> dict[str, Any]:
        """Measure one cell from an instant of this host's monotonic clock.

        Nothing is sent or received meanwhile: this thread waits in native code.

        Args:
            cell: The cell.
            spec: Its specification; the target is replaced for a host's own file.
            round_number: The round, from 0.
            start_at_ns: When to start, by the monotonic clock.

        Raises:
            SeatrialError: when the target or the engine fails.
        """
        if self._own is not None:
            own = self._own[1]
            spec = {**own.spec(cell, round_number), "seed": spec["seed"]}
        spec = {**spec, "start_at_ns": start_at_ns}
        before, began_ns = _network_bytes(), time.monotonic_ns()
        with native_errors():
            self._running = running = _core.start(msgspec.json.encode(spec).decode())
            while not running.wait(WAIT_S):
                pass
            parts: dict[str, Any] = running.result()
        self._running = None
        return {**parts, **_network_bytes_per_s(before, began_ns)}

    def prepare_replay(self, spec: SpecDocument) -> None:
        """Prepare a replay: read the trace up to the first statement.

        Raises:
            SeatrialError: when the trace cannot be read, or the server's address is invalid.
        """
        with native_errors():
            self._playback = playback = _core.start_sql_playback(msgspec.json.encode(spec).decode())
            while not playback.is_ready():
                if playback.wait(POLL_S):
                    playback.result()

    def replay(self, start_at_ns: int) -> dict[str, Any]:
        """Run the prepared replay from an instant of this host's monotonic clock.

        Nothing else is sent or received meanwhile.

        Raises:
            SeatrialError: when the trace or the engine fails.
        """
        playback = self._playback
        if playback is None:
            raise RuntimeError("no replay was prepared")
        before, began_ns = _network_bytes(), time.monotonic_ns()
        with native_errors():
            playback.start_at(start_at_ns)
            while not playback.wait(WAIT_S):
                pass
            played = playback.result()
        self._playback = None
        return {
            "parts": played.parts,
            "record_json": played.record_json,
            "counts": played.counts,
            "end": played.end,
            "words": played.words,
            **_network_bytes_per_s(before, began_ns),
        }

    def prepare_work(self, work: Work) -> Any:  # noqa: ANN401 - as the work returns it
        """Prepare a topic's part of a sample; return its description.

        Raises:
            SeatrialError: when this host cannot run it.
        """
        found = work.prepare()
        self._work = work
        return found

    def work(self, start_at_ns: int) -> dict[str, Any]:
        """Run the prepared work from an instant of this host's monotonic clock.

        Nothing but the load is sent or received meanwhile.

        Raises:
            SeatrialError: when it fails.
        """
        if self._work is None:
            raise RuntimeError("no work was prepared")
        before, began_ns = _network_bytes(), time.monotonic_ns()
        done = self._work.run(start_at_ns)
        self._work = None
        return {"done": done, **_network_bytes_per_s(before, began_ns)}

    def stop(self) -> None:
        """End the current sample early; its results are kept."""
        if self._work is not None:
            self._work.stop()
        if self._playback is not None:
            self._playback.stop()
        running = self._running
        if running is not None:
            running.stop()


def _network_bytes_per_s(before: tuple[int, int], began_ns: int) -> dict[str, float]:
    """Return the rates of this host's interfaces since a reading."""
    took_s = (time.monotonic_ns() - began_ns) / 1e9
    received, sent = (max(0, b - a) / took_s for a, b in zip(before, _network_bytes(), strict=True))
    return {"received_bytes_per_s": received, "sent_bytes_per_s": sent}


def _network_bytes() -> tuple[int, int]:
    """Return the bytes that this host's interfaces have received and sent, without loopback."""
    received_bytes = sent_bytes = 0
    for line in Path("/proc/self/net/dev").read_text(encoding="utf-8").splitlines()[2:]:
        name, _, counters = line.partition(":")
        if name.strip() != "lo":
            columns = counters.split()
            received_bytes += int(columns[0])
            sent_bytes += int(columns[8])
    return received_bytes, sent_bytes


def _reach(target: str) -> Reachability:
    if "://" in target or not target.startswith("/"):
        return _reach_address(target)
    path = Path(target)
    if not path.exists():
        return Reachability(target=target, obstacle="it does not exist")
    from seatrial.machine.fingerprint import target_fingerprint  # noqa: PLC0415 - for a path

    found = target_fingerprint(path)
    system = found.filesystem if found else None
    return Reachability(
        target=target,
        source=(system.source if system else None) or "",
        filesystem=(system.type if system else None) or "",
        mount_options=system.mount_options if system else [],
        is_writable=os.access(path, os.W_OK),
    )


def _reach_address(target: str) -> Reachability:
    parts = urlsplit(target if "://" in target else f"tcp://{target}")
    port = parts.port or {"http": 80, "https": 443, "postgresql": 5432, "postgres": 5432}.get(
        parts.scheme, 0
    )
    if not parts.hostname or not port:
        return Reachability(target=target, obstacle="it is neither a path nor HOST:PORT")
    began_ns = time.monotonic_ns()
    try:
        socket.create_connection((parts.hostname, port), timeout=REACH_S).close()
    except OSError as error:
        return Reachability(target=target, obstacle=(error.strerror or str(error)).lower())
    return Reachability(target=target, connect_ns=time.monotonic_ns() - began_ns)
