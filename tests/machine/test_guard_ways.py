"""The table of ways to reach bytes that somebody uses by another name: none is written by.

Each row makes a second way to the bytes of an image or disk, has the first one in use, and asks
the guard for the second. Rows with real loop devices write, where they are let, as a trial would.
"""

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from machine.conftest import run
from machine.test_uses import FakeMachine
from seatrial.errors import RefusedError
from seatrial.machine import guard
from seatrial.machine.fingerprint.medium import lasting_name, number_text
from seatrial.machine.fingerprint.tree import LIVE, CommandOutput, SystemTree
from seatrial.machine.guard import permit_write
from seatrial.machine.uses import Survey
from seatrial.units import MIB

IMAGE_BYTES = 64 * MIB
OFFSET_BYTES = 8 * MIB
LOAD = b"trial" * 1000


class Bench:
    """One image, its loop devices and whatever a row makes of them; all is cleared at the end."""

    def __init__(self, folder: Path, stack: ExitStack):
        self.folder = folder
        self.stack = stack
        self.image = folder / "disk.img"
        self.image.write_bytes(b"")
        os.truncate(self.image, IMAGE_BYTES)
        self.inode = os.open(self.image, os.O_RDONLY)
        stack.callback(os.close, self.inode)

    def loop(self, path, *options):
        device = run("losetup", "--find", "--show", *options, str(path)).strip()
        self.stack.callback(subprocess.run, ["losetup", "-d", device], capture_output=True)
        return device

    def whole(self):
        """Every byte of the image, by its inode: its names may be gone."""
        return os.pread(self.inode, IMAGE_BYTES, 0)

    def is_destroyed(self):
        """Whether a trial was written over what the image held."""
        return LOAD in self.whole()

    def child(self, *argv):
        """Start a program that says `up` when it is ready, and ends when this closes its input."""
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.stack.callback(process.communicate)
        assert process.stdout.readline() == "up\n"
        return process

    def mounted(self, device, *options):
        point = self.folder / "mnt"
        point.mkdir(exist_ok=True)
        run("mount", *options, device, str(point))
        self.stack.callback(subprocess.run, ["umount", str(point)], capture_output=True)
        return point


def put_on(device, command):
    run(*command, device)


# How the first way, a loop device, is in use.


def is_mounted(bench, device):
    put_on(device, ["mkfs.ext4", "-q", "-F"])
    bench.mounted(device)


def is_mounted_read_only(bench, device):
    put_on(device, ["mkfs.ext4", "-q", "-F"])
    bench.mounted(device, "-o", "ro,noload")


def is_mounted_in_another_namespace(bench, device):
    put_on(device, ["mkfs.ext4", "-q", "-F"])
    script = 'mount "$0" /mnt && echo up && read -r _'
    bench.child("unshare", "--mount", "sh", "-c", script, device)


def is_unmounted_lazily(bench, device):
    put_on(device, ["mkfs.ext4", "-q", "-F"])
    point = bench.mounted(device)
    held = (point / "held").open("wb")
    bench.stack.callback(held.close)
    run("umount", "--lazy", str(point))


def is_swapped_to(bench, device):
    put_on(device, ["mkswap", "-q"])
    run("swapon", device)
    bench.stack.callback(run, "swapoff", device)


def is_open_for_writing(bench, device):
    bench.child("sh", "-c", 'exec 5<>"$0"; echo up; read -r _', device)


def is_open_by_a_node_of_another_name(bench, device):
    node = bench.folder / "harmless"
    number = Path(device).stat().st_rdev
    os.mknod(node, 0o600 | 0o060000, number)
    bench.child("sh", "-c", 'exec 5<>"$0"; echo up; read -r _', str(node))


def is_claimed(bench, device):
    code = (
        "import os, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL);"
        "print('up', flush=True); input()"
    )
    bench.child(sys.executable, "-c", code, device)


USES = (
    is_mounted,
    is_mounted_read_only,
    is_mounted_in_another_namespace,
    is_unmounted_lazily,
    is_swapped_to,
    is_open_for_writing,
    is_open_by_a_node_of_another_name,
    is_claimed,
)


# The second way: called with the first in use; returns what the guard is asked for.


def a_second_loop(bench, _first):
    return bench.loop(bench.image)


