"""btrfs on loop devices: built, broken, mended, scrubbed and taken apart, on the real kernel."""

import hashlib
import os
import random
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from machine.conftest import need_command
from machine.loops import loops_over
from seatrial.errors import TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.study.layouts.layout import Drives, LayoutSpec, assigned
from seatrial.trials.layouts.build import build
from seatrial.trials.layouts.build.backends import btrfs
from seatrial.trials.layouts.build.backends.btrfs import BACKEND, read_fsid, undo_btrfs
from seatrial.trials.layouts.build.drives import OpenDrives
from seatrial.trials.layouts.build.failing import can_fail, fail_drive
from seatrial.trials.layouts.build.registry import require
from seatrial.trials.layouts.measure.faults import choose_blocks, rot
from seatrial.units import MIB

DRIVE = "192M"


def spec_of(level, drives, **more):
    return LayoutSpec(
        label=f"{level}-{drives}", name=level, backend="btrfs", level=level, drives=drives,
        filesystem="btrfs", **more,
    )  # fmt: skip


@pytest.fixture
def stand(tmp_path, monkeypatch):
    """Build variants on loop devices; all is taken apart at the end."""
    need_command("mkfs.btrfs", "btrfs-progs")
    if BACKEND.obstacle():
        pytest.skip(BACKEND.obstacle())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    journal = UndoJournal("pools")
    opened = []

    def make(spec, count):
        require(spec)
        drives = OpenDrives(
            Drives(loop=f"{count}x{DRIVE}", folder=str(tmp_path)), "pools", journal, None, count
        ).open()
        opened.append(drives)
        drives.recheck()
        return build.build(spec, assigned(spec, drives.paths), "seatrial-pools-1", journal)

    make.journal = journal
    yield make
    assert all(each.outcome != "failed" for each in journal.undo_all())


def fill(built, size_bytes=24 * MIB, name="data"):
    """Write a file that is on the drives when this returns, and tell its digest."""
    data = random.Random(5).randbytes(size_bytes)
    path = Path(built.folders[0], name)
    with path.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def digest(built, name="data"):
    """Read the file from the drives, not from memory."""
    path = Path(built.folders[0], name)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha256").hexdigest()


def wait_idle(built, patience_s=20):
    """Wait for what goes on; return what was seen on the way."""
    seen, give_up_s = [], time.monotonic() + patience_s
    while True:
        state = BACKEND.state(built, 1)
        seen.append(state)
        if not state.operation:
            return seen
        assert time.monotonic() < give_up_s, state
        time.sleep(0.02)


def nothing_is_left(tmp_path, devices):
    mounted = Path("/proc/mounts").read_text()
    assert str(tmp_path) not in mounted
    assert loops_over(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("level", "drives", "metadata"),
    [("raid1", 3, "raid1"), ("raid10", 4, "raid10"), ("raid5", 3, "raid1")],
)
def test_a_drive_fails_another_takes_its_place_and_nothing_is_lost(
    stand, tmp_path, level, drives, metadata
):
    built = stand(spec_of(level, drives), drives + 1)
    assert build.wait_synced(built, stand.journal, patience_s=5) < 5
    facts = BACKEND.describe(built)
    assert (facts["data"], facts["metadata"]) == (level, metadata)
    expected = fill(built)
    gone = BACKEND.fail(built, 1, 2)
    assert gone == built.assigned.legs[0][1]
    assert Path(gone).read_bytes() == b""
    later = fill(built, 8 * MIB, "later")
    state = BACKEND.state(built, 1)
    assert (state.missing, state.has_failed) == (1, False)
    assert digest(built) == expected
    spare = built.assigned.unused[0]
    BACKEND.replace(built, 1, 2, spare)
    assert built.assigned.legs[0][1] == spare
    assert built.assigned.unused == []
    wait_idle(built)
    assert BACKEND.state(built, 1) == BACKEND.state(built, 1).__class__()
    BACKEND.start_scrub(built, 1)
    wait_idle(built)
    assert BACKEND.mismatch_blocks(built, 1) == 0
    assert (digest(built), digest(built, "later")) == (expected, later)
    devices = [*built.assigned.used, *built.assigned.unused]
    stand.journal.undo_all()
    nothing_is_left(tmp_path, devices)


def test_sectors_that_a_drive_reports_as_unreadable_are_no_silent_corruption(monkeypatch):
    output = "csum_errors: 2\nread_errors: 3\ncorrected_errors: 5\n"
    command = ["printf", output.replace("\n", "\\n")]
    monkeypatch.setattr(
        btrfs,
        "start_btrfs",
        lambda *_words: subprocess.Popen(command, stdout=subprocess.PIPE, text=True),
    )
    scrubs = btrfs.BtrfsScrubs()
    scrubs.start("/mnt")
    while scrubs.is_running("/mnt"):
        time.sleep(0.01)
    assert scrubs.mismatch_blocks("/mnt") == 2 * 8
    assert scrubs.facts("/mnt") == {"corrected sectors": "5", "unreadable sectors": "3"}


