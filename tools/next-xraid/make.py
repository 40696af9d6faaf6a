"""Generates what `studies/next-xraid.toml` replays: a shop's snapshot, and the log of its load.

    .venv/bin/python tools/next-xraid/make.py FOLDER
    .venv/bin/python tools/next-xraid/make.py FOLDER --customers 20000 --transactions 3000

A temporary PostgreSQL is filled (2 GB by default) and dumped to ``next-xraid.dump``. pgbench then
runs 28,000 transactions of eight clients on it, more than 100,000 statements, with every statement
logged. The log becomes ``next-xraid.trace``. The server is removed afterwards.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import find_binaries
from seatrial.postgres.cluster import Cluster, create_cluster
from seatrial.postgres.connection import connect
from seatrial.postgres.server import Server
from seatrial.trials.replay.commands.read import ReadRequest, read_logs

HERE: Final = Path(__file__).parent
DATABASE: Final = "shop"
ORDERS_A_CUSTOMER: Final = 6
LINES_AN_ORDER: Final = 4
WEIGHTS: Final = {"browse": 60, "buy": 25, "ship": 14, "audit": 1}
"""Relative frequency of each kind of transaction; each is a script next to this file."""
SETTINGS: Final = {
    "fsync": "off",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "log_timezone": "UTC",
}
LOGGING: Final = {
    "log_destination": "csvlog",
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql.log",
    "log_rotation_age": "0",
    "log_rotation_size": "0",
    "log_file_mode": "0644",
}


def main(words: Sequence[str]) -> int:
    """Make both files in the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--customers", type=int, default=200_000)
    parser.add_argument("--transactions", type=int, default=28_000)
    parser.add_argument("--clients", type=int, default=8)
    requested = parser.parse_args(words)
    requested.folder.mkdir(parents=True, exist_ok=True)
    folder = requested.folder.resolve()
    with (
        tempfile.TemporaryDirectory(prefix="next-xraid-", dir=folder) as work,
        UndoJournal(f"next-xraid-{os.getpid()}") as journal,
    ):
        Path(work).chmod(0o755)
        data, binaries = Path(work) / "data", find_binaries()
        cluster = create_cluster(data, binaries, account_for(data, binaries), journal)
        with (data / "postgresql.auto.conf").open("a") as file:
            file.write("".join(f"{name} = '{value}'\n" for name, value in LOGGING.items()))
        with cluster.start(SETTINGS) as server:
            shop = Shop(cluster, server, requested.customers)
            shop.fill()
            shop.dump(folder / "next-xraid.dump")
            shop.work(requested.transactions, requested.clients)
        log = data / "log" / "postgresql.csv"
        trace = folder / "next-xraid.trace"
        read_logs(ReadRequest(logs=(log,), output=trace, log_format="csv", force=True), quiet=True)
    return 0


class Shop:
    """A database that is filled, dumped and worked on.

    Args:
        cluster: Whose programs are used.
        server: It runs.
        customers: How many there are; orders and their lines are so many times more.
    """

    def __init__(self, cluster: Cluster, server: Server, customers: int) -> None:
        self._cluster = cluster
        self._address = server.address
        self._counts = {
            "customers": customers,
            "orders": customers * ORDERS_A_CUSTOMER,
            "lines": customers * ORDERS_A_CUSTOMER * LINES_AN_ORDER,
        }

    def fill(self) -> None:
        """Make the database and its tables."""
        with connect(self._address) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        sizes = [f"--set={name}={count}" for name, count in self._counts.items()]
        schema = HERE / "old-schema.sql"
        options = ["-X", "-q", "-o", os.devnull, "-v", "ON_ERROR_STOP=1", "-f", str(schema)]
        self._run("psql", *options, *sizes)

    def dump(self, archive: Path) -> None:
        """Keep the database as it is before any work."""
        self._run("pg_dump", "-Fc", "-Z1", "-f", str(archive))

    def work(self, transactions: int, clients: int) -> None:
        """Have clients do transactions, with every statement in the log."""
        with connect(self._address) as connection:
            for name in ("log_connections", "log_disconnections"):
                connection.execute(f"ALTER SYSTEM SET {name} = 'on'".encode())
            connection.execute("ALTER SYSTEM SET log_min_duration_statement = 0")
            connection.execute("SELECT pg_reload_conf()")
        scripts = [f"--file={HERE / name}.sql@{weight}" for name, weight in WEIGHTS.items()]
        sizes = [f"--define={name}={count}" for name, count in self._counts.items()]
        each = max(1, transactions // clients)
        options = ["--no-vacuum", "--random-seed=2008", f"--client={clients}"]
        self._run("pgbench", *options, f"--transactions={each}", *sizes, *scripts)

    def _run(self, program: str, *arguments: str) -> None:
        environment = self._address.with_dbname(DATABASE).environment(base=os.environ)
        command = [str(self._cluster.binaries.program(program)), *arguments]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