def a_loop_by_a_hard_link(bench, _first):
    link = bench.folder / "other.dat"
    link.hardlink_to(bench.image)
    return bench.loop(link)


def a_loop_by_a_symbolic_link(bench, _first):
    link = bench.folder / "link.img"
    link.symlink_to(bench.image)
    return bench.loop(link)


def a_loop_over_the_renamed_file(bench, _first):
    return bench.loop(bench.image.rename(bench.folder / "renamed.img"))


def a_loop_whose_file_is_deleted(bench, _first):
    second = bench.loop(bench.image)
    bench.image.unlink()
    return second


def a_loop_whose_name_is_another_files_now(bench, _first):
    second = bench.loop(bench.image)
    bench.image.unlink()
    bench.image.write_bytes(b"another file")
    return second


def a_loop_by_a_name_with_a_trailing_blank(bench, _first):
    return bench.loop(bench.image.rename(bench.folder / "disk.img "))


def a_loop_by_a_name_with_a_line_break(bench, _first):
    return bench.loop(bench.image.rename(bench.folder / "disk\n.img"))


def a_loop_by_a_name_that_says_deleted(bench, _first):
    return bench.loop(bench.image.rename(bench.folder / "disk.img (deleted)"))


def a_loop_at_an_offset_that_overlaps(bench, _first):
    return bench.loop(bench.image, "--offset", str(OFFSET_BYTES))


def a_loop_over_the_first_part(bench, _first):
    return bench.loop(bench.image, "--sizelimit", str(OFFSET_BYTES))


def a_loop_over_a_second_loop(bench, _first):
    return bench.loop(bench.loop(bench.image))


