"""The machine: processors, memory, kernel, clock, and current load.

Sources: proc(5); the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu,
Documentation/accounting/psi.rst, Documentation/scheduler/sched-bwc.rst and
Documentation/admin-guide: sysctl/, cgroup-v2.rst (``cpu.max``, ``memory.max``, ``io.max``),
cgroup-v1/blkio-controller.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from seatrial.fingerprint import Cgroup, Machine, Pressure, Version
from seatrial.machine.fingerprint.layers import selected
from seatrial.machine.fingerprint.mounts import Mount, mounts
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree
from seatrial.units import KIB

_NO_LIMIT_BYTES: Final = 1 << 62
_V2_IO: Final = {
    "rbps": "read_bytes_per_s",
    "wbps": "write_bytes_per_s",
    "riops": "reads_per_s",
    "wiops": "writes_per_s",
}
_V1_IO: Final = {
    "read_bps": "read_bytes_per_s",
    "write_bps": "write_bytes_per_s",
    "read_iops": "reads_per_s",
    "write_iops": "writes_per_s",
}


def cgroup(tree: SystemTree) -> Cgroup:
    """Return the tightest limits of our own control group and all above it."""
    cpus: list[float] = []
    memory_bytes: list[int] = []
    io: dict[str, dict[str, int]] = {}
    for folder in _groups(tree):
        cpus += _cpu_limits(tree, folder)
        memory_bytes += _memory_limits(tree, folder)
        for device, key, limit in _io_limits(tree, folder):
            limits = io.setdefault(device, {})
            limits[key] = min(limit, limits.get(key, limit))
    return Cgroup(
        cpu_limit_cpus=min(cpus, default=None),
        memory_limit_bytes=min(memory_bytes, default=None),
        io_limits=io,
    )


def own_groups(tree: SystemTree, controller: str = "", process: str = "self") -> Iterator[str]:
    """Yield the folders of our own group and those above it, in one hierarchy.

    Args:
        tree: The machine.
        controller: One of version 1, such as ``memory``; empty means version 2.
        process: Number of another process, to use its group instead of ours.
    """
    hierarchies = [mount for mount in mounts(tree) if mount.kind in {"cgroup", "cgroup2"}]
    for number, controllers, path in _memberships(tree, process):
        if controller in controllers.split(",") and (number == "0") == (not controller):
            for mount in hierarchies:
                if _belongs(mount, number, controllers):
                    yield from _upwards(tree, mount.point, path)


def _groups(tree: SystemTree) -> Iterator[str]:
    """Yield the folders of our own groups and those above them, in every hierarchy."""
    for number, controllers, _path in _memberships(tree):
        if number == "0" or not controllers.startswith("name="):
            yield from own_groups(tree, controllers.split(",")[0])


def _memberships(tree: SystemTree, process: str = "self") -> Iterator[tuple[str, str, str]]:
    """Yield number, controllers and group of each line of the ``cgroup`` file of a process."""
    for line in (tree.text(f"/proc/{process}/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        yield number, controllers, path


def _belongs(mount: Mount, number: str, controllers: str) -> bool:
    """Return whether a mounted hierarchy is the one of a line of ``/proc/self/cgroup``."""
    if number == "0":
        return mount.kind == "cgroup2"
    wanted = set(controllers.split(","))
    return mount.kind == "cgroup" and wanted <= set(mount.options.split(","))


def _upwards(tree: SystemTree, top: str, path: str) -> Iterator[str]:
    """Yield the folder of a group and of each visible group above it.

    In a container the path may be the host's, with only its end mounted: then the mounted top is
    our own group.
    """
    folder = posixpath.normpath(top + path)
    while len(folder) > len(top):
        if tree.exists(folder):
            yield folder
        folder = posixpath.dirname(folder)
    yield top


def _cpu_limits(tree: SystemTree, folder: str) -> list[float]:
    """Return the group's CPU limit, in processors."""
    words = (tree.text(f"{folder}/cpu.max") or "").split()
    if len(words) == 2 and words[0].isdigit():
        return [int(words[0]) / int(words[1])]
    quota_us = tree.integer(f"{folder}/cpu.cfs_quota_us")
    period_us = tree.integer(f"{folder}/cpu.cfs_period_us")
    return [quota_us / period_us] if quota_us and quota_us > 0 and period_us else []


def _memory_limits(tree: SystemTree, folder: str) -> list[int]:
    """Return the group's memory limits in bytes; a huge number means no limit."""
    files = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [tree.integer(f"{folder}/{file}") for file in files]
    return [limit for limit in limits if limit is not None and limit < _NO_LIMIT_BYTES]


def _io_limits(tree: SystemTree, folder: str) -> Iterator[tuple[str, str, int]]:
    """Yield device, name and value of each I/O limit of the group."""
    for line in (tree.text(f"{folder}/io.max") or "").splitlines():
        device, *settings = line.split()
        for setting in settings:
            name, _, value = setting.partition("=")
            if name in _V2_IO and value.isdigit():
                yield device, _V2_IO[name], int(value)
    for file, key in _V1_IO.items():
        for line in (tree.text(f"{folder}/blkio.throttle.{file}_device") or "").splitlines():
            device, _, value = line.partition(" ")
            if value.isdigit():
                yield device, key, int(value)


