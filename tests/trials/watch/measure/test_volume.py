"""From a volume to its disks: the lines that `dmsetup table` prints, and md's files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine.fingerprint.fake_trees import FakeMachine
from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import CommandOutput
from seatrial.trials.watch.measure.volume import DiskExtent, Leg, Segment, Volume, volume_of
from seatrial.units import KIB

SECTOR = 512
SDA, SDB, SDC, SDD = ((8, minor) for minor in (0, 16, 32, 48))
PARTITION_START = 2048


def machine_with(folder: Path, tables: Mapping[str, str]) -> FakeMachine:
    """Disks sda to sdd, a partition on sda, and dm devices from 253:0 with these tables."""
    machine = FakeMachine(folder)
    for minor, name in ((0, "sda"), (16, "sdb"), (32, "sdc"), (48, "sdd")):
        machine.block(f"/sys/devices/virtual/block/{name}", f"8:{minor}")
    part = machine.block("/sys/devices/virtual/block/sda/sda1", "8:1")
    machine.write_all(part, {"partition": "1", "start": str(PARTITION_START)})
    numbers = {}
    for place, (name, table) in enumerate(tables.items()):
        device = machine.block(f"/sys/devices/virtual/block/dm-{place}", f"253:{place}")
        machine.write_all(f"{device}/dm", {"name": name, "uuid": "LVM-x"})
        numbers[str(place)] = table

    def run(argv: Sequence[str], timeout_s: float) -> CommandOutput:
        assert list(argv[:-1]) == ["dmsetup", "table", "--major", "253", "--minor"]
        assert timeout_s <= 5
        return CommandOutput(0, numbers[argv[-1]], "")

    machine.tree.run = run
    return machine


def volume(folder: Path, *tables: str) -> Volume:
    """The dm device with the first table; the others are 253:1 and so on."""
    machine = machine_with(folder, {f"vg-lv{place}": each for place, each in enumerate(tables)})
    return volume_of(os.makedev(253, 0), machine.tree)


def sectors(extents: Sequence[DiskExtent]) -> list[tuple[tuple[int, int], int, int]]:
    return [(each.disk, each.start_bytes // SECTOR, each.end_bytes // SECTOR) for each in extents]


def test_a_volume_of_two_segments_on_a_partition_and_a_disk(tmp_path):
    found = volume(tmp_path, "0 8192 linear 8:1 2048\n8192 4096 linear 8:16 384\n")
    assert found.disks == (SDA, SDB)
    extents = found.extents(8000 * SECTOR, 8292 * SECTOR)
    begin = PARTITION_START + 2048
    assert sectors([*extents]) == [(SDA, begin + 8000, begin + 8192), (SDB, 384, 484)]
    assert [*found.extents(20000 * SECTOR, 20001 * SECTOR)] == []


def test_a_striped_volume_has_a_piece_on_each_disk_however_long_it_is(tmp_path):
    found = volume(tmp_path, "0 419430400 striped 2 128 8:0 2048 8:16 4096\n")
    whole = [*found.extents(0, 419430400 * SECTOR)]
    half = 419430400 // 2
    assert sectors(whole) == [(SDA, 2048, 2048 + half), (SDB, 4096, 4096 + half)]
    # The second chunk and half of the third one: the next row of the first disk.
    part = [*found.extents(128 * SECTOR, 320 * SECTOR)]
    assert sectors(part) == [(SDA, 2048 + 128, 2048 + 192), (SDB, 4096, 4096 + 128)]


def test_an_encrypted_volume_on_a_striped_one_is_followed_to_the_disks(tmp_path):
    crypt = (
        "0 65536 crypt aes-xts-plain64 :64:logon:cryptsetup:1b4e28ba-d0 0 253:1 32768"
        " 1 allow_discards\n"
    )
    found = volume(tmp_path, crypt, "0 131072 striped 2 128 8:0 2048 8:16 2048\n")
    assert found.disks == (SDA, SDB)
    assert sectors([*found.extents(0, 64 * KIB)]) == [(SDA, 2048 + 16384, 2048 + 16384 + 128)]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("0 4194304 thin 253:2 1", "target thin"),
        ("0 4194304 cache 253:3 253:2 253:4 128 1 writethrough smq 0", "target cache"),
        ("0 4194304 raid raid1 3 0 region_size 4096 2 253:3 253:4 253:5 253:6", "target raid"),
        ("0 4194304 snapshot-origin 253:3", "target snapshot-origin"),
        ("0 4194304 striped 3 128 8:0 0 8:16 0", "fewer stripes"),
        ("0 4194304 striped 2 0 8:0 0 8:16 0", "target striped"),
        ("0 4194304 linear nonsense 0", "target linear"),
        ("0 4096 linear 8:0 0\n4096 4096 error", "target error"),
    ],
)
def test_what_is_not_followed_is_named(tmp_path, table, words):
    with pytest.raises(TargetError) as refused:
        volume(tmp_path, table)
    assert words in refused.value.cause
    assert "dm-0 (LVM volume vg-lv0)" in refused.value.seen


def test_a_table_that_refers_to_itself_ends(tmp_path):
    with pytest.raises(TargetError, match="not followed"):
        volume(tmp_path, "0 4096 linear 253:1 0", "0 4096 linear 253:0 0")


def array(folder: Path, level: str, sizes_kib: Sequence[int], slots: Sequence[str]) -> Volume:
    """An md array of sdb, sdc and so on."""
    machine = machine_with(folder, {})
    md = machine.block("/sys/devices/virtual/block/md127", "9:127")
    active = sum(each.isdigit() for each in slots)
    files = {"level": level, "raid_disks": str(active), "chunk_size": "65536"}
    machine.write_all(f"{md}/md", files)
    for place, (size_kib, slot) in enumerate(zip(sizes_kib, slots, strict=True)):
        name = f"sd{'bcd'[place]}"
        member = {"slot": slot, "offset": str(2048 + place), "size": str(size_kib)}
        machine.write_all(f"{md}/md/dev-{name}", member)
    return volume_of(os.makedev(9, 127), machine.tree)


def test_a_mirror_has_all_bytes_on_each_member_and_none_on_a_spare(tmp_path):
    found = array(tmp_path, "raid1", [100, 100, 100], ["1", "0", "none"])
    assert found.disks == (SDC, SDB)
    assert sectors([*found.extents(512, 1024)]) == [(SDC, 2050, 2051), (SDB, 2049, 2050)]


def test_a_raid_0_is_followed_if_its_members_have_one_size(tmp_path):
    found = array(tmp_path / "a", "raid0", [1024, 1024], ["0", "1"])
    assert sectors([*found.extents(0, 192 * KIB)]) == [(SDB, 2048, 2304), (SDC, 2049, 2177)]
    with pytest.raises(TargetError) as refused:
        array(tmp_path / "b", "raid0", [1024, 2048], ["0", "1"])
    assert "several zones" in refused.value.cause
    with pytest.raises(TargetError) as refused:
        array(tmp_path / "c", "raid5", [1024, 1024, 1024], ["0", "1", "2"])
    assert "raid5" in refused.value.cause


def test_an_nvme_disk_with_native_multipath_is_refused(tmp_path):
    machine = machine_with(tmp_path, {})
    for minor, subsystem in ((1, "nvme0"), (2, "nvme10")):
        machine.block(f"/sys/devices/virtual/nvme-subsystem/{subsystem}n1", f"259:{minor}")
    machine.link("/sys/class/block/nvme0c3n1", "/sys/devices/pci0000:00/nvme3/nvme0c3n1")
    with pytest.raises(TargetError, match="nvme0c3n1") as refused:
        volume_of(os.makedev(259, 1), machine.tree)
    assert "levels 2 and 3" in refused.value.cause
    assert volume_of(os.makedev(259, 2), machine.tree).disks == ((259, 2),)


def test_a_file_system_without_a_disk_has_none():
    with pytest.raises(TargetError, match="not on a single disk"):
        volume_of(Path("/proc").stat().st_dev)


def by_sector(stripes: int, chunk: int, sector: int) -> tuple[int, int]:
    """Where a sector of a striped target lies, as dm-stripe.c has it: the leg, and its sector."""
    number, rest = divmod(sector, chunk)
    return number % stripes, number // stripes * chunk + rest


@given(
    stripes=st.integers(1, 5),
    chunk=st.integers(1, 9),
    start=st.integers(0, 200),
    length=st.integers(1, 200),
    begin=st.integers(0, 50),
)
def test_each_sector_of_a_range_lies_where_the_kernel_puts_it(stripes, chunk, start, length, begin):
    legs = tuple(Leg(Volume((8, 16 * leg)), 1000 * leg * SECTOR) for leg in range(stripes))
    segment = Segment(begin * SECTOR, (begin + 500) * SECTOR, legs, chunk * SECTOR)
    found = Volume((253, 0), (segment,))
    first = begin + start
    extents = [*found.extents(first * SECTOR, (first + length) * SECTOR)]
    expected = {by_sector(stripes, chunk, start + each) for each in range(length)}
    places = [
        (disk[1] // 16, sector - 1000 * (disk[1] // 16))
        for disk, from_sector, to_sector in sectors(extents)
        for sector in range(from_sector, to_sector)
    ]
    assert len(places) == length
    assert set(places) == expected
    assert len(extents) <= stripes
