"""What real tools leave on real loop devices, and what real owners hold, is not written to.

Mounts, swap and a mounted btrfs are in test_guard.py; what needs md, LVM or the device-mapper in
the kernel is in tests/lab/inside/test_guard_in_use.py.
"""

import subprocess
from pathlib import Path

import pytest

from machine.conftest import need_command, run
from machine.zfs_daemon import answering_zfs
from seatrial.errors import RefusedError
from seatrial.machine.guard import inspect, permit_write
from seatrial.units import MIB

pytestmark = pytest.mark.root


def refusal(device, destroy=None):
    with pytest.raises(RefusedError) as caught:
        permit_write(device, destroy=destroy, bytes_to_write=MIB)
    return str(caught.value)


def must_be_named(device, bears):
    """It is refused for what it bears, whatever else is said, and let pass by its own word."""
    for word in (None, f"{device}x"):
        assert f"contains {bears}" in refusal(device, word)
    permit_write(device, destroy=str(device), bytes_to_write=MIB).close()


@pytest.mark.parametrize(("kind", "name"), [("gpt", "GPT"), ("dos", "MBR")])
def test_a_partition_table(image, loops, kind, name):
    need_command("sfdisk", "fdisk")
    device = loops(image())
    table = f"label: {kind}\nstart=2048, size=20480\n"
    subprocess.run(["sfdisk", "-q", "--no-reread", device], input=table, text=True, check=True)
    assert f"{name} partition table" in refusal(device)
    must_be_named(device, next(str(each) for each in inspect(device).signatures))


def test_a_partition_of_a_disk_that_is_swapped_to(image, loops):
    disk = loops(image(), "--partscan")
    run("addpart", str(disk), "1", "2048", "40960")
    run("addpart", str(disk), "2", "43008", "40960")
    first, second = Path(f"{disk}p1"), Path(f"{disk}p2")
    run("mkswap", "-q", str(first))
    run("swapon", str(first))
    try:
        assert "is in use as swap" in refusal(first, str(first))
        assert f"shares its data with {first.name}, which is in use as swap" in refusal(
            disk, str(disk)
        )
        permit_write(second, destroy=str(second), bytes_to_write=MIB).close()
    finally:
        run("swapoff", str(first))


def test_every_member_of_a_btrfs_that_is_not_mounted(image, loops):
    need_command("mkfs.btrfs", "btrfs-progs")
    members = [loops(image(f"{name}.img", 128 * MIB)) for name in "ab"]
    run("mkfs.btrfs", "-q", "-L", "photos", *map(str, members))
    for member in members:
        assert "Btrfs file system" in refusal(member)
        must_be_named(member, "Btrfs file system")
    run("btrfs", "device", "scan", "--forget")


def test_the_journal_device_of_a_mounted_file_system(image, loops, mounts):
    journal, device = loops(image("journal.img")), loops(image("data.img", 128 * MIB))
    run("mke2fs", "-q", "-O", "journal_dev", str(journal))
    run("mke2fs", "-q", "-t", "ext4", "-J", f"device={journal}", str(device))
    must_be_named(journal, "ext2/3/4 file system")
    mounts(device)
    text = refusal(journal, str(journal))
    assert "claimed by the kernel" in text or "is mounted on" in text


def test_a_member_of_a_zfs_pool_in_use_and_at_rest(image, loops, tmp_path):
    device = loops(image(size_bytes=96 * MIB))
    with answering_zfs():
        run(
            "zpool",
            "create",
            "-o",
            "cachefile=none",
            "-m",
            str(tmp_path / "tank"),
            "tank-h2",
            str(device),
        )
        try:
            text = refusal(device, str(device))
            assert "zfs-fuse" in text or "claimed by the kernel" in text
            assert "--destroy does not allow this" in text
        finally:
            run("zpool", "export", "tank-h2")
        must_be_named(device, "ZFS RAID member")