_CPU: Final = "/sys/devices/system/cpu"
_DETECT_TIMEOUT_S: Final = 5.0
_CPUINFO_LIMIT_BYTES: Final = 8192

_VENDORS: Final = {
    "qemu": "kvm",
    "kvm": "kvm",
    "amazon ec2": "amazon",
    "google": "google",
    "vmware": "vmware",
    "innotek": "oracle",
    "virtualbox": "oracle",
    "xen": "xen",
    "bochs": "bochs",
    "parallels": "parallels",
    "openstack": "kvm",
    "digitalocean": "kvm",
    "virtual machine": "microsoft",
}


def machine(tree: SystemTree) -> Machine:
    """Return the facts of the machine; None for what cannot be read."""
    memory = meminfo_bytes(tree)
    clock = "/sys/devices/system/clocksource/clocksource0"
    container, virtualisation = _virtualisation(tree)
    vm = "/proc/sys/vm"
    load_average_1m, pressure = load(tree)
    return Machine(
        cpu_model=_cpu_model(tree),
        cpus_online=_count_of_ranges(tree.text(f"{_CPU}/online")),
        cpus_usable=_cpus_usable(tree),
        numa_nodes=_count_of_ranges(tree.text("/sys/devices/system/node/online")),
        product=_product(tree),
        memory_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        swap_total_bytes=memory.get("SwapTotal"),
        kernel=tree.word("/proc/sys/kernel/osrelease"),
        distribution=_distribution(tree),
        clock_source=tree.word(f"{clock}/current_clocksource"),
        clock_sources_available=(tree.text(f"{clock}/available_clocksource") or "").split(),
        virtualisation=virtualisation,
        container=container,
        # Set inside the lab: caveats about its figures are reported with them.
        lab=os.environ.get("SEATRIAL_LAB") or None,
        cpu_governor=_governors(tree),
        cpu_boost=_boost(tree),
        cpu_idle_driver=tree.word(f"{_CPU}/cpuidle/current_driver"),
        pcie_power_policy=selected(tree.text("/sys/module/pcie_aspm/parameters/policy")),
        nvme_power_state_latency_us_max=tree.integer(
            "/sys/module/nvme_core/parameters/default_ps_max_latency_us"
        ),
        dirty_background_percent=tree.integer(f"{vm}/dirty_background_ratio"),
        dirty_background_bytes=tree.integer(f"{vm}/dirty_background_bytes"),
        dirty_limit_percent=tree.integer(f"{vm}/dirty_ratio"),
        dirty_limit_bytes=tree.integer(f"{vm}/dirty_bytes"),
        transparent_huge_pages=selected(tree.text("/sys/kernel/mm/transparent_hugepage/enabled")),
        io_uring_disabled=tree.integer("/proc/sys/kernel/io_uring_disabled"),
        cgroup=cgroup(tree),
        load_average_1m=load_average_1m,
        pressure=pressure,
    )


def load(tree: SystemTree) -> tuple[float | None, Pressure]:
    """Return the current load average of the last minute and the pressure."""
    average = (tree.text("/proc/loadavg") or "").split()
    return float(average[0]) if average else None, Pressure(
        cpu_some_avg10_percent=_pressure_percent(tree, "cpu", "some"),
        io_some_avg10_percent=_pressure_percent(tree, "io", "some"),
        io_full_avg10_percent=_pressure_percent(tree, "io", "full"),
        memory_some_avg10_percent=_pressure_percent(tree, "memory", "some"),
    )


def meminfo_bytes(tree: SystemTree) -> dict[str, int]:
    """Return ``/proc/meminfo`` in bytes, by its own names."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", tree.text("/proc/meminfo") or "", re.MULTILINE)
    return {name: int(kilobytes) * KIB for name, kilobytes in lines}


def _cpu_model(tree: SystemTree) -> str | None:
    """Return the processor's name; on ARM without one, the board's."""
    pattern = r"^(?:model name|cpu model|cpu)\s*:\s*(\S.*)$"
    match = re.search(pattern, _cpuinfo_head(tree), re.MULTILINE)
    return match[1].strip() if match else tree.word("/proc/device-tree/model")


def _count_of_ranges(text: str | None) -> int | None:
    """Return how many numbers a list such as ``0-3,8`` contains."""
    if not text:
        return None
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _cpus_usable(tree: SystemTree) -> int | None:
    """Return the number of processors that this process may use."""
    status = tree.text("/proc/self/status") or ""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    return _count_of_ranges(match[1]) if match else None


def _product(tree: SystemTree) -> str | None:
    """Return the machine's model, or in a cloud the instance type."""
    folder = "/sys/class/dmi/id"
    words = [tree.word(f"{folder}/{file}") for file in ("sys_vendor", "product_name")]
    return " ".join(word for word in words if word) or None


