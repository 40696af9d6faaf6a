"""The whole fingerprint, what changed since, and what must not be in it."""

import re
import types
from pathlib import Path

import fake_trees
import msgspec
import pytest
from fake_trees import FakeMachine

import seatrial
from seatrial.fingerprint import Fingerprint, FingerprintAfter
from seatrial.machine.fingerprint import differences, fingerprint_after, take_fingerprint
from seatrial.machine.fingerprint.machine import seatrial_version
from seatrial.machine.fingerprint.privacy import short_hash

SCENES = {
    "narrow slot": (fake_trees.nvme_in_narrow_slot, "/mnt/ssd"),
    "narrow bridge": (fake_trees.nvme_behind_narrow_bridge, "/mnt/ssd"),
    "raid5": (fake_trees.md_raid5, "/srv/db"),
    "lvm": (fake_trees.lvm_over_two, "/srv/db"),
    "loop": (fake_trees.loop_on_xfs_on_nvme, "/mnt/loop"),
    "virtio": (fake_trees.virtio, "/"),
    "btrfs": (fake_trees.btrfs_over_two, "/srv"),
}
FILES_BROKEN_MAX = 40


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest, machine: FakeMachine) -> tuple[FakeMachine, Path]:
    """Each of the made-up machines with a path to measure."""
    lay, path = SCENES[request.param]
    lay(machine)
    machine.write("/proc/sys/kernel/random/boot_id", "first-boot")
    machine.write("/dev/kmsg", "6,5,100,-;quiet")
    return machine, Path(path)


def test_every_scene_is_json_and_holds_no_serial(scene: tuple[FakeMachine, Path]) -> None:
    machine, path = scene
    found = take_fingerprint(path, tree=machine.tree)
    text = msgspec.json.encode(found).decode()
    assert msgspec.json.decode(text, type=Fingerprint) == found
    assert found.fingerprint_version == 1
    for serial in ("S5GXNX0R123456A", "WD-WCC4E1234567", "disk-0001", "web1", "Ab0Cd1Ef2Gh3"):
        assert serial not in text
    physical = [node for node in found.target.stack if not node.children]
    assert physical
    assert all(node.serial_hash for node in physical)


def test_every_scene_is_unchanged_a_moment_later(scene: tuple[FakeMachine, Path]) -> None:
    machine, path = scene
    before = take_fingerprint(path, tree=machine.tree)
    found = fingerprint_after(before, path, tree=machine.tree)
    assert found.changed == []
    assert found.restarted is False
    assert found.kernel_log.count == 0
    assert msgspec.json.decode(msgspec.json.encode(found), type=FingerprintAfter) == found


