"""The runner of the two halves: what fails always fails, what fails once is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidy.sources import ROOT

RUNNER = ROOT / "tools/test/halves.py"

PASSES = "def test_it():\n    pass\n"
FAILS = "def test_it():\n    assert False\n"
FAILS_ONCE = """
from pathlib import Path

def test_it():
    been = Path(__file__).with_suffix(".been")
    was_here = been.exists()
    been.touch()
    assert was_here
"""


def run(folder: Path, timing: str, beside: str) -> tuple[int, str]:
    """Exit code and output where the halves hold these tests."""
    (folder / "test_timing.py").write_text(timing)
    (folder / "test_beside.py").write_text(beside)
    # This test is itself one of a half.
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, RUNNER, "test_beside.py"],
        cwd=folder,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_what_passes_passes_and_is_run_once(tmp_path: Path) -> None:
    code, said = run(tmp_path, PASSES, PASSES)
    assert (code, said.count("1 passed")) == (0, 2), said


@pytest.mark.parametrize(("timing", "beside"), [(FAILS, PASSES), (PASSES, FAILS)])
def test_what_fails_twice_fails(tmp_path: Path, timing: str, beside: str) -> None:
    code, said = run(tmp_path, timing, beside)
    assert (code, said.count("1 failed")) == (1, 2), said
    assert "UNSTEADY" not in said


@pytest.mark.parametrize(
    ("timing", "beside", "name"),
    [(FAILS_ONCE, PASSES, "test_timing.py"), (PASSES, FAILS_ONCE, "test_beside.py")],
)
def test_what_fails_once_is_named(tmp_path: Path, timing: str, beside: str, name: str) -> None:
    code, said = run(tmp_path, timing, beside)
    assert code == 0, said
    (line,) = (line for line in said.splitlines() if "UNSTEADY" in line)
    assert f"{name}::test_it" in line


def test_what_fails_always_is_not_hidden_by_what_fails_once(tmp_path: Path) -> None:
    code, said = run(tmp_path, FAILS_ONCE, FAILS)
    assert code == 1, said


def test_many_failures_are_not_run_again(tmp_path: Path) -> None:
    many = "".join(FAILS_ONCE.replace("test_it", f"test_{number}") for number in range(4))
    code, said = run(tmp_path, many.replace('".been"', "f'.{id(object())}'"), PASSES)
    assert (code, said.count("4 failed")) == (1, 1), said


def test_what_cannot_be_collected_is_not_run_again(tmp_path: Path) -> None:
    code, said = run(tmp_path, "import nothing_of_that_name\n", PASSES)
    assert code == 2, said
    assert "once more" not in said
