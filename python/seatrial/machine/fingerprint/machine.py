"""The machine: processors, memory, kernel, clock, and what else runs on it.

Sources: proc(5); the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu,
Documentation/accounting/psi.rst and Documentation/admin-guide/sysctl/.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

from seatrial.machine.fingerprint.cgroup import cgroup
from seatrial.machine.fingerprint.layers import selected
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree

_CPU: Final = "/sys/devices/system/cpu"
_DETECT_TIMEOUT_S: Final = 5.0
_CPUINFO_LIMIT_BYTES: Final = 8192
_BYTES_PER_KB: Final = 1024

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


def machine(tree: SystemTree) -> dict[str, Any]:
    """Return what the measurement runs on. What cannot be read is None."""
    memory = meminfo_bytes(tree)
    clock = "/sys/devices/system/clocksource/clocksource0"
    container, virtualisation = _virtualisation(tree)
    return {
        "cpu_model": _cpu_model(tree),
        "cpus_online": _count_of_ranges(tree.text(f"{_CPU}/online")),
        "cpus_usable": _cpus_usable(tree),
        "numa_nodes": _count_of_ranges(tree.text("/sys/devices/system/node/online")),
        "product": _product(tree),
        "memory_bytes": memory.get("MemTotal"),
        "memory_available_bytes": memory.get("MemAvailable"),
        "swap_total_bytes": memory.get("SwapTotal"),
        "kernel": tree.word("/proc/sys/kernel/osrelease"),
        "distribution": _distribution(tree),
        "clock_source": tree.word(f"{clock}/current_clocksource"),
        "clock_sources_available": (tree.text(f"{clock}/available_clocksource") or "").split(),
        "virtualisation": virtualisation,
        "container": container,
        # Set inside of the lab: what holds of figures that were measured there is said with them.
        "lab": os.environ.get("SEATRIAL_LAB") or None,
        **_power(tree),
        **_memory_policy(tree),
        "io_uring_disabled": tree.integer("/proc/sys/kernel/io_uring_disabled"),
        "cgroup": cgroup(tree),
        **load(tree),
    }


def load(tree: SystemTree) -> dict[str, Any]:
    """Return what else runs now: ``load_average_1m`` and ``pressure``.

    ``pressure`` is the share of the last 10 s, in percent, in which some (or all, ``full``) tasks
    waited for a processor, for I/O or for memory; None where the kernel keeps no such account.
    """
    average = (tree.text("/proc/loadavg") or "").split()
    pressures = {
        f"{resource}_{line}_avg10_percent": _pressure_percent(tree, resource, line)
        for resource, line in (("cpu", "some"), ("io", "some"), ("io", "full"), ("memory", "some"))
    }
    return {"load_average_1m": float(average[0]) if average else None, "pressure": pressures}


def meminfo_bytes(tree: SystemTree) -> dict[str, int]:
    """Return ``/proc/meminfo`` in bytes by its own names."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", tree.text("/proc/meminfo") or "", re.MULTILINE)
    return {name: int(kilobytes) * _BYTES_PER_KB for name, kilobytes in lines}


def _cpu_model(tree: SystemTree) -> str | None:
    """Return the processor's name; on ARM, where it has none here, the board's."""
    pattern = r"^(?:model name|cpu model|cpu)\s*:\s*(\S.*)$"
    match = re.search(pattern, _cpuinfo_head(tree), re.MULTILINE)
    return match[1].strip() if match else tree.word("/proc/device-tree/model")


def _count_of_ranges(text: str | None) -> int | None:
    """Return how many numbers a list such as ``0-3,8`` has."""
    if not text:
        return None
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _cpus_usable(tree: SystemTree) -> int | None:
    """Return on how many processors this process may run."""
    status = tree.text("/proc/self/status") or ""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    return _count_of_ranges(match[1]) if match else None


def _product(tree: SystemTree) -> str | None:
    """Return the machine's make, or in a cloud the instance type."""
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
    # The tool knows no vendor on some hypervisors and then says none; the processor knows better.
    if virtual in {None, "none"}:
        virtual = _hypervisor(tree) or virtual
    return container, virtual


def _detected(tree: SystemTree, option: str) -> str | None:
    """Ask systemd-detect-virt(1), which ends with status 1 when it found none."""
    try:
        answer = tree.run(["systemd-detect-virt", option], _DETECT_TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return None
    return answer.output.strip() or None


def _hypervisor(tree: SystemTree) -> str | None:
    """Return the hypervisor as the firmware or the processor's flags tell it."""
    product = (_product(tree) or "").lower()
    # Amazon's bare-metal instances bear the vendor's name with no hypervisor under them.
    if ".metal" in product:
        return None
    named = next((name for word, name in _VENDORS.items() if word in product), None)
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", _cpuinfo_head(tree), re.MULTILINE)
    return named or tree.word("/sys/hypervisor/type") or ("unknown" if flags else None)


def _cpuinfo_head(tree: SystemTree) -> str:
    """Return the start of ``/proc/cpuinfo``, which the kernel makes up as it is read."""
    return tree.text("/proc/cpuinfo", _CPUINFO_LIMIT_BYTES) or ""


def _power(tree: SystemTree) -> dict[str, Any]:
    """Return what saves power at the price of time."""
    policies = [name for name in tree.names(f"{_CPU}/cpufreq") if name.startswith("policy")]
    governors = {tree.word(f"{_CPU}/cpufreq/{name}/scaling_governor") for name in policies}
    no_turbo = tree.flag(f"{_CPU}/intel_pstate/no_turbo")
    boost = tree.flag(f"{_CPU}/cpufreq/boost") if no_turbo is None else not no_turbo
    return {
        "cpu_governor": ", ".join(sorted(name for name in governors if name)) or None,
        "cpu_boost": boost,
        "cpu_idle_driver": tree.word(f"{_CPU}/cpuidle/current_driver"),
        "pcie_power_policy": selected(tree.text("/sys/module/pcie_aspm/parameters/policy")),
        "nvme_power_state_latency_us_max": tree.integer(
            "/sys/module/nvme_core/parameters/default_ps_max_latency_us"
        ),
    }


def _memory_policy(tree: SystemTree) -> dict[str, Any]:
    """Return how the kernel holds pages back: when dirty ones are written, huge pages, swapping."""
    vm = "/proc/sys/vm"
    return {
        "dirty_background_percent": tree.integer(f"{vm}/dirty_background_ratio"),
        "dirty_background_bytes": tree.integer(f"{vm}/dirty_background_bytes"),
        "dirty_limit_percent": tree.integer(f"{vm}/dirty_ratio"),
        "dirty_limit_bytes": tree.integer(f"{vm}/dirty_bytes"),
        "transparent_huge_pages": selected(
            tree.text("/sys/kernel/mm/transparent_hugepage/enabled")
        ),
    }


def _pressure_percent(tree: SystemTree, resource: str, line: str) -> float | None:
    """Return the 10 s average of one line of pressure stall information."""
    text = tree.text(f"/proc/pressure/{resource}") or ""
    match = re.search(rf"^{line} avg10=([0-9.]+)", text, re.MULTILINE)
    return float(match[1]) if match else None
