"""ZFS: what it prints, without it; and pools on loop devices where it, or zfs-fuse, is there."""

import hashlib
import os
import random
import time
from pathlib import Path

import pytest

from machine.zfs_daemon import answering_zfs
from seatrial.machine.undo_journal import UndoJournal
from seatrial.study.layouts.layout import Drives, LayoutSpec, assigned
from seatrial.trials.layouts.build import build
from seatrial.trials.layouts.build.backends import zfs
from seatrial.trials.layouts.build.backends.zfs import BACKEND, parse_status, undo_zfs
from seatrial.trials.layouts.build.drives import OpenDrives
from seatrial.trials.layouts.build.registry import check, require
from seatrial.trials.layouts.measure.faults import choose_blocks, rot
from seatrial.units import MIB

OLD_SPARE = """\
  pool: seatrial-x
 state: DEGRADED
status: One or more devices could not be used because the label is missing or
\tinvalid.  Sufficient replicas exist for the pool to continue
 scrub: resilver completed after 0h0m with 0 errors on Sat Nov 21 17:27:55 2026
config:

\tNAME         STATE     READ WRITE CKSUM
\tseatrial-x   DEGRADED     0     0     0
\t  raidz1-0   DEGRADED     0     0     0
\t    loop0    ONLINE       0     0     0
\t    spare-1  DEGRADED     0     0     0
\t      loop1  UNAVAIL      0   167     0  corrupted data
\t      loop3  ONLINE       0     0     0  30.9M resilvered
\t    loop2    ONLINE       0     0     2
\tlogs
\t  loop4      ONLINE       0     0     0
\tspares
\t  loop3      INUSE     currently in use

errors: No known data errors
"""
NEW_RESILVER = """\
  pool: tank
 state: DEGRADED
status: One or more devices is currently being resilvered.
  scan: resilver in progress since Sat Nov 21 17:27:55 2026
\t1.00G / 4.00G scanned at 512M/s, 250M / 4.00G issued at 125M/s
\t250M resilvered, 6.10% done, 00:00:30 to go
config:

\tNAME             STATE     READ WRITE CKSUM
\ttank             DEGRADED     0     0     0
\t  mirror-0       ONLINE       0     0     0
\t    nvme0n1      ONLINE       0     0     0
\t    nvme1n1      ONLINE       0     0     0
\t  mirror-1       DEGRADED     0     0     0
\t    nvme2n1      ONLINE       0     0  1.5K
\t    replacing-1  DEGRADED     0     0     0
\t      nvme3n1    FAULTED      3   120     0  too many errors
\t      nvme4n1    ONLINE       0     0     0  (resilvering)

errors: No known data errors
"""
STRIPE_GONE = """\
  pool: tank
 state: SUSPENDED
  scan: none requested
config:

\tNAME      STATE     READ WRITE CKSUM
\ttank      UNAVAIL      0     0     0  insufficient replicas
\t  loop0   ONLINE       0     0     0
\t  loop1   UNAVAIL      0     0     0  corrupted data

errors: 4 data errors, use '-v' for a list
"""


def test_a_spare_that_has_taken_the_place_serves():
    status = parse_status(OLD_SPARE)
    assert (status.missing(3), status.operation, status.has_failed) == (0, "", False)
    assert sum(status.checksum_errors) == 2
    during = parse_status(
        OLD_SPARE.replace("resilver completed after", "resilver in progress for")
        .replace("0h0m with 0 errors on Sat", "0h0m, 40.50% done, 0h0m to go")
    )  # fmt: skip
    assert (during.missing(3), during.operation, during.share) == (1, "rebuild", 0.405)


def test_what_openzfs_prints_is_understood():
    status = parse_status(NEW_RESILVER)
    assert (status.missing(4), status.operation) == (1, "rebuild")
    assert status.share == pytest.approx(0.061)
    assert sum(status.checksum_errors) == 1500
    gone = parse_status(STRIPE_GONE)
    assert (gone.missing(2), gone.has_failed) == (1, True)


def spec_of(level, drives, **more):
    return LayoutSpec(
        label=f"{level}-{drives}", name=level, backend="zfs", level=level, drives=drives,
        filesystem="zfs", **more,
    )  # fmt: skip


def test_the_plan_names_all_parts_and_the_policy():
    spec = spec_of("raidz1", 3, spares=1, logs=1, caches=1, mount_options=["noatime"])
    check(spec)
    drives = [f"D{number}" for number in range(1, 8)]
    (step,) = BACKEND.plan(spec, assigned(spec, drives), "seatrial-r-1").steps
    assert "raidz1 D1 D2 D3 spare D4 log D6 cache D7" in str(step)
    assert "-o failmode=continue -O atime=off" in str(step)
    assert (step.undo, step.details["pool"]) == ("zfs", "seatrial-r-1")
    assert set(step.details["devices"].split(",")) == set(drives)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"member_bytes": 1 << 30}, "does not support member_size"),
        ({"mount_options": ["nobarrier"]}, "ZFS has no mount option nobarrier"),
        ({"legs": 2, "expose": "legs", "logs": 1}, "belongs to one pool"),
    ],
)
def test_what_zfs_cannot_do_is_said(more, sentence):
    assert sentence in BACKEND.check(spec_of("mirror", 2, **more))


