"""Captures of what clients say to a server, between relays that keep every byte of it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cli.command import Ended, ended, start
from seatrial import _core
from seatrial.postgres.connection import Address
from seatrial.trials.replay.reading import Reading
from trials.replay.targets import Target
from trials.replay.wire import Relay, relay

WAIT_S = 30.0
POLL_S = 0.02


@dataclass
class Capture:
    """A proxy with a relay on each side.

    Attributes:
        address: What clients connect to: the relay before the proxy.
        before: The relay between clients and the proxy.
        behind: The relay between the proxy and the server.
        trace: The trace that is made.
    """

    address: Address
    before: Relay
    behind: Relay
    trace: Path
    running: _core.SqlCapture
    result: Reading | None = None
    _statements: list[dict[str, Any]] = field(default_factory=list)

    @property
    def reported(self) -> Reading:
        assert self.result is not None, "the capture has not ended"
        return self.result

    @property
    def statements(self) -> list[dict[str, Any]]:
        """What the trace holds, once the capture has ended."""
        if not self._statements:
            self._statements = _core.trace_statements(self.trace, 0, 1 << 30)
        return self._statements

    def environment(self, dbname: str = "") -> dict[str, str]:
        """How libpq finds the proxy."""
        return {
            "PGHOST": self.address.host,
            "PGPORT": str(self.address.port),
            "PGUSER": self.address.user,
            "PGDATABASE": dbname or self.address.dbname,
            "PGSSLMODE": "disable",
        }

    def end(self) -> Reading:
        """End it when every connection has ended; nothing may have been altered."""
        self.before.settle()
        self.behind.settle()
        self.running.stop()
        assert self.running.wait(WAIT_S), "the capture does not end"
        self.result = msgspec.json.decode(self.running.result(), type=Reading)
        assert not self.result.accounting.faults()
        return self.result


def server_place(target: Target) -> tuple[str, int] | str:
    """Where a target's server listens, as Python's sockets have it."""
    address = target.server.address
    if address.host.startswith("/"):
        return f"{address.host}/.s.PGSQL.{address.port}"
    return (address.host, address.port)


@contextlib.contextmanager
def capturing(target: Target, dbname: str, trace: Path, **wanted: Any) -> Iterator[Capture]:
    """Capture what is said to a target's database by way of a proxy between two relays."""
    with relay(server_place(target)) as behind:
        spec = {
            "listen": [{"port": 0}],
            "server": {"host": "127.0.0.1", "port": behind.port},
            "output": str(trace),
            **wanted,
        }
        running = _core.start_sql_capture(msgspec.json.encode(spec).decode())
        host, port = running.places[0].rsplit(":", 1)
        with relay((host, int(port))) as before:
            address = msgspec.structs.replace(
                target.address(dbname), host="127.0.0.1", port=before.port
            )
            capture = Capture(address, before, behind, trace, running)
            try:
                yield capture
            finally:
                if capture.result is None:
                    running.stop()
                    assert running.wait(WAIT_S)


def assert_unaltered(capture: Capture) -> None:
    """What the clients sent and got is what the server got and sent, byte for byte."""
    before, behind = capture.before.connections, capture.behind.connections
    assert len(before) == len(behind) > 0
    for sent, received in zip(before, behind, strict=True):
        assert sent.up == received.up
        assert sent.down == received.down


@dataclass
class Command:
    """``seatrial sql capture`` at work.

    Attributes:
        process: The command.
        places: Where clients come in.
        warned: What it had said before it listened.
    """

    process: subprocess.Popen[str]
    places: list[str]
    warned: str

    @property
    def port(self) -> int:
        return int(self.places[0].rsplit(":", 1)[1])

    def await_warning(self, words: str) -> str:
        """Wait for a line of standard error that has these words; return it."""
        assert self.process.stderr is not None
        while line := self.process.stderr.readline():
            if words in line:
                return line
        raise AssertionError(f"it ended and never said {words!r}")

    def end(self, number: int = signal.SIGINT) -> Ended:
        """End it by a signal; return what it printed."""
        self.process.send_signal(number)
        return ended(self.process)


def start_capture(*arguments: str | Path, folder: Path, **how: Any) -> Command:
    """Start the command; wait until it listens."""
    process = start("sql", "capture", *arguments, folder=folder, **how)
    assert process.stderr is not None
    warned = []
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        line = process.stderr.readline()
        if line.startswith("Listening on "):
            places = line.removeprefix("Listening on ").split("; ")[0].split(", ")
            return Command(process, places, "".join(warned))
        warned.append(line)
        if process.poll() is not None:
            break
    raise AssertionError(f"it does not listen: {''.join(warned)}")
