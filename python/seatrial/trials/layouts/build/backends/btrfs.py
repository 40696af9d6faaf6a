"""btrfs over several drives: an array that is a file system.

Metadata has the level of the data, except for parity levels, where it is stored in copies as
recommended in btrfs(5), "RAID56 status and recommended practices". A ``raid1`` has two copies of
each block, whatever the number of drives. The file system's UUID is derived from the array's name,
so that undoing recognises its drives.

The counts of a scrub come from the command's final output: its status in ``/var/lib`` is not
writable in a lab.
"""

from __future__ import annotations

import re
import struct
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.mounts import mounts
from seatrial.machine.fingerprint.tree import LIVE, program_path
from seatrial.machine.undo_result import Outcome, Result, Undoer, failed, wait_until
from seatrial.machine.undoers import unmount
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build.backend import (
    ArrayState,
    Backend,
    Built,
    Construction,
    Program,
    Step,
)
from seatrial.trials.layouts.build.failing import fail_drive
from seatrial.trials.layouts.build.names import LABEL_MAX, identity, mount_folder, shortened
from seatrial.trials.layouts.build.running import attempt, removed_or_renumbered, run_checked

_SCRUB_PERCENT: Final = re.compile(r"\(([0-9.]+)%\)")
_COUNT: Final = re.compile(r"^\s*(\w+): (\d+)$", re.MULTILINE)
_SECTOR_BLOCKS: Final = 8
"""Blocks of 512 bytes in a sector of btrfs, the unit of its counts of errors."""
_WRONG: Final = ("csum_errors", "verify_errors")
"""Counts of silent corruption; a drive reports read errors itself."""
_FACTS: Final = {
    "corrected sectors": "corrected_errors",
    "uncorrectable sectors": "uncorrectable_errors",
    "unreadable sectors": "read_errors",
}


@dataclass(kw_only=True)
class _Scrub:
    process: subprocess.Popen[str]
    counts: dict[str, int] = field(default_factory=dict)

    def settle(self) -> None:
        """Read the counts once it has ended."""
        if self.process.poll() is not None and not self.counts:
            output, _ = self.process.communicate()
            self.counts = {name: int(count) for name, count in _COUNT.findall(output)}