def test_pools_of_others_are_left_alone():
    assert undo_zfs(pool="tank", devices="/dev/none").outcome == "foreign"
    assert undo_zfs(pool="seatrial-none-1", devices="/dev/none").outcome == "gone"


@pytest.mark.parametrize(("recorded", "outcome"), [("none,first", "failed"), ("first", "undone")])
def test_a_drive_is_left_where_a_reboot_shifted_the_names(
    tmp_path, monkeypatch, blkid, recorded, outcome
):
    pool = b"seatrial-tanks-1"
    drives = [tmp_path / name for name in ("first", "second")]
    for drive in drives:
        label = bytes(16 << 10) + len(pool).to_bytes(4, "big") + pool
        drive.write_bytes(label.ljust(2 * MIB, b"\0"))
    monkeypatch.setattr(zfs, "_is_imported", lambda _pool: False)
    monkeypatch.setattr(zfs, "_with_partitions", lambda device: [device])
    monkeypatch.setattr(zfs, "run_checked", lambda _command: "")
    blkid.append(f"DEVNAME={drives[1]}\nLABEL={pool.decode()}")
    devices = ",".join(str(tmp_path / name) for name in recorded.split(","))
    result = undo_zfs(pool=pool.decode(), devices=devices)
    assert (result.outcome, str(drives[1]) in result.detail) == (outcome, outcome == "failed")
    assert [pool in drive.read_bytes() for drive in drives] == [False, True]


@pytest.fixture(scope="module")
def answering():
    """ZFS that answers for as long as these tests run."""
    with answering_zfs():
        yield


@pytest.fixture
def stand(answering, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    journal = UndoJournal("tanks")

    def make(spec, count):
        require(spec)
        drives = OpenDrives(
            Drives(loop=f"{count}x96M", folder=str(tmp_path)), "tanks", journal, None, count
        ).open()
        return build.build(spec, assigned(spec, drives.paths), "seatrial-tanks-1", journal)

    make.journal = journal
    yield make
    assert all(each.outcome != "failed" for each in journal.undo_all())


def fill(built, size_bytes=24 * MIB, name="data"):
    data = random.Random(5).randbytes(size_bytes)
    path = Path(built.folders[0], name)
    with path.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def digest(built, name="data"):
    with Path(built.folders[0], name).open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(file, "sha256").hexdigest()


def wait_whole(built, patience_s=15):
    """Wait until nothing goes on and no drive is missing."""
    give_up_s = time.monotonic() + patience_s
    while True:
        state = BACKEND.state(built, 1)
        if not state.operation and not state.missing:
            return
        assert time.monotonic() < give_up_s, state
        time.sleep(0.05)


@pytest.mark.root
def test_a_spare_takes_over_a_scrub_mends_rot_and_nothing_is_lost(stand, tmp_path):
    built = stand(spec_of("raidz1", 3, spares=1, logs=1), 5)
    assert BACKEND.state(built, 1).missing == 0
    expected = fill(built)
    drive = built.assigned.legs[0][0]
    rot(drive, choose_blocks(drive, 20, random.Random(1), verifiable=False))
    BACKEND.start_scrub(built, 1)
    wait_whole(built)
    assert BACKEND.mismatch_blocks(built, 1) > 0
    assert "with 0 errors" in BACKEND.describe(built)["scan"]
    BACKEND.fail(built, 1, 2)
    later = fill(built, 12 * MIB, "later")
    wait_whole(built)
    assert (digest(built), digest(built, "later")) == (expected, later)
    for entry in reversed(built.entries):
        assert stand.journal.undo(entry).outcome in {"undone", "gone"}
    assert "tanks" not in Path("/proc/mounts").read_text()
    assert (
        undo_zfs(pool="seatrial-tanks-1", devices=",".join(built.assigned.used)).outcome == "gone"
    )


@pytest.mark.root
def test_a_mirror_gets_another_drive(stand):
    built = stand(spec_of("mirror", 2), 3)
    expected = fill(built)
    BACKEND.fail(built, 1, 1)
    fill(built, 8 * MIB, "later")
    assert BACKEND.state(built, 1).missing == 1
    spare = built.assigned.unused[0]
    BACKEND.replace(built, 1, 1, spare)
    wait_whole(built)
    assert spare in built.assigned.legs[0]
    assert digest(built) == expected
