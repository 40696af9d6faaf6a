"""What about the devices could distort a measurement; known before anything is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from seatrial.findings.context import (
    device_name,
    entries,
    lookup,
    number,
    physical_devices,
)
from seatrial.findings.rule import from_fingerprint
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_rate_bytes, format_size

PAGE_BYTES = 4096
SPARE_PERCENT_MIN_DEFAULT = 10.0


@from_fingerprint(rank=740, section="The device, before anything is measured")
def drive_health(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find drives that report failing health, damaged places or used-up endurance.

    Means:
        The drive reports that it fails, has had errors, or is worn out.

    Decided:
        Critical: self-assessment failed, critical warning bits set, or pending sectors. Warning:
        media errors, reallocated or uncorrectable sectors, grown defects; spare blocks at the
        drive's own threshold; 100 % of the rated endurance used.

    Do:
        `smartctl -x DEVICE`; keep the data elsewhere; replace it.
    """
    found = []
    for device in physical_devices(fingerprint):
        smart = lookup(fingerprint, "health", str(device.get("name")), "smart")
        failing, worn = _failing(smart), _worn(smart)
        if failing or worn:
            found += [
                Finding(
                    kind="drive_health",
                    severity="critical" if failing else "warning",
                    cells=[],
                    sentence=f"{device_name(device)} reports {', '.join(failing + worn)}.",
                    cause=(
                        "The drive is failing or near the end of its life; retries and "
                        "relocations make it slow before it stops."
                    ),
                    evidence={"device": device.get("name"), "smart": smart},
                    next=(
                        f"Read it all with 'smartctl -x /dev/{device.get('name')}', make sure that "
                        "what it holds is kept elsewhere, and replace it."
                    ),
                )
            ]
    return found


def _failing(smart: object) -> list[str]:
    """Return what says that the drive fails now."""
    reported = []
    if lookup(smart, "passed") is False:
        reported.append("that its self-assessment failed")
    if bits := number(smart, "critical_warning_bits"):
        reported.append(f"a critical warning (bits {int(bits):#04x})")
    if pending := number(smart, "pending_sectors"):
        reported.append(f"{format_count(int(pending))} sectors that it could not read")
    return reported


def _worn(smart: object) -> list[str]:
    """Return what says that the drive has had its errors or its life."""
    reported = []
    for key, name in _ERROR_COUNTS.items():
        if count := number(smart, key):
            reported.append(f"{format_count(int(count))} {name}")
    spare = number(smart, "available_spare_percent")
    least = number(smart, "spare_threshold_percent") or SPARE_PERCENT_MIN_DEFAULT
    if spare is not None and spare <= least:
        reported.append(f"{spare:.0f} % of its spare blocks left")
    used = number(smart, "used_percent")
    if used is not None and used >= 100:
        reported.append(f"{used:.0f} % of its rated endurance used")
    return reported


_ERROR_COUNTS = {
    "media_errors": "media errors",
    "uncorrectable_sectors": "uncorrectable sectors",
    "uncorrectable_reported": "uncorrectable errors",
    "reallocated_sectors": "reallocated sectors",
    "grown_defects": "grown defects",
}