@pytest.mark.root
def test_blocks_that_rot_are_found_and_mended_by_a_scrub(stand):
    built = stand(spec_of("raid1", 2), 2)
    expected = fill(built, 48 * MIB)
    drive = built.assigned.legs[0][1]
    corrupted = choose_blocks(drive, 40, random.Random(1), verifiable=False)
    rot(drive, corrupted)
    BACKEND.start_scrub(built, 1)
    with pytest.raises(TargetError, match="is already running"):
        BACKEND.start_scrub(built, 1)
    wait_idle(built)
    assert BACKEND.mismatch_blocks(built, 1) == len(corrupted) * 8
    facts = BACKEND.describe(built)
    assert facts["corrected sectors"] == str(len(corrupted))
    assert facts["uncorrectable sectors"] == "0"
    assert digest(built) == expected
    assert BACKEND.state(built, 1).missing == 0


@pytest.mark.root
def test_a_raid0_that_loses_a_drive_has_failed(stand):
    built = stand(spec_of("raid0", 2), 2)
    fill(built, 8 * MIB)
    BACKEND.fail(built, 1, 1)
    assert BACKEND.state(built, 1).has_failed


@pytest.mark.root
def test_a_drive_replaced_while_it_serves_is_watched_and_bounded(stand):
    built = stand(spec_of("raid1", 2), 3)
    expected = fill(built, 48 * MIB)
    build.run_steps(built, BACKEND.limit_rebuild(built, 32 * 1024), stand.journal)
    BACKEND.replace(built, 1, 1, built.assigned.unused[0])
    seen = wait_idle(built)
    assert seen[0].operation == "rebuild"
    shares = [state.share for state in seen if state.share is not None]
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1
    assert digest(built) == expected


@pytest.mark.root
def test_a_failed_drive_cannot_take_its_own_place(stand):
    """btrfs holds on to it: what cannot begin must not be reported as a replacement."""
    built = stand(spec_of("raid1", 2), 2)
    fill(built, 8 * MIB)
    gone = BACKEND.fail(built, 1, 2)
    with pytest.raises(TargetError, match="cannot replace a drive") as caught:
        BACKEND.replace(built, 1, 2, gone)
    assert "is still one of its drives" in caught.value.cause


@pytest.mark.root
def test_legs_stand_side_by_side_as_file_systems_of_their_own(stand):
    spec = spec_of("raid0", 1, legs=2, expose="legs", mount_options=["noatime"])
    built = stand(spec, 2)
    assert [Path(folder).name for folder in built.folders] == ["raid0-1-leg1", "raid0-1-leg2"]
    fsids = [read_fsid(leg[0]) for leg in built.assigned.legs]
    assert len({*fsids, ""}) == 3
    mounted = [line for line in Path("/proc/mounts").read_text().splitlines() if "leg2" in line]
    assert "noatime" in mounted[0]


@pytest.mark.root
def test_undoing_leaves_the_file_systems_of_others_alone(stand, tmp_path):
    built = stand(spec_of("single", 1), 2)
    ours, other = built.assigned.legs[0][0], built.assigned.unused[0]
    subprocess.run(["mkfs.btrfs", "-q", other], check=True)
    theirs = read_fsid(other)
    for entry in reversed(built.entries):
        stand.journal.undo(entry)
    assert read_fsid(ours) == ""
    assert read_fsid(other) == theirs
    assert undo_btrfs(fsid="0" * 36, point=str(tmp_path), devices=other).outcome == "gone"


@pytest.mark.root
def test_a_file_system_that_is_on_another_device_now_is_reported(image, loops, tmp_path):
    need_command("mkfs.btrfs", "btrfs-progs")
    device, fsid = str(loops(image(size_bytes=128 * MIB))), str(uuid.uuid4())
    other = str(loops(image("other", size_bytes=128 * MIB)))
    subprocess.run(["mkfs.btrfs", "-q", "-U", fsid, device, other], check=True)
    result = undo_btrfs(fsid=fsid, point=str(tmp_path), devices=f"/dev/none,{other}")
    assert result.outcome == "failed"
    assert device in result.detail
    assert (read_fsid(device), read_fsid(other)) == (fsid, "")
    assert undo_btrfs(fsid=fsid, point=str(tmp_path), devices=device).outcome == "undone"


@pytest.mark.root
def test_a_drive_of_metal_cannot_be_reported_to_fail(tmp_path, image, loops):
    device = loops(image())
    assert not can_fail(str(device))
    with pytest.raises(TargetError, match="flaky = true"):
        fail_drive(str(device))


def test_the_plan_needs_no_drive_and_says_all():
    spec = spec_of("raid6", 4, member_bytes=1 << 30, mkfs_options=["-n", "32k"])
    drives = [f"DRIVE{number}" for number in range(1, 5)]
    plan = BACKEND.plan(spec, assigned(spec, drives), "seatrial-20261121-1")
    made, scanned, mounted = (str(step) for step in plan.steps)
    assert "-d raid6 -m raid1c3 --byte-count 1073741824 -n 32k DRIVE1 DRIVE2" in made
    assert "-L seatrial-20261121-1" in made
    assert scanned == "btrfs device scan DRIVE1 DRIVE2 DRIVE3 DRIVE4"
    assert mounted.endswith(f"DRIVE1 {plan.folders[0]}")
    assert plan.steps[0].undo == "btrfs"
