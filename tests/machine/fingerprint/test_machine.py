"""The machine: processors, memory, clock, limits, virtualisation."""

import msgspec
import pytest
from fake_trees import FakeMachine

from seatrial.fingerprint import Cgroup
from seatrial.machine.fingerprint.machine import cgroup
from seatrial.machine.fingerprint.machine import machine as machine_of

CPUINFO = "processor : 0\nmodel name\t: Example CPU @ 3.00GHz\nflags\t\t: fpu tsc hypervisor"


def test_facts_of_a_machine(machine: FakeMachine) -> None:
    machine.write("/proc/cpuinfo", CPUINFO)
    machine.write("/proc/meminfo", "MemTotal: 1024 kB\nMemAvailable: 512 kB\nSwapTotal: 64 kB")
    machine.write("/proc/loadavg", "3.25 2.00 1.00 2/300 4242")
    machine.write("/proc/self/status", "Name:\tpython\nCpus_allowed_list:\t0,2-3")
    machine.write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64")
    machine.write("/proc/sys/kernel/io_uring_disabled", "2")
    machine.write("/etc/os-release", 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12"')
    clock = "/sys/devices/system/clocksource/clocksource0"
    machine.write_all(
        clock, {"current_clocksource": "hpet", "available_clocksource": "tsc hpet acpi_pm"}
    )
    cpu = "/sys/devices/system/cpu"
    machine.write_all(cpu, {"online": "0-3,8", "cpufreq/policy0/scaling_governor": "powersave"})
    machine.write(f"{cpu}/intel_pstate/no_turbo", "1")
    machine.write("/proc/pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.00 total=1")
    found = machine_of(machine.tree)
    assert found.cpu_model == "Example CPU @ 3.00GHz"
    assert (found.cpus_online, found.cpus_usable) == (5, 3)
    assert found.memory_bytes == 1024 * 1024
    assert found.memory_available_bytes == 512 * 1024
    assert found.swap_total_bytes == 64 * 1024
    assert (found.clock_source, found.clock_sources_available[0]) == ("hpet", "tsc")
    assert found.kernel == "6.1.0-18-amd64"
    assert found.distribution == "Debian GNU/Linux 12"
    assert found.load_average_1m == 3.25
    assert found.io_uring_disabled == 2
    assert found.cpu_governor == "powersave"
    assert found.cpu_boost is False
    assert found.pressure.cpu_some_avg10_percent == 12.5
    assert found.pressure.io_full_avg10_percent is None


def test_nothing_there_is_none_and_no_error(machine: FakeMachine) -> None:
    found = machine_of(machine.tree)
    known = {key for key, value in msgspec.structs.asdict(found).items() if value not in (None, [])}
    assert known == {"cgroup", "pressure"}
    assert found.cgroup == Cgroup()


@pytest.mark.parametrize(
    ("vendor", "product", "flags", "expected"),
    [
        ("Amazon EC2", "i3.2xlarge", "hypervisor", "amazon"),
        ("Amazon EC2", "i3.metal", "", None),
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "hypervisor", "kvm"),
        ("Dell Inc.", "PowerEdge R740", "", None),
        ("", "", "hypervisor", "unknown"),
    ],
)
def test_hypervisor_without_the_tool(
    machine: FakeMachine, vendor: str, product: str, flags: str, expected: str | None
) -> None:
    machine.write("/proc/cpuinfo", f"model name : X\nflags : fpu {flags}")
    machine.write_all("/sys/class/dmi/id", {"sys_vendor": vendor, "product_name": product})
    assert machine_of(machine.tree).virtualisation == expected


def test_bare_metal_as_the_tool_says(machine: FakeMachine) -> None:
    machine.answer("systemd-detect-virt", "none\n", status=1)
    found = machine_of(machine.tree)
    assert (found.virtualisation, found.container) == ("none", "none")


def test_limits_of_cgroup_v2_are_the_narrowest_on_the_way_up(machine: FakeMachine) -> None:
    machine.mount("0:25", "/sys/fs/cgroup", "cgroup2", "cgroup2", "rw")
    machine.write("/proc/self/cgroup", "0::/db.slice/pg.service")
    top = "/sys/fs/cgroup/db.slice"
    machine.write_all(
        f"{top}/pg.service",
        {
            "cpu.max": "400000 100000",
            "memory.max": "max",
            "io.max": "8:0 rbps=max wbps=1048576 riops=max wiops=500",
        },
    )
    machine.write_all(top, {"cpu.max": "150000 100000", "memory.max": "1073741824"})
    machine.write(f"{top}/io.max", "8:0 rbps=max wbps=10485760 riops=max wiops=900")
    assert cgroup(machine.tree) == Cgroup(
        cpu_limit_cpus=1.5,
        memory_limit_bytes=1 << 30,
        io_limits={"8:0": {"write_bytes_per_s": 1048576, "writes_per_s": 500}},
    )


def test_limits_of_cgroup_v1(machine: FakeMachine) -> None:
    for kind in ("cpu,cpuacct", "memory", "blkio"):
        machine.mount("0:26", f"/sys/fs/cgroup/{kind}", "cgroup", "cgroup", f"rw,{kind}")
    machine.write("/proc/self/cgroup", "3:blkio:/job\n2:memory:/job\n1:cpu,cpuacct:/job")
    machine.write_all(
        "/sys/fs/cgroup/cpu,cpuacct/job",
        {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"},
    )
    machine.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912")
    machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    machine.write("/sys/fs/cgroup/blkio/job/blkio.throttle.read_bps_device", "8:0 1048576")
    assert cgroup(machine.tree) == Cgroup(
        cpu_limit_cpus=0.5,
        memory_limit_bytes=512 << 20,
        io_limits={"8:0": {"read_bytes_per_s": 1048576}},
    )


def test_group_of_a_container_is_the_mounted_top(machine: FakeMachine) -> None:
    machine.mount("0:25", "/sys/fs/cgroup", "cgroup2", "cgroup2", "rw")
    machine.write("/proc/self/cgroup", "0::/system.slice/docker-0123.scope")
    machine.write("/sys/fs/cgroup/memory.max", "268435456")
    assert cgroup(machine.tree).memory_limit_bytes == 256 << 20


def test_board_without_a_processor_name(machine: FakeMachine) -> None:
    machine.write("/proc/cpuinfo", "processor : 0\nCPU implementer : 0x41")
    machine.write("/proc/device-tree/model", b"Raspberry Pi 5 Model B Rev 1.0\x00")
    assert machine_of(machine.tree).cpu_model == "Raspberry Pi 5 Model B Rev 1.0"
