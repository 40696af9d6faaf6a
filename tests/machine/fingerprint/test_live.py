"""This machine: how long it takes, and real loop devices where root allows."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from seatrial.fingerprint import Fingerprint, FingerprintAfter
from seatrial.machine.fingerprint import (
    block_device_of,
    counters,
    fingerprint_after,
    take_fingerprint,
)
from seatrial.units import MIB


def median_s(action: object, times: int) -> float:
    """Return the median processor time of several calls; others take no part of it."""
    lengths = []
    for _ in range(times):
        started_s = time.process_time()
        action()
        lengths.append(time.process_time() - started_s)
    return sorted(lengths)[times // 2]


def test_fingerprint_takes_less_than_200_ms(tmp_path: Path) -> None:
    assert median_s(lambda: take_fingerprint(tmp_path), 5) < 0.2


def test_counters_take_less_than_a_millisecond(tmp_path: Path) -> None:
    counters(tmp_path)
    assert median_s(lambda: counters(tmp_path), 21) < 0.001


def test_this_machine_is_json_and_keeps_its_name(tmp_path: Path) -> None:
    before = take_fingerprint(tmp_path)
    later = fingerprint_after(before, tmp_path)
    stored = [msgspec.json.encode(each) for each in (before, later)]
    assert msgspec.json.decode(stored[0], type=Fingerprint) == before
    assert msgspec.json.decode(stored[1], type=FingerprintAfter) == later
    assert before.machine.cpus_usable == len(os.sched_getaffinity(0))
    assert before.machine.memory_bytes > 64 * MIB
    free_bytes = before.target.filesystem.free_bytes
    assert abs(free_bytes - shutil.disk_usage(tmp_path).free) < 1024 * MIB
    host = socket.gethostname()
    if len(host) > 3:
        assert host not in stored[0].decode().replace(str(tmp_path), "")


def test_absolute_counters_never_fall(tmp_path: Path) -> None:
    first = counters(tmp_path)
    with (tmp_path / "data").open("wb") as file:
        file.write(os.urandom(4 * MIB))
        file.flush()
        os.fsync(file.fileno())
    second = counters(tmp_path)
    grown = [name for name in first if name.startswith(("device_", "steal", "psi_"))]
    assert all(second[name] >= first[name] for name in grown)
    if block_device_of(tmp_path):
        assert second["device_write_bytes"] >= first["device_write_bytes"] + 4 * MIB


def run(*command: str) -> str:
    """Run a command of the system; fail with what it complained of."""
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


def needs(*commands: str) -> None:
    """Skip loudly without root or these commands."""
    if os.geteuid() != 0:
        pytest.skip("needs root: loop devices and mounts")
    missing = [command for command in commands if shutil.which(command) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[list[str]]:
    """Two loop devices of 320 MiB each, undone afterwards."""
    needs("losetup", "mount")
    devices: list[str] = []
    try:
        for number in range(2):
            image = tmp_path / f"disk{number}.img"
            with image.open("wb") as file:
                file.truncate(320 * MIB)
            devices.append(run("losetup", "--find", "--show", str(image)))
        yield devices
    finally:
        for device in devices:
            run("losetup", "--detach", device)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; whatever the test mounts there is taken off afterwards."""
    point = tmp_path / "mnt"
    point.mkdir()
    yield point
    if os.path.ismount(point):
        run("umount", str(point))


@pytest.mark.root
def test_xfs_on_a_loop_device(loops: list[str], mounted: Path, tmp_path: Path) -> None:
    needs("mkfs.xfs")
    run("mkfs.xfs", "-q", loops[0])
    run("mount", loops[0], str(mounted))
    trial = mounted / "trial.dat"
    trial.write_bytes(b"x" * MIB)
    before = take_fingerprint(trial)
    found = before.target
    loop, *below = found.stack
    assert found.kind == "file"
    assert found.filesystem.type == "xfs"
    assert found.filesystem.mount_point == str(mounted)
    assert f"/dev/{loop.name}" == loops[0]
    assert loop.kind == "loop"
    assert loop.size_bytes == 320 * MIB
    assert loop.loop.backing_file == str(tmp_path / "disk0.img")
    assert [node.major_minor for node in below][:1] == [block_device_of(tmp_path)]
    status = Path(loops[0]).stat()
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    assert block_device_of(trial) == block_device_of(Path(loops[0])) == number
    readings = counters(trial)
    os.sync()
    assert counters(trial)["device_write_bytes"] > readings["device_write_bytes"]
    run("mount", "-o", "remount,noatime", str(mounted))
    Path(f"/sys/block/{loop.name}/queue/read_ahead_kb").write_text("64")
    changed = fingerprint_after(before, trial).changed
    assert "target.filesystem.mount_options" in changed
    assert f"target.stack[{loop.name}].read_ahead_kib" in changed


@pytest.mark.root
def test_btrfs_over_two_loop_devices(loops: list[str], mounted: Path) -> None:
    needs("mkfs.btrfs")
    run("mkfs.btrfs", "-q", "-f", "-d", "raid1", "-m", "raid1", *loops)
    for device in loops:
        run("btrfs", "device", "scan", device)
    run("mount", loops[0], str(mounted))
    found = take_fingerprint(mounted).target
    names = [f"/dev/{node.name}" for node in found.stack if node.kind == "loop"]
    assert sorted(names) == sorted(loops)
    assert found.filesystem.btrfs.data_profiles == ["raid1"]
    assert set(found.filesystem.error_counts.values()) == {0}
    # btrfs gives stat(2) an anonymous number, which is not a device.
    assert os.major(mounted.stat().st_dev) == 0
    before = counters(mounted)["device_write_bytes"]
    (mounted / "data").write_bytes(os.urandom(4 * MIB))
    run("sync", "--file-system", str(mounted))
    assert counters(mounted)["device_write_bytes"] >= before + 8 * MIB


@pytest.mark.root
def test_overlay_and_tmpfs(tmp_path: Path, mounted: Path) -> None:
    needs("mount")
    for name in ("lower", "upper", "work"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    run("mount", "-t", "overlay", "overlay", "-o", options, str(mounted))
    assert block_device_of(mounted) == block_device_of(tmp_path)
    run("umount", str(mounted))
    run("mount", "-t", "tmpfs", "tmpfs", str(mounted))
    found = take_fingerprint(mounted).target
    assert block_device_of(mounted) == ""
    assert found.no_device_because == "tmpfs is in memory"
    assert found.stack == []


@pytest.mark.root
def test_error_of_a_real_device_is_found_in_the_kernel_log(
    loops: list[str], tmp_path: Path
) -> None:
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("/dev/kmsg may not be read here")
    before = take_fingerprint(Path(loops[0]))
    assert before.kernel_log.sequence is not None
    os.truncate(tmp_path / "disk0.img", 64 * MIB)
    with Path(loops[0]).open("rb", buffering=0) as device:
        device.seek(200 * MIB)
        with pytest.raises(OSError, match="Input/output"):
            device.read(4096)
    found = fingerprint_after(before, Path(loops[0])).kernel_log
    assert found.by_kind.get("io_error", 0) >= 1
    assert loops[0].removeprefix("/dev/") in found.lines[0].text
