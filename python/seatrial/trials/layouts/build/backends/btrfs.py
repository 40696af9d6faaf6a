"""btrfs over several drives: an array that is a file system.

Metadata have the level of the data, but for parity levels, where they are kept in copies as the
documentation of btrfs advises (btrfs(5), "RAID56 status and recommended practices"). A ``raid1``
holds two copies of each block, whatever the number of drives. The file system's UUID follows from
the array's name, so that the undoing knows its drives by it.
"""

from __future__ import annotations

import re
import struct
import subprocess
import uuid
from pathlib import Path
from typing import ClassVar, Final

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.mounts import mounts
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.undoer import Outcome, Result, Undoer, comes_true, failed, gone, undone
from seatrial.machine.unmounting import unmount
from seatrial.study.layouts.layout import Assigned, LayoutSpec
from seatrial.trials.layouts.build.backend import (
    ArrayState,
    Backend,
    Built,
    Construction,
    Program,
    Step,
)
from seatrial.trials.layouts.build.btrfs_scrubs import BtrfsScrubs, begin
from seatrial.trials.layouts.build.drive_failure import fail_drive
from seatrial.trials.layouts.build.names import LABEL_MAX, identity, mount_folder, shortened
from seatrial.trials.layouts.build.running import attempt, run_checked

_METADATA: Final = {"raid5": "raid1", "raid6": "raid1c3"}
_COPIES_LOST: Final = 1
"""Drives that a raid1 of btrfs survives: it has two copies, also on many drives."""
_DRIVE_MIN_BYTES: Final = 109 << 20
"""Smallest drive that mkfs.btrfs takes with its usual block sizes."""

# Source: the on-disk format of btrfs, struct btrfs_super_block: at 64 KiB, the UUID of the file
# system 32 bytes and the magic number 64 bytes from there.
_SUPERBLOCK_BYTES: Final = 64 << 10
_HEAD: Final = struct.Struct("<32x16s16x8s")
_MAGIC: Final = b"_BHRfS_M"

_DEVICE: Final = re.compile(r"devid +(?P<devid>\d+) .* path (?P<path>.*)")
_PERCENT: Final = re.compile(r"([0-9.]+)% done")


def undo_btrfs(*, fsid: str, point: str, devices: str) -> Result:
    """Unmount a file system of ours, known by its UUID, and wipe it from its drives.

    ``devices`` are all that it may have come to lie on, separated by commas.
    """
    found = gone("it no longer exists")
    home = f"/sys/fs/btrfs/{fsid}"
    if LIVE.exists(home):
        for verb in (("replace", "cancel"), ("scrub", "cancel")):
            attempt(["btrfs", *verb, point])
        found = unmount(point)
        if found.outcome == Outcome.FAILED:
            return found
        if LIVE.exists(home):
            return failed("it is mounted in another place, too; `findmnt -t btrfs` shows where")
    borne = {device: read_fsid(device) for device in devices.split(",")}
    wiped = [device for device, its in borne.items() if its == fsid]
    for device in wiped:
        run_checked(["wipefs", "--all", "--force", device])
    # One that failed bears nothing, but the kernel would still count it to the next of that UUID.
    for device in (device for device, its in borne.items() if its in {fsid, ""}):
        attempt(["btrfs", "device", "scan", "--forget", device])
    # What btrfs scrub keeps for its own status; the name is that of our file system alone.
    for path in Path("/var/lib/btrfs").glob(f"scrub.*.{fsid}*"):
        path.unlink(missing_ok=True)
    return undone(f"wiped from {len(wiped)} drives") if wiped else found


