"""A PostgreSQL that logs all statements in three formats at once, and its loads."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect
from seatrial.postgres.server import Server

PREFIX = "%m [%p] %q%u@%d %a %c %v %x %e "
"""All that the other two formats tell, so that all three give the same."""
FORMATS = ("stderr", "csv", "json")
ENDINGS = {"stderr": "log", "csv": "csv", "json": "json"}
MODES = {
    "log_statement": {"log_statement": "all", "log_min_duration_statement": "-1"},
    "log_min_duration": {"log_statement": "none", "log_min_duration_statement": "0"},
}
CONNECTIONS = {"log_connections": "on", "log_disconnections": "on"}
QUIET = {
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_connections": "off",
    "log_disconnections": "off",
}
CLIENTS = 4
TRANSACTIONS = 10
"""Of each client."""
_FIRST = "first"


@dataclass(frozen=True)
class LoggingServer:
    """A server whose logs are distinguished by name.

    Attributes:
        server: It runs.
        binaries: Its programs.
        logs: Where its logs lie.
        formats: What it can write: version 14 knows no JSON.
    """

    server: Server
    binaries: Binaries
    logs: Path
    formats: tuple[str, ...]

    @property
    def major(self) -> int:
        return self.binaries.version // 10_000

    def log(self, name: str, form: str) -> Path:
        return self.logs / f"{name}.{ENDINGS[form]}"

    @contextlib.contextmanager
    def logging(self, name: str, **settings: str) -> Iterator[None]:
        """Write what is logged into files of that name, with these settings."""
        self._set(log_filename=f"{name}.log", **CONNECTIONS, **settings)
        self._await(name, "")
        yield
        # Silence first: what is written while the collector changes files goes to either.
        pid = self._set(**QUIET)
        self._await(name, "log_connections.{1,3}changed")
        self._await(name, rf"{pid}.*disconnection: ")
        self._set(log_filename=f"{_FIRST}.log")

    def pgbench(self, *arguments: str) -> int:
        """Run pgbench; return how many transactions it says that it did."""
        said = subprocess.run(
            [self.binaries.program("pgbench"), *arguments],
            env=self.server.address.environment(base=os.environ),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        processed = re.search(r"actually processed: (\d+)", said)
        return int(processed[1]) if processed else 0

    def _set(self, **settings: str) -> int:
        """Change settings; return the process number of the session that did."""
        with contextlib.closing(connect(self.server.address)) as connection:
            for name, value in settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute("SELECT pg_reload_conf()")
            return connection.info.backend_pid

    def _await(self, name: str, line: str) -> None:
        """Wait until every file of that name is there, and has such a line."""
        give_up_at_s = time.monotonic() + 10
        while not all(_has(self.log(name, form), line) for form in self.formats):
            assert time.monotonic() < give_up_at_s, f"{name} never had {line!r}"
            time.sleep(0.005)


def _has(log: Path, line: str) -> bool:
    return log.exists() and re.search(line, log.read_text(errors="replace")) is not None


@contextlib.contextmanager
def logging_server(folder: Path, binaries: Binaries) -> Iterator[LoggingServer]:
    """Start a new server that logs nothing yet; its data and logs lie in the folder."""
    data, logs = folder / "data", folder / "logs"
    formats = FORMATS if binaries.version >= 150_000 else FORMATS[:2]
    with UndoJournal(f"logging-{binaries.version}", folder / "state") as journal:
        account = account_for(data, binaries)
        cluster = create_cluster(data, binaries, account, journal)
        logs.mkdir()
        account.take_ownership(logs)
        with (cluster.folder / "postgresql.auto.conf").open("a") as file:
            file.write(_settings(logs, formats))
        with cluster.start({"fsync": "off"}) as server:
            yield LoggingServer(server, binaries, logs, formats)


def _settings(logs: Path, formats: tuple[str, ...]) -> str:
    destinations = ",".join({"stderr": "stderr"}.get(form, f"{form}log") for form in formats)
    settings = {
        "logging_collector": "on",
        "log_destination": destinations,
        "log_directory": logs,
        "log_filename": f"{_FIRST}.log",
        "log_file_mode": "0644",
        "log_rotation_age": "0",
        "log_rotation_size": "0",
        "log_line_prefix": PREFIX,
        "log_timezone": "UTC",
    }
    return "".join(f"{name} = '{value}'\n" for name, value in settings.items())