@from_fingerprint(rank=750, section="The device, before anything is measured")
def array_degraded(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find software arrays that lack members or are busy with a rebuild or a check.

    Means:
        A software array lacks members (critical), or is busy with a rebuild or check (warning).

    Decided:
        `degraded` and `sync_action` of md.

    Do:
        `cat /proc/mdstat`; wait for the end and measure then.
    """
    found = []
    for device in entries(fingerprint, "target", "stack"):
        name = lookup(device, "name")
        missing = number(device, "md", "degraded") or 0
        action = lookup(device, "md", "sync_action")
        busy = action if action not in (None, "", "idle", "frozen") else None
        if missing or busy:
            reported = [f"lacks {missing:.0f} of its members"] if missing else []
            reported += [f"is busy with a {busy}"] if busy else []
            found += [
                Finding(
                    kind="array_degraded",
                    severity="critical" if missing else "warning",
                    cells=[],
                    sentence=f"The array {name} {' and '.join(reported)}.",
                    cause=(
                        "A member failed or was added, or the monthly check is on; parity is "
                        "computed and members are read beside the trial."
                    ),
                    evidence={
                        "device": name,
                        "missing_count": missing,
                        "sync_action": action,
                    },
                    next=(
                        "Look at 'cat /proc/mdstat'; wait for the end or, for a check, 'echo idle "
                        f"> /sys/block/{name}/md/sync_action', and measure then."
                    ),
                )
            ]
    return found


@from_fingerprint(rank=760, section="The device, before anything is measured")
def cgroup_throttle(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find limits on I/O of the control group that the trial runs in.

    Means:
        A control group limits I/O on a device of the target: the trial would measure the limit.

    Decided:
        `io.max` or `blkio.throttle` of our group or one above it names a device of the stack.
        Critical.

    Do:
        Measure outside of the group, or keep the limit if the database will run under it too.
    """
    limits = lookup(fingerprint, "machine", "cgroup", "io_limits")
    if not isinstance(limits, dict) or not limits:
        return []
    stack = entries(fingerprint, "target", "stack")
    names = {str(node.get("major_minor")): node.get("name") for node in stack}
    ours = {number: limit for number, limit in limits.items() if number in names}
    if not ours:
        return []
    reported = [f"{names[number]} at {_limits(limit)}" for number, limit in ours.items()]
    return [
        Finding(
            kind="cgroup_throttle",
            severity="critical",
            cells=[],
            sentence=f"A control group limits {'; '.join(reported)}.",
            cause=(
                "A container, a systemd unit or an administrator set io.max (or blkio.throttle); "
                "the trial would measure the limit, not the device."
            ),
            evidence={"io_limits": ours},
            next=(
                "Measure outside of the group ('systemd-run --scope', the host), or keep the "
                "limit if the database will run under it too."
            ),
        )
    ]


def _limits(limit: dict[str, Any]) -> str:
    reported = []
    for key, value in limit.items():
        per_s = format_rate_bytes(value) if key.endswith("bytes_per_s") else f"{value:,}/s"
        reported.append(f"{per_s} {'read' if key.startswith('read') else 'written'}")
    return " and ".join(reported)


@from_fingerprint(rank=770, section="The device, before anything is measured", holds_in_lab=False)
def loop_device(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find loop devices in the stack, files posing as devices; those of a kind merged.

    Means:
        A file poses as a device.

    Decided:
        A loop device in the stack: warning where it reads through the page cache, else note.

    Do:
        `losetup --direct-io=on`, or the device below.
    """
    loops = [
        (str(device.get("name")), lookup(device, "loop", "direct_io"))
        for device in entries(fingerprint, "target", "stack")
        if device.get("kind") == "loop"
    ]
    kinds = dict.fromkeys(direct for _, direct in loops)
    return [_loops([name for name, own in loops if own is each], each) for each in kinds]


def _loops(names: Sequence[str], direct_io: object) -> Finding:
    buffered = direct_io is False
    reads = "it reads" if len(names) == 1 else "they read"
    are = "is a loop device over a file" if len(names) == 1 else "are loop devices over files"
    return Finding(
        kind="loop_device",
        severity="warning" if buffered else "note",
        cells=[],
        sentence=(
            f"{', '.join(names)} {are}{f', which {reads} through the page cache' * buffered}."
        ),
        cause=(
            "Requests pass a kernel thread and a second file system, which finds room for a file "
            "of holes at the first write to each place"
            f"{'; direct reads may still come from memory' * buffered}."
        ),
        evidence={"device": ", ".join(names), "direct_io": direct_io},
        next=(
            f"Use 'losetup --direct-io=on /dev/{names[0]}', or the device below."
            if buffered
            else "Compare with the device below to see what the loop device costs."
        ),
    )


@from_fingerprint(rank=780, section="The device, before anything is measured")
def misaligned_partition(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find partitions that do not begin at a multiple of the disk's physical block or of 4 KiB.

    Means:
        Blocks of the file system straddle two blocks of the drive.

    Decided:
        The partition begins at no multiple of the disk's physical block, 4 KiB at least. Warning.

    Do:
        Make it anew, beginning at 1 MiB.
    """
    stack = {str(node.get("name")): node for node in entries(fingerprint, "target", "stack")}
    found = []
    for device in stack.values():
        start_bytes = number(device, "partition", "start_bytes")
        disks = [stack[name] for name in device.get("children") or [] if name in stack]
        blocks = [block for disk in disks if (block := number(disk, "physical_block_bytes"))]
        block_bytes = int(max([PAGE_BYTES, *blocks]))
        if start_bytes is None or start_bytes % block_bytes == 0:
            continue
        found += [
            Finding(
                kind="misaligned_partition",
                severity="warning",
                cells=[],
                sentence=(
                    f"The partition {device.get('name')} begins at byte {start_bytes:,.0f}, which "
                    f"is no multiple of {format_size(block_bytes)}."
                ),
                cause=(
                    "Blocks of the file system straddle two blocks of the drive, so that a write "
                    "of one becomes a read and a write of two. Partition tools of before 2010 did "
                    "so."
                ),
                evidence={
                    "device": device.get("name"),
                    "start_bytes": start_bytes,
                    "physical_block_bytes": block_bytes,
                },
                next="Make the partition anew, beginning at 1 MiB ('parted --align optimal').",
            )
        ]
    return found


@from_fingerprint(rank=790, section="The device, before anything is measured", holds_in_lab=False)
def scheduler(fingerprint: dict[str, Any]) -> list[Finding]:
    """Find an I/O scheduler that is odd for the medium.

    Means:
        The I/O scheduler is odd for the medium.

    Decided:
        Any but `none` on NVMe, `none` on a rotating disk, `bfq` on a SATA or SAS flash drive. Note.

    Do:
        Compare with the other one; the difference is the finding's worth.
    """
    found = []
    for device in entries(fingerprint, "target", "stack"):
        reason = _odd_scheduler(device)
        if reason:
            wanted = "mq-deadline" if device.get("rotational") else "none"
            found += [
                Finding(
                    kind="scheduler",
                    severity="note",
                    cells=[],
                    sentence=(
                        f"{device_name(device)} uses the I/O scheduler {device.get('scheduler')}."
                    ),
                    cause=reason,
                    evidence={"device": device.get("name"), "scheduler": device.get("scheduler")},
                    next=(
                        f"Compare with 'echo {wanted} > "
                        f"/sys/block/{device.get('name')}/queue/scheduler'."
                    ),
                )
            ]
    return found


def _odd_scheduler(device: dict[str, Any]) -> str:
    """Return what is odd about a device's scheduler; empty when nothing is."""
    chosen, kind = device.get("scheduler"), device.get("kind")
    if not chosen or kind not in ("nvme", "disk"):
        return ""
    if kind == "nvme" and chosen != "none":
        return "An NVMe drive has queues of its own; a scheduler costs processor time and a lock."
    if device.get("rotational") is True and chosen == "none":
        return (
            "A hard disk gains from a scheduler that sorts requests and keeps reads from waiting."
        )
    if device.get("rotational") is False and chosen == "bfq":
        return "bfq is made for fairness between programs, at a high cost for each request."
    return ""


@from_fingerprint(rank=800, section="The device, before anything is measured", holds_in_lab=False)
def write_cache(fingerprint: dict[str, Any]) -> list[Finding]:
    """Tell which physical devices hold writes in a volatile cache, and which do not.

    Means:
        Whether the kernel flushes a volatile cache at each commit (`write back`) or takes what the
        drive acknowledged as safe (`write through`).

    Decided:
        `queue/write_cache` of the physical devices. Note.

    Do:
        With `write through` and fast commits, make sure that the protection against loss of power
        is real.
    """
    names = defaultdict(list)
    for device in physical_devices(fingerprint):
        if device.get("write_cache") in _WRITE_CACHES:
            names[str(device["write_cache"])].append(device_name(device))
    found = []
    for setting, devices in names.items():
        meaning, step = _WRITE_CACHES[setting]
        found += [
            Finding(
                kind="write_cache",
                severity="note",
                cells=[],
                sentence=f"The kernel drives {', '.join(devices)} as {setting}.",
                cause=meaning,
                evidence={"write_cache": setting, "devices": devices},
                next=step,
            )
        ]
    return found


_WRITE_CACHES = {
    "write back": (
        "The drive acknowledges writes from a cache that loses power with it, so every commit "
        "ends with a flush; the commit cells show what that costs.",
        "Nothing, as long as no mount option turns flushes off.",
    ),
    "write through": (
        "The drive says that what it acknowledged is safe: its cache is off, or protected against "
        "loss of power, or a controller or hypervisor answers for it. Commits need no flush.",
        "If commits are fast, make sure that the protection is real (data sheet: power-loss "
        "protection); if writes are slow, see 'hdparm -W /dev/DEVICE'.",
    ),
}
