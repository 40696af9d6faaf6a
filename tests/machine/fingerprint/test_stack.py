"""The stack from the file system to every physical device."""

from pathlib import Path

import fake_trees
import pytest
from fake_trees import FakeMachine

from seatrial.fingerprint import Btrfs, Device, DmTarget, Partition
from seatrial.machine.fingerprint import block_device_of
from seatrial.machine.fingerprint.target import target
from seatrial.units import GIB


def by_name(machine: FakeMachine, path: str) -> dict[str, Device]:
    """Return the stack under a path by device name, in its order."""
    return {node.name: node for node in target(machine.tree, path).stack}


def test_partition_leads_to_its_disk(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    found = target(machine.tree, "/mnt/ssd")
    part, disk = found.stack
    assert (part.name, part.kind, part.children) == (
        "nvme0n1p1",
        "partition",
        ["nvme0n1"],
    )
    assert part.partition == Partition(start_bytes=2048 * 512)
    assert part.scheduler is None
    assert part.pcie is None
    assert (disk.name, disk.kind, disk.parents) == ("nvme0n1", "nvme", ["nvme0n1p1"])
    assert disk.model == "Example SSD 980 PRO 1TB"
    assert disk.firmware == "5B2QGXA7"
    assert disk.size_bytes == 1000 * GIB
    assert disk.scheduler == "none"
    assert disk.schedulers_available == ["none", "mq-deadline", "kyber"]
    assert (disk.read_ahead_kib, disk.queue_requests, disk.nr_hw_queues) == (128, 1023, 4)
    assert (disk.write_cache, disk.fua, disk.rotational) == ("write back", True, False)
    assert found.logical_block_bytes == 512
    assert found.physical_block_bytes == 4096
    assert found.kind == "directory"
    assert found.filesystem.type == "ext4"
    assert "data=ordered" in found.filesystem.mount_options


def test_raid5_over_four_partitions(machine: FakeMachine) -> None:
    fake_trees.md_raid5(machine)
    nodes = by_name(machine, "/srv/db")
    assert next(iter(nodes)) == "md127"
    assert set(nodes) == {"md127", *(f"sd{c}" for c in "abcd"), *(f"sd{c}1" for c in "abcd")}
    array = nodes["md127"].md
    assert nodes["md127"].kind == "md"
    assert nodes["md127"].children == ["sda1", "sdb1", "sdc1", "sdd1"]
    assert (array.level, array.raid_disks, array.degraded) == ("raid5", 4, 1)
    assert (array.chunk_bytes, array.sync_action) == (512 * 1024, "recover")
    assert [member.name for member in array.members] == ["sda1", "sdb1", "sdc1", "sdd1"]
    assert array.members[3].state == "spare"
    assert nodes["sdc"].parents == ["sdc1"]
    assert nodes["sdc"].kind == "disk"
    assert nodes["sdc"].rotational is True
    assert nodes["sdc"].model == "WDC WD40EFRX-68N"
    assert nodes["sdc"].error_counts["request_errors"] == 3
    assert nodes["sdc"].error_counts["request_timeouts"] == 1


def test_logical_volume_over_two_disks(machine: FakeMachine) -> None:
    fake_trees.lvm_over_two(machine)
    found = target(machine.tree, "/srv/db")
    nodes = {node.name: node for node in found.stack}
    assert list(nodes) == ["dm-0", "sda", "sdb"]
    assert nodes["dm-0"].kind == "dm"
    assert nodes["dm-0"].dm.subsystem == "LVM"
    assert nodes["dm-0"].dm.targets == [
        DmTarget(type="striped", length_bytes=419430400 * 512, stripes=2, chunk_bytes=65536)
    ]
    assert nodes["sdb"].parents == ["dm-0"]
    assert ["dmsetup", "table", "--major", "253", "--minor", "0"] in machine.executed


def test_unreadable_table_of_device_mapper_says_why(machine: FakeMachine) -> None:
    fake_trees.lvm_over_two(machine)
    machine.answer("dmsetup", "", status=1, error_output="/dev/mapper/control: Permission denied")
    volume = by_name(machine, "/srv/db")["dm-0"].dm
    assert volume.targets is None
    assert volume.not_readable == "dmsetup requires root"
    del machine.answers["dmsetup"]
    volume = by_name(machine, "/srv/db")["dm-0"].dm
    assert volume.not_readable == "dmsetup is not installed"


def test_keys_of_an_encrypted_volume_are_not_kept(machine: FakeMachine) -> None:
    fake_trees.lvm_over_two(machine)
    machine.answer("dmsetup", "0 2048 crypt aes-xts-plain64 deadbeefdeadbeef 0 8:0 4096\n")
    volume = by_name(machine, "/srv/db")["dm-0"].dm
    assert volume.targets == [DmTarget(type="crypt", length_bytes=2048 * 512)]


def test_loop_goes_on_below_its_file(machine: FakeMachine) -> None:
    fake_trees.loop_on_xfs_on_nvme(machine)
    nodes = by_name(machine, "/mnt/loop")
    assert list(nodes) == ["loop0", "nvme0n1p1", "nvme0n1"]
    assert nodes["loop0"].kind == "loop"
    loop = nodes["loop0"].loop
    assert loop.backing_file == "/srv/images/disk.img"
    assert loop.direct_io is True
    assert loop.filesystem.type == "xfs"
    assert loop.filesystem.mount_point == "/srv"
    assert nodes["nvme0n1p1"].parents == ["loop0"]


def test_btrfs_over_two_devices(machine: FakeMachine) -> None:
    fake_trees.btrfs_over_two(machine)
    found = target(machine.tree, "/srv")
    names = [node.name for node in found.stack]
    assert names == ["sda2", "sdb", "sda"]
    profiles = Btrfs(data_profiles=["raid1"], metadata_profiles=["raid1"])
    assert found.filesystem.btrfs == profiles
    assert found.filesystem.error_counts["write_errs"] == 3
    assert block_device_of(Path("/srv"), tree=machine.tree) == "8:2"


def test_zfs_names_its_devices_through_its_tool(machine: FakeMachine) -> None:
    fake_trees.sata(machine, 1, "sda", "8:0")
    fake_trees.sata(machine, 2, "sdb", "8:16")
    machine.mount("0:51", "/tank/db", "zfs", "tank/db")
    lines = ["tank\t3.6T\t1T\t-\tONLINE", "\tmirror-0\t3.6T", "\t/dev/sda\t-", "\t/dev/sdb\t-"]
    machine.answer("zpool", "\n".join(lines))
    assert list(by_name(machine, "/tank/db")) == ["sda", "sdb"]
    assert machine.executed[0] == ["zpool", "list", "-v", "-H", "-P", "-L", "tank"]
    del machine.answers["zpool"]
    assert "zpool" in target(machine.tree, "/tank/db").no_device_because


def test_device_itself_as_target(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    found = target(machine.tree, "/dev/nvme0n1p1")
    assert found.kind == "device"
    assert found.filesystem is None
    assert [node.name for node in found.stack] == ["nvme0n1p1", "nvme0n1"]


def test_file_still_to_be_made_lies_where_its_folder_does(machine: FakeMachine) -> None:
    fake_trees.virtio(machine)
    fake_trees.nvme_in_narrow_slot(machine)
    found = target(machine.tree, "/mnt/ssd/deep/down/trial.dat")
    assert found.kind == "absent"
    assert found.filesystem.mount_point == "/mnt/ssd"
    assert found.stack[0].name == "nvme0n1p1"


def test_memory_network_and_container_file_systems_have_no_device(machine: FakeMachine) -> None:
    machine.mount("0:22", "/tmp", "tmpfs", "tmpfs")
    machine.mount("0:60", "/net", "nfs4", "server.example.org:/export", "rw,addr=10.1.2.3,vers=4.2")
    machine.mount("0:70", "/box", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/u,workdir=/w")
    for point, reason in (("/tmp", "memory"), ("/net", "nfs4"), ("/box", "volume")):
        found = target(machine.tree, point)
        assert found.stack == []
        assert reason in found.no_device_because
        assert block_device_of(Path(point), tree=machine.tree) == ""


def test_overlay_lies_where_its_upper_folder_does(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    machine.folder("/mnt/ssd/upper")
    machine.mount("0:70", "/box", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/mnt/ssd/upper")
    assert block_device_of(Path("/box"), tree=machine.tree) == "259:1"


def test_last_of_two_mounts_on_one_point_counts(machine: FakeMachine) -> None:
    fake_trees.virtio(machine)
    fake_trees.nvme_in_narrow_slot(machine)
    machine.mount("0:22", "/mnt/ssd", "tmpfs", "tmpfs")
    assert block_device_of(Path("/mnt/ssd"), tree=machine.tree) == ""


def test_kernels_own_word_on_the_mount_comes_first(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount over a folder further up hides one that is nearer to the path."""
    fake_trees.nvme_in_narrow_slot(machine)
    machine.mount("0:22", "/mnt", "tmpfs", "tmpfs")
    monkeypatch.setattr(machine.tree, "mount_id", lambda _path: 21)
    assert block_device_of(Path("/mnt/ssd"), tree=machine.tree) == ""


def test_mount_point_with_a_blank(machine: FakeMachine) -> None:
    fake_trees.virtio(machine)
    machine.folder("/mnt/my disk")
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.mount("8:0", r"/mnt/my\040disk", "ext4", "/dev/sda")
    assert block_device_of(Path("/mnt/my disk"), tree=machine.tree) == "8:0"


def test_other_users_of_the_same_disk(machine: FakeMachine) -> None:
    disk = fake_trees.nvme_in_narrow_slot(machine)
    machine.partition(disk, "nvme0n1p2", "259:2")
    machine.partition(disk, "nvme0n1p3", "259:3")
    machine.mount("259:2", "/var/log", "ext4", "/dev/nvme0n1p2")
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.mount("8:0", "/elsewhere", "ext4", "/dev/sda")
    machine.write(
        "/proc/swaps",
        "Filename Type Size Used Priority\n"
        "/dev/nvme0n1p3 partition 8388604 0 -2\n"
        "/mnt/ssd/swapfile file 1048572 0 -3\n"
        "/elsewhere/swapfile file 1048572 0 -4",
    )
    found = target(machine.tree, "/mnt/ssd").users
    assert found.mount_points == ["/mnt/ssd", "/var/log"]
    assert found.swap == ["/dev/nvme0n1p3", "/mnt/ssd/swapfile"]
