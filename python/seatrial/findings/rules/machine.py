"""Preflight findings on the machine: settings and load that distort measurements."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import usable_cpus
from seatrial.findings.rule import from_fingerprint
from seatrial.fingerprint import Fingerprint
from seatrial.published import FLATTENED, HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_size

CLOCKS_READ_BY_INSTRUCTION = ("tsc", "arch_sys_counter")
CLOCKS_READ_BY_SYSTEM_CALL = ("hpet", "acpi_pm", "jiffies", "xen", "pit")
SLOW_GOVERNORS = ("powersave", "conservative", "ondemand")
LOAD_PER_CPU_MAX = 0.5
CPU_PRESSURE_PERCENT_MAX = 10.0
IO_PRESSURE_PERCENT_MAX = 10.0
MEMORY_PRESSURE_PERCENT_MAX = 1.0
_RESOURCES = {
    "cpu_some_avg10_percent": "a CPU",
    "io_some_avg10_percent": "I/O",
    "memory_some_avg10_percent": "memory",
}
DIRTY_LIMIT_BYTES_MAX = 4 << 30


class ClockSourceFigures(Figures, frozen=True, kw_only=True, tag="clock_source"):
    clock_source: str
    clock_sources_available: list[str]
    slow: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"The kernel's clock source is {self.clock_source}, not tsc.",
            cause=(
                "The kernel considers the CPU's time stamp counter unstable, or the hypervisor "
                f"provides its own clock; {_SLOW_READING if self.slow else _READING}."
            ),
            next=(
                "Find out why tsc was rejected with 'dmesg | grep -i -E \"tsc|clocksource\"'. If "
                "/sys/devices/system/clocksource/clocksource0/available_clocksource lists it, "
                "select it."
            ),
        )


@from_fingerprint(rank=880, section="Preflight: machine", holds_in_lab=False)
def clock_source(fingerprint: Fingerprint) -> list[Finding]:
    """Find a clock source that cannot be read with a single CPU instruction.

    Means:
        Reading the clock takes more than one CPU instruction.

    Decided:
        Any source other than `tsc` (or `arch_sys_counter` on ARM): note; a source that takes a
        system call (hpet, acpi_pm, jiffies, xen, pit): warning.

    Do:
        Find out why the kernel rejected tsc; select it if it is listed as available.
    """
    clock = fingerprint.machine.clock_source
    if not clock or clock in CLOCKS_READ_BY_INSTRUCTION:
        return []
    slow = clock in CLOCKS_READ_BY_SYSTEM_CALL
    figures = ClockSourceFigures(
        clock_source=clock,
        clock_sources_available=fingerprint.machine.clock_sources_available,
        slow=slow,
    )
    return [Finding(severity="warning" if slow else "note", cells=[], figures=figures)]


_SLOW_READING = "each reading is a system call that takes a microsecond or more"
_READING = "each reading takes some tens of nanoseconds more"


class CpuGovernorFigures(Figures, frozen=True, kw_only=True, tag="cpu_governor"):
    cpu_governor: str | None

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"The CPU frequency governor is {self.cpu_governor}.",
            cause=(
                "A CPU that slows down between requests adds microseconds to each one and "
                "increases variance between rounds; a busy CPU is hardly affected."
            ),
            next=(
                "During tests use 'cpupower frequency-set --governor performance'; restore the "
                "setting afterwards."
            ),
        )


@from_fingerprint(rank=890, section="Preflight: machine", holds_in_lab=False)
def cpu_governor(fingerprint: Fingerprint) -> list[Finding]:
    """Find a frequency governor that slows CPUs down between requests.

    Means:
        CPUs slow down between requests, which adds microseconds to each one.

    Decided:
        `powersave`, `ondemand` or `conservative` on any CPU. Note.

    Do:
        Use `performance` during tests.
    """
    governor = fingerprint.machine.cpu_governor
    names = [name.strip() for name in (governor or "").split(",")]
    if not any(name in SLOW_GOVERNORS for name in names):
        return []
    figures = CpuGovernorFigures(cpu_governor=governor)
    return [Finding(severity="note", cells=[], figures=figures)]


class MachineBusyFigures(Figures, frozen=True, kw_only=True, tag="machine_busy"):
    load_average_1m: float | None
    cpus_usable: float | None
    others: Annotated[dict[str, float], FLATTENED]
    is_loaded: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        texts = []
        if self.is_loaded:
            texts.append(
                f"the load average is {self.load_average_1m:.1f} on {self.cpus_usable:g} CPUs"
            )
        for name, percent in self.others.items():
            resource = _RESOURCES[name]
            texts.append(f"tasks waited for {resource} {percent:.0f} % of the time")
        return FindingText(
            sentence=f"The machine is not idle: {', '.join(texts)}.",
            cause=(
                "Other processes use CPUs, memory or disks. They leave the test less CPU and disk "
                "time, and their requests share the device."
            ),
            next=(
                "Find the busy processes with 'top', 'iotop -o' or 'pidstat -d 1', stop or "
                "postpone them, then measure."
            ),
        )


@from_fingerprint(rank=860, section="Preflight: machine", holds_in_lab=False)
def machine_busy(fingerprint: Fingerprint) -> list[Finding]:
    """Find other load on the machine, by load average and pressure stall information.

    Means:
        The machine is not idle.

    Decided:
        A load average above half the number of CPUs, or tasks that in the last 10 s waited for a
        CPU or for I/O more than 10 % of the time, or for memory more than 1 %. Warning.

    Do:
        Find the processes (`top`, `pidstat -d 1`), stop them, then measure.
    """
    cpus = usable_cpus(fingerprint)
    load = fingerprint.machine.load_average_1m
    is_loaded = load is not None and cpus is not None and load > LOAD_PER_CPU_MAX * cpus > 0
    pressure = fingerprint.machine.pressure
    pressures = (
        ("cpu_some_avg10_percent", pressure.cpu_some_avg10_percent, CPU_PRESSURE_PERCENT_MAX),
        ("io_some_avg10_percent", pressure.io_some_avg10_percent, IO_PRESSURE_PERCENT_MAX),
        (
            "memory_some_avg10_percent",
            pressure.memory_some_avg10_percent,
            MEMORY_PRESSURE_PERCENT_MAX,
        ),
    )
    waits = {
        name: percent
        for name, percent, percent_max in pressures
        if percent is not None and percent > percent_max
    }
    if not is_loaded and not waits:
        return []
    figures = MachineBusyFigures(
        load_average_1m=load, cpus_usable=cpus, others=waits, is_loaded=is_loaded
    )
    return [Finding(severity="warning", cells=[], figures=figures)]


class VirtualisedFigures(Figures, frozen=True, kw_only=True, tag="virtualised"):
    virtualisation: str | None
    container: str | None
    names: Annotated[list[str], HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"This is a virtual machine or container ({', '.join(self.names)}).",
            cause=(
                "CPUs and disks may be shared with other tenants, and the host may throttle them, "
                "cache them or grant burst credit. None of this is visible from inside."
            ),
            next=(
                "Before you rely on the figures, repeat at another time of day and run for longer "
                "than any burst credit lasts."
            ),
        )


@from_fingerprint(rank=920, section="Preflight: machine", holds_in_lab=False)
def virtualised(fingerprint: Fingerprint) -> list[Finding]:
    """Find a hypervisor or a container between the test and the hardware.

    Means:
        This is a virtual machine or container: disks and CPUs are shared and may be throttled,
        cached or on burst credit, and none of this is visible from inside.

    Decided:
        From systemd-detect-virt, the firmware and the CPU flags. Note.

    Do:
        Repeat at another time of day, and for longer than any burst credit lasts.
    """
    virtual = fingerprint.machine.virtualisation
    container = fingerprint.machine.container
    names = [name for name in (virtual, container) if name and name != "none"]
    if not names:
        return []
    figures = VirtualisedFigures(virtualisation=virtual, container=container, names=names)
    return [Finding(severity="note", cells=[], figures=figures)]


class IoUringDisabledFigures(Figures, frozen=True, kw_only=True, tag="io_uring_disabled"):
    io_uring_disabled: float

    def text(self) -> FindingText:
        whom = "all processes" if self.io_uring_disabled >= 2 else "unprivileged processes"
        return FindingText(
            sentence=(
                f"io_uring is disabled for {whom} (kernel.io_uring_disabled = "
                f"{self.io_uring_disabled:.0f})."
            ),
            cause=(
                "An administrator or the distribution disabled it. A queue depth above 1 then "
                "takes that many threads, at a higher CPU cost per request."
            ),
            next=(
                "Enable it for the test with 'sysctl kernel.io_uring_disabled=0' as root, or "
                "measure without it if your database does not use io_uring either."
            ),
        )


@from_fingerprint(rank=900, section="Preflight: machine")
def io_uring_disabled(fingerprint: Fingerprint) -> list[Finding]:
    """Find a kernel with io_uring disabled (sysctl kernel.io_uring_disabled 1 or 2).

    Means:
        io_uring is disabled in the kernel; each request in flight takes a thread.

    Decided:
        `kernel.io_uring_disabled` is 1 or 2. Note.

    Do:
        Enable it for the test, or measure without it if your database does not use it either.
    """
    setting = fingerprint.machine.io_uring_disabled
    if not setting:
        return []
    figures = IoUringDisabledFigures(io_uring_disabled=setting)
    return [Finding(severity="note", cells=[], figures=figures)]


class DirtyPagesFigures(Figures, frozen=True, kw_only=True, tag="dirty_pages"):
    dirty_limit_bytes: float
    dirty_limit_percent: float | None
    memory_bytes: float | None

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"The kernel may keep up to {format_size(int(self.dirty_limit_bytes))} of dirty "
                "pages in memory."
            ),
            cause=(
                "Buffered writes run at memory speed up to this limit. The next fsync, or a writer "
                "at the limit, waits until all of it is written; a database freezes at a "
                "checkpoint."
            ),
            next=(
                "For a database set 'sysctl vm.dirty_background_bytes=268435456 "
                "vm.dirty_bytes=1073741824', and compare the stalls of buffered writes before and "
                "after."
            ),
        )


@from_fingerprint(rank=910, section="Preflight: machine")
def dirty_pages(fingerprint: Fingerprint) -> list[Finding]:
    """Find a kernel that may keep many GiB of dirty pages before it throttles writers.

    Means:
        The kernel may keep many GiB of dirty pages; an fsync that has to write them all freezes.

    Decided:
        `vm.dirty_bytes`, or else `vm.dirty_ratio` of the memory, above 4 GiB. Note.

    Do:
        Lower `vm.dirty_background_bytes` and `vm.dirty_bytes`; compare the stalls of buffered
        writes.
    """
    memory_bytes = fingerprint.machine.memory_bytes
    limit_bytes: float = fingerprint.machine.dirty_limit_bytes or 0
    percent = fingerprint.machine.dirty_limit_percent
    if not limit_bytes and memory_bytes is not None and percent is not None:
        limit_bytes = memory_bytes * percent / 100
    if limit_bytes <= DIRTY_LIMIT_BYTES_MAX:
        return []
    figures = DirtyPagesFigures(
        dirty_limit_bytes=limit_bytes,
        dirty_limit_percent=percent,
        memory_bytes=memory_bytes,
    )
    return [Finding(severity="note", cells=[], figures=figures)]
