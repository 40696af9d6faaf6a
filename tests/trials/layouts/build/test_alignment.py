"""What is not aligned is reported in a sentence, and nothing else is."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.trials.layouts.build import alignment, volume_group
from seatrial.trials.layouts.build.alignment import (
    DriveGeometry,
    FilesystemGeometry,
    Geometry,
    misaligned,
    parse_ext4,
    parse_xfs,
    read_geometry,
)
from seatrial.trials.layouts.build.backend import Built, Construction
from trials.layouts.build.specs import NAME, built_of, variant

KIB, MIB = 1024, 1024 * 1024

XFS = """\
meta-data=/dev/mapper/seatrial isize=512    agcount=4, agsize=48640 blks
         =                       sectsz=512   attr=2, projid32bit=1
data     =                       bsize=4096   blocks=194560, imaxpct=25
         =                       sunit=32     swidth=128 blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=16384, version=2
         =                       sectsz=512   sunit=1 blks, lazy-count=1
"""
EXT4 = """\
Block count:              32256
Block size:               4096
RAID stride:              32
RAID stripe width:        96
Reserved block uid:       0
"""


def geometry(**others) -> Geometry:
    """A RAID 5 of four drives with xfs, all of it aligned, but for what is given."""
    aligned = {
        "drives": {"/dev/sda1": DriveGeometry(physical_bytes=512, start_bytes=MIB)},
        "unit_bytes": 128 * KIB,
        "width_bytes": 384 * KIB,
        "reported_units": {"/dev/md200": 384 * KIB},
        "filesystems": (
            FilesystemGeometry(kind="xfs", unit_bytes=128 * KIB, width_bytes=384 * KIB),
        ),
    }
    return Geometry(**{**aligned, **others})


def test_nothing_is_said_of_what_is_aligned():
    assert misaligned(geometry()) == []
    assert misaligned(Geometry()) == []


@pytest.mark.parametrize(
    ("drive", "words"),
    [
        (DriveGeometry(physical_bytes=512, start_bytes=63 * 512), "Partition /dev/sda1 starts at"),
        (
            DriveGeometry(physical_bytes=16 * KIB, start_bytes=8 * KIB),
            "not at a multiple of 16 KiB",
        ),
        (DriveGeometry(physical_bytes=4096, shift_bytes=3584), "alignment_offset"),
        (DriveGeometry(physical_bytes=512, data_offset_bytes=1023 * 512), "array's data start"),
    ],
)
def test_a_drive_that_is_off(drive, words):
    (said,) = misaligned(geometry(drives={"/dev/sda1": drive}))
    assert words in said


def test_extents_that_begin_within_a_stripe_of_the_leg():
    legs = {"/dev/md200": MIB, "/dev/md201": 1152 * KIB}
    (said,) = misaligned(geometry(extent_starts=legs, leg_width_bytes=384 * KIB))
    assert "start at 1 MiB of /dev/md200" in said
    assert misaligned(geometry(extent_starts=legs)) == [], "legs without parity take any start"


@pytest.mark.parametrize(
    ("unit_kib", "width_kib", "words"),
    [
        (0, 0, "does not know the array's stripes"),
        (64, 192, "a stripe unit of 64 KiB, but that of the array is 128 KiB"),
        (128, 512, "a stripe width of 512 KiB, but that of the array is 384 KiB"),
    ],
)
def test_a_file_system_made_for_another_array(unit_kib, width_kib, words):
    system = FilesystemGeometry(kind="ext4", unit_bytes=unit_kib * KIB, width_bytes=width_kib * KIB)
    (said,) = misaligned(geometry(filesystems=(system,)))
    assert words in said


def test_a_file_system_that_sees_stripes_where_none_are():
    (said,) = misaligned(geometry(unit_bytes=0, width_bytes=0, reported_units={}))
    assert "the array has none" in said
    of_one = FilesystemGeometry(kind="ext4", unit_bytes=128 * KIB, width_bytes=128 * KIB)
    alone = geometry(unit_bytes=0, width_bytes=0, reported_units={}, filesystems=(of_one,))
    assert misaligned(alone) == [], "a RAID 0 of one drive has a chunk, and nothing to cross"


def test_a_device_that_reports_another_stripe():
    (said,) = misaligned(geometry(reported_units={"/dev/dm-0": 320 * KIB}))
    assert "/dev/dm-0 reports stripes of 320 KiB to file systems" in said


def test_what_the_file_systems_report():
    assert parse_xfs(XFS) == FilesystemGeometry(
        kind="xfs", unit_bytes=128 * KIB, width_bytes=512 * KIB
    )
    assert parse_ext4(EXT4) == FilesystemGeometry(
        kind="ext4", unit_bytes=128 * KIB, width_bytes=384 * KIB
    )
    assert parse_ext4("Block size:               4096\n").unit_bytes == 0
    assert parse_xfs("xfs_info: not mounted") is None
    assert parse_ext4("dumpe2fs: Permission denied") is None


def test_what_lies_where_is_read_from_sysfs(tmp_path, monkeypatch):
    for path, text in {
        "block/sda/queue/physical_block_size": "4096",
        "block/sda/sda1/partition": "1",
        "block/sda/sda1/start": "63",
        "block/sda/sda1/alignment_offset": "3584",
        "block/md200/queue/optimal_io_size": str(256 * KIB),
        "block/md200/md/dev-sda1/offset": "2048",
    }.items():
        put(tmp_path / "sys" / path, text)
    numbers = {"8:1": "block/sda/sda1", "9:200": "block/md200"}
    for number, directory in numbers.items():
        put(tmp_path / "sys" / directory / "dev", number)
        link = tmp_path / "sys/dev/block" / number
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(tmp_path / "sys" / directory)
        name = tmp_path / "sys/class/block" / directory.rpartition("/")[2]
        name.parent.mkdir(parents=True, exist_ok=True)
        name.symlink_to(tmp_path / "sys" / directory)
    spec = variant("md+lvm", "raid5", 3, filesystem="none")
    who = msgspec.structs.replace(built_of(spec), legs=[["/dev/sda1"]])
    nodes = ("/dev/md200",)
    construction = Construction(steps=(), devices=nodes, leg_devices=nodes)
    monkeypatch.setattr(volume_group, "pe_starts_bytes", lambda *_any: {"/dev/md200": MIB})
    built = Built(spec=spec, name=NAME, assigned=who, construction=construction)
    read = read_geometry(built, SystemTree(tmp_path))
    assert read.drives["/dev/sda1"] == DriveGeometry(
        physical_bytes=4096, start_bytes=63 * 512, shift_bytes=3584, data_offset_bytes=MIB
    )
    assert read.reported_units == {"/dev/md200": 256 * KIB}
    assert (read.unit_bytes, read.width_bytes) == (128 * KIB, 256 * KIB)
    assert (read.leg_width_bytes, read.extent_starts) == (256 * KIB, {"/dev/md200": MIB})
    assert len(alignment.misaligned(read)) == 2


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