def _distribution(tree: SystemTree) -> str | None:
    """Return the distribution's name. Source: os-release(5)."""
    text = tree.text("/etc/os-release") or tree.text("/usr/lib/os-release") or ""
    match = re.search(r"^PRETTY_NAME=\"?([^\"\n]+)", text, re.MULTILINE)
    return match[1] if match else None


def _virtualisation(tree: SystemTree) -> tuple[str | None, str | None]:
    """Return the kind of container and of virtual machine: a name, ``none``, or None if unknown."""
    container = _detected(tree, "--container")
    virtual = _detected(tree, "--vm")
    # Some hypervisors are unknown to the tool, which prints none; the CPU flags are more reliable.
    if virtual in {None, "none"}:
        virtual = _hypervisor(tree) or virtual
    return container, virtual


def _detected(tree: SystemTree, option: str) -> str | None:
    """Run systemd-detect-virt(1), which exits with status 1 when it finds none."""
    try:
        answer = tree.run(["systemd-detect-virt", option], _DETECT_TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return None
    return answer.output.strip() or None


def _hypervisor(tree: SystemTree) -> str | None:
    """Return the hypervisor by the firmware or the CPU flags."""
    product = (_product(tree) or "").lower()
    # Amazon's bare-metal instances report the vendor's name without a hypervisor.
    if ".metal" in product:
        return None
    named = next((name for word, name in _VENDORS.items() if word in product), None)
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", _cpuinfo_head(tree), re.MULTILINE)
    return named or tree.word("/sys/hypervisor/type") or ("unknown" if flags else None)


def _cpuinfo_head(tree: SystemTree) -> str:
    """Return the start of ``/proc/cpuinfo``, which is slow to read in full."""
    return tree.text("/proc/cpuinfo", _CPUINFO_LIMIT_BYTES) or ""


def _governors(tree: SystemTree) -> str | None:
    """Return the distinct frequency governors of all processors."""
    policies = [name for name in tree.names(f"{_CPU}/cpufreq") if name.startswith("policy")]
    governors = {tree.word(f"{_CPU}/cpufreq/{name}/scaling_governor") for name in policies}
    return ", ".join(sorted(name for name in governors if name)) or None


def _boost(tree: SystemTree) -> bool | None:
    """Return whether turbo frequencies are enabled."""
    no_turbo = tree.flag(f"{_CPU}/intel_pstate/no_turbo")
    return tree.flag(f"{_CPU}/cpufreq/boost") if no_turbo is None else not no_turbo


def _pressure_percent(tree: SystemTree, resource: str, line: str) -> float | None:
    """Return the 10 s average of one line of pressure stall information."""
    text = tree.text(f"/proc/pressure/{resource}") or ""
    match = re.search(rf"^{line} avg10=([0-9.]+)", text, re.MULTILINE)
    return float(match[1]) if match else None


SOURCE_BYTES: Final = 32 << 20
"""Larger than most processor caches, and read within about 10 ms."""
BLOCK_BYTES: Final = 1 << 20
PASSES: Final = 5


@cache
def memory_copy_bytes_per_s() -> float:
    """Return the bytes per second that one thread copies from memory, measured once a process.

    Like reads from the page cache: 32 MiB into one buffer of 1 MiB, repeatedly. The fastest of five
    passes counts, because interference only slows a copy down. Takes about 25 ms.
    """
    # Every page must be written: untouched pages of a fresh mapping share one page of zeros.
    source = memoryview(bytearray(b"\1") * SOURCE_BYTES)
    block = memoryview(bytearray(b"\1") * BLOCK_BYTES)
    fastest_s = min(_pass_s(source, block) for _ in range(PASSES))
    return SOURCE_BYTES / fastest_s


def _pass_s(source: memoryview, block: memoryview) -> float:
    """Return the time to copy the source once, block by block."""
    began_s = time.perf_counter()
    for start in range(0, SOURCE_BYTES, BLOCK_BYTES):
        block[:] = source[start : start + BLOCK_BYTES]
    return time.perf_counter() - began_s


_GIT_TIMEOUT_S: Final = 2.0
_CHECKOUT: Final = Path(__file__).resolve().parents[4]


def seatrial_version(tree: SystemTree) -> Version:
    """Return the version, and the commit where this code runs from a checkout."""
    return Version(version=_version(), commit=_commit(tree))


def _version() -> str | None:
    """Return the version of the native module; None where it is not built."""
    try:
        from seatrial import _core  # noqa: PLC0415 - only this function needs it
    except ImportError:
        return None
    return _core.__version__


def _commit(tree: SystemTree) -> str | None:
    """Return the checkout's commit by git(1); None for an installed wheel.

    Only our own checkout counts: site-packages may be inside a user's repository.
    """
    if not (_CHECKOUT / ".git").exists() or not (_CHECKOUT / "crates" / "pyext").exists():
        return None
    command = ["git", "-C", str(_CHECKOUT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        answer = tree.run([*command, "--abbrev=12"], _GIT_TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return None
    return answer.output.strip() or None
