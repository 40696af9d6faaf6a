"""Who uses a device, on made-up machines: arrays, volumes and pools that no test can build here."""

import os

import pytest

from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.machine.sysblock import node_by_number
from seatrial.machine.uses import uses_of_device

ROOT_MOUNT = "22 1 8:17 / / rw,relatime - ext4 /dev/sdb1 rw"


class FakeMachine:
    """A machine laid out as files: disks, what is built on them and what is mounted."""

    def __init__(self, root):
        self.root = root
        self.tree = SystemTree(root)
        self.write("proc/self/mountinfo", "")
        self.write("proc/swaps", "Filename Type Size Used Priority")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="latin-1")

    def disk(self, name, number, *, on=(), **files):
        """A device; ``on`` names those that it is built on."""
        home = f"sys/devices/virtual/block/{name}"
        self._device(home, name, number, files)
        for member in on:
            lower = (self.root / "sys/class/block" / member).resolve()
            self.write(f"{lower.relative_to(self.root)}/holders/{name}/x", "")

    def partition(self, name, number, *, of, start=None, size=2048):
        """A partition; as many sectors as asked for, one after the other by default."""
        home = f"sys/devices/virtual/block/{of}/{name}"
        start = 2048 * int(name[-1]) if start is None else start
        self._device(home, name, number, {"partition": "1", "start": start, "size": size})

    def mount(self, *lines):
        self.write("proc/self/mountinfo", "\n".join(lines))

    def process(self, pid, name, target, flags):
        self.write(f"proc/{pid}/comm", name)
        self.write(f"proc/{pid}/fdinfo/5", f"pos:\t0\nflags:\t{flags}\n")
        (self.root / f"proc/{pid}/fd").mkdir(parents=True)
        (self.root / f"proc/{pid}/fd/5").symlink_to(target)

    def _device(self, home, name, number, files):
        self.write(f"{home}/dev", number)
        for path, text in files.items():
            self.write(f"{home}/{path.replace('__', '/')}", str(text))
        for link in (f"sys/dev/block/{number}", f"sys/class/block/{name}", f"sys/block/{name}"):
            path = self.root / link
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(os.path.relpath(self.root / home, path.parent))


@pytest.fixture
def machine(tmp_path):
    made = FakeMachine(tmp_path / "machine")
    made.disk("sda", "8:0")
    made.disk("sdb", "8:16", device__serial="WX-11")
    made.partition("sdb1", "8:17", of="sdb")
    made.partition("sdb2", "8:18", of="sdb")
    return made


def phrases(machine, number):
    return [use.phrase for use in uses_of_device(number, machine.tree)]


def test_a_device_that_nobody_uses_has_no_use(machine):
    machine.mount(ROOT_MOUNT)
    assert phrases(machine, "8:0") == []


def test_a_mounted_partition_is_in_use_and_so_is_its_disk_but_not_its_sibling(machine):
    machine.mount(ROOT_MOUNT)
    assert phrases(machine, "8:17") == ["is mounted on / (ext4)"]
    assert phrases(machine, "8:16") == ["shares its data with sdb1, which is mounted on / (ext4)"]
    assert phrases(machine, "8:18") == []


@pytest.mark.parametrize(("point", "is_system"), [("/", True), ("/boot", True), ("/db", False)])
def test_the_file_system_of_the_running_system_is_not_to_be_unmounted(machine, point, is_system):
    machine.mount(ROOT_MOUNT.replace(" / / ", f" / {point} "))
    (use,) = uses_of_device("8:17", machine.tree)
    assert f"is mounted on {point} (" in use.phrase
    assert ("umount" in use.release) is not is_system


def test_a_partition_of_a_disk_that_is_held_whole_is_in_use(machine):
    machine.disk("dm-0", "253:0", on=["sdb"], dm__name="mpatha", dm__uuid="mpath-36001")
    assert phrases(machine, "8:18") == [
        "shares its data with sdb, which is held by dm-0 (multipath device mpatha)"
    ]


