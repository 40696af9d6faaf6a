"""md's superblocks as they lie on drives; that mdadm says the same of real ones: the lab."""

from __future__ import annotations

import struct

import pytest

from seatrial.trials.layouts.build.md_array import array_uuid

UUID = "eb26770e53945db2b084553a48c3abbf"


def superblock(*, magic=0xA92B4EFC, major=1, own_sector=8) -> bytes:
    """What mdadm writes, as far as it is looked at. Source: the kernel's md_p.h."""
    head = struct.pack("<4I16s", magic, major, 0, 0, bytes.fromhex(UUID))
    return head.ljust(144, b"\0") + struct.pack("<Q", own_sector)


@pytest.fixture
def drive(tmp_path):
    def bearing(block: bytes, size_bytes: int = 1 << 20) -> str:
        path = tmp_path / "drive"
        path.write_bytes((bytes(4096) + block).ljust(size_bytes, b"\0")[:size_bytes])
        return str(path)

    return bearing


def test_the_uuid_of_the_array_is_read(drive):
    assert array_uuid(drive(superblock())) == UUID


@pytest.mark.parametrize(
    "block",
    [
        b"",
        superblock(magic=0xA92B4EFD),
        superblock(major=0),
        superblock(own_sector=16),
    ],
)
def test_what_is_no_superblock_of_that_place_and_version_reports_nothing(drive, block):
    assert array_uuid(drive(block)) == ""


@pytest.mark.parametrize("size_bytes", [0, 4096, 4096 + 512])
def test_a_drive_that_is_too_small_reports_nothing(drive, size_bytes):
    assert array_uuid(drive(superblock(), size_bytes)) == ""


def test_a_drive_that_is_gone_reports_nothing(tmp_path):
    assert array_uuid(str(tmp_path / "gone")) == ""
