"""Preflight findings on the devices: state and settings that distort measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

from seatrial.findings.context import device_name, smart_of
from seatrial.findings.rule import from_fingerprint
from seatrial.fingerprint import Device, Fingerprint, Smart
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_rate_bytes, format_size

PAGE_BYTES = 4096
SPARE_PERCENT_MIN_DEFAULT = 10.0


class DriveHealthFigures(Figures, frozen=True, kw_only=True, tag="drive_health"):
    device: str
    smart: Smart
    device_label: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.device_label} reports "
                f"{', '.join(_failing(self.smart) + _worn(self.smart))}."
            ),
            cause=(
                "The drive is failing or worn out; retries and reallocations slow it down before "
                "it fails."
            ),
            next=(
                f"Read 'smartctl -x /dev/{self.device}', back up the data on the drive, and "
                "replace it."
            ),
        )


@from_fingerprint(rank=740, section="Preflight: device")
def drive_health(fingerprint: Fingerprint) -> list[Finding]:
    """Find drives that report failing health, defective sectors or used-up endurance.

    Means:
        The drive reports that it is failing, has had errors, or is worn out.

    Decided:
        Critical: the self-assessment failed, critical warning bits are set, or there are pending
        sectors. Warning: media errors, reallocated or uncorrectable sectors, grown defects; spare
        blocks at or below the drive's threshold; 100 % of the rated endurance used.

    Do:
        Read `smartctl -x DEVICE`, back up the data, replace the drive.
    """
    found = []
    for device in fingerprint.physical_devices:
        smart = smart_of(fingerprint, device.name)
        failing = _failing(smart)
        if failing or _worn(smart):
            figures = DriveHealthFigures(
                device=device.name, smart=smart, device_label=device_name(device)
            )
            found += [
                Finding(severity="critical" if failing else "warning", cells=[], figures=figures)
            ]
    return found


def _failing(smart: Smart) -> list[str]:
    """Return the signs that the drive is failing."""
    texts = []
    if smart.get("passed") is False:
        texts.append("a failed self-assessment")
    if bits := smart.get("critical_warning_bits"):
        texts.append(f"a critical warning (bits {int(bits):#04x})")
    if pending := smart.get("pending_sectors"):
        texts.append(f"{format_count(int(pending))} pending (unreadable) sectors")
    return texts


def _worn(smart: Smart) -> list[str]:
    """Return the signs of past errors and of wear."""
    texts = []
    for key, name in _ERROR_COUNTS.items():
        if count := smart.get(key):
            texts.append(f"{format_count(int(count))} {name}")
    spare = smart.get("available_spare_percent")
    least = smart.get("spare_threshold_percent") or SPARE_PERCENT_MIN_DEFAULT
    if spare is not None and spare <= least:
        texts.append(f"{spare:.0f} % of its spare blocks left")
    used = smart.get("used_percent")
    if used is not None and used >= 100:
        texts.append(f"{used:.0f} % of its rated endurance used")
    return texts


_ERROR_COUNTS = {
    "media_errors": "media errors",
    "uncorrectable_sectors": "uncorrectable sectors",
    "uncorrectable_reported": "uncorrectable errors",
    "reallocated_sectors": "reallocated sectors",
    "grown_defects": "grown defects",
}


class ArrayDegradedFigures(Figures, frozen=True, kw_only=True, tag="array_degraded"):
    device: str
    missing_count: float
    sync_action: str | None
    busy: Annotated[str | None, HIDDEN]

    def text(self) -> FindingText:
        missing = self.missing_count
        texts = [f"is degraded ({missing:.0f} missing)"] if missing else []
        texts += [f"is running a {self.busy}"] if self.busy else []
        return FindingText(
            sentence=f"The array {self.device} {' and '.join(texts)}.",
            cause=(
                "A member failed or was added, or a scheduled check is running; the array reads "
                "its members and computes parity in the background."
            ),
            next=(
                "Check 'cat /proc/mdstat'. Wait until it is done, or stop a check with 'echo idle "
                f"> /sys/block/{self.device}/md/sync_action', then measure."
            ),
        )


@from_fingerprint(rank=750, section="Preflight: device")
def array_degraded(fingerprint: Fingerprint) -> list[Finding]:
    """Find software arrays that are degraded or running a rebuild or a check.

    Means:
        A software array is degraded (critical), or is running a rebuild or check (warning).

    Decided:
        From `degraded` and `sync_action` of md.

    Do:
        Check `cat /proc/mdstat`; measure when the array is idle.
    """
    found = []
    for device in fingerprint.stack:
        if device.md is None:
            continue
        name, action = device.name, device.md.sync_action
        missing = device.md.degraded or 0
        busy = action if action not in (None, "", "idle", "frozen") else None
        if missing or busy:
            figures = ArrayDegradedFigures(
                device=name, missing_count=missing, sync_action=action, busy=busy
            )
            found += [
                Finding(severity="critical" if missing else "warning", cells=[], figures=figures)
            ]
    return found


class CgroupThrottleFigures(Figures, frozen=True, kw_only=True, tag="cgroup_throttle"):
    io_limits: dict[str, Mapping[str, int]]
    names: Annotated[dict[str, str], HIDDEN]

    def text(self) -> FindingText:
        texts = [
            f"{self.names[number]} to {_limits(limit)}" for number, limit in self.io_limits.items()
        ]
        return FindingText(
            sentence=f"A control group throttles {'; '.join(texts)}.",
            cause=(
                "A container, a systemd unit or an administrator set io.max (or blkio.throttle); "
                "the test would measure the limit, not the device."
            ),
            next=(
                "Measure outside of the group ('systemd-run --scope', or on the host), or keep the "
                "limit if the database will run under it, too."
            ),
        )


@from_fingerprint(rank=760, section="Preflight: device")
def cgroup_throttle(fingerprint: Fingerprint) -> list[Finding]:
    """Find I/O limits of the control group of this process.

    Means:
        A control group throttles I/O to a device of the target: the test would measure the limit.

    Decided:
        `io.max` or `blkio.throttle` of our group or a parent group names a device of the stack.
        Critical.

    Do:
        Measure outside of the group, or keep the limit if the database will run under it, too.
    """
    limits = fingerprint.machine.cgroup.io_limits
    names = {device.major_minor or "": device.name for device in fingerprint.stack}
    ours = {number: limit for number, limit in limits.items() if number in names}
    if not ours:
        return []
    figures = CgroupThrottleFigures(io_limits=ours, names=names)
    return [Finding(severity="critical", cells=[], figures=figures)]


def _limits(limit: Mapping[str, int]) -> str:
    texts = []
    for key, value in limit.items():
        per_s = format_rate_bytes(value) if key.endswith("bytes_per_s") else f"{value:,}/s"
        texts.append(f"{per_s} {'reads' if key.startswith('read') else 'writes'}")
    return " and ".join(texts)


@from_fingerprint(rank=770, section="Preflight: device", holds_in_lab=False)
def loop_device(fingerprint: Fingerprint) -> list[Finding]:
    """Find loop devices in the stack; those with and without direct I/O are merged separately.

    Means:
        The target is on a loop device, which is backed by a file.

    Decided:
        A loop device in the stack: warning if it uses the page cache, otherwise note.

    Do:
        Use `losetup --direct-io=on`, or the underlying device.
    """
    loops = [
        (device.name, device.loop.direct_io if device.loop else None)
        for device in fingerprint.stack
        if device.kind == "loop"
    ]
    kinds = dict.fromkeys(direct for _, direct in loops)
    return [_loops([name for name, own in loops if own is each], each) for each in kinds]


class LoopDeviceFigures(Figures, frozen=True, kw_only=True, tag="loop_device"):
    device: str
    direct_io: bool | None
    buffered: Annotated[bool, HIDDEN]
    names: Annotated[Sequence[str], HIDDEN]
    names_count: Annotated[int, HIDDEN]

    def text(self) -> FindingText:
        are = "is a loop device" if self.names_count == 1 else "are loop devices"
        return FindingText(
            sentence=f"{self.device} {are}{' with buffered I/O (page cache)' * self.buffered}.",
            cause=(
                "Requests pass through a kernel thread and a second file system, which allocates "
                "blocks of a sparse file at the first write"
                f"{'; direct reads may still be served from memory' * self.buffered}."
            ),
            next=(
                f"Use 'losetup --direct-io=on /dev/{self.names[0]}', or the underlying device."
                if self.buffered
                else "Compare with the underlying device to see the overhead of the loop device."
            ),
        )


def _loops(names: Sequence[str], direct_io: bool | None) -> Finding:
    buffered = direct_io is False
    figures = LoopDeviceFigures(
        device=", ".join(names),
        direct_io=direct_io,
        buffered=buffered,
        names=names,
        names_count=len(names),
    )
    return Finding(severity="warning" if buffered else "note", cells=[], figures=figures)


class MisalignedPartitionFigures(Figures, frozen=True, kw_only=True, tag="misaligned_partition"):
    device: str
    start_bytes: float
    physical_block_bytes: int

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"Partition {self.device} is misaligned: it starts at byte "
                f"{self.start_bytes:,.0f}, which is not a multiple of "
                f"{format_size(self.physical_block_bytes)}."
            ),
            cause=(
                "File system blocks straddle two physical blocks of the drive, so each write "
                "becomes a read-modify-write of both. Partitioning tools before 2010 did this."
            ),
            next=("Recreate the partition with a start at 1 MiB ('parted --align optimal')."),
        )


@from_fingerprint(rank=780, section="Preflight: device")
def misaligned_partition(fingerprint: Fingerprint) -> list[Finding]:
    """Find partitions that do not start at a multiple of the physical block size or of 4 KiB.

    Means:
        File system blocks straddle two physical blocks of the drive.

    Decided:
        The start of the partition is not a multiple of the disk's physical block size, or of 4 KiB
        if that is larger. Warning.

    Do:
        Recreate the partition with a start at 1 MiB.
    """
    stack = {device.name: device for device in fingerprint.stack}
    found = []
    for device in stack.values():
        start_bytes = device.partition.start_bytes if device.partition else None
        disks = [stack[name] for name in device.children if name in stack]
        blocks = [block for disk in disks if (block := disk.physical_block_bytes)]
        block_bytes = max([PAGE_BYTES, *blocks])
        if start_bytes is None or start_bytes % block_bytes == 0:
            continue
        figures = MisalignedPartitionFigures(
            device=device.name,
            start_bytes=start_bytes,
            physical_block_bytes=block_bytes,
        )
        found += [Finding(severity="warning", cells=[], figures=figures)]
    return found


class SchedulerFigures(Figures, frozen=True, kw_only=True, tag="scheduler"):
    device: str
    scheduler: str | None
    device_label: Annotated[str, HIDDEN]
    reason: Annotated[str, HIDDEN]
    wanted: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"{self.device_label} uses the I/O scheduler {self.scheduler}.",
            cause=_SCHEDULERS[self.reason],
            next=(f"Compare with 'echo {self.wanted} > /sys/block/{self.device}/queue/scheduler'."),
        )


@from_fingerprint(rank=790, section="Preflight: device", holds_in_lab=False)
def scheduler(fingerprint: Fingerprint) -> list[Finding]:
    """Find an I/O scheduler that does not suit the medium.

    Means:
        The I/O scheduler does not suit the medium.

    Decided:
        Any but `none` on NVMe, `none` on a hard disk, `bfq` on a SATA or SAS flash drive. Note.

    Do:
        Measure with the suggested scheduler and compare.
    """
    found = []
    for device in fingerprint.stack:
        reason = _reason_to_change(device)
        if reason:
            wanted = "mq-deadline" if device.rotational else "none"
            figures = SchedulerFigures(
                device=device.name,
                scheduler=device.scheduler,
                device_label=device_name(device),
                reason=reason,
                wanted=wanted,
            )
            found += [Finding(severity="note", cells=[], figures=figures)]
    return found


def _reason_to_change(device: Device) -> str:
    """Return why another scheduler suits a device better; empty if none does."""
    chosen, kind = device.scheduler, device.kind
    if not chosen or kind not in ("nvme", "disk"):
        return ""
    if kind == "nvme" and chosen != "none":
        return "own_queues"
    if device.rotational is True and chosen == "none":
        return "seeks"
    if device.rotational is False and chosen == "bfq":
        return "bfq"
    return ""


_SCHEDULERS = {
    "own_queues": (
        "An NVMe drive has its own hardware queues; a scheduler adds CPU time and lock contention."
    ),
    "seeks": "A hard disk benefits from a scheduler that sorts requests and prioritises reads.",
    "bfq": "bfq is designed for fairness between processes, at a high CPU cost per request.",
}


class WriteCacheFigures(Figures, frozen=True, kw_only=True, tag="write_cache"):
    write_cache: str
    devices: list[str]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{', '.join(self.devices)} {'has' if len(self.devices) == 1 else 'have'} "
                f"{_WRITE_CACHE_KINDS[self.write_cache]}."
            ),
            cause=_WRITE_CACHES[self.write_cache][0],
            next=_WRITE_CACHES[self.write_cache][1],
        )


@from_fingerprint(rank=800, section="Preflight: device", holds_in_lab=False)
def write_cache(fingerprint: Fingerprint) -> list[Finding]:
    """Report which physical devices have a volatile write cache, and which do not.

    Means:
        The kernel flushes a volatile cache at each commit (`write back`) or treats acknowledged
        writes as durable (`write through`).

    Decided:
        From `queue/write_cache` of the physical devices. Note.

    Do:
        With `write through` and fast commits, verify that the drive has power-loss protection.
    """
    names = defaultdict(list)
    for device in fingerprint.physical_devices:
        if device.write_cache in _WRITE_CACHES:
            names[device.write_cache].append(device_name(device))
    found = []
    for setting, devices in names.items():
        figures = WriteCacheFigures(write_cache=setting, devices=devices)
        found += [Finding(severity="note", cells=[], figures=figures)]
    return found


_WRITE_CACHES = {
    "write back": (
        "The drive acknowledges writes before they are durable, so every commit ends with a flush; "
        "the commit tests show its cost.",
        "None needed, as long as no mount option disables flushes.",
    ),
    "write through": (
        "The drive reports acknowledged writes as durable: its cache is off or has power-loss "
        "protection, or a controller or hypervisor vouches for it. Commits need no flush.",
        "If commits are fast, verify the power-loss protection in the data sheet; if writes are "
        "slow, check 'hdparm -W /dev/DEVICE'.",
    ),
}
_WRITE_CACHE_KINDS = {
    "write back": "a volatile write cache (write-back)",
    "write through": "no volatile write cache (write-through)",
}
