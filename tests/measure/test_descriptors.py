"""A run that needs more file descriptors than it may have: raised, or refused with the number."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys

import pytest

from cli.command import Ended, seatrial
from postgres.programs import installed_programs
from seatrial import _core
from seatrial.results.store import ResultsFile
from seatrial.trials.database.measure.descriptors import SERVER_MIN

FORTY = ("--threads", "40", "--depth", "2", "--seconds", "0.2", "--size", "1MiB")
needs_io_uring = pytest.mark.skipif(
    bool(_core.io_uring_status()), reason=f"io_uring cannot be used: {_core.io_uring_status()}"
)


def limited(folder, soft: int, hard: int, *arguments: str) -> Ended:
    (folder / "target").mkdir(exist_ok=True)
    prefix = ("prlimit", f"--nofile={soft}:{hard}")
    return seatrial(*arguments, folder=folder, prefix=prefix, timeout_s=120.0)


def assert_refused(reported: Ended, folder) -> int:
    """It is refused before anything is made; return the number that it says is needed."""
    assert reported.code == 2, reported
    assert "RLIMIT_NOFILE" in reported.err
    assert "Traceback" not in reported.err
    assert not list((folder / "target").iterdir())
    if (folder / "results.seatrial").exists():
        with ResultsFile.open(folder / "results.seatrial", read_only=True) as store:
            assert not store.runs()
    (needed,) = re.findall(r"needs (\d+) file descriptors", reported.err)
    return int(needed)


@needs_io_uring
@pytest.mark.parametrize("engine", ["io_uring", "auto"])
def test_forty_rings_are_refused_with_the_number_that_suffices(tmp_path, engine):
    requested = ("io", "target", *FORTY, "--engine", engine)
    needed = assert_refused(limited(tmp_path, 45, 45, *requested), tmp_path)
    assert 45 < needed < 64
    assert limited(tmp_path, needed - 1, needed - 1, *requested).code == 2
    assert limited(tmp_path, needed, needed, *requested).code == 0


@needs_io_uring
def test_a_soft_limit_is_raised_where_that_helps(tmp_path):
    assert limited(tmp_path, 30, 1024, "io", "target", *FORTY, "--engine", "io_uring").code == 0


@pytest.mark.parametrize("target", ["target", "simulated"])
def test_threads_without_rings_need_none(tmp_path, target):
    forty = [*FORTY[:2], *FORTY[4:]]
    assert limited(tmp_path, 30, 30, "io", target, *forty, "--engine", "psync").code == 0


@pytest.mark.parametrize(
    "kind", [("--crash=1",), ("--scale", "1", "--rounds", "1", "--no-commit-truth")]
)
def test_clients_of_a_database_are_refused_with_the_number_that_suffices(tmp_path, kind):
    installed_programs()
    requested = ("db", "target", *kind, "--clients", "60", "--seconds", "1")
    needed = assert_refused(limited(tmp_path, 64, 64, *requested), tmp_path)
    assert needed > 64
    reported = limited(tmp_path, needed, needed, *requested)
    assert reported.code == 0, reported
    assert "Too many open files" not in reported.err + reported.out


def test_a_server_of_ours_needs_some_itself(tmp_path):
    installed_programs()
    requested = ("db", "target", "--scale", "1", "--clients", "1", "--seconds", "1")
    assert assert_refused(limited(tmp_path, 40, 40, *requested), tmp_path) == SERVER_MIN


def test_what_cannot_be_opened_is_reported_by_the_limits_name(tmp_path):
    """Where even the program's own files are too many."""
    reported = limited(tmp_path, 8, 8, "io", "null", "--seconds", "0.1")
    assert reported.code == 2, reported
    assert "RLIMIT_NOFILE" in reported.err
    assert "nternal error" not in reported.err


def test_all_that_may_be_had_is_had():
    code = (
        "import resource; from seatrial.measure.descriptors import allow_all_descriptors as a; a();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    limit = ["prlimit", "--nofile=50:200"]
    reported = subprocess.run([*limit, sys.executable, "-c", code], capture_output=True, check=True)
    assert reported.stdout.decode().strip() == "(200, 200)"
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_machine_without_proc_is_refused(tmp_path):
    hidden = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"')
    reported = seatrial("io", ".", "--size", "1MiB", "--json", folder=tmp_path, prefix=hidden)
    assert (reported.code, reported.document["error"]) == (2, "UsageError")
    assert "/proc" in reported.document["next"]