def a_partition_of_a_second_loop(bench, _first):
    disk = bench.loop(bench.image, "--partscan")
    run("addpart", disk, "1", "0", str(IMAGE_BYTES // 1024))
    bench.stack.callback(subprocess.run, ["delpart", disk, "1"], capture_output=True)
    return f"{disk}p1"


def a_loop_by_a_bind_mount(bench, _first):
    other = bench.folder / "bound.img"
    other.touch()
    run("mount", "--bind", str(bench.image), str(other))
    bench.stack.callback(subprocess.run, ["umount", str(other)], capture_output=True)
    return bench.loop(other)


def a_loop_made_in_another_namespace(bench, _first):
    script = 'mkdir -p "$1" && mount --bind "$(dirname "$0")" "$1" && losetup -f --show "$1/$2"'
    point = bench.folder / "inside"
    made = run(
        *("unshare", "--mount", "sh", "-c", script),
        *(str(bench.image), str(point), bench.image.name),
    ).strip()
    bench.stack.callback(subprocess.run, ["losetup", "-d", made], capture_output=True)
    return made


WAYS = (
    a_second_loop,
    a_loop_by_a_hard_link,
    a_loop_by_a_symbolic_link,
    a_loop_over_the_renamed_file,
    a_loop_whose_file_is_deleted,
    a_loop_whose_name_is_another_files_now,
    a_loop_by_a_name_with_a_trailing_blank,
    a_loop_by_a_name_with_a_line_break,
    a_loop_by_a_name_that_says_deleted,
    a_loop_at_an_offset_that_overlaps,
    a_loop_over_the_first_part,
    a_loop_over_a_second_loop,
    a_partition_of_a_second_loop,
    a_loop_by_a_bind_mount,
    a_loop_made_in_another_namespace,
)


# The same image named as a file, with the first loop device merely there.


def the_file(bench, _first):
    return str(bench.image)


def a_hard_link_to_the_file(bench, _first):
    link = bench.folder / "other.dat"
    link.hardlink_to(bench.image)
    return str(link)


def the_renamed_file(bench, _first):
    return str(bench.image.rename(bench.folder / "renamed.img"))


def the_file_with_a_trailing_blank(bench, _first):
    return str(bench.image.rename(bench.folder / "disk.img "))


def a_hard_link_to_the_deleted_file(bench, _first):
    link = bench.folder / "other.dat"
    link.hardlink_to(bench.image)
    bench.image.unlink()
    return str(link)


def the_file_by_a_bind_mount(bench, _first):
    other = bench.folder / "bound.img"
    other.touch()
    run("mount", "--bind", str(bench.image), str(other))
    bench.stack.callback(subprocess.run, ["umount", str(other)], capture_output=True)
    return str(other)


NAMES = (
    the_file,
    a_hard_link_to_the_file,
    the_renamed_file,
    the_file_with_a_trailing_blank,
    a_hard_link_to_the_deleted_file,
    the_file_by_a_bind_mount,
)


@contextmanager
def bench_in(folder):
    with ExitStack() as stack:
        yield Bench(folder, stack)


def written(target):
    """Write to a target as a trial would, if the guard permits it; return whether it did."""
    words = f"{target},{Path(target).resolve()}"
    try:
        with permit_write(target, destroy=words, bytes_to_write=MIB) as permit:
            descriptor = os.open(permit.safe_path, os.O_RDWR)
            os.pwrite(descriptor, LOAD, 0)
            os.fsync(descriptor)
            os.close(descriptor)
    except RefusedError:
        return False
    return True


@pytest.mark.root
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.parametrize("way", [WAYS[0], WAYS[4], WAYS[9]], ids=lambda way: way.__name__)
def test_no_use_is_overlooked_by_another_way(tmp_path, way, use):
    destroys_nothing(tmp_path, way, use)


@pytest.mark.root
@pytest.mark.parametrize("use", [is_mounted, is_swapped_to], ids=lambda use: use.__name__)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_way_leads_past_a_use(tmp_path, way, use):
    destroys_nothing(tmp_path, way, use)


def destroys_nothing(folder, way, use):
    with bench_in(folder) as bench:
        first = bench.loop(bench.image)
        use(bench, first)
        target = way(bench, first)
        assert not written(target)
        assert not bench.is_destroyed()


def over_a_read_only_loop(bench):
    bench.loop(bench.image, "--read-only")


def over_a_loop_that_is_mounted(bench):
    is_mounted(bench, bench.loop(bench.image))


def over_swap(bench):
    bench.image.chmod(0o600)
    with bench.image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, IMAGE_BYTES)
    run("mkswap", "-q", str(bench.image))
    run("swapon", str(bench.image))
    bench.stack.callback(run, "swapoff", str(bench.image))


def over_a_writer(bench):
    bench.child("sh", "-c", 'exec 5<>"$0"; echo up; read -r _', str(bench.image))


def over_a_writer_in_another_pid_and_mount_namespace(bench):
    script = 'mount -t tmpfs none /mnt; exec 5<>"$0"; echo up; read -r _'
    bench.child(
        *("unshare", "--mount", "--pid", "--fork", "--mount-proc"),
        *("sh", "-c", script, str(bench.image)),
    )


def over_a_mapping_without_a_descriptor(bench):
    code = (
        "import mmap, os, sys; file = os.open(sys.argv[1], os.O_RDWR);"
        "held = mmap.mmap(file, 4096); os.close(file); print('up', flush=True); input()"
    )
    bench.child(sys.executable, "-c", code, str(bench.image))


FILE_USES = (
    over_a_read_only_loop,
    over_a_loop_that_is_mounted,
    over_swap,
    over_a_writer,
    over_a_writer_in_another_pid_and_mount_namespace,
    over_a_mapping_without_a_descriptor,
)


# The kernel lets nobody rename or remove a file that is swapped to.
NAMED_IN_USE = [
    (name, use)
    for use in FILE_USES
    for name in NAMES
    if use is not over_swap or name in (the_file, a_hard_link_to_the_file, the_file_by_a_bind_mount)
]


@pytest.mark.root
@pytest.mark.parametrize(("name", "use"), NAMED_IN_USE, ids=lambda each: each.__name__)
def test_no_name_of_a_file_leads_past_its_use(tmp_path, name, use):
    with bench_in(tmp_path) as bench:
        use(bench)
        target = name(bench, "")
        assert not written(target)
        assert not bench.is_destroyed()


@pytest.mark.root
class TestWhatIsApart:
    """The table has its other side: what shares no byte in use is let pass."""

    def test_loops_over_ranges_that_do_not_overlap(self, tmp_path):
        with bench_in(tmp_path) as bench:
            is_mounted(bench, bench.loop(bench.image, "--sizelimit", str(OFFSET_BYTES)))
            assert written(bench.loop(bench.image, "--offset", str(OFFSET_BYTES)))

    def test_two_loops_over_one_file_of_which_none_is_in_use(self, tmp_path):
        with bench_in(tmp_path) as bench:
            bench.loop(bench.image)
            assert written(bench.loop(bench.image))

    def test_a_copy_of_the_image(self, tmp_path):
        with bench_in(tmp_path) as bench:
            is_mounted(bench, bench.loop(bench.image))
            copy = tmp_path / "copy.img"
            copy.write_bytes(bench.whole())
            assert written(bench.loop(copy))
            assert written(tmp_path / "new.dat")

    def test_a_loop_device_made_again_of_another_file_is_another_medium(self, tmp_path):
        with bench_in(tmp_path) as bench:
            copy = tmp_path / "copy.img"
            copy.write_bytes(bench.whole())
            devices = [bench.loop(path) for path in (bench.image, bench.image, copy)]
            numbers = [number_text(Path(device).stat().st_rdev) for device in devices]
            first, again, other = (lasting_name(LIVE, number) for number in numbers)
            assert first == again != other

    def test_no_other_way_can_be_taken_while_a_trial_holds_one(self, tmp_path):
        with bench_in(tmp_path) as bench:
            first, second = bench.loop(bench.image), bench.loop(bench.image)
            put_on(first, ["mkfs.ext4", "-q", "-F"])
            with permit_write(second, destroy=second, bytes_to_write=MIB):
                point = tmp_path / "mnt"
                point.mkdir()
                with pytest.raises(subprocess.CalledProcessError):
                    run("mount", first, str(point))
            bench.mounted(first)


# Hardware that no test has at hand: what the kernel shows of it, as files.


class Machine(FakeMachine):
    """A machine with one disk, sda, in use as a row says, and a second way to it."""

    def __init__(self, root):
        super().__init__(root)
        self.tables = {}
        self.tree = SystemTree(root, self._run)

    def _run(self, argv, _timeout_s):
        table = self.tables.get(f"{argv[-3]}:{argv[-1]}")
        return CommandOutput(0 if table else 1, table or "", "")

    def pair(self, names=("sda", "sdb"), **facts):
        """Two paths to one disk: the first in use, the second asked for."""
        for number, name in enumerate(names):
            self.disk(name, f"8:{16 * number}", size=2097152, **facts)
            self.write(f"dev/{name}", "")

    def refuses(self, number):
        return [use.phrase for use in guard._uses_of_medium(number, Survey(self.tree))]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "machine")