def test_any_missing_file_is_none_and_never_an_error(scene: tuple[FakeMachine, Path]) -> None:
    machine, path = scene
    files = sorted(file for file in Path(machine.root, "sys").rglob("*") if file.is_file())
    assert len(files) > 20
    for file in files[:: max(1, len(files) // FILES_BROKEN_MAX)]:
        kept = file.read_bytes()
        file.unlink()
        msgspec.json.encode(take_fingerprint(path, tree=machine.tree))
        file.write_bytes(b"\xff\xfe nonsense \n")
        msgspec.json.encode(take_fingerprint(path, tree=machine.tree))
        file.write_bytes(kept)


def test_serial_is_recognised_by_its_hash(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    disk = take_fingerprint(Path("/mnt/ssd"), tree=machine.tree).target.stack[1]
    assert disk.serial_hash == short_hash("S5GXNX0R123456A")
    assert len(disk.serial_hash) == 12


def test_what_changed_during_a_run_is_named(machine: FakeMachine) -> None:
    disk = fake_trees.nvme_in_narrow_slot(machine)
    machine.write("/dev/kmsg", "6,5,100,-;quiet")
    before = take_fingerprint(Path("/mnt/ssd"), tree=machine.tree)
    machine.write(f"{disk}/queue/scheduler", "none [mq-deadline] kyber")
    machine.write(f"{fake_trees.ROOT_PORT}/0000:03:00.0/current_link_width", "1")
    machine.write("/proc/loadavg", "99.00 1 1 1/1 1")
    machine.write("/dev/kmsg", "6,5,100,-;quiet\n4,6,200,-;nvme nvme0: I/O 1 QID 1 timeout")
    found = fingerprint_after(before, Path("/mnt/ssd"), tree=machine.tree)
    assert found.changed_values == {
        "target.stack[nvme0n1].scheduler": ("none", "mq-deadline"),
        "target.stack[nvme0n1].pcie.width_now": (2, 1),
        "target.stack[nvme0n1].pcie.bandwidth_now_bytes_per_s": (1969230769, 984615385),
        "target.stack[nvme0n1].pcie.narrowest.width_now": (2, 1),
        "target.stack[nvme0n1].pcie.narrowest.bandwidth_now_bytes_per_s": (1969230769, 984615385),
    }
    assert found.changed == list(found.changed_values)
    assert found.kernel_log.by_kind == {"time_out": 1}
    assert found.load_average_1m == 99.0


def test_errors_are_counted_before_and_after(machine: FakeMachine) -> None:
    fake_trees.sata(machine, 1, "sda", "8:0")
    machine.mount("8:0", "/srv", "ext4", "/dev/sda")
    machine.write("/sys/fs/ext4/sda/errors_count", "0")
    before = take_fingerprint(Path("/srv"), tree=machine.tree)
    machine.write("/sys/class/block/sda/device/ioerr_cnt", "0x9")
    machine.write("/sys/fs/ext4/sda/errors_count", "2")
    found = fingerprint_after(before, Path("/srv"), tree=machine.tree)
    assert found.error_counts_before["sda"]["request_errors"] == 3
    assert found.error_counts["sda"]["request_errors"] == 9
    assert found.filesystem_error_counts_before == {"errors": 0}
    assert found.filesystem_error_counts == {"errors": 2}
    assert found.changed == []


def test_drive_that_vanished_is_still_named_in_the_log(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    machine.write("/dev/kmsg", "6,5,100,-;quiet")
    before = take_fingerprint(Path("/mnt/ssd"), tree=machine.tree)
    for link in ("/sys/dev/block/259:0", "/sys/dev/block/259:1"):
        Path(machine.tree.at(link)).unlink()
    machine.write("/dev/kmsg", "6,5,100,-;quiet\n4,6,200,-;nvme nvme0: Device not ready; aborting")
    found = fingerprint_after(before, Path("/mnt/ssd"), tree=machine.tree)
    assert found.kernel_log.by_kind == {"reset": 1}
    assert "target.stack[nvme0n1]" in found.changed
    assert found.health == {}


def test_machine_started_again_reads_its_whole_log(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    machine.write("/proc/sys/kernel/random/boot_id", "first-boot")
    machine.write("/dev/kmsg", "6,5000,100,-;quiet")
    before = take_fingerprint(Path("/mnt/ssd"), tree=machine.tree)
    machine.write("/proc/sys/kernel/random/boot_id", "second-boot")
    machine.write("/dev/kmsg", "4,6,200,-;nvme nvme0: I/O 1 QID 1 timeout")
    found = fingerprint_after(before, Path("/mnt/ssd"), tree=machine.tree)
    assert found.restarted is True
    assert found.kernel_log.count == 1
    assert "first-boot" not in msgspec.json.encode(before).decode()


def test_machine_without_a_target(machine: FakeMachine) -> None:
    found = take_fingerprint(None, tree=machine.tree)
    assert found.target is None
    assert found.health == {}
    later = fingerprint_after(found, None, tree=machine.tree)
    assert later.changed == []
    assert later.free_bytes is None


def test_which_seatrial_measured(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    core = types.SimpleNamespace(__version__="9.8.7")
    monkeypatch.setattr(seatrial, "_core", core, raising=False)
    machine.answer("git", "0123456789ab-dirty\n")
    assert seatrial_version(machine.tree).version == "9.8.7"
    in_checkout = Path(seatrial.__file__).resolve().parents[2].joinpath("crates").exists()
    commit = "0123456789ab-dirty" if in_checkout else None
    assert seatrial_version(machine.tree).commit == commit


def test_host_server_and_credentials_stay_here(machine: FakeMachine) -> None:
    machine.write("/proc/sys/kernel/hostname", "db-host7")
    options = "rw,vers=4.2,addr=10.1.2.3,clientaddr=10.1.2.4,username=anna,password=geheim"
    machine.mount("0:60", "/net", "nfs4", "nas7.example.org:/export/db-host7", options)
    machine.mount("0:61", "/smb", "cifs", "//nas8/share", options)
    for point in ("/net", "/smb"):
        found = take_fingerprint(Path(point), tree=machine.tree)
        text = msgspec.json.encode(found.target).decode()
        for secret in ("nas7", "nas8", "db-host7", "10.1.2", "anna", "geheim"):
            assert secret not in text
        assert "vers=4.2" in found.target.filesystem.mount_options
    source = take_fingerprint(Path("/net"), tree=machine.tree).target.filesystem.source
    assert re.fullmatch(r"\(server [0-9a-f]{12}\):/export/\(host\)", source)


def test_volume_named_after_the_machine(machine: FakeMachine) -> None:
    fake_trees.lvm_over_two(machine)
    machine.write("/proc/sys/kernel/hostname", "web1")
    found = take_fingerprint(Path("/srv/db"), tree=machine.tree).target
    assert found.stack[0].dm.name == "(host)--vg-db"
    assert found.filesystem.source == "/dev/mapper/(host)--vg-db"


def test_link_with_a_serial_in_its_name_is_followed(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    machine.write("/dev/nvme0n1", "")
    machine.link("/dev/disk/by-id/nvme-Example_S5GXNX0R123456A", "/dev/nvme0n1")
    by_id = Path("/dev/disk/by-id/nvme-Example_S5GXNX0R123456A")
    found = take_fingerprint(by_id, tree=machine.tree)
    assert found.target.path == "/dev/nvme0n1"
    assert found.target.kind == "device"
    assert "S5GXNX0R123456A" not in msgspec.json.encode(found).decode()


def test_differences_pair_devices_by_name() -> None:
    a = {"target": {"stack": [{"name": "sda", "fua": True}, {"name": "sdb", "fua": True}]}}
    b = {"target": {"stack": [{"name": "sdb", "fua": False}, {"name": "sda", "fua": True}]}}
    assert differences(a, b) == [("target.stack[sdb].fua", True, False)]


def test_differences_pass_over_what_always_moves() -> None:
    a = {"machine": {"load_average_1m": 1.0, "kernel": "6.1"}, "taken": {"unix_s": 1.0}}
    b = {"machine": {"load_average_1m": 9.0, "kernel": "6.2"}, "taken": {"unix_s": 2.0}}
    assert differences(a, b) == [("machine.kernel", "6.1", "6.2")]


def test_differences_show_what_only_one_side_has() -> None:
    a = {"stack": [{"name": "sda", "fua": True}], "swap": []}
    b = {"stack": [], "swap": ["/swapfile"], "new": 1}
    assert differences(a, b) == [
        ("stack[sda]", {"name": "sda", "fua": True}, None),
        ("swap", [], ["/swapfile"]),
        ("new", None, 1),
    ]
