"""What the engine says it moved, against what the kernel counted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.units import MIB, SECTOR_BYTES

from .cells import access, cell, measure, measure_apart, require, require_uring

# What the process reads besides: its interpreter's files and the watchdog's few in /proc.
OWN_READS = 2_000
OWN_BYTES = 8 * MIB


@pytest.mark.parametrize("threads", [1, 10])
def test_page_cached_calls_are_counted_by_the_kernel_too(trial_file, threads):
    """syscr and rchar of /proc/self/io: read calls and the bytes that they returned."""
    spec = cell(trial_file, [access("read", 16384)], threads=threads, limit={"duration_s": 0.5})
    result = measure_apart(spec)
    read = result["parts"]["operations"]["read"]
    assert 0 <= result["io"]["syscr"] - read["completed"] <= OWN_READS
    assert 0 <= result["io"]["rchar"] - read["transferred_bytes"] <= OWN_BYTES


def test_page_cached_writes_are_counted_by_the_kernel_too(trial_file):
    spec = cell(trial_file, [access("write", 16384)], threads=4, limit={"duration_s": 0.3})
    result = measure_apart(spec)
    write = result["parts"]["operations"]["write"]
    assert 0 <= result["io"]["syscw"] - write["completed"] <= OWN_READS
    assert 0 <= result["io"]["wchar"] - write["transferred_bytes"] <= OWN_BYTES


@pytest.mark.parametrize(("engine", "depth"), [("psync", 1), ("io_uring", 16)])
def test_direct_reads_reach_the_disk(trial_file, engine, depth):
    """read_bytes of /proc/self/io: what was really fetched from the storage layer."""
    if engine == "io_uring":
        require_uring()
    spec = cell(trial_file, [access("read", 16384)], engine=engine, depth=depth)
    spec["target"]["direct"] = True
    try:
        result = measure_apart(spec | {"limit": {"duration_s": 0.3}})
    except AssertionError as error:
        if "Invalid argument" in str(error):
            pytest.skip("the file system of temporary files has no direct I/O")
        raise
    read = result["parts"]["operations"]["read"]
    assert 0 <= result["io"]["read_bytes"] - read["transferred_bytes"] <= OWN_BYTES
    assert read["completed"] > 0


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[Path]:
    """A loop device of 16 MiB, which nobody but the test uses."""
    losetup = require("losetup")
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and the kernel's loop devices")
    image = tmp_path / "image"
    image.write_bytes(os.urandom(16 * MIB))
    command = [losetup, "--find", "--show", "--direct-io=on", str(image)]
    attached = subprocess.run(command, check=False, capture_output=True, text=True)
    if attached.returncode != 0:
        pytest.skip(f"losetup: {attached.stderr.strip()}")
    device = Path(attached.stdout.strip())
    yield device
    subprocess.run([losetup, "--detach", str(device)], check=True)


ATTEMPTS = 3
"""Another test may look for signatures on every device meanwhile."""


def device_counts(device: Path) -> dict[str, int]:
    """Return requests and bytes by direction (Documentation/ABI/stable/sysfs-block, stat).

    Of two requests for neighbouring blocks the kernel may make one, which it counts as a merge.
    """
    fields = Path(f"/sys/block/{device.name}/stat").read_text().split()
    numbers = [int(field) for field in fields]
    return {
        "read": numbers[0] + numbers[1],
        "read_bytes": numbers[2] * SECTOR_BYTES,
        "write": numbers[4] + numbers[5],
        "write_bytes": numbers[6] * SECTOR_BYTES,
    }


@pytest.mark.root
@pytest.mark.parametrize(("engine", "threads", "depth"), [("psync", 3, 1), ("io_uring", 2, 16)])
def test_a_device_counts_the_same_requests_and_bytes(loop_device, engine, threads, depth):
    if engine == "io_uring":
        require_uring()
    spec = cell(loop_device, [access("read", 8192, 2), access("write", 8192, 1)], engine=engine)
    size_bytes = 16 * MIB
    spec["target"] |= {"size_bytes": size_bytes, "direct": True}
    spec["range"]["length_bytes"] = size_bytes
    for _ in range(ATTEMPTS):
        before = device_counts(loop_device)
        parts = measure(spec | {"threads": threads, "depth": depth, "limit": {"duration_s": 0.4}})
        after = device_counts(loop_device)
        counted = {name: after[name] - before[name] for name in after}
        operations = parts["operations"]
        expected = {name: operations[name]["completed"] for name in ("read", "write")}
        expected |= {f"{n}_bytes": operations[n]["transferred_bytes"] for n in ("read", "write")}
        assert min(expected.values()) > 0
        if counted == expected:
            break
    assert counted == expected
