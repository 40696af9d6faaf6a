"""A lab whose links are late is killed by kill -9: `seatrial clean` removes all that it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fleet.shared_lab import require_ray, stored, study_of
from seatrial.fleet.lab import FOLDERS
from seatrial.fleet.undoing import STATE

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]

DELAY_MS = 5.0


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


def start(folder: Path, state: Path) -> subprocess.Popen[bytes]:
    """Measure a study on one host of a lab whose links are late, with a file of the host's own."""
    (folder / "target").mkdir()
    study = study_of(
        folder / "target", "[1]", hosts='files = "own"', workload="threads = 1\nseconds = 3"
    )
    (folder / "study.toml").write_text(study)
    words = [
        "fleet",
        "lab",
        str(folder / "study.toml"),
        "--delay",
        f"{DELAY_MS:g}",
        "--loss",
        "0.1",
    ]
    words += ["--results", str(folder / "results.seatrial"), "--no-report", "--progress", "none"]
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "seatrial", *words],
            cwd=folder,
            env=os.environ | {"SEATRIAL_STATE_DIR": str(state)},
            stdout=output,
            stderr=output,
        )


def clean(state: Path) -> str:
    """What `seatrial clean` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "clean"],
        env=os.environ | {"SEATRIAL_STATE_DIR": str(state)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_lab_is_late_as_it_says_and_nothing_is_left_after_a_kill(tmp_path):
    require_ray()
    before, state = lab_folders(), tmp_path / "journals"
    lab = start(tmp_path, state)
    give_up_at_s = time.monotonic() + 120
    while not (samples := stored(tmp_path / "results.seatrial")):
        assert lab.poll() is None, (tmp_path / "output").read_text()
        assert time.monotonic() < give_up_at_s
        time.sleep(0.1)
    # The second sample is measured meanwhile.
    lab.send_signal(signal.SIGKILL)
    lab.wait()
    (clock,) = [host.clock_before for host in samples[0].fleet.hosts]
    assert clock.round_trip_ns_min >= 2 * DELAY_MS * 1e6
    assert clock.round_trip_ns_p50 < 4 * DELAY_MS * 1e6
    said = (tmp_path / "output").read_text()
    assert ("in user space" in said) == ("a relay in user space: this kernel has no netem" in said)
    (journal,) = host_journals(before)
    name = journal.relative_to(FOLDERS).parts[0]
    assert is_left(name)
    assert "undone" in clean(state)
    assert not is_left(name)
    assert clean(state) == "There is nothing to undo.\n"
    assert list((tmp_path / "target").iterdir()) == []
