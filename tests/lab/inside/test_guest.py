"""What every study inside may rely on: its root, its disks, its devices and its kernel."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from seatrial import _core
from seatrial.machine.undo_result import wait_until


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, check=False, capture_output=True, text=True)


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_root_of_the_guest_sees_the_host_and_writes_to_memory():
    assert os.geteuid() == 0
    assert Path(_core.__file__ or "").exists()
    Path("/etc/written-in-the-lab").write_text("x")
    assert Path("/proc/1/comm").read_text() == "busybox\n"


def test_the_command_knows_the_lab():
    assert os.environ["SEATRIAL_LAB"].split()[-1] == os.uname().release


def test_disks_hold_what_is_written(disks):
    assert len(disks) == 8
    data = os.urandom(1 << 20)
    with Path(disks[-1]).open("r+b", buffering=0) as disk:
        disk.write(data)
        os.fsync(disk.fileno())
    with Path(disks[-1]).open("rb", buffering=0) as disk:
        assert disk.read(1 << 20) == data


@pytest.mark.parametrize("personality", ["raid0", "raid1", "raid10", "raid6", "raid5"])
def test_md_has_its_levels(personality):
    assert f"[{personality}]" in Path("/proc/mdstat").read_text()


def test_an_array_of_md_stands_and_falls(disks):
    options = ("--run", "--level=1", "--raid-devices=2", "--size=32M", "--assume-clean")
    output("mdadm", "--create", "/dev/md7", *options, *disks[:2])
    assert "md7 : active raid1" in Path("/proc/mdstat").read_text()
    # The kernel may still look for partitions of the new device.
    assert wait_until(lambda: run("mdadm", "--stop", "/dev/md7").returncode == 0)


def test_lvm_works_without_udev(disks):
    output("pvcreate", "--yes", *disks[:2])
    output("vgcreate", "lab-test", *disks[:2])
    output("lvcreate", "--yes", "--name", "striped", "--stripes", "2", "--size", "64M", "lab-test")
    assert Path("/dev/lab-test/striped").is_block_device()
    output("vgremove", "--force", "--yes", "lab-test")


def test_device_mapper_has_what_makes_drives_bad():
    targets = output("dmsetup", "targets")
    assert all(f"{name} " in targets for name in ("delay", "dust", "flakey", "raid"))


@pytest.mark.parametrize("name", ["ext4", "xfs", "btrfs", "jfs"])
def test_file_systems_are_there(name):
    assert f"\t{name}\n" in Path("/proc/filesystems").read_text()