def test_a_raid_member_is_held_even_if_nothing_is_mounted(machine):
    machine.disk("md0", "9:0", on=["sda"], md__level="raid10")
    assert phrases(machine, "8:0") == ["is held by md0 (md raid10)"]


def test_a_volume_on_an_array_is_followed_up_to_its_mount(machine):
    machine.disk("md0", "9:0", on=["sda"], md__level="raid1")
    machine.disk("dm-3", "253:3", on=["md0"], dm__name="vg-db", dm__uuid="LVM-xyz")
    machine.mount("40 1 253:3 / /var/lib/postgres\\040data rw - xfs /dev/mapper/vg-db rw")
    assert phrases(machine, "8:0") == [
        "is held by md0 (md raid1), which is mounted on /var/lib/postgres data (xfs)"
    ]
    assert phrases(machine, "9:0")[0].startswith("is held by dm-3 (LVM volume vg-db)")
    assert phrases(machine, "253:3") == ["is mounted on /var/lib/postgres data (xfs)"]


def test_the_log_device_of_an_xfs_is_in_use(machine):
    machine.write("dev/sda", "")
    machine.mount("41 1 9:9 / /db rw - xfs /dev/md9 rw,logdev=/dev/sda,noquota")
    assert phrases(machine, "8:0") == ["is mounted on /db (xfs)"]


def test_the_second_device_of_a_btrfs_is_in_use_though_no_mount_names_it(machine):
    machine.mount("42 1 0:50 / /tank rw - btrfs /dev/sdz rw")
    machine.write("sys/fs/btrfs/8e1-22/devices/sda/x", "")
    assert phrases(machine, "8:0") == ["is one of several devices of a mounted btrfs file system"]


def test_swap_on_a_partition_and_a_loop_on_a_disk_are_uses(machine):
    for name in ("sdb2", "sda"):
        machine.write(f"dev/{name}", "")
    machine.write("proc/swaps", "Filename Type Size Used Priority\n/dev/sdb2 partition 1 0 -2\n")
    machine.disk("loop4", "7:4", loop__backing_file="/dev/sda")
    assert phrases(machine, "8:18") == ["is in use as swap"]
    assert phrases(machine, "8:0") == ["is the backing file of /dev/loop4"]
    assert uses_of_device("8:0", machine.tree)[0].release == (
        "detach it with `losetup -d /dev/loop4`"
    )


@pytest.mark.parametrize(
    ("flags", "in_use"), [("0100000", False), ("0100001", True), ("0140002", True)]
)
def test_a_process_that_writes_without_a_claim_is_a_use_and_a_reader_is_not(machine, flags, in_use):
    machine.write("dev/sda", "")
    machine.process(4242, "oracle", "/dev/sda", flags)
    expected = ["is open for writing by process 4242 (oracle)"] if in_use else []
    assert phrases(machine, "8:0") == expected


@pytest.mark.parametrize(
    ("files", "serial"),
    [
        ({"device__serial": " S3Z9NB0K  \n"}, "S3Z9NB0K"),
        ({"serial": "virtio-1"}, "virtio-1"),
        ({"device__vpd_pg80": "\0\x80\0\x06ABC123"}, "ABC123"),
        ({"wwid": "eui.0025"}, "eui.0025"),
        ({"dm__uuid": "LVM-abc"}, "LVM-abc"),
        ({"serial": "", "wwid": "naa.5"}, "naa.5"),
        ({}, ""),
    ],
)
def test_the_serial_number_is_found_wherever_the_kernel_keeps_it(machine, files, serial):
    machine.disk("new", "259:0", **files)
    assert node_by_number("259:0", machine.tree).serial() == serial


def test_udev_knows_a_serial_number_and_a_partition_has_its_disks(machine):
    machine.disk("sdc", "8:32", wwid="naa.9")
    machine.write("run/udev/data/b8:32", "N:sdc\nE:ID_SERIAL=long\nE:ID_SERIAL_SHORT=U-7\n")
    assert node_by_number("8:32", machine.tree).serial() == "U-7"
    assert node_by_number("8:18", machine.tree).serial() == "WX-11"
