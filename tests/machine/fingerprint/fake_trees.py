"""Made-up machines: /sys and /proc laid in a folder, and commands that answer from a table."""

import os
from collections.abc import Sequence
from pathlib import Path

from seatrial.machine.fingerprint import SystemTree
from seatrial.machine.fingerprint.tree import (
    CommandMissingError,
    CommandOutput,
    CommandTimeoutError,
)
from seatrial.units import GIB

ROOT_PORT = "/sys/devices/pci0000:00/0000:00:1d.0"
QUEUE = {
    "rotational": "0",
    "scheduler": "[none] mq-deadline kyber",
    "read_ahead_kb": "128",
    "nr_requests": "1023",
    "max_sectors_kb": "1280",
    "write_cache": "write back",
    "fua": "1",
    "discard_granularity": "512",
    "logical_block_size": "512",
    "physical_block_size": "4096",
    "optimal_io_size": "0",
    "wbt_lat_usec": "2000",
    "io_poll": "0",
}


class FakeMachine:
    """A tree under a folder that is filled step by step; ``tree`` reads it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, CommandOutput | Exception] = {}
        self.executed: list[list[str]] = []
        self.tree = SystemTree(root, run=self._run)
        self.write("/proc/self/mountinfo", b"")

    def _run(self, argv: Sequence[str], timeout_s: float) -> CommandOutput:
        assert timeout_s <= 5
        self.executed.append(list(argv))
        answer = self.answers.get(argv[0], CommandMissingError(argv[0]))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, command: str, output: str, *, status: int = 0, error_output: str = "") -> None:
        """Let a command print something."""
        self.answers[command] = CommandOutput(status, output, error_output)

    def hang(self, command: str) -> None:
        """Let a command run out of time."""
        self.answers[command] = CommandTimeoutError(command)

    def write(self, path: str, text: str | bytes) -> None:
        """Write one file, with its folders."""
        file = Path(f"{self.root}{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, bytes):
            file.write_bytes(text)
        else:
            file.write_text(text + "\n")

    def write_all(self, folder: str, files: dict[str, str]) -> None:
        """Write several files into one folder."""
        for name, text in files.items():
            self.write(f"{folder}/{name}", text)

    def folder(self, path: str) -> None:
        """Make a folder."""
        Path(f"{self.root}{path}").mkdir(parents=True, exist_ok=True)

    def link(self, path: str, to: str) -> None:
        """Make a relative link, as sysfs does."""
        file = Path(f"{self.root}{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(os.path.relpath(f"{self.root}{to}", file.parent))

    def mount(self, number: str, point: str, kind: str, source: str, options: str = "rw") -> None:
        """Add a line to mountinfo and make the mount point."""
        self.folder(point)
        file = Path(f"{self.root}/proc/self/mountinfo")
        identity = len(file.read_text().splitlines()) + 20
        line = f"{identity} 1 {number} / {point} rw,noatime shared:1 - {kind} {source} {options}\n"
        file.write_text(file.read_text() + line)

    def block(
        self,
        directory: str,
        number: str,
        *,
        size_bytes: int = 100 * GIB,
        queue: dict[str, str] | None = None,
        slaves: Sequence[str] = (),
    ) -> str:
        """Add a block device at a directory of sysfs; return its directory."""
        name = directory.rpartition("/")[2]
        self.write_all(directory, {"dev": number, "size": str(size_bytes // 512), "ro": "0"})
        self.write(f"{directory}/inflight", "       0        0")
        self.write(f"{directory}/stat", " ".join(["0"] * 17))
        self.link(f"/sys/dev/block/{number}", directory)
        self.link(f"/sys/class/block/{name}", directory)
        if queue is not None:
            self.write_all(f"{directory}/queue", QUEUE | queue)
        for slave in slaves:
            self.link(f"{directory}/slaves/{slave}", f"/sys/class/block/{slave}")
            holder = f"/sys/class/block/{slave}"
            real = self.tree.resolve(holder)
            self.link(f"{real}/holders/{name}", directory)
        return directory

    def partition(self, disk: str, name: str, number: str, *, start: int = 2048) -> str:
        """Add a partition to a disk; return its directory."""
        directory = self.block(f"{disk}/{name}", number, size_bytes=90 * GIB)
        self.write_all(directory, {"partition": name[-1], "start": str(start)})
        return directory

    def link_state(self, function: str, now: str, width: int, most: str, width_max: int) -> None:
        """Give a PCI device a link."""
        self.write_all(
            function,
            {
                "current_link_speed": f"{now} GT/s PCIe",
                "current_link_width": str(width),
                "max_link_speed": f"{most} GT/s PCIe",
                "max_link_width": str(width_max),
                "numa_node": "1",
            },
        )


def nvme(machine: FakeMachine, function: str, name: str = "nvme0", number: str = "259:0") -> str:
    """Add an NVMe drive with one namespace under a PCI device; return the disk's directory."""
    controller = f"{function}/nvme/{name}"
    machine.write_all(
        controller,
        {
            "model": "Example SSD 980 PRO 1TB                 ",
            "firmware_rev": "5B2QGXA7",
            "serial": "S5GXNX0R123456A",
            "transport": "pcie",
            "state": "live",
        },
    )
    disk = machine.block(f"{controller}/{name}n1", number, size_bytes=1000 * GIB, queue={})
    machine.link(f"{disk}/device", controller)
    for queue in range(4):
        machine.folder(f"{disk}/mq/{queue}")
    return disk