PATHS = {
    "SCSI by its NAA name": {"device__wwid": "naa.6000c29f1"},
    "SCSI by its EUI name": {"device__wwid": "eui.00a0b8000"},
    "SCSI by its T10 name": {"device__wwid": "t10.ATA     Samsung SSD S3Z9NB0K"},
    "SCSI by its unit serial number": {"device__vpd_pg80": "\0\x80\0\x08S3Z9NB0K"},
    "NVMe by its UUID": {"wwid": "uuid.2b6e0b1c-5a3d", "device__serial": "A"},
    "NVMe by its NGUID": {"wwid": "eui.36344630528029720025384500000001"},
    "NVMe by its EUI-64": {"wwid": "eui.0025388b710000a1"},
    "NVMe by serial and namespace": {"wwid": "nvme.144d-5333-53616d-00000001"},
    "virtio by its serial number": {"serial": "volume-17"},
    "MMC by its serial number": {"device__serial": "0x7a1c93d2"},
}
"""What two paths to one disk have in common."""


def whole_mounted(machine):
    machine.mount("40 1 8:0 / /db rw - xfs /dev/sda rw")


def part_mounted(machine):
    machine.partition("sda1", "8:1", of="sda")
    machine.mount("40 1 8:1 / /db rw - xfs /dev/sda1 rw")


def swapped_whole(machine):
    machine.write("proc/swaps", "Filename Type Size Used Priority\n/dev/sda partition 1 0 -2\n")


def of_an_array(machine):
    machine.disk("md0", "9:0", on=["sda"], md__level="raid1")


def of_a_volume_group(machine):
    machine.disk("dm-0", "253:0", on=["sda"], dm__name="vg-db", dm__uuid="LVM-abc")


