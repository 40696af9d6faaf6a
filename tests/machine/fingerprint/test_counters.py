"""Readings before and after every sample."""

from pathlib import Path

import fake_trees
from fake_trees import FakeMachine

from seatrial.machine.fingerprint import GAUGES, counters

# reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, busy ms, queue ms;
# discards, merged, sectors, ms; flushes, ms.
STAT = "  10  1  800  5  20  2  1600  6  0  33  44  0  0  0  0  7  8"


def test_readings_of_a_partition(machine: FakeMachine) -> None:
    disk = fake_trees.nvme_in_narrow_slot(machine)
    # The kernel counts flushes for the whole disk only.
    machine.write(f"{disk}/nvme0n1p1/stat", STAT.replace("7  8", "0  0"))
    machine.write(f"{disk}/stat", STAT.replace("  10", "  99", 1))
    machine.write(f"{disk.rpartition('/')[0]}/hwmon0/temp1_input", "41850")
    machine.write("/proc/meminfo", "MemTotal: 9 kB\nDirty:   12 kB")
    machine.write("/proc/stat", "cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1 2 3")
    machine.write(
        "/proc/pressure/io",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=5",
    )
    machine.write("/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3")
    for cpu, khz in ((0, 800000), (1, 3600000)):
        machine.write(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", str(khz))
    found = counters(Path("/mnt/ssd"), tree=machine.tree)
    assert found == {
        "device_reads": 10,
        "device_read_bytes": 800 * 512,
        "device_writes": 20,
        "device_write_bytes": 1600 * 512,
        "device_busy_ns": 33_000_000,
        "device_flushes": 7,
        "dirty_bytes": 12 * 1024,
        "steal_ns": 2_500_000_000,
        "psi_io_full_ns": 5_000,
        "psi_cpu_some_ns": 3_000,
        "temperature_c": 41.85,
        "cpu_frequency_hz_max": 3.6e9,
    }
    assert set(found) >= GAUGES


def test_devices_of_a_btrfs_are_summed_up(machine: FakeMachine) -> None:
    for directory in fake_trees.btrfs_over_two(machine):
        machine.write(f"{directory}/stat", STAT)
    assert counters(Path("/srv"), tree=machine.tree)["device_reads"] == 20


def test_hottest_drive_of_an_array_counts(machine: FakeMachine) -> None:
    fake_trees.md_raid5(machine)
    for name, milli in (("sda", 31000), ("sdc", 47000)):
        machine.write(f"/sys/class/block/{name}/device/hwmon/hwmon0/temp1_input", str(milli))
    assert counters(Path("/srv/db"), tree=machine.tree)["temperature_c"] == 47.0


def test_an_old_kernel_has_no_flushes(machine: FakeMachine) -> None:
    disk = fake_trees.virtio(machine)
    machine.write(f"{disk}/stat", " ".join(STAT.split()[:11]))
    found = counters(Path("/"), tree=machine.tree)
    assert found["device_busy_ns"] == 33_000_000
    assert "device_flushes" not in found


def test_readings_are_taken_anew_each_time(machine: FakeMachine) -> None:
    disk = fake_trees.virtio(machine)
    machine.write(f"{disk}/stat", STAT)
    assert counters(Path("/"), tree=machine.tree)["device_reads"] == 10
    machine.write(f"{disk}/stat", STAT.replace("  10", "  11", 1))
    assert counters(Path("/"), tree=machine.tree)["device_reads"] == 11


def test_nothing_known_is_empty(machine: FakeMachine) -> None:
    assert counters(None, tree=machine.tree) == {}
    assert counters(Path("/nowhere"), tree=machine.tree) == {}
