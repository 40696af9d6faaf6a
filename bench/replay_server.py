"""Contenders of bench/replay_speed.py: a PostgreSQL, its logs and traces, and what loads it.

Every command is a process of its own, and what it took is what the kernel says of it at its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from seatrial import _core
from seatrial.postgres.catalogue import read_catalogue
from seatrial.postgres.cluster import Cluster
from seatrial.postgres.connection import connect
from seatrial.postgres.server import Server

SESSIONS: Final = 8
SCALE: Final = 10
PREFIX: Final = "%m|%u|%d|%c|"
"""The only one that pgreplay reads."""
# Nothing that would fall into one sample and not into another, and no wait for the disk.
SETTINGS: Final = {
    "autovacuum": "off",
    "checkpoint_timeout": "1d",
    "max_wal_size": "64GB",
    "synchronous_commit": "off",
}
LOGGING: Final = {
    "log_statement": "all",
    "log_connections": "on",
    "log_disconnections": "on",
    "log_line_prefix": PREFIX,
}
PLAY: Final = """
import json, sys
from seatrial import _core

def peak_bytes():
    with open("/proc/self/status") as status:
        kib = next(line.split()[1] for line in status if line.startswith("VmHWM"))
    return int(kib) * 1024

idle_bytes = peak_bytes()
playback = _core.start_sql_playback(sys.argv[1])
playback.wait(1e6)
grown_bytes = peak_bytes() - idle_bytes
played = playback.result()
played_s = {"duration_s": played.parts["duration_s"], "end": played.end, "words": played.words}
print(json.dumps({**played_s, "grown_bytes": grown_bytes, "record":
json.loads(played.record_json)}))
"""
MIX: Final = ("tpcb-like@1", "simple-update@1", "select-only@4")
STATEMENTS_OF_MIX: Final = 16 / 6
"""Of one transaction: 7, 5 and 1, in these shares."""


class NotPlayedError(Exception):
    """A contender failed."""


@dataclass(frozen=True, kw_only=True)
class ResourceUse:
    """Time of one contender for its statements.

    Attributes:
        statements: How many.
        duration_s: From the first connection to the last answer.
        cpu_user_s: Processor time in user space, of all its threads, from its start to its end.
        cpu_system_s: The same in the kernel.
        reported: The report of a replay; empty for others.
    """

    statements: int
    duration_s: float
    cpu_user_s: float
    cpu_system_s: float
    reported: Mapping[str, Any]

    @property
    def per_s(self) -> float:
        """Statements per second."""
        return self.statements / self.duration_s

    @property
    def cpu_s(self) -> float:
        """Total processor time."""
        return self.cpu_user_s + self.cpu_system_s

    def beyond(self, few: ResourceUse) -> ResourceUse:
        """Return it without the processor time of the same command for a few statements."""
        return replace(
            self,
            cpu_user_s=self.cpu_user_s - few.cpu_user_s,
            cpu_system_s=self.cpu_system_s - few.cpu_system_s,
        )


@dataclass(frozen=True, kw_only=True)
class EndedCommand:
    """A command that has succeeded."""

    printed: str
    real_s: float
    cpu_user_s: float
    cpu_system_s: float


class Logs:
    """The logs of loads and the traces read from them."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self.folder = folder
        """Their folder."""

    def log(self, name: str) -> Path:
        """Return the path of the log of a load."""
        return self.folder / f"{name}.log"

    def trace(self, name: str) -> Path:
        """Return the path of the trace of a load."""
        return self.folder / f"{name}.trace"

    def capture(self, name: str, *load: str) -> int:
        """Let pgbench do a load while all is logged, and read the log; its statements."""
        self._cluster.log_path.unlink(missing_ok=True)
        with self._cluster.start({**SETTINGS, **LOGGING}) as server:
            LoadedServer(server, self._cluster).pgbench(*load)
        self._cluster.log_path.rename(self.log(name))
        spec = {
            "logs": [str(self.log(name))],
            "output": str(self.trace(name)),
            "format": "stderr",
            "prefix": PREFIX,
        }
        reading = _core.start_sql_read(json.dumps(spec))
        reading.wait(1e6)
        accounting = json.loads(reading.result())["accounting"]
        if accounting["unreadable"] or accounting["skipped"]:
            raise NotPlayedError(f"the log of {name} was not read in full: {accounting}")
        return int(accounting["executable"])


