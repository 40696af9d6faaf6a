"""Real arrays of md and LVM: built, broken, rebuilt with all data there, and taken apart."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seatrial.errors import TargetError
from seatrial.machine.signatures import read_signatures
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.study.layouts.layout import LayoutSpec, assigned
from seatrial.trials.layouts.build.alignment import check_alignment
from seatrial.trials.layouts.build.backend import Backend, Built
from seatrial.trials.layouts.build.build import build, destroy, run_steps, undo_steps, wait_synced
from seatrial.trials.layouts.build.md_array import array_uuid
from seatrial.trials.layouts.build.registry import backend
from seatrial.trials.layouts.build.wrapping import with_wrappers, wrap

RUN = "20261121-074500-3fa2"
NAME = f"seatrial-{RUN}-1"
MEMBER_BYTES = 24 << 20
DATA_BYTES = 8 << 20
REBUILD_PATIENCE_S = 60


def variant(name: str, level: str, drives: int, **others) -> LayoutSpec:
    usual = {"filesystem": "ext4", "member_bytes": MEMBER_BYTES}
    return LayoutSpec(
        label="trial", name="t", backend=name, level=level, drives=drives, **usual | others
    )


@contextmanager
def standing(spec: LayoutSpec, disks: list[str]) -> Iterator[tuple[Built, Backend, UndoJournal]]:
    """An array that is synchronised; taken apart at the end, with nothing left of it."""
    with UndoJournal(RUN) as journal:
        bare = assigned(spec, disks)
        laid = wrap([*bare.used, *bare.unused], spec, journal) if spec.flaky else {}
        who = with_wrappers(bare, laid)
        who.unused[:] = [laid.get(drive, drive) for drive in who.unused]
        built = build(spec, who, NAME, journal)
        wait_synced(built, journal)
        yield built, backend(spec.backend), journal
        undone = destroy(built, journal)
        assert [each for each in undone if each.outcome != "undone"] == []
    assert marks(disks) == []


def marks(disks: list[str]) -> list[str]:
    return [f"{disk}: {mark}" for disk in disks for mark in read_signatures(Path(disk))]


def written(built: Built) -> str:
    data = os.urandom(DATA_BYTES)
    path = Path(built.folders[0], "data")
    with path.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def read_back(built: Built) -> str:
    Path("/proc/sys/vm/drop_caches").write_text("3")
    return hashlib.sha256(Path(built.folders[0], "data").read_bytes()).hexdigest()


def uuid_by_mdadm(disk: str) -> str:
    command = ["mdadm", "--examine", "--export", disk]
    reported = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = [line for line in reported.splitlines() if line.startswith("MD_UUID=")]
    return found[0].partition("=")[2].replace(":", "") if found else ""


def wait_idle(works: Backend, built: Built) -> None:
    give_up_at_s = time.monotonic() + REBUILD_PATIENCE_S
    while works.state(built, 1).operation:
        assert time.monotonic() < give_up_at_s, works.state(built, 1)
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("level", "drives"), [("raid0", 3), ("raid1", 2), ("raid10", 4), ("raid6", 4)]
)
def test_each_level_of_md_holds_its_data_aligned(disks, level, drives):
    with standing(variant("md", level, drives, read_ahead_kib=2048), disks) as (built, works, _):
        data = written(built)
        assert read_back(built) == data
        assert check_alignment(built) == []
        assert [array_uuid(disk) for disk in disks] == [uuid_by_mdadm(disk) for disk in disks]
        assert works.describe(built)["level"] == level
        assert Path("/sys/block/md200/queue/read_ahead_kb").read_text() == "2048\n"


def test_a_raid5_through_failure_rebuild_replacement_scrub_and_its_end(disks):
    with standing(variant("md", "raid5", 3, spares=1), disks[:5]) as (built, works, journal):
        data = written(built)
        limit = run_steps(built, works.limit_rebuild(built, 4000), journal)
        assert works.fail(built, 1, 2) == disks[1]
        state = works.state(built, 1)
        assert (state.missing, state.operation, state.has_failed) == (1, "rebuild", False)
        assert read_back(built) == data, "while a drive is missing"
        undo_steps(built, limit, journal)
        wait_idle(works, built)
        assert works.state(built, 1).missing == 0
        assert built.assigned.legs == [[disks[0], disks[3], disks[2]]]
        works.fail(built, 1, 1)
        assert works.state(built, 1).missing == 1, "no spare is left"
        works.replace(built, 1, 1, disks[4])
        wait_idle(works, built)
        assert built.assigned.legs == [[disks[4], disks[3], disks[2]]]
        assert read_back(built) == data
        works.start_scrub(built, 1)
        wait_idle(works, built)
        assert works.mismatch_blocks(built, 1) == 0
        works.fail(built, 1, 1)
        with pytest.raises(TargetError, match="there is no active drive in its slot"):
            works.fail(built, 1, 1)
        works.fail(built, 1, 2)
        assert works.state(built, 1).has_failed


@pytest.mark.parametrize(
    ("over", "filesystem", "member_mib"), [("md+lvm", "xfs", 80), ("md+md", "ext4", 16)]
)
def test_a_stripe_over_two_legs_is_aligned_and_survives_a_drive_of_each(
    disks, over, filesystem, member_mib
):
    spec = variant(over, "raid5", 3, legs=2, filesystem=filesystem, member_bytes=member_mib << 20)
    with standing(spec, disks) as (built, works, _journal):
        assert check_alignment(built) == []
        data = written(built)
        for leg in (1, 2):
            works.fail(built, leg, 1)
        assert [works.state(built, leg).missing for leg in (1, 2)] == [1, 1]
        assert read_back(built) == data


def test_lvms_own_raid_is_repaired_with_its_spare_and_with_another_drive(disks):
    spec = variant("lvm", "raid5", 3, spares=1, flaky=True, member_bytes=20 << 20)
    with standing(spec, disks[:5]) as (built, works, _journal):
        data = written(built)
        for failed in (2, 1):
            drive = works.fail(built, 1, failed)
            if failed == 1:
                works.replace(built, 1, failed, built.assigned.unused[0])
            wait_idle(works, built)
            assert works.state(built, 1).missing == 0
            assert drive not in built.assigned.legs[0]
            assert read_back(built) == data


def test_bare_drives_side_by_side_are_cleared_of_their_file_systems(disks):
    spec = variant("single", "single", 1, legs=2, expose="legs")
    with standing(spec, disks[:2]) as (built, _works, _journal):
        assert len(built.folders) == 2
        assert len(marks(disks[:2])) == 2


KILLED = """
    import os, signal, subprocess, sys
    from seatrial.study.layouts.layout import LayoutSpec, assigned
    from seatrial.trials.layouts.build.build import build
    from seatrial.machine.undo_journal import UndoJournal

    popen = subprocess.Popen

    def start(command, *arguments, **how):
        process = popen(command, *arguments, **how)
        if "lvcreate" in command:
            os.kill(os.getpid(), signal.SIGKILL)
        return process

    subprocess.Popen = start
    disks = sys.argv[1:]
    spec = LayoutSpec(label="k", name="k", backend="md+lvm", level="raid1", drives=2, legs=2,
                      filesystem="ext4", member_bytes=24 << 20)
    journal = UndoJournal("killed")
    build(spec, assigned(spec, disks), "seatrial-killed-1", journal)
"""


def test_a_build_that_is_killed_amid_a_command_is_cleaned_away(disks):
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), *disks[:4]], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert [each for each in clean() if each.outcome == "failed"] == []
    assert marks(disks[:4]) == []
