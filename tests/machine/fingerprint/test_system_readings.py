"""What goes on around a trial: processors, pressure, the device's queue, process trees."""

import os
import subprocess
import sys
import time
from pathlib import Path

import fake_trees
import pytest
from fake_trees import FakeMachine

from seatrial.machine.fingerprint import (
    SYSTEM_GAUGES,
    ProcessTree,
    other_process_readings,
    system_readings,
)
from seatrial.machine.fingerprint.stack import flushing_directories

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STAT = "  10  1  800  5  20  2  1600  6  3  33  44  0  0  0  0  7  8"
TEN_TICKS_NS = 10 / TICKS_PER_S * 1e9


def stat_line(parent: int, user: int, system: int, reaped_user: int, reaped_system: int) -> str:
    """A process's stat file from its state on; the name before it is a trap."""
    between = " ".join(["0"] * 9)
    return f"7 (a) b) S {parent} {between} {user} {system} {reaped_user} {reaped_system} 20 0"


def process(machine: FakeMachine, pid: int, line: str, children: str = "", io: str = "") -> None:
    machine.write(f"/proc/{pid}/stat", line)
    machine.write(f"/proc/{pid}/task/{pid}/children", children)
    if io:
        machine.write(f"/proc/{pid}/io", f"rchar: 9\nread_bytes: {io}\nwrite_bytes: 1")


def test_readings_of_machine_and_device(machine: FakeMachine) -> None:
    disk = fake_trees.virtio(machine)
    machine.write(f"{disk}/stat", STAT)
    machine.write("/proc/stat", "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3")
    machine.write("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=4")
    machine.write("/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3")
    found = system_readings(Path("/"), tree=machine.tree)
    assert found == {
        "machine_user_ns": 3 * TEN_TICKS_NS,
        "machine_system_ns": 16 * TEN_TICKS_NS,
        "machine_idle_ns": 4 * TEN_TICKS_NS,
        "machine_iowait_ns": 5 * TEN_TICKS_NS,
        "machine_steal_ns": 8 * TEN_TICKS_NS,
        "psi_cpu_some_ns": 3_000,
        "psi_memory_some_ns": 4_000,
        "device_reads": 10,
        "device_read_bytes": 800 * 512,
        "device_read_ns": 5_000_000,
        "device_writes": 20,
        "device_write_bytes": 1600 * 512,
        "device_write_ns": 6_000_000,
        "device_in_flight": 3,
        "device_busy_ns": 33_000_000,
        "device_queued_ns": 44_000_000,
        "device_flushes": 7,
        "device_flush_ns": 8_000_000,
        "disk_read_bytes": 800 * 512,
        "disk_write_bytes": 1600 * 512,
        "devices": 1,
    }
    assert set(found) >= SYSTEM_GAUGES


def test_a_machine_without_a_device_reports_the_rest(machine: FakeMachine) -> None:
    machine.write("/proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10")
    found = system_readings(None, tree=machine.tree)
    assert {name.partition("_")[0] for name in found} == {"machine"}


def test_devices_of_one_file_system_are_summed_up(machine: FakeMachine) -> None:
    for directory in fake_trees.btrfs_over_two(machine):
        machine.write(f"{directory}/stat", STAT)
    found = system_readings(Path("/srv"), tree=machine.tree)
    assert (found["device_reads"], found["devices"]) == (20, 2)


def flushing(machine: FakeMachine, number: str) -> list[str]:
    found = flushing_directories(machine.tree, [number])
    return sorted(directory.rpartition("/")[2] for directory in found)


def test_flushes_are_counted_at_the_disk_under_a_partition(machine: FakeMachine) -> None:
    fake_trees.nvme_in_narrow_slot(machine)
    assert flushing(machine, "259:1") == ["nvme0n1"]


def test_flushes_are_counted_at_the_members_of_an_array(machine: FakeMachine) -> None:
    fake_trees.md_raid5(machine)
    assert flushing(machine, "9:127") == ["sda", "sdb", "sdc", "sdd"]


def test_flushes_are_counted_at_the_disks_of_a_volume(machine: FakeMachine) -> None:
    fake_trees.lvm_over_two(machine)
    assert flushing(machine, "253:0") == ["sda", "sdb"]


def test_flushes_of_a_loop_device_are_its_own(machine: FakeMachine) -> None:
    loop = fake_trees.loop_on_xfs_on_nvme(machine)
    machine.folder(f"{loop}/mq/0")
    assert flushing(machine, "7:0") == ["loop0"]


def test_a_process_tree_is_summed_up_with_the_children_that_ended(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 1, 2, 3, 4), children="8 9", io="4096")
    process(machine, 8, stat_line(7, 10, 20, 0, 0), children="10", io="512")
    process(machine, 9, stat_line(7, 5, 5, 0, 0), io="0")
    process(machine, 10, stat_line(8, 100, 100, 0, 0), io="1024")
    usage = ProcessTree(7, tree=machine.tree).usage()
    assert usage.user_ns == pytest.approx((1 + 3 + 10 + 5 + 100) / TICKS_PER_S * 1e9)
    assert usage.system_ns == pytest.approx((2 + 4 + 20 + 5 + 100) / TICKS_PER_S * 1e9)
    assert usage.read_bytes == 4096 + 512 + 1024


