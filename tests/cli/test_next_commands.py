"""The commands that are printed to be typed next: they do what they say, from where they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import SEATRIAL, Ended, ended, seatrial, start
from seatrial import program
from seatrial.cli.options import this_command

FOLDER_OF_PROGRAM = str(Path(SEATRIAL).parent)
ELSEWHERE = ":".join(
    folder for folder in os.environ["PATH"].split(":") if not Path(folder, "seatrial").exists()
)
"""A PATH on which the program is not: a virtual environment that is not active."""
FIO = Path(__file__).parents[1] / "report" / "fio-3.33-json-plus.json"


def again_of(reported: Ended, label: str = "More:") -> str:
    (line,) = [line for line in reported.out.splitlines() if line.startswith(label)]
    return line.removeprefix(label).strip()


def typed(line: str, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """What a shell does with a line, in the folder where it was read, with that PATH."""
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={"PATH": path, "SEATRIAL_STATE_DIR": str(folder / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("path", [f"{FOLDER_OF_PROGRAM}:{ELSEWHERE}", ELSEWHERE])
@pytest.mark.parametrize(
    "arguments",
    [
        ("io", "null", "--seconds", "0.1"),
        ("import", FIO),
        ("study", "study.toml"),
    ],
)
@pytest.mark.parametrize("results", ["results.seatrial", "of the night/others.seatrial"])
def test_what_is_to_be_typed_again_shows_the_run(tmp_path, path, arguments, results):
    (tmp_path / "of the night").mkdir()
    (tmp_path / "study.toml").write_text(
        'name = "s"\nrounds = { min = 1, max = 1 }\n[[target]]\nkind = "null"\n'
        '[[workload]]\nkind = "io"\nseconds = 0.1\n'
    )
    # A process of its own: it knows by what name or path it was called.
    reported = ended(
        start(*arguments, "--results", results, folder=tmp_path, env={"PATH": path}, prefix=())
    )
    assert reported.code == 0, reported.err
    shown = typed(again_of(reported), tmp_path, path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout


def test_an_import_that_is_there_already_says_where(tmp_path):
    there = ("import", FIO, "--results", "others.seatrial")
    assert seatrial(*there, folder=tmp_path).code == 0
    reported = seatrial(*there, folder=tmp_path)
    (line,) = re.findall(r"Look at it with `(.*)`", reported.err)
    assert line.endswith("--results others.seatrial")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("compare", "a", "b", "--anyway"), "--report"),
        (("export", "b", "--format", "csv"), "--output"),
        (("report", "b"), "--output"),
    ],
)
def test_what_could_not_be_written_is_written_elsewhere_by_the_command_reported(
    tmp_path, arguments, option
):
    own = ("--results", "others.seatrial")
    for label in ("a", "b"):
        trial = ("io", "null", "--seconds", "0.1", "--rounds", "3", "--label", label, *own)
        assert seatrial(*trial, folder=tmp_path).code == 0
    limit = ("prlimit", "--fsize=100")
    reported = seatrial(*arguments, *own, f"{option}=first", folder=tmp_path, prefix=limit)
    assert reported.code == 2, reported.err
    (line,) = re.findall(r"Write it elsewhere with `(.*)`", reported.err)
    assert "first" not in line
    again = typed(line, tmp_path, f"{FOLDER_OF_PROGRAM}:{ELSEWHERE}")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "FILE").exists()


def test_a_command_reported_again_has_no_password_and_none_of_the_options_left_out(monkeypatch):
    words = ["sql", "compare", "a b", "--report", "x.html", "--snapshot", "postgresql://u:p@h/d"]
    monkeypatch.setattr(sys, "argv", ["seatrial", *words])
    reported = this_command("--report", "FILE", without=["--report"])
    assert reported == ("seatrial sql compare 'a b' --snapshot postgresql://u@h/d --report FILE")


def test_the_program_is_named_by_its_path_where_its_name_would_not_find_it(monkeypatch):
    monkeypatch.setattr(sys, "argv", [SEATRIAL, "list"])
    monkeypatch.setenv("PATH", ELSEWHERE)
    assert program.called() == SEATRIAL
    monkeypatch.setenv("PATH", f"{FOLDER_OF_PROGRAM}:{ELSEWHERE}")
    assert program.called() == "seatrial"
    # The folders of sudo's secure_path are others, whatever this PATH is.
    assert program.with_root() == f"as root: `sudo {SEATRIAL} ...`"
    monkeypatch.chdir(Path(SEATRIAL).parents[1])
    monkeypatch.setattr(sys, "argv", ["bin/seatrial", "list"])
    assert program.path() == SEATRIAL
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert (program.called(), program.with_root()) == ("seatrial", "as root (`sudo`)")