def nvme_in_narrow_slot(machine: FakeMachine) -> str:
    """A drive of four lanes in a slot of which two work; ext4 on its first partition."""
    function = f"{ROOT_PORT}/0000:03:00.0"
    machine.link_state(ROOT_PORT, "8.0", 2, "8.0", 4)
    machine.link_state(function, "8.0", 2, "16.0", 4)
    disk = nvme(machine, function)
    machine.partition(disk, "nvme0n1p1", "259:1")
    machine.mount("259:1", "/mnt/ssd", "ext4", "/dev/nvme0n1p1", "rw,data=ordered")
    return disk


def nvme_behind_narrow_bridge(machine: FakeMachine) -> str:
    """A drive at its full four lanes behind a switch that hangs on one."""
    upstream = f"{ROOT_PORT}/0000:02:00.0"
    downstream = f"{upstream}/0000:03:01.0"
    function = f"{downstream}/0000:04:00.0"
    machine.link_state(ROOT_PORT, "8.0", 1, "16.0", 16)
    machine.link_state(upstream, "8.0", 1, "16.0", 8)
    machine.link_state(downstream, "16.0", 4, "16.0", 4)
    machine.link_state(function, "16.0", 4, "16.0", 4)
    disk = nvme(machine, function)
    machine.mount("259:0", "/mnt/ssd", "xfs", "/dev/nvme0n1")
    return disk


def sata(machine: FakeMachine, port: int, name: str, number: str) -> str:
    """Add a SATA disk whose link came up at 1.5 of 6 Gb/s; return its directory."""
    host = f"/sys/devices/pci0000:00/0000:00:17.0/ata{port}/host{port}"
    device = f"{host}/target{port}:0:0/{port}:0:0:0"
    machine.write_all(
        device,
        {"vendor": "ATA     ", "model": "WDC WD40EFRX-68N", "rev": "0A82", "ioerr_cnt": "0x3"},
    )
    machine.write_all(device, {"iodone_cnt": "0x1f4", "iorequest_cnt": "0x1f7", "iotmo_cnt": "0x1"})
    machine.write(f"{device}/vpd_pg80", b"\x00\x80\x00\x14     WD-WCC4E1234567")
    machine.write_all(
        f"/sys/class/ata_link/link{port}",
        {"sata_spd": "1.5 Gbps", "sata_spd_limit": "3.0 Gbps", "hw_sata_spd_limit": "6.0 Gbps"},
    )
    queue = {"rotational": "1", "scheduler": "none [mq-deadline]", "fua": "0"}
    disk = machine.block(f"{device}/block/{name}", number, size_bytes=4000 * GIB, queue=queue)
    machine.link(f"{disk}/device", device)
    return disk