def of_multipath(machine):
    machine.disk("dm-1", "253:1", on=["sda"], dm__name="mpatha", dm__uuid="mpath-36001")


def of_an_encrypted_volume(machine):
    machine.disk("dm-2", "253:2", on=["sda"], dm__name="luks", dm__uuid="CRYPT-LUKS2-1")


def of_bcache(machine):
    machine.disk("bcache0", "252:0", on=["sda"])


def of_a_mounted_btrfs(machine):
    machine.mount("42 1 0:50 / /tank rw - btrfs /dev/sdz rw")
    machine.write("sys/fs/btrfs/8e1-22/devices/sda/x", "")


def under_a_loop(machine):
    machine.disk("loop4", "7:4", loop__backing_file="/dev/sda", size=2097152)
    machine.mount("41 1 7:4 / /data rw - ext4 /dev/loop4 rw")


def the_log_of_an_xfs(machine):
    machine.mount("41 1 9:9 / /db rw - xfs /dev/md9 rw,logdev=/dev/sda,noquota")


def written_by_a_process(machine):
    machine.process(4242, "oracle", "/dev/sda", "0100002")


def served_by_lio(machine):
    machine.write("sys/kernel/config/target/core/iblock_0/vol/udev_path", "/dev/sda")


def served_over_nvme(machine):
    machine.write("sys/kernel/config/nvmet/subsystems/nqn/namespaces/1/device_path", "/dev/sda")


def mounted_in_a_container(machine):
    for pid, number in (("self", 1), ("77", 2)):
        machine.write(f"proc/{pid}/comm", "postgres")
        (machine.root / f"proc/{pid}/ns").mkdir(parents=True)
        (machine.root / f"proc/{pid}/ns/mnt").symlink_to(f"mnt:[{number}]")
    machine.write("proc/77/mountinfo", "90 80 8:0 / /var/lib/postgresql rw - ext4 /dev/sda rw")


OWNERS = (
    whole_mounted,
    part_mounted,
    swapped_whole,
    of_an_array,
    of_a_volume_group,
    of_multipath,
    of_an_encrypted_volume,
    of_bcache,
    of_a_mounted_btrfs,
    under_a_loop,
    the_log_of_an_xfs,
    written_by_a_process,
    served_by_lio,
    served_over_nvme,
    mounted_in_a_container,
)


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.__name__)
def test_the_second_path_to_a_disk_in_use_is_refused(machine, owner):
    machine.pair(**PATHS["SCSI by its NAA name"])
    owner(machine)
    assert any("shares its data with" in phrase for phrase in machine.refuses("8:16"))


@pytest.mark.parametrize("facts", PATHS.values(), ids=PATHS.keys())
def test_paths_are_known_by_what_they_have_in_common(machine, facts):
    machine.pair(**facts)
    whole_mounted(machine)
    assert machine.refuses("8:16") == ["shares its data with sda, which is mounted on /db (xfs)"]


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        (("nvme0n1", "nvme1n1"), {"nguid": "36344630528029720025384500000001"}),
        (("nvme0n1", "nvme1n1"), {"device__serial": "S4", "nsid": "1"}),
        (("nbd0", "nbd1"), {}),
        (("nbd0", "nbd1"), {"backend": "vm-disk"}),
        (
            ("rbd0", "rbd1"),
            {"device__cluster_fsid": "f1", "device__pool": "db", "device__image_id": "10a"},
        ),
    ],
)
def test_paths_of_other_kinds_are_known_too(machine, names, facts):
    machine.pair(names, **facts)
    machine.mount(f"40 1 8:0 / /db rw - xfs /dev/{names[0]} rw")
    assert machine.refuses("8:16")


def test_a_partition_by_the_second_path(machine):
    machine.pair(**PATHS["SCSI by its NAA name"])
    for disk, number in (("sda", 0), ("sdb", 16)):
        machine.partition(f"{disk}1", f"8:{number + 1}", of=disk)
        machine.partition(f"{disk}2", f"8:{number + 2}", of=disk)
    machine.mount("40 1 8:1 / /db rw - xfs /dev/sda1 rw")
    assert machine.refuses("8:17")
    assert machine.refuses("8:16"), "the whole disk has that partition"
    assert not machine.refuses("8:18"), "the other partition is not in use"


