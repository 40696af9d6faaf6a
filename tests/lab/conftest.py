"""The lab for tests: set up once, and a collector that runs tests inside of it.

A file ``tests/lab/inside/test_*.py`` holds tests that run as root of the lab's guest, on a kernel
with md, LVM's device-mapper and file systems, without root outside. pytest collects them outside
by name and shows the outcome of each, but all that were asked for run inside of one boot; see
``inside/conftest.py`` for the fixtures that they get. A parametrised test has one outcome outside.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from seatrial.errors import SeatrialError
from seatrial.lab.packages import cache_folder, installed, set_up
from seatrial.lab.session import open_lab, run_inside
from seatrial.lab.uml import UserModeLinux

INSIDE = Path(__file__).with_name("inside")
REPOSITORY = INSIDE.parents[2]
DISKS = 8
DISK_BYTES = 256 << 20
MEMORY_BYTES = 1 << 30
PATIENCE_S = 900  # for all files together, on a machine that others use too
LINES_SHOWN = 60


def lab_machine() -> UserModeLinux:
    """The machine of the lab, from the cache or fetched now; skips where it cannot be had."""
    there = installed("uml")
    try:
        return UserModeLinux(there or set_up("uml", print))
    except SeatrialError as error:
        pytest.skip(f"the lab cannot be set up: {error}")


@pytest.fixture(scope="session")
def machine() -> UserModeLinux:
    """User-mode Linux, ready to boot."""
    return lab_machine()


@pytest.fixture(scope="session")
def lab_environment(machine) -> Mapping[str, str]:
    """Variables for a command ``seatrial lab`` of a test: the cache that is set up."""
    return {"SEATRIAL_CACHE_DIR": str(cache_folder().parent)}


if "SEATRIAL_LAB_SHARED" not in os.environ:

    def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector):
        """Read a file of tests that run inside; never import it outside."""
        if module_path.parent == INSIDE:
            return InsideFile.from_parent(parent, path=module_path)
        return None


class InsideFile(pytest.File):
    """A file of tests that run inside; outside it is only read."""

    def collect(self) -> Iterator[pytest.Item]:
        for node in ast.parse(self.path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield InsideTest.from_parent(self, name=node.name, line=node.lineno)


class InsideTest(pytest.Item):
    """One test that runs inside, with all its parameters."""

    def __init__(self, *, line: int, **named: object) -> None:
        super().__init__(**named)
        self.line = line

    def runtest(self) -> None:
        outcomes = outcomes_of(self.session)
        mine = outcomes[f"{self.path.name}::{self.name}"]
        failed = [words for outcome, words in mine if outcome == "failed"]
        if failed:
            raise FailedInsideError("\n".join(failed))
        skipped = [words for outcome, words in mine if outcome == "skipped"]
        if skipped and len(skipped) == len(mine):
            pytest.skip(f"inside: {skipped[0]}")
        if not mine:
            raise FailedInsideError("it did not run; the guest said last:\n" + outcomes.console)

    def repr_failure(self, excinfo, style=None) -> str:
        if isinstance(excinfo.value, FailedInsideError | SeatrialError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name


class FailedInsideError(Exception):
    """A test failed inside; what pytest said of it there."""


class Outcomes(defaultdict):
    """``(outcome, words)`` of each phase that tells something, by ``FILE::TEST``.

    ``console`` is the end of what the guest wrote.
    """

    def __init__(self, console: str) -> None:
        super().__init__(list)
        self.console = console


OUTCOMES = pytest.StashKey[Outcomes]()


def outcomes_of(session: pytest.Session) -> Outcomes:
    """Run all tests of this session that run inside, once; return what became of each."""
    if OUTCOMES not in session.stash:
        tests = [item for item in session.items if isinstance(item, InsideTest)]
        session.stash[OUTCOMES] = run_tests([f"{item.path}::{item.name}" for item in tests])
    return session.stash[OUTCOMES]


def run_tests(node_ids: list[str]) -> Outcomes:
    """Boot the lab, run tests in it and return their outcomes."""
    machine = lab_machine()
    shared = Path(tempfile.mkdtemp(prefix="seatrial-test-lab-"))
    lines: list[str] = []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *node_ids]
    try:
        with open_lab(machine, f"test-{os.getpid()}", disks=DISKS, disk_bytes=DISK_BYTES) as lab:
            run_inside(
                lab,
                ["timeout", "--kill-after=5", str(PATIENCE_S), *command],
                shared=shared,
                report=lines.append,
                environment={
                    "SEATRIAL_LAB_DISKS": ",".join(lab.devices),
                    "SEATRIAL_LAB_SHARED": str(shared),
                    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                },
                working_folder=REPOSITORY,
                memory_bytes=MEMORY_BYTES,
            )
        return read_outcomes(shared / "outcomes.jsonl", "\n".join(lines[-LINES_SHOWN:]))
    finally:
        shutil.rmtree(shared)


def read_outcomes(path: Path, console: str) -> Outcomes:
    outcomes = Outcomes(console)
    for line in path.read_text().splitlines() if path.exists() else []:
        reported = json.loads(line)
        outcomes[reported["test"]].append((reported["outcome"], reported["words"]))
    return outcomes


APT = """#!/bin/sh
case "$0 $*" in
*dpkg-query*) echo "installed libc6" ;;
*depends*) for each; do case $each in
    --*|depends) ;;
    lvm2) printf 'lvm2\\n  Depends: libaio1\\n |Depends: libc6\\n  Depends: libc6\\n' ;;
    *) echo "$each" ;;
  esac; done ;;
*show*) for each; do case $each in
    --*|show) ;;
    *) printf 'Package: %s\\nVersion: %s\\n\\n' "$each" "$VERSION" ;;
  esac; done ;;
*download*) [ -z "$FAILS" ] || { echo "E: no network" >&2; exit 100; }
  for each; do case $each in *=*) : >"${each%=*}.deb" ;; esac; done ;;
*fsys-tarfile*) tar --create --directory "$FILES" . ;;
esac
"""


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """Debian's tools that fetch packages of three files from nowhere, and an empty cache."""
    programs, files = tmp_path / "bin", tmp_path / "files"
    programs.mkdir()
    for name in ("apt-get", "apt-cache", "dpkg-query", "dpkg-deb"):
        (programs / name).write_text(APT)
        (programs / name).chmod(0o755)
    for path in ("usr/bin/linux.uml", "sbin/mdadm", "usr/lib/uml/modules/6.1.0/modules.dep"):
        (files / path).parent.mkdir(parents=True, exist_ok=True)
        (files / path).write_text("x")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FILES", str(files))
    monkeypatch.setenv("VERSION", "1.0")
    monkeypatch.setenv("SEATRIAL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache/lab"
