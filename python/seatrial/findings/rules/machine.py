"""What about the machine could distort a measurement; known before anything is measured."""

from __future__ import annotations

from typing import Any

from seatrial.findings.context import (
    lookup,
    memory_for_cache_bytes,
    number,
    usable_cpus,
)
from seatrial.findings.rule import from_fingerprint
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_size

CLOCKS_READ_BY_INSTRUCTION = ("tsc", "arch_sys_counter")
CLOCKS_READ_BY_SYSTEM_CALL = ("hpet", "acpi_pm", "jiffies", "xen", "pit")
SLOW_GOVERNORS = ("powersave", "conservative", "ondemand")
LOAD_PER_CPU_MAX = 0.5
PRESSURE_PERCENT_MAX = {"cpu_some": 10.0, "io_some": 10.0, "memory_some": 1.0}
DIRTY_LIMIT_BYTES_MAX = 4 << 30


@from_fingerprint(rank=880, section="The machine, before anything is measured", holds_in_lab=False)
def clock_source(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a clock that is not read by one instruction of the processor.

    Means:
        Reading the time is not one instruction here.

    Decided:
        Any source but `tsc` (or ARM's `arch_sys_counter`): note; a source that takes a system call
        (hpet, acpi_pm, jiffies, xen, pit): warning.

    Do:
        See why the kernel rejected tsc; choose it if it is listed as available.
    """
    clock = lookup(fingerprint, "machine", "clock_source")
    if not clock or clock in CLOCKS_READ_BY_INSTRUCTION:
        return []
    slow = clock in CLOCKS_READ_BY_SYSTEM_CALL
    return [
        Finding(
            kind="clock_source",
            severity="warning" if slow else "note",
            cells=[],
            sentence=f"The kernel's clock source is {clock}, not tsc.",
            cause=(
                "The kernel does not trust the processor's time stamp counter here, or the "
                "hypervisor offers its own clock; "
                f"{_SLOW_READING if slow else _READING}."
            ),
            evidence={
                "clock_source": clock,
                "clock_sources_available": lookup(
                    fingerprint, "machine", "clock_sources_available"
                ),
            },
            next=(
                "Look why tsc was rejected with 'dmesg | grep -i -E \"tsc|clocksource\"'; if it "
                "is listed in /sys/devices/system/clocksource/clocksource0/available_clocksource, "
                "choose it there."
            ),
        )
    ]


_SLOW_READING = "each reading is a system call of a microsecond or more"
_READING = "a reading takes some tens of nanoseconds more"


@from_fingerprint(rank=890, section="The machine, before anything is measured", holds_in_lab=False)
def cpu_governor(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a governor that lets the processor sleep or run slowly between requests.

    Means:
        Processors slow down between requests, which adds microseconds to each.

    Decided:
        `powersave`, `ondemand` or `conservative` on any processor. Note.

    Do:
        `performance` during the trial.
    """
    governor = lookup(fingerprint, "machine", "cpu_governor")
    names = [name.strip() for name in str(governor or "").split(",")]
    if not any(name in SLOW_GOVERNORS for name in names):
        return []
    return [
        Finding(
            kind="cpu_governor",
            severity="note",
            cells=[],
            sentence=f"The processors' frequency governor is {governor}.",
            cause=(
                "A processor that slows down between requests adds microseconds to each and "
                "spreads the rounds; a busy one is little affected."
            ),
            evidence={"cpu_governor": governor},
            next=(
                "For the trial: 'cpupower frequency-set --governor performance', and back "
                "afterwards."
            ),
        )
    ]


@from_fingerprint(rank=860, section="The machine, before anything is measured", holds_in_lab=False)
def machine_busy(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find other work on the machine, by load average and pressure stall information.

    Means:
        The machine is not idle.

    Decided:
        A load average above half of the processors, or tasks that waited in the last 10 s for a
        processor or for I/O more than 10 % of the time, or for memory more than 1 %. Warning.

    Do:
        Find it (`top`, `pidstat -d 1`), stop it, measure then.
    """
    cpus = usable_cpus(fingerprint)
    load = number(fingerprint, "machine", "load_average_1m")
    reported, evidence = [], {"load_average_1m": load, "cpus_usable": cpus}
    if load is not None and cpus and load > LOAD_PER_CPU_MAX * cpus:
        reported.append(f"the load average is {load:.1f} on {cpus:g} processors")
    for name, percent_max in PRESSURE_PERCENT_MAX.items():
        percent = number(fingerprint, "machine", "pressure", f"{name}_avg10_percent")
        if percent is not None and percent > percent_max:
            resource = name.partition("_")[0]
            reported.append(f"tasks waited for {_RESOURCES[resource]} {percent:.0f} % of the time")
            evidence[f"{name}_avg10_percent"] = percent
    if not reported:
        return []
    return [
        Finding(
            kind="machine_busy",
            severity="warning",
            cells=[],
            sentence=f"The machine is not idle: {', '.join(reported)}.",
            cause=(
                "Other processes use processors, memory or disks; what they take is missing in the "
                "measurement, and their requests share the device."
            ),
            evidence=evidence,
            next=(
                "Find them with 'top', 'iotop -o' or 'pidstat -d 1', stop or postpone them, and "
                "measure then."
            ),
        )
    ]


_RESOURCES = {"cpu": "a processor", "io": "I/O", "memory": "memory"}


@from_fingerprint(rank=920, section="The machine, before anything is measured", holds_in_lab=False)
def virtualised(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a hypervisor or a container between the trial and the hardware.

    Means:
        A virtual machine or container: disk and processors are shared, may be limited, cached or on
        burst credit, and none of it can be seen from inside.

    Decided:
        What systemd-detect-virt, the firmware and the processor's flags say. Note.

    Do:
        Repeat at another time of day, and for longer than any burst credit lasts.
    """
    virtual = lookup(fingerprint, "machine", "virtualisation")
    container = lookup(fingerprint, "machine", "container")
    names = [str(name) for name in (virtual, container) if name not in (None, "", "none")]
    if not names:
        return []
    return [
        Finding(
            kind="virtualised",
            severity="note",
            cells=[],
            sentence=f"This is a virtual machine or container ({', '.join(names)}).",
            cause=(
                "Its processors and its disk are shared with others and may be limited, cached or "
                "given burst credit by the host, which cannot be seen from inside."
            ),
            evidence={"virtualisation": virtual, "container": container},
            next=(
                "Repeat at another time of day, and run longer than any burst credit lasts, "
                "before you rely on the numbers."
            ),
        )
    ]


@from_fingerprint(rank=900, section="The machine, before anything is measured")
def io_uring_disabled(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a kernel that forbids io_uring (sysctl kernel.io_uring_disabled 1 or 2).

    Means:
        The kernel forbids io_uring; more than one request in flight takes as many threads.

    Decided:
        `kernel.io_uring_disabled` is 1 or 2. Note.

    Do:
        Allow it for the trial, or measure what your database, which may not use it either, will
        see.
    """
    setting = number(fingerprint, "machine", "io_uring_disabled")
    if not setting:
        return []
    whom = "everybody" if setting >= 2 else "processes without privilege"
    return [
        Finding(
            kind="io_uring_disabled",
            severity="note",
            cells=[],
            sentence=f"io_uring is disabled for {whom} (kernel.io_uring_disabled = {setting:.0f}).",
            cause=(
                "An administrator or the distribution turned it off; requests at a depth above 1 "
                "are then made by that many threads, at a higher cost of processor time for each."
            ),
            evidence={"io_uring_disabled": setting},
            next=(
                "For the trial: 'sysctl kernel.io_uring_disabled=0' as root; or measure what your "
                "database, which may not use io_uring either, will see."
            ),
        )
    ]


@from_fingerprint(rank=870, section="The machine, before anything is measured", holds_in_lab=False)
def file_fits_memory(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a trial file that memory can hold, so that buffered reads would measure memory.

    Means:
        Memory can hold the trial file: buffered reads would measure memory.

    Decided:
        The size that would be made against the memory that this process may use. Note.

    Do:
        Keep direct I/O, or give a larger `--size`.
    """
    memory_bytes = memory_for_cache_bytes(fingerprint)
    file_bytes = number(fingerprint, "trial_file_bytes")
    if memory_bytes is None or file_bytes is None or file_bytes >= memory_bytes:
        return []
    return [
        Finding(
            kind="file_fits_memory",
            severity="note",
            cells=[],
            sentence=(
                f"The trial file ({format_size(int(file_bytes))}) is smaller than the memory "
                f"({format_size(int(memory_bytes))})."
            ),
            cause=(
                "Buffered reads of it come from the page cache; direct ones, which are the "
                "default, do not, but a cache in the drive or the array may hold it too."
            ),
            evidence={"trial_file_bytes": file_bytes, "memory_bytes": memory_bytes},
            next="Keep direct = true, or make the file at least twice the memory (option --size).",
        )
    ]


@from_fingerprint(rank=910, section="The machine, before anything is measured")
def dirty_pages(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find a kernel that may hold back many GiB of written data before it makes writers wait.

    Means:
        The kernel may hold back many GiB of written data; the fsync that meets them freezes.

    Decided:
        `vm.dirty_bytes`, else `vm.dirty_ratio` of the memory, above 4 GiB. Note.

    Do:
        Lower `vm.dirty_background_bytes` and `vm.dirty_bytes`; compare the stalls of buffered
        writes.
    """
    memory_bytes = number(fingerprint, "machine", "memory_bytes")
    limit_bytes = number(fingerprint, "machine", "dirty_limit_bytes") or 0
    percent = number(fingerprint, "machine", "dirty_limit_percent")
    if not limit_bytes and memory_bytes is not None and percent is not None:
        limit_bytes = memory_bytes * percent / 100
    if limit_bytes <= DIRTY_LIMIT_BYTES_MAX:
        return []
    return [
        Finding(
            kind="dirty_pages",
            severity="note",
            cells=[],
            sentence=(
                f"The kernel may hold back up to {format_size(int(limit_bytes))} of written data."
            ),
            cause=(
                "Buffered writes go at the speed of memory until then; the first fsync, or the "
                "limit, then waits for all of it, which a database sees as a freeze at a "
                "checkpoint."
            ),
            evidence={
                "dirty_limit_bytes": limit_bytes,
                "dirty_limit_percent": percent,
                "memory_bytes": memory_bytes,
            },
            next=(
                "For a database: 'sysctl vm.dirty_background_bytes=268435456 "
                "vm.dirty_bytes=1073741824', and compare the stalls of buffered writes before and "
                "after."
            ),
        )
    ]