def start_btrfs(*words: str) -> subprocess.Popen[str]:
    """Start a btrfs command that runs as long as its operation; the caller watches it.

    It outlives its parent: the operation runs in the kernel, and is cancelled by undoing.

    Raises:
        TargetError: when the program is not installed.
    """
    try:
        return subprocess.Popen(
            [program_path("btrfs") or "btrfs", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except OSError as error:
        raise TargetError(
            seen=f"`btrfs {words[0]}` cannot be run: {error.strerror}",
            cause="The program is not installed, or not in PATH",
            next_step="Install it with `apt-get install btrfs-progs` and try again",
        ) from None


class BtrfsScrubs:
    """The scrubs that this process has started, by mount point."""

    def __init__(self) -> None:
        self._scrubs: dict[str, _Scrub] = {}

    def start(self, folder: str) -> None:
        """Start a scrub.

        Raises:
            TargetError: when one is running there, or the program is not installed.
        """
        if self.is_running(folder):
            raise TargetError(
                seen=f"A scrub of {folder} is already running",
                cause="The previous scrub has not finished",
                next_step="Allow more time between two scrubs",
            )
        process = start_btrfs("scrub", "start", "-B", "-R", folder)
        self._scrubs[folder] = _Scrub(process=process)

    def is_running(self, folder: str) -> bool:
        """Return whether one is running."""
        scrub = self._settled(folder)
        return scrub is not None and scrub.process.poll() is None

    def share(self, folder: str) -> float | None:
        """Return the progress of a running scrub, 0 to 1; None if unknown."""
        found = _SCRUB_PERCENT.search(attempt(["btrfs", "scrub", "status", folder]).output)
        return min(float(found[1]) / 100, 1.0) if found else None

    def mismatch_blocks(self, folder: str) -> int | None:
        """Return the corruption found by the last one, in blocks of 512 bytes, if it counted."""
        counts = self._counts(folder)
        return _SECTOR_BLOCKS * sum(counts.get(name, 0) for name in _WRONG) if counts else None

    def facts(self, folder: str) -> dict[str, str]:
        """Return what the last one corrected or could not correct or read, in sectors of 4 KiB."""
        counts = self._counts(folder)
        return {name: str(counts[key]) for name, key in _FACTS.items() if key in counts}

    def _counts(self, folder: str) -> dict[str, int]:
        scrub = self._settled(folder)
        return scrub.counts if scrub else {}

    def _settled(self, folder: str) -> _Scrub | None:
        scrub = self._scrubs.get(folder)
        if scrub is not None:
            scrub.settle()
        return scrub


_METADATA: Final = {"raid5": "raid1", "raid6": "raid1c3"}
_DRIVE_MIN_BYTES: Final = 109 << 20
"""Smallest drive that mkfs.btrfs accepts with its default block sizes."""

# Source: the on-disk format of btrfs, struct btrfs_super_block: at 64 KiB; the file system's UUID
# is at offset 32 bytes and the magic number at 64 bytes.
_SUPERBLOCK_BYTES: Final = 64 << 10
_HEAD: Final = struct.Struct("<32x16s16x8s")
_MAGIC: Final = b"_BHRfS_M"

_DEVICE: Final = re.compile(r"devid +(?P<devid>\d+) .* path (?P<path>.*)")
_PERCENT: Final = re.compile(r"([0-9.]+)% done")


def undo_btrfs(*, fsid: str, point: str, devices: str) -> Result:
    """Unmount our file system, identified by its UUID, and wipe it from its drives.

    ``devices`` are all drives that may be part of it, separated by commas.
    """
    found = None
    home = f"/sys/fs/btrfs/{fsid}"
    if LIVE.exists(home):
        for verb in (("replace", "cancel"), ("scrub", "cancel")):
            attempt(["btrfs", *verb, point])
        found = unmount(point)
        if found.outcome == Outcome.FAILED:
            return found
        if LIVE.exists(home):
            return failed("it is also mounted elsewhere; `findmnt -t btrfs` shows where")
    found_fsids = {device: read_fsid(device) for device in devices.split(",")}
    wiped = [device for device, its in found_fsids.items() if its == fsid]
    for device in wiped:
        run_checked(["wipefs", "--all", "--force", device])
    # A failed drive has no UUID, but the kernel would still add it to the next file system of that
    # UUID.
    for device, its in found_fsids.items():
        if its in {fsid, ""}:
            attempt(["btrfs", "device", "scan", "--forget", device])
    # Status files of btrfs scrub; the name is unique to our file system.
    for path in Path("/var/lib/btrfs").glob(f"scrub.*.{fsid}*"):
        path.unlink(missing_ok=True)
    unmounted = found.detail if found else ""
    removed = f"wiped from {len(wiped)} drives" if wiped else unmounted
    tags, is_all = {f"UUID={fsid}"}, len(wiped) == len(found_fsids)
    return removed_or_renumbered(removed, tags, "it no longer exists", is_all=is_all)


def read_fsid(device: str) -> str:
    """Return the UUID of the btrfs on a drive; empty if there is none or it is unreadable."""
    try:
        with Path(device).open("rb", buffering=0) as file:
            file.seek(_SUPERBLOCK_BYTES)
            head = file.read(_HEAD.size)
    except OSError:
        return ""
    if len(head) < _HEAD.size:
        return ""
    fsid, magic = _HEAD.unpack(head)
    return str(uuid.UUID(bytes=fsid)) if magic == _MAGIC else ""


class Btrfs(Backend):
    """The kernel's btrfs."""

    name: ClassVar = "btrfs"
    levels: ClassVar = ("single", "raid0", "raid1", "raid10", "raid5", "raid6")
    programs: ClassVar = (
        Program(name="mkfs.btrfs", package="btrfs-progs"),
        Program(name="btrfs", package="btrfs-progs"),
        Program(name="wipefs", package="util-linux"),
    )
    undoers: ClassVar = {"btrfs": Undoer(undo=undo_btrfs, subject="point", survives_reboot=True)}
    is_filesystem: ClassVar = True
    parts: ClassVar = frozenset[str]()

    def __init__(self) -> None:
        self._scrubs = BtrfsScrubs()
        self._replacing: dict[str, subprocess.Popen[str]] = {}

    def obstacle(self) -> str:
        """Return whether the kernel lacks btrfs, as a sentence."""
        known = (LIVE.text("/proc/filesystems") or "").split()
        return "" if "btrfs" in known else "This kernel has not loaded btrfs (module btrfs)"

    def check(self, spec: LayoutSpec) -> str:
        """Return why it cannot build a variant, as a sentence."""
        if spec.member_bytes is not None and spec.member_bytes < _DRIVE_MIN_BYTES:
            return "btrfs needs at least 109 MiB of each drive"
        return ""

    def plan(self, spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
        """Return how it is built: one file system, or one for each exposed leg."""
        folders = tuple(mount_folder(name, label) for label in spec.target_labels)
        steps = (
            step
            for leg, folder in enumerate(folders, start=1)
            for step in _steps(spec, assigned, name, leg, folder)
        )
        return Construction(steps=tuple(steps), folders=folders)

    def describe(self, built: Built) -> dict[str, str]:
        """Return facts: profiles of data and metadata, chunk, usage, and scrubs."""
        facts = {"chunk": "64 KiB, as it is built into btrfs"}
        for leg, folder in enumerate(built.folders, start=1):
            mark = f" of leg {leg}" if len(built.folders) > 1 else ""
            output = run_checked(["btrfs", "filesystem", "usage", "--raw", folder])
            for line in output.splitlines():
                key, colon, value = line.strip().partition(":")
                kind, comma, profile = key.partition(",")
                if comma and kind in {"Data", "Metadata", "System"}:
                    facts[f"{kind.lower()}{mark}"] = profile.lower()
                elif colon and key in {"Data ratio", "Metadata ratio", "Device unallocated"}:
                    facts[f"{key.lower()}{mark}"] = value.strip()
            facts |= {f"{key}{mark}": value for key, value in self._scrubs.facts(folder).items()}
        return facts

    def state(self, built: Built, leg: int) -> ArrayState:
        """Return the state of a leg's file system, by the kernel's counters of its drives."""
        folder = built.folders[leg - 1]
        home = _home(built, leg)
        missing = _missing(home)
        operation, share = "", None
        if LIVE.exists(f"{home}/devinfo/0"):  # A drive under replacement has the number 0.
            operation, share = "rebuild", _replaced_share(folder)
            missing = max(missing, 1)
        elif self._scrubs.is_running(folder):
            operation, share = "scrub", self._scrubs.share(folder)
        return ArrayState(
            missing=missing,
            operation=operation,
            share=share,
            has_failed=missing > built.spec.facts.losses_survived(built.spec.drives)
            or _is_read_only(folder),
        )

    def fail(self, built: Built, leg: int, member: int) -> str:
        """Make a drive fail that is the run's own loop device, or wrapped."""
        drive = built.assigned.legs[leg - 1][member - 1]
        fail_drive(drive)
        return drive

    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Replace a drive by a new one; what the old one cannot provide is rebuilt.

        Raises:
            TargetError: when the kernel does not begin.
        """
        folder = built.folders[leg - 1]
        link = f"{_home(built, leg)}/devices/{Path(new_device).resolve().name}"
        if LIVE.exists(link):
            # btrfs holds a failed drive until another has replaced it.
            raise _not_replaced(
                new_device, folder, "It is still one of its drives, possibly a failed one"
            )
        options = ("-B", "-r", "-f", str(member), new_device, folder)
        replacing = start_btrfs("replace", "start", *options)
        self._replacing[folder] = replacing
        if not wait_until(lambda: LIVE.exists(link) or replacing.poll() is not None):
            raise _not_replaced(new_device, folder, "The kernel did not start the replacement")
        if replacing.poll():
            raise _not_replaced(new_device, folder, f"Output: {replacing.communicate()[0]}")
        built.assign(leg, member, new_device)

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start to read all data of a leg and to correct checksum errors."""
        self._scrubs.start(built.folders[leg - 1])

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return the errors found by the last scrub, in blocks of 512 bytes."""
        return self._scrubs.mismatch_blocks(built.folders[leg - 1])

    def limit_rebuild(self, built: Built, kib_per_s: int) -> list[Step]:
        """Return the steps that limit the read rate of a replacement or a scrub on each drive.

        Source: the kernel's btrfs, ``/sys/fs/btrfs/<uuid>/devinfo/<id>/scrub_speed_max``.
        """
        return [
            Step(
                command=("tee", f"{home}/devinfo/{devid}/scrub_speed_max"),
                undo="setting",
                details={"path": f"{home}/devinfo/{devid}/scrub_speed_max", "old": "0"},
                stdin=f"{kib_per_s}K\n" if kib_per_s else "0\n",
            )
            for leg in range(1, len(built.folders) + 1)
            for home in [_home(built, leg)]
            for devid in LIVE.names(f"{home}/devinfo")
        ]


def _steps(spec: LayoutSpec, assigned: DriveRoles, name: str, leg: int, folder: str) -> list[Step]:
    drives = assigned.legs[leg - 1]
    fsid = _fsid(name, leg)
    metadata = _METADATA.get(spec.level, spec.level)
    size = ("--byte-count", str(spec.member_bytes)) if spec.member_bytes else ()
    options = ("-o", ",".join(spec.mount_options)) if spec.mount_options else ()
    label = shortened(name, LABEL_MAX["btrfs"])
    return [
        Step(
            command=(
                *("mkfs.btrfs", "-q", "-f", "-L", label, "-U", fsid),
                *("-d", spec.level, "-m", metadata, *size, *spec.mkfs_options, *drives),
            ),
            undo="btrfs",
            details={
                "fsid": fsid,
                "point": folder,
                "devices": ",".join([*drives, *assigned.unused]),
            },
        ),
        Step(command=("btrfs", "device", "scan", *drives)),
        Step(command=("mount", "-t", "btrfs", *options, drives[0], folder)),
    ]


def _home(built: Built, leg: int) -> str:
    """Return the sysfs folder of a leg's file system."""
    return f"/sys/fs/btrfs/{_fsid(built.name, leg)}"


def _fsid(name: str, leg: int) -> str:
    """Return the UUID of a leg's file system."""
    return str(identity(name, f"btrfs-{leg}"))


def _missing(home: str) -> int:
    """Count the drives not in service: missing, or with failed writes."""
    numbers = [devid for devid in LIVE.names(f"{home}/devinfo") if devid != "0"]
    failing = [devid for devid in numbers if _fails(f"{home}/devinfo/{devid}")]
    names = LIVE.names(f"{home}/devices")
    empty = [name for name in names if LIVE.integer(f"/sys/class/block/{name}/size") == 0]
    return max(len(failing), len(empty))


def _fails(info: str) -> bool:
    if LIVE.flag(f"{info}/missing"):
        return True
    counts = dict(line.split() for line in (LIVE.text(f"{info}/error_stats") or "").splitlines())
    return int(counts.get("write_errs", 0)) + int(counts.get("flush_errs", 0)) > 0


def _is_read_only(folder: str) -> bool:
    """Return whether btrfs has become read-only, as when metadata cannot be written."""
    found = [mount for mount in mounts(LIVE) if mount.point == folder]
    return bool(found) and "ro" in found[-1].options.split(",")


def _replaced_share(folder: str) -> float | None:
    ended = attempt(["btrfs", "replace", "status", "-1", folder])
    found = _PERCENT.search(ended.output)
    return float(found[1]) / 100 if found else None


def _not_replaced(device: str, folder: str, why: str) -> TargetError:
    return TargetError(
        seen=f"{device} cannot replace a drive of the btrfs on {folder}",
        cause=why,
        next_step="Give one drive more than the layout has; also check the end of `dmesg`: btrfs "
        "needs free space, which a nearly full drive does not have",
    )


BACKEND: Final = Btrfs()