def test_a_tree_can_be_left_out(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 1, 0, 0, 0), children="8 9")
    process(machine, 8, stat_line(7, 10, 0, 0, 0), children="10")
    process(machine, 9, stat_line(7, 100, 0, 0, 0))
    process(machine, 10, stat_line(8, 1000, 0, 0, 0))
    usage = ProcessTree(7, tree=machine.tree, without=[8]).usage()
    assert usage.user_ns == pytest.approx(101 / TICKS_PER_S * 1e9)


def test_children_are_found_by_their_parents_on_a_kernel_without_lists(
    machine: FakeMachine,
) -> None:
    for pid, parent in ((7, 1), (8, 7), (9, 8), (10, 1)):
        machine.write(f"/proc/{pid}/stat", stat_line(parent, 10, 0, 0, 0))
        machine.folder(f"/proc/{pid}/task/{pid}")
    usage = ProcessTree(7, tree=machine.tree).usage()
    assert usage.user_ns == pytest.approx(30 / TICKS_PER_S * 1e9)


def test_bytes_that_may_not_be_read_are_unknown(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 1, 0, 0, 0), children="8", io="4096")
    process(machine, 8, stat_line(7, 1, 0, 0, 0))
    usage = ProcessTree(7, tree=machine.tree).usage()
    assert usage.read_bytes is None
    assert usage.user_ns > 0


def test_a_child_that_just_ended_is_no_gap(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 1, 0, 0, 0), children="8", io="4096")
    assert ProcessTree(7, tree=machine.tree).usage().read_bytes == 4096


def test_what_was_used_never_falls(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 1, 0, 0, 0), children="8", io="0")
    process(machine, 8, stat_line(7, 50, 0, 0, 0), io="512")
    tree = ProcessTree(7, tree=machine.tree)
    first = tree.usage()
    machine.write("/proc/7/task/7/children", "")
    assert tree.usage() == first


def delay(machine: FakeMachine, pid: int, thread: int, delay_ns: int) -> None:
    machine.write(f"/proc/{pid}/task/{thread}/schedstat", f"5000 {delay_ns} 12")


def test_what_threads_lacked_is_summed_up_and_outlasts_them(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 1, 0, 0, 0), children="8")
    process(machine, 8, stat_line(7, 1, 0, 0, 0))
    delay(machine, 7, 7, 100)
    delay(machine, 8, 8, 20)
    delay(machine, 8, 9, 3)
    tree = ProcessTree(7, tree=machine.tree)
    assert tree.usage().delay_ns == 123
    machine.write("/proc/7/task/7/children", "")
    delay(machine, 7, 7, 150)
    assert tree.usage().delay_ns == 173


def test_a_kernel_that_keeps_no_account_of_delays_leaves_them_unknown(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 1, 0, 0, 0))
    assert ProcessTree(7, tree=machine.tree).usage().delay_ns is None


def test_a_root_may_be_left_out_of_its_tree(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 100, 200, 3, 4), children="8")
    process(machine, 8, stat_line(7, 10, 20, 0, 0))
    delay(machine, 7, 7, 100)
    delay(machine, 8, 8, 20)
    tree = ProcessTree(7, tree=machine.tree, counts_root=False)
    usage = tree.usage()
    assert usage.user_ns == pytest.approx(13 / TICKS_PER_S * 1e9)
    assert usage.delay_ns == 20
    assert tree.root_ns() == pytest.approx(300 / TICKS_PER_S * 1e9)


def test_other_processes_are_the_kernels_threads_and_all_but_some_trees(
    machine: FakeMachine,
) -> None:
    kernel = stat_line(2, 5, 6, 0, 0).replace("2 0 0 0 0 0", "2 0 0 0 0 2097216", 1)
    for pid, line, read_bytes in (
        (7, stat_line(1, 1, 1, 0, 0), "1000"),  # ours
        (8, stat_line(7, 1, 1, 0, 0), "2000"),  # below it
        (9, stat_line(1, 50, 50, 0, 0), "300"),
        (10, stat_line(9, 50, 50, 0, 0), "40"),
        (11, kernel, "5"),
    ):
        process(machine, pid, line, io=read_bytes)
    found = other_process_readings([7], tree=machine.tree)
    assert found == {
        "kernel_cpu_ns": pytest.approx(11 / TICKS_PER_S * 1e9),
        "others_read_bytes": 340,
        "others_write_bytes": 2,
    }


def test_other_processes_whose_account_may_not_be_read_are_unknown(machine: FakeMachine) -> None:
    process(machine, 7, stat_line(1, 1, 1, 0, 0), io="1000")
    process(machine, 9, stat_line(1, 1, 1, 0, 0))
    assert other_process_readings([7], tree=machine.tree) == {}


def test_a_tree_without_its_root_is_unknown(machine: FakeMachine) -> None:
    assert ProcessTree(7, tree=machine.tree).usage() is None


def test_a_real_child_counts_while_it_runs_and_when_it_has_ended() -> None:
    tree = ProcessTree(os.getpid())
    before = tree.usage()
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    child = subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    running = tree.usage()
    child.communicate(b"\n")
    time.sleep(0.01)
    ended = tree.usage()
    assert running.user_ns + running.system_ns - before.user_ns - before.system_ns >= 0.27e9
    assert ended.user_ns >= running.user_ns
