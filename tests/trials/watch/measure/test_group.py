"""The counters of a control group: texts as kernels print them, and a real group of version 1."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from machine.fingerprint.fake_trees import FakeMachine
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.trials.watch.measure.group import GroupWatch, v1_counters, v2_counters

FOLDER = "/sys/fs/cgroup/system.slice/postgresql.service"
BEFORE = """\
8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0
8:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021
"""
"""From the kernel's Documentation/admin-guide/cgroup-v2.rst."""
AFTER = """\
8:16 rbytes=1459200 wbytes=314781696 rios=192 wios=355 dbytes=0 dios=0 cost.usage=9
7:7 7:6 8:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021
"""
V1_BYTES = """\
7:1 Read 8388608
7:1 Write 512
7:1 Sync 8388608
7:1 Async 512
7:1 Discard 0
7:1 Total 8389120
Total 8389120
"""
V1_GROUP = Path("/sys/fs/cgroup/blkio/seatrial-test-group")


def version_2(folder: Path) -> FakeMachine:
    machine = FakeMachine(folder)
    machine.block("/sys/devices/virtual/block/sdb", "8:16")
    machine.mount("0:26", "/sys/fs/cgroup", "cgroup2", "cgroup2")
    machine.write("/proc/77/cgroup", "0::/system.slice/postgresql.service")
    machine.write_all(FOLDER, {"cgroup.type": "domain", "io.stat": BEFORE})
    return machine


def test_rates_are_of_the_devices_that_the_group_has_used_since(tmp_path):
    machine = version_2(tmp_path)
    watch = GroupWatch.of_process(77, machine.tree)
    assert watch is not None
    assert watch.take() == {}
    began_s = time.monotonic()
    machine.write(f"{FOLDER}/io.stat", AFTER)
    panels = watch.take()
    elapsed_s = time.monotonic() - began_s
    assert {panel: list(rates) for panel, rates in panels.items()} == {
        "group_bytes": ["write sdb"], "group_requests": ["write sdb"]
    }  # fmt: skip
    assert panels["group_bytes"]["write sdb"] == pytest.approx(
        4096 * panels["group_requests"]["write sdb"]
    )
    assert panels["group_requests"]["write sdb"] >= 2 / (elapsed_s + 0.1)
    assert watch.take()["group_bytes"] == {"write sdb": 0.0}


def test_lines_that_some_kernels_do_not_end_are_read():
    assert v2_counters(AFTER).keys() == v2_counters(BEFORE).keys()
    assert {each.device for each in v2_counters(AFTER)} == {"8:16", "8:0"}
    assert v2_counters("8:0 \n") == v2_counters("") == v2_counters("rbytes=1 8:0 rbytes=x") == {}


def test_sums_of_version_1_are_not_counted_again():
    found = v1_counters("group_bytes", V1_BYTES)
    assert {(each.device, each.operation): value for each, value in found.items()} == {
        ("7:1", "read"): 8388608, ("7:1", "write"): 512, ("7:1", "discard"): 0
    }  # fmt: skip


def test_the_root_and_a_group_without_the_controller_are_none(tmp_path):
    machine = version_2(tmp_path)
    machine.write("/proc/1/cgroup", "0::/")
    machine.write("/sys/fs/cgroup/io.stat", BEFORE)
    assert GroupWatch.of_process(1, machine.tree) is None
    Path(f"{tmp_path}{FOLDER}/io.stat").unlink()
    assert GroupWatch.of_process(77, machine.tree) is None
    assert GroupWatch.of_process(78, machine.tree) is None


@pytest.mark.root
def test_a_real_group_of_version_1_has_the_bytes_of_its_process(disk):
    if not V1_GROUP.parent.is_dir() or LIVE.text("/proc/self/cgroup") is None:
        pytest.skip("needs the blkio controller of version 1")
    V1_GROUP.mkdir()
    try:
        number = Path(f"/sys/block/{disk.name}/dev").read_text().strip()
        # Kernels of today count only where there is a limit.
        (V1_GROUP / "blkio.throttle.read_bps_device").write_text(f"{number} {1 << 40}")
        script = f"""
import mmap, os, sys
open({str(V1_GROUP / "cgroup.procs")!r}, "w").write(str(os.getpid()))
print("in", flush=True)
sys.stdin.readline()
file = os.open({str(disk)!r}, os.O_RDONLY | os.O_DIRECT)
for place in range(16):
    os.preadv(file, [mmap.mmap(-1, 65536)], place * 65536)
print("done", flush=True)
sys.stdin.readline()
"""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([sys.executable, "-c", script], **pipes) as process:
            assert process.stdout.readline() == "in\n"
            watch = GroupWatch.of_process(process.pid)
            assert watch is not None
            assert watch.folder == str(V1_GROUP)
            began_s = time.monotonic()
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            panels = watch.take()
            elapsed_s = time.monotonic() - began_s
            process.communicate("\n")
        rates = panels["group_bytes"]
        assert rates[f"read {disk.name}"] * elapsed_s == pytest.approx(1 << 20, rel=0.2)
        assert panels["group_requests"][f"read {disk.name}"] * elapsed_s >= 16 * 0.8
    finally:
        V1_GROUP.rmdir()
