"""A lab is killed by kill -9 while its host measures: `seatrial clean` removes all that it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.lab_of_three import ONE_ROUND, require_ray, study_of
from seatrial.fleet.lab import FOLDERS
from seatrial.fleet.undoing import STATE

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]


def lab_folders() -> set[Path]:
    return set(FOLDERS.glob("sf*"))


def host_journals(before: set[Path]) -> list[Path]:
    """The journals of hosts of labs that were not there before."""
    return [path for each in lab_folders() - before for path in each.glob(f"*/{STATE}/*.jsonl")]


def is_left(name: str) -> bool:
    """Whether a folder, a network or a process of a lab exists."""
    networks = [each.name for each in Path("/run/netns").glob("*")]
    networks += [each.name for each in Path("/sys/class/net").iterdir()]
    commands = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(each.read_bytes())
    return (
        (FOLDERS / name).exists()
        or any(each.startswith(name) for each in networks)
        or any(name.encode() in each for each in commands)
    )


def test_what_a_killed_lab_left_is_removed(tmp_path):
    require_ray()
    before = lab_folders()
    (tmp_path / "target").mkdir()
    study = study_of(
        tmp_path / "target", "[1]", hosts='files = "own"', workload="threads = 1\nseconds = 60"
    )
    (tmp_path / "study.toml").write_text(study.replace(*ONE_ROUND))
    state = tmp_path / "journals"
    own = os.environ | {"SEATRIAL_STATE_DIR": str(state)}
    words = ["fleet", "lab", str(tmp_path / "study.toml"), "--no-report", "--progress", "none"]
    with (tmp_path / "output").open("wb") as output:
        lab = subprocess.Popen(
            [sys.executable, "-m", "seatrial", *words],
            cwd=tmp_path,
            env=own,
            stdout=output,
            stderr=output,
        )
    give_up_at_s = time.monotonic() + 120
    while not (journals := host_journals(before)):
        assert lab.poll() is None, (tmp_path / "output").read_text()
        assert time.monotonic() < give_up_at_s
        time.sleep(0.1)
    lab.send_signal(signal.SIGKILL)
    lab.wait()
    name = journals[0].relative_to(FOLDERS).parts[0]
    assert is_left(name)
    for words in ("undone", "There is nothing to undo.\n"):
        done = subprocess.run(
            [sys.executable, "-m", "seatrial", "clean"],
            env=own,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, words in done.stdout) == (0, True), done.stdout + done.stderr
        assert not is_left(name)
    assert list((tmp_path / "target").iterdir()) == []