class LoadedServer:
    """A running server, and the programs that send it statements."""

    def __init__(self, server: Server, cluster: Cluster, under: Sequence[str] = ()) -> None:
        self._server = server
        self._cluster = cluster
        self._under = under
        """What each command is given to: a program that watches it."""

    def under(self, watching: Sequence[str]) -> LoadedServer:
        """Return the same, each command watched by a program."""
        return LoadedServer(self._server, self._cluster, watching)

    def pgbench(self, *options: str) -> ResourceUse:
        """Let pgbench's one thread run with eight clients; its statements are its transactions."""
        program = str(self._cluster.binaries.program("pgbench"))
        clients = ["--no-vacuum", f"--client={SESSIONS}", "--jobs=1"]
        ended = self._run([program, *clients, *options])
        found = {
            name: float(figure)
            for name, figure in re.findall(
                r"^(tps|number of transactions actually processed|initial connection time)"
                r"\s*[=:]\s*([\d.]+)",
                ended.printed,
                re.MULTILINE,
            )
        }
        done = found["number of transactions actually processed"]
        return ResourceUse(
            statements=int(done),
            duration_s=done / found["tps"] + found["initial connection time"] / 1e3,
            cpu_user_s=ended.cpu_user_s,
            cpu_system_s=ended.cpu_system_s,
            reported={},
        )

    def fill(self) -> None:
        """Create pgbench's tables."""
        program = str(self._cluster.binaries.program("pgbench"))
        self._run([program, "--initialize", f"--scale={SCALE}", "--quiet"])

    def vacuum(self) -> None:
        """Vacuum, so that earlier work does not slow down the next."""
        with contextlib.closing(connect(self._server.address)) as connection:
            connection.execute("VACUUM pgbench_accounts, pgbench_branches, pgbench_tellers")

    def seatrial(
        self, trace: Path, speed: float | None = None, order: str = "session"
    ) -> ResourceUse:
        """Play a trace.

        Raises:
            NotPlayedError: When not all of it was answered well.
        """
        address = self._server.address
        server = {"host": address.host, "port": address.port}
        server |= {"database": address.dbname, "user": address.user}
        spec = {"trace": str(trace), "server": server, "speed": speed, "order": order}
        spec |= {"slice_ms": 100, "stall_threshold_ms": 50}
        if order not in ("session", "commit"):
            spec |= {"catalog": self.catalogue()}
        ended = self._run([sys.executable, "-c", PLAY, json.dumps(spec)])
        reported = json.loads(ended.printed)
        classes = reported["record"]["classes"].values()
        ok = sum(account["ok"] for account in classes)
        captured = sum(account["captured"] for account in classes)
        if reported["end"] != "complete" or ok != captured:
            raise NotPlayedError(f"{ok} of {captured} were answered well: {reported['words']}")
        return ResourceUse(
            statements=ok,
            duration_s=reported["duration_s"],
            cpu_user_s=ended.cpu_user_s,
            cpu_system_s=ended.cpu_system_s,
            reported=reported,
        )

    def catalogue(self) -> dict[str, Any]:
        """What the engine knows of the tables."""
        with contextlib.closing(connect(self._server.address)) as connection:
            return cast("dict[str, Any]", msgspec.to_builtins(read_catalogue(connection)))

    def seatrial_command(self, trace: Path) -> EndedCommand:
        """Play a trace by ``seatrial sql replay``, to this server."""
        words = ["sql", "replay", str(trace), "--to", self._server.address.as_url()]
        options = ["--read-only", "--results", str(trace.with_suffix(".seatrial"))]
        program = Path(sys.executable).with_name("seatrial")
        return self._run([str(program), *words, *options])

    def pgreplay(self, program: str, log: Path, statements: int) -> ResourceUse:
        """Let pgreplay play a log as fast as it can; what its reading takes is not counted."""
        replay = log.with_suffix(".pgreplay")
        self._run([program, "-f", "-o", str(replay), str(log)])
        address = self._server.address
        way = ["-h", address.host, "-p", str(address.port)]
        ended = self._run([program, "-r", "-j", "-s", "1000", *way, str(replay)], timeout_s=120)
        return ResourceUse(
            statements=statements,
            duration_s=ended.real_s,
            cpu_user_s=ended.cpu_user_s,
            cpu_system_s=ended.cpu_system_s,
            reported={},
        )

    def _run(self, command: Sequence[str], timeout_s: float | None = None) -> EndedCommand:
        began_s = time.perf_counter()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = subprocess.run(
            [*self._under, *command],
            env={**self._server.address.environment(), "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if ended.returncode != 0:
            raise NotPlayedError(f"{Path(command[0]).name} failed: {ended.stderr.strip()[-600:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return EndedCommand(
            printed=ended.stdout,
            real_s=time.perf_counter() - began_s,
            cpu_user_s=after.ru_utime - before.ru_utime,
            cpu_system_s=after.ru_stime - before.ru_stime,
        )
