"""``kill -9`` at every step of building, breaking and mending, and of cleaning up after it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine.conftest import need_command
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.study.layouts.layout import Drives, LayoutSpec, assigned
from seatrial.trials.layouts.build.backends.btrfs import BACKEND
from seatrial.trials.layouts.build.build import build
from seatrial.trials.layouts.build.drives import OpenDrives
from trials.layouts.build.killing import kills, kills_on_the_way

pytestmark = pytest.mark.root

RUN = "killed"
SPEC = LayoutSpec(
    label="r1", name="r1", backend="btrfs", level="raid1", drives=2, filesystem="btrfs"
)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    need_command("mkfs.btrfs", "btrfs-progs")
    if BACKEND.obstacle():
        pytest.skip(BACKEND.obstacle())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def life(folder: Path) -> None:
    """An array on loop devices: built, written to, broken, mended; left as its process ends."""
    journal = UndoJournal(RUN)
    drives = OpenDrives(Drives(loop="3x192M", folder=str(folder)), RUN, journal, None, 3).open()
    drives.recheck()
    built = build(SPEC, assigned(SPEC, drives.paths), f"seatrial-{RUN}-1", journal)
    Path(built.folders[0], "data").write_bytes(b"sea" * 100_000)
    BACKEND.fail(built, 1, 2)
    BACKEND.replace(built, 1, 2, drives.paths[2])


def what_is_left(folder: Path, state_dir: Path) -> Iterator[str]:
    """Yield each thing of ours that is still on the machine."""
    yield from (str(path) for path in folder.iterdir())
    yield from (line for line in Path("/proc/mounts").read_text().splitlines() if RUN in line)
    loops = subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True)
    yield from (line for line in loops.stdout.splitlines() if str(folder) in line)
    yield from (str(path) for path in state_dir.iterdir() if path.name != "undo.lock")
    for home in Path("/sys/fs/btrfs").glob("*/label"):
        if RUN in home.read_text():
            yield str(home.parent)


def test_a_kill_at_any_step_of_an_array_on_loop_devices_leaves_nothing_behind(tmp_path, state_dir):
    reported = []
    for step in kills(lambda: life(tmp_path)):
        reported.append(step)
        failed = [each for each in clean() if each.outcome == "failed"]
        assert not failed, f"killed at: {step}"
        assert list(what_is_left(tmp_path, state_dir)) == [], f"killed at: {step}"
    for word in ("open", "os.mkdir", "losetup", "mkfs.btrfs", "mount", "replace start"):
        assert any(word in step for step in reported), f"it never came to {word}"

    reported = list(kills_on_the_way(clean))
    assert list(what_is_left(tmp_path, state_dir)) == []
    for word in ("umount", "wipefs", "--forget", "os.rmdir", "losetup -d", "os.remove"):
        assert any(word in step for step in reported), f"clean never came to {word}"