def md_raid5(machine: FakeMachine) -> str:
    """A RAID 5 over one partition of each of four disks, one of them missing."""
    disks = [sata(machine, i + 1, f"sd{letter}", f"8:{16 * i}") for i, letter in enumerate("abcd")]
    parts = [f"sd{letter}1" for letter in "abcd"]
    for i, (disk, part) in enumerate(zip(disks, parts, strict=True)):
        machine.partition(disk, part, f"8:{16 * i + 1}")
    array = machine.block("/sys/devices/virtual/block/md127", "9:127", queue={}, slaves=parts)
    machine.write_all(
        f"{array}/md",
        {
            "level": "raid5",
            "raid_disks": "4",
            "chunk_size": "524288",
            "array_state": "active",
            "degraded": "1",
            "sync_action": "recover",
            "consistency_policy": "bitmap",
            "stripe_cache_size": "256",
            "bitmap/location": "+8",
        },
    )
    for i, part in enumerate(parts):
        state = "spare" if part == "sdd1" else "in_sync"
        files = {"state": state, "slot": str(i), "errors": "0"}
        machine.write_all(f"{array}/md/dev-{part}", files)
    machine.mount("9:127", "/srv/db", "xfs", "/dev/md127")
    return array


def lvm_over_two(machine: FakeMachine) -> str:
    """A striped logical volume over two SATA disks."""
    sata(machine, 1, "sda", "8:0")
    sata(machine, 2, "sdb", "8:16")
    volume = machine.block(
        "/sys/devices/virtual/block/dm-0", "253:0", queue={}, slaves=["sda", "sdb"]
    )
    machine.write_all(f"{volume}/dm", {"name": "web1--vg-db", "uuid": "LVM-Ab0Cd1Ef2Gh3"})
    machine.write("/proc/sys/kernel/hostname", "web1.example.org")
    machine.answer("dmsetup", "0 419430400 striped 2 128 8:0 2048 8:16 2048\n")
    machine.mount("253:0", "/srv/db", "ext4", "/dev/mapper/web1--vg-db")
    return volume


def loop_on_xfs_on_nvme(machine: FakeMachine) -> str:
    """A loop device whose file lies on an xfs on an NVMe drive, with an ext4 on it."""
    disk = nvme(machine, f"{ROOT_PORT}/0000:03:00.0")
    machine.partition(disk, "nvme0n1p1", "259:1")
    machine.mount("259:1", "/srv", "xfs", "/dev/nvme0n1p1")
    machine.write("/srv/images/disk.img", "")
    loop = machine.block("/sys/devices/virtual/block/loop0", "7:0", queue={"fua": "0"})
    machine.write_all(
        f"{loop}/loop", {"backing_file": "/srv/images/disk.img", "dio": "1", "offset": "0"}
    )
    machine.mount("7:0", "/mnt/loop", "ext4", "/dev/loop0")
    return loop


def virtio(machine: FakeMachine) -> str:
    """A virtio disk whose PCI device reports no link."""
    device = "/sys/devices/pci0000:00/0000:00:02.0/virtio1"
    machine.write_all(device, {"device": "0x0002", "vendor": "0x1af4"})
    machine.write_all(
        "/sys/devices/pci0000:00/0000:00:02.0",
        {"current_link_speed": "Unknown", "current_link_width": "0", "numa_node": "-1"},
    )
    disk = machine.block(f"{device}/block/vda", "254:0", queue={"rotational": "1", "fua": "0"})
    machine.link(f"{disk}/device", device)
    machine.write(f"{disk}/serial", "disk-0001")
    machine.mount("254:0", "/", "ext4", "/dev/root")
    return disk


def btrfs_over_two(machine: FakeMachine) -> list[str]:
    """A btrfs that mirrors data over a partition and a whole disk."""
    first = sata(machine, 1, "sda", "8:0")
    second = sata(machine, 2, "sdb", "8:16")
    part = machine.partition(first, "sda2", "8:2")
    folder = "/sys/fs/btrfs/8f2b6d0e-0000-4000-8000-000000000001"
    machine.link(f"{folder}/devices/sda2", part)
    machine.link(f"{folder}/devices/sdb", second)
    machine.write(f"{folder}/allocation/data/raid1/used_bytes", "4096")
    machine.write(f"{folder}/allocation/data/flags", "1")
    machine.write(f"{folder}/allocation/metadata/raid1/used_bytes", "4096")
    machine.write(f"{folder}/devinfo/1/error_stats", "write_errs 2\nread_errs 0\nflush_errs 0")
    machine.write(f"{folder}/devinfo/2/error_stats", "write_errs 1\nread_errs 0\nflush_errs 0")
    machine.mount("0:45", "/srv", "btrfs", "/dev/sda2", "rw,compress=zstd:3,subvol=/")
    return [part, second]
