"""Servers that replays are sent to, and what is read of their databases afterwards."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from cli.command import Ended, ended, start
from seatrial import _core
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.catalogue import read_catalogue
from seatrial.postgres.cluster import Cluster, create_cluster
from seatrial.postgres.connection import Address, connect
from seatrial.postgres.server import Server
from seatrial.results.replay import ReplayRecord
from seatrial.results.store import ResultsFile

END_OF_LOGGING = 5
"""Statements of each log that a replay refuses: those that ended the logging."""
CONFLICT_ORDERS = ("object", "key", "strict")
"""Orders for which the engine has to know the tables."""
PLAY_S_MAX = 60.0
"""A replay that has not ended by then hangs."""
TABLES = """
    SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind = 'r' AND nspname = 'public' ORDER BY relname
"""
CHECKSUM = "SELECT count(*), md5(string_agg(t::text, ';' ORDER BY t::text)) FROM {} AS t"
SUMS = """
    SELECT (SELECT sum(abalance) FROM pgbench_accounts),
        (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(tbalance) FROM pgbench_tellers),
        (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)
"""


@dataclass(frozen=True)
class Target:
    """A server that replays are sent to.

    Attributes:
        server: It runs.
        cluster: Its data folder and programs.
    """

    server: Server
    cluster: Cluster

    def address(self, name: str, user: str = "") -> Address:
        """The way to one of its databases."""
        found = self.server.address.with_dbname(name)
        return msgspec.structs.replace(found, user=user or found.user)

    def url(self, name: str, user: str = "") -> str:
        return self.address(name, user).as_url()

    def run(self, name: str, text: str) -> list[tuple[Any, ...]]:
        """Send statements to a database; return the rows of the last, if it has any."""
        with contextlib.closing(connect(self.address(name))) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    def make(self, name: str, text: str = "", template: str = "template1") -> str:
        """Make a database anew, as a copy of another one; return its name."""
        for statement in ("DROP DATABASE IF EXISTS {}", "CREATE DATABASE {} TEMPLATE {}"):
            named = sql.SQL(statement).format(sql.Identifier(name), sql.Identifier(template))
            self.run("postgres", named.as_string(None))
        if text:
            self.run(name, text)
        return name

    def pgbench(self, name: str, *arguments: str) -> None:
        """Run pgbench on a database."""
        subprocess.run(
            [self.cluster.binaries.program("pgbench"), *arguments],
            env=self.address(name).environment(base=os.environ),
            check=True,
            capture_output=True,
        )

    def checksums(self, name: str) -> dict[str, tuple[int, str]]:
        """What each table of a database holds, as how many rows and a hash of them."""
        found = {}
        for (table,) in self.run(name, TABLES):
            requested = sql.SQL(CHECKSUM).format(sql.Identifier(table))
            (found[table],) = self.run(name, requested.as_string(None))
        return found

    def sums(self, name: str) -> tuple[int, ...]:
        """pgbench's sums over accounts, branches, tellers and history, and its transactions."""
        return self.run(name, SUMS)[0]


@contextlib.contextmanager
def target_server(folder: Path, binaries: Binaries, **settings: str) -> Iterator[Target]:
    """Start a new server whose data lie in the folder."""
    data = folder / "data"
    with UndoJournal(f"target-{folder.name}"[:40], folder / "state") as journal:
        cluster = create_cluster(data, binaries, account_for(data, binaries), journal)
        with cluster.start({"fsync": "off", "max_connections": "60", **settings}) as server:
            yield Target(server, cluster)


def catalogue_of(address: Address) -> dict[str, Any]:
    """The engine's specification of a database's tables."""
    with contextlib.closing(connect(address)) as connection:
        return msgspec.to_builtins(read_catalogue(connection))


def play(trace: Path, address: Address, **wanted: Any) -> ReplayRecord:
    """Play a trace by the engine alone; return what is particular to a replay."""
    if wanted.get("order") in CONFLICT_ORDERS and "catalog" not in wanted:
        wanted["catalog"] = catalogue_of(address)
    spec = {
        "trace": str(trace),
        "server": {
            "host": address.host,
            "port": address.port,
            "database": address.dbname,
            "user": address.user,
        },
        "slice_ms": 100,
        "stall_threshold_ms": 500,
        **wanted,
    }
    playback = _core.start_sql_playback(msgspec.json.encode(spec).decode())
    if not playback.wait(PLAY_S_MAX):
        live = playback.live()
        playback.stop()
        raise AssertionError(f"the replay hangs: {live.answered} answered, {live.open} sessions")
    result = playback.result()
    record = msgspec.json.decode(result.record_json, type=ReplayRecord)
    return msgspec.structs.replace(record, end=result.end, words=result.words)


def replay(trace: Path, to: str | Path, *arguments: str, folder: Path) -> Ended:
    """Run ``seatrial sql replay`` to its end."""
    return ended(start_replay(trace, to, *arguments, folder=folder), PLAY_S_MAX)


def start_replay(
    trace: Path, to: str | Path, *arguments: str, folder: Path
) -> subprocess.Popen[str]:
    """Start ``seatrial sql replay``."""
    return start("sql", "replay", "--tables", trace, "--to", to, *arguments, folder=folder)


def record_in(folder: Path, sample: int = 0) -> ReplayRecord:
    """What the newest run in a folder's results file kept of its replay, or of one of several."""
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as store:
        found = store.samples(store.runs()[-1].id)[sample]
    assert found.replay is not None
    return found.replay


def sqlstate_of(connection: psycopg.Connection, text: str) -> str | None:
    """Send a statement that may fail; return its error code, None for a success."""
    try:
        connection.execute(text)
    except psycopg.Error as error:
        return error.sqlstate
    return None