def test_an_array_whose_member_has_a_second_path_in_use(machine):
    machine.pair(**PATHS["SCSI by its NAA name"])
    machine.disk("md0", "9:0", on=["sdb"], md__level="raid1")
    machine.write("sys/devices/virtual/block/md0/slaves/sdb/dev", "8:16")
    whole_mounted(machine)
    assert machine.refuses("9:0") == ["shares its data with sda, which is mounted on /db (xfs)"]


def mapped(machine, name, number, uuid, table):
    """A device-mapper device on sdb."""
    machine.disk(name, number, on=["sdb"], dm__name=name, dm__uuid=uuid)
    machine.write(f"sys/devices/virtual/block/{name}/slaves/sdb/dev", "8:16")
    machine.tables[number] = table


@pytest.mark.parametrize(
    ("uuids", "tables", "refused"),
    [
        (("", ""), ("0 100 linear 8:16 0", "0 100 linear 8:16 50"), True),
        (("", ""), ("0 100 linear 8:16 0", "0 100 linear 8:16 100"), False),
        (("", ""), ("0 100 linear 8:16 0", "0 100 crypt aes 8:16 0"), True),
        (("", ""), ("0 100 linear 8:16 0", ""), True),
        (("LVM-" + "a" * 40, "LVM-" + "a" * 32 + "b"), ("", ""), False),
        (("LVM-" + "a" * 40, "LVM-" + "c" * 40), ("", ""), True),
        (("", ""), ("0 9 thin 8:16 1", "0 9 thin 8:16 2"), False),
        (("", ""), ("0 9 thin 8:16 1", "0 9 thin 8:16 1"), True),
    ],
)
def test_two_mapped_devices_on_one_member(machine, uuids, tables, refused):
    machine.pair()
    mapped(machine, "dm-0", "253:0", uuids[0], tables[0])
    mapped(machine, "dm-1", "253:1", uuids[1], tables[1])
    machine.mount("40 1 253:1 / /db rw - xfs /dev/dm-1 rw")
    assert bool(machine.refuses("253:0")) is refused


def test_multipath_itself_is_not_refused_for_its_own_paths_but_for_a_third(machine):
    machine.pair(**PATHS["SCSI by its NAA name"])
    machine.disk("dm-0", "253:0", on=["sda", "sdb"], dm__name="mpatha", dm__uuid="mpath-1")
    for name, number in (("sda", "8:0"), ("sdb", "8:16")):
        machine.write(f"sys/devices/virtual/block/dm-0/slaves/{name}/dev", number)
    assert not machine.refuses("253:0")
    machine.disk("sdc", "8:32", size=2097152, **PATHS["SCSI by its NAA name"])
    machine.mount("40 1 8:32 / /db rw - xfs /dev/sdc rw")
    assert machine.refuses("253:0")


@pytest.mark.parametrize(
    ("names", "first", "second"),
    [
        (("sda", "sdb"), {"device__wwid": "naa.1"}, {"device__wwid": "naa.2"}),
        (("sda", "sdb"), {"serial": "0000"}, {"serial": "0000"}),
        (("sda", "sdb"), {}, {}),
        (
            ("sda", "sdb"),
            {"device__wwid": "naa.1", "device__vpd_pg80": "\0\x80\0\x05ARRAY"},
            {"device__wwid": "naa.2", "device__vpd_pg80": "\0\x80\0\x05ARRAY"},
        ),
        (
            ("nvme0n1", "nvme0n2"),
            {"wwid": "eui.01", "device__serial": "S4"},
            {"wwid": "eui.02", "device__serial": "S4"},
        ),
        (
            ("nvme0n1", "nvme0n2"),
            {"nsid": "1", "device__serial": "S4"},
            {"nsid": "2", "device__serial": "S4"},
        ),
        (("nbd0", "nbd1"), {"backend": "a"}, {"backend": "b"}),
    ],
)
def test_disks_that_are_not_the_same_are_let_pass(machine, names, first, second):
    for number, (name, facts) in enumerate(zip(names, (first, second), strict=True)):
        machine.disk(name, f"8:{16 * number}", size=2097152, **facts)
    machine.mount(f"40 1 8:0 / /db rw - xfs /dev/{names[0]} rw")
    assert machine.refuses("8:0")
    assert not machine.refuses("8:16")