def read_fsid(device: str) -> str:
    """Return the UUID of the btrfs that lies on a drive; empty where none does, or none reads."""
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
    """btrfs, as it comes with the kernel."""

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
        """Return what of a variant it cannot do, as a sentence."""
        if spec.member_bytes is not None and spec.member_bytes < _DRIVE_MIN_BYTES:
            return "btrfs needs at least 109 MiB of each drive"
        return ""

    def plan(self, spec: LayoutSpec, assigned: Assigned, name: str) -> Construction:
        """Return how it is built: one file system, or one a leg that stands side by side."""
        steps: list[Step] = []
        folders = []
        for place, label in enumerate(spec.target_labels):
            folder = mount_folder(name, label)
            steps += _steps(spec, assigned, name, place, folder)
            folders.append(folder)
        return Construction(steps=tuple(steps), folders=tuple(folders))

    def describe(self, built: Built) -> dict[str, str]:
        """Return facts: profiles of data and metadata, chunk, what is used, and scrubs."""
        facts = {"chunk": "64 KiB, as it is built into btrfs"}
        for leg, folder in enumerate(built.folders, start=1):
            mark = f" of leg {leg}" if len(built.folders) > 1 else ""
            reported = run_checked(["btrfs", "filesystem", "usage", "--raw", folder])
            for line in reported.splitlines():
                key, colon, value = line.strip().partition(":")
                kind, comma, profile = key.partition(",")
                if comma and kind in {"Data", "Metadata", "System"}:
                    facts[f"{kind.lower()}{mark}"] = profile.lower()
                elif colon and key in {"Data ratio", "Metadata ratio", "Device unallocated"}:
                    facts[f"{key.lower()}{mark}"] = value.strip()
            facts |= {f"{key}{mark}": value for key, value in self._scrubs.facts(folder).items()}
        return facts

    def state(self, built: Built, leg: int) -> ArrayState:
        """Return how the file system of a leg is, by what the kernel counts of its drives."""
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
            has_failed=missing > _survived(built.spec) or _is_read_only(folder),
        )

    def fail(self, built: Built, leg: int, member: int) -> str:
        """Make a drive fail: one that is a loop device of the run's, or wrapped."""
        drive = built.assigned.legs[leg - 1][member - 1]
        fail_drive(drive)
        return drive

    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Have a new drive take a member's number; what the old one cannot tell is rebuilt.

        Raises:
            TargetError: when the kernel does not begin.
        """
        folder = built.folders[leg - 1]
        link = f"{_home(built, leg)}/devices/{Path(new_device).resolve().name}"
        if LIVE.exists(link):
            # btrfs holds on to a drive that failed until another has taken its place.
            raise _not_replaced(
                new_device, folder, "It still is one of its drives, if a failed one"
            )
        replacing = begin("replace", "start", "-B", "-r", "-f", str(member), new_device, folder)
        self._replacing[folder] = replacing
        if not comes_true(lambda: LIVE.exists(link) or replacing.poll() is not None):
            raise _not_replaced(new_device, folder, "The kernel did not begin in time")
        if replacing.poll():
            raise _not_replaced(new_device, folder, f"It said: {replacing.communicate()[0]}")
        built.assigned.legs[leg - 1][member - 1] = new_device
        if new_device in built.assigned.unused:
            built.assigned.unused.remove(new_device)

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start to read all data of a leg, and to mend what does not agree with its checksum."""
        self._scrubs.start(built.folders[leg - 1])

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return what the last scrub found wrong, in blocks of 512 bytes."""
        return self._scrubs.mismatch_blocks(built.folders[leg - 1])

    def limit_rebuild(self, built: Built, kib_per_s: int) -> list[Step]:
        """Return the steps that bound how fast each drive is read by a replacement or a scrub.

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


def _steps(spec: LayoutSpec, assigned: Assigned, name: str, place: int, folder: str) -> list[Step]:
    drives = assigned.legs[place]
    fsid = str(identity(name, _part(place + 1)))
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
    """Return where the kernel tells of the file system of a leg."""
    return f"/sys/fs/btrfs/{identity(built.name, _part(leg))}"


def _part(leg: int) -> str:
    """Return the word by which the UUID of a leg's file system differs from the others'."""
    return f"btrfs-{leg}"


def _missing(home: str) -> int:
    """Count the drives that do not serve: gone for good, or that writes have failed on."""
    numbers = [devid for devid in LIVE.names(f"{home}/devinfo") if devid != "0"]
    failing = [devid for devid in numbers if _fails(f"{home}/devinfo/{devid}")]
    names = LIVE.names(f"{home}/devices")
    empty = [name for name in names if LIVE.integer(f"/sys/class/block/{name}/size") == 0]
    return max(len(failing), len(empty))


def _fails(info: str) -> bool:
    if LIVE.flag(f"{info}/missing"):
        return True
    reported = dict(line.split() for line in (LIVE.text(f"{info}/error_stats") or "").splitlines())
    return int(reported.get("write_errs", 0)) + int(reported.get("flush_errs", 0)) > 0


def _survived(spec: LayoutSpec) -> int:
    if spec.level == "raid1":
        return _COPIES_LOST
    return spec.facts.losses_survived(spec.drives)


def _is_read_only(folder: str) -> bool:
    """Tell whether btrfs has given up writing, as it does when metadata cannot be written."""
    there = [mount for mount in mounts(LIVE) if mount.point == folder]
    return bool(there) and "ro" in there[-1].options.split(",")


def _replaced_share(folder: str) -> float | None:
    ended = attempt(["btrfs", "replace", "status", "-1", folder])
    found = _PERCENT.search(ended.output)
    return float(found[1]) / 100 if found else None


def _not_replaced(device: str, folder: str, why: str) -> TargetError:
    return TargetError(
        seen=f"{device} does not take the place of a drive of the btrfs on {folder}",
        cause=why,
        next_step="Name one drive more than the layout has; see the end of `dmesg`, too: a drive "
        "that is nearly full leaves btrfs no room for it",
    )


BACKEND: Final = Btrfs()
