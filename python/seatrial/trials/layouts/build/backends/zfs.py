"""ZFS: a pool of drives with a file system, spares, intent log and read cache.

It works with the programs of OpenZFS and with the older ones of zfs-fuse, using only what both
support.

Source: the ZFS on-disk specification, chapter 1: four labels of 256 KiB, two at the beginning and
two at the end of each device; each contains the names and values of the pool (XDR). OpenZFS
partitions a whole disk first, and uses its first partition.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.sysblock import node_by_number
from seatrial.machine.undo_result import (
    POLL_S,
    Outcome,
    Result,
    Undoer,
    failed,
    foreign,
    undone,
)
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build.backend import (
    ArrayState,
    Backend,
    Built,
    Construction,
    Program,
    Step,
)
from seatrial.trials.layouts.build.failing import can_fail, fail_drive
from seatrial.trials.layouts.build.md_legs import leg_name
from seatrial.trials.layouts.build.names import NAME_PREFIX, mount_folder
from seatrial.trials.layouts.build.running import attempt, removed_or_renumbered, run_checked

_LABEL_BYTES: Final = 256 << 10


def wipe_labels(device: str, pool: str) -> bool:
    """Wipe a pool's labels from a drive; return whether there were any.

    Raises:
        OSError: when the drive is in use, or cannot be written.
        TargetError: when its partition table cannot be wiped.
    """
    labelled = [path for path in _with_partitions(device) if _has_label_of(path, pool)]
    for path in labelled:
        _zero_labels(path)
        # The partition table that OpenZFS created belongs to the pool, too.
        run_checked(["wipefs", "--all", "--force", device])
    return bool(labelled)


def _with_partitions(device: str) -> list[str]:
    """Return a drive and its existing partitions."""
    number = LIVE.block_number(device)
    if number is None:
        return []
    return [device, *(f"/dev/{part.name}" for part in node_by_number(number).partitions())]


def _has_label_of(path: str, pool: str) -> bool:
    """Return whether the first label is of a pool of that name."""
    try:
        with Path(path).open("rb", buffering=0) as file:
            label = file.read(_LABEL_BYTES)
    except OSError:
        return False
    word = pool.encode()
    return len(word).to_bytes(4, "big") + word in label


def _zero_labels(path: str) -> None:
    """Zero all four labels; fails if the drive is in use."""
    descriptor = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    try:
        end_bytes = os.lseek(descriptor, 0, os.SEEK_END) // _LABEL_BYTES * _LABEL_BYTES
        for start_bytes in (0, end_bytes - 2 * _LABEL_BYTES):
            os.pwrite(descriptor, bytes(2 * _LABEL_BYTES), start_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_PERCENT: Final = re.compile(r"([0-9.]+)% done")
_STATES: Final = ("ONLINE", "DEGRADED", "FAULTED", "OFFLINE", "UNAVAIL", "REMOVED", "SUSPENDED")
_LOST: Final = frozenset({"FAULTED", "UNAVAIL", "SUSPENDED"})
_SECTIONS: Final = frozenset({"logs", "cache", "spares", "special", "dedup"})
_GROUPS: Final = re.compile(r"(mirror|raidz[123]?|draid[123]?)-\d+")
_STAND_INS: Final = re.compile(r"(spare|replacing)-\d+")


@dataclass(kw_only=True)
class Vdev:
    """A row of the table, with those indented below it."""

    name: str
    state: str
    checksum_errors: int = 0
    below: list[Vdev] = field(default_factory=list)

    def serves(self, *, is_resilvering: bool) -> bool:
        """Return whether this slot of the array has all its data.

        During a resilvering a replacement does not.
        """
        if not _STAND_INS.fullmatch(self.name):
            return self.state == "ONLINE"
        return not is_resilvering and any(each.state == "ONLINE" for each in self.below)

    def walk(self) -> Iterator[Vdev]:
        """Yield it and all rows below it."""
        yield self
        for each in self.below:
            yield from each.walk()


@dataclass(frozen=True, kw_only=True)
class PoolStatus:
    """The status of a pool.

    Attributes:
        state: State of the whole, such as ``ONLINE`` or ``DEGRADED``.
        scan: Its report of the last scrub or resilvering.
        slots: The array's slots: drives, or replacements in progress.
    """

    state: str
    scan: str
    slots: list[Vdev]

    @property
    def operation(self) -> str:
        """``rebuild``, ``scrub`` or empty."""
        if "resilver in progress" in self.scan:
            return "rebuild"
        return "scrub" if "scrub in progress" in self.scan else ""

    @property
    def share(self) -> float | None:
        """Progress of the operation, 0 to 1; None if unknown."""
        found = _PERCENT.search(self.scan) if self.operation else None
        return min(float(found[1]) / 100, 1.0) if found else None

    @property
    def has_failed(self) -> bool:
        """Whether it is out of service."""
        return self.state in _LOST

    @property
    def checksum_errors(self) -> list[int]:
        """Checksum errors of each drive."""
        return [each.checksum_errors for slot in self.slots for each in slot.walk()]

    def missing(self, members: int) -> int:
        """Count the slots of ``members`` that are not in service."""
        resilvering = self.operation == "rebuild"
        serving = sum(slot.serves(is_resilvering=resilvering) for slot in self.slots)
        return max(members - serving, 0)


def read_status(pool: str) -> PoolStatus:
    """Return the status of a pool.

    Raises:
        TargetError: when ZFS does not respond, or there is no such pool.
    """
    return parse_status(run_checked(["zpool", "status", pool]))


def parse_status(text: str) -> PoolStatus:
    """Parse the output of `zpool status POOL`."""
    states: dict[str, str] = {}
    key = ""
    table: list[str] = []
    for line in text.splitlines():
        head = re.match(r" *([a-z]+):(.*)", line)
        if head:
            key = head[1]
            states[key] = head[2].strip()
        elif key == "config":
            table.append(line.removeprefix("\t"))
        else:
            states[key] = f"{states.get(key, '')} {line.strip()}".strip()
    scan = states.get("scan", states.get("scrub", ""))
    return PoolStatus(state=states.get("state", ""), scan=scan, slots=_slots(table))


def _slots(table: list[str]) -> list[Vdev]:
    """Return the array's slots: rows in a group, or directly in the pool."""
    stack: list[tuple[int, Vdev]] = []
    pool: Vdev | None = None
    for line in table:
        words = line.split()
        if words and words[0] in _SECTIONS and len(words) == 1:
            break
        if len(words) < 2 or words[1] not in _STATES:
            continue
        vdev = Vdev(name=words[0], state=words[1], checksum_errors=_count(words))
        indent = len(line) - len(line.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if stack:
            stack[-1][1].below.append(vdev)
        else:
            pool = vdev
        stack.append((indent, vdev))
    tops = pool.below if pool else []
    return [slot for top in tops for slot in (top.below if _GROUPS.fullmatch(top.name) else [top])]


def _count(words: list[str]) -> int:
    """Return the last of the three counts: READ, WRITE, CKSUM; large ones are rounded there."""
    if len(words) < 5:
        return 0
    found = re.fullmatch(r"([0-9.]+)([KMG]?)", words[4])
    scale = {"": 1, "K": 1000, "M": 1_000_000, "G": 1_000_000_000}
    return int(float(found[1]) * scale[found[2]]) if found else 0


_DESTROY_PATIENCE_S: Final = 10.0
"""zfs-fuse keeps a pool busy for some time after a resilvering or an unmount."""
_KINDS: Final = {"stripe": (), "mirror": ("mirror",)}
_OPTIONS: Final = {"noatime": "atime=off", "atime": "atime=on"}


def undo_zfs(*, pool: str, devices: str) -> Result:
    """Destroy our pool and wipe it from its drives.

    ``devices`` are all drives that may be part of it, separated by commas.
    """
    if not pool.startswith(NAME_PREFIX):
        return foreign("its name is not one that seatrial gives")
    found = _destroy(pool) if _is_imported(pool) else None
    if found and found.outcome == Outcome.FAILED:
        return found
    drives = devices.split(",")
    wiped = [device for device in drives if wipe_labels(device, pool)]
    destroyed = found.detail if found else ""
    removed = f"wiped from {len(wiped)} drives" if wiped else destroyed
    tags, is_all = {f"LABEL={pool}"}, len(wiped) == len(drives)
    return removed_or_renumbered(removed, tags, "it no longer exists", is_all=is_all)


class Zfs(Backend):
    """ZFS, by the kernel (OpenZFS) or a daemon (zfs-fuse)."""

    name: ClassVar = "zfs"
    levels: ClassVar = ("stripe", "mirror", "raidz1", "raidz2", "raidz3")
    programs: ClassVar = (
        Program(name="zpool", package="zfsutils-linux"),
        Program(name="zfs", package="zfsutils-linux"),
        Program(name="wipefs", package="util-linux"),
    )
    undoers: ClassVar = {"zfs": Undoer(undo=undo_zfs, subject="pool", survives_reboot=True)}
    is_filesystem: ClassVar = True
    parts: ClassVar = frozenset({"spares", "logs", "caches"})

    def obstacle(self) -> str:
        """Return why ZFS is not available, as a sentence: no module, or no daemon."""
        try:
            ended = attempt(["zpool", "list", "-H", "-o", "name"])
        except TargetError as error:
            return error.seen
        if ended.status == 0:
            return ""
        words = " ".join(ended.error_output.split())
        return f"ZFS does not respond (start it with `modprobe zfs` or `zfs-fuse`): {words}"

    def check(self, spec: LayoutSpec) -> str:
        """Return why it cannot build a variant, as a sentence."""
        if spec.member_bytes is not None:
            return "ZFS uses whole drives and does not support member_size"
        if (spec.logs or spec.caches) and spec.expose == "legs":
            return "A log or cache drive belongs to one pool, but every leg is a separate pool"
        unknown = [each for each in spec.mount_options if not _property(each)]
        if unknown:
            return f"ZFS has no mount option {unknown[0]}; use properties, such as atime=off"
        return ""

    def plan(self, spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
        """Return how it is built: one pool, or one for each exposed leg."""
        folders = tuple(mount_folder(name, label) for label in spec.target_labels)
        steps = (
            _create(spec, assigned, name, leg, folder)
            for leg, folder in enumerate(folders, start=1)
        )
        return Construction(steps=tuple(steps), folders=folders)

    def describe(self, built: Built) -> dict[str, str]:
        """Return facts: version, block sizes and the report of the last scrub or resilvering."""
        facts = {"chunk": "recordsize, as ZFS has no chunk"}
        for leg in range(1, len(built.folders) + 1):
            mark = f" of leg {leg}" if len(built.folders) > 1 else ""
            pool = _pool(built.spec, built.name, leg)
            facts |= {f"{key}{mark}": value for key, value in _properties(pool).items()}
            facts[f"scan{mark}"] = read_status(pool).scan or "none"
        return facts

    def state(self, built: Built, leg: int) -> ArrayState:
        """Return the state of a leg's pool, by `zpool status`."""
        status = _status(built, leg)
        missing = status.missing(len(built.assigned.legs[leg - 1]))
        survived = built.spec.facts.losses_survived(built.spec.drives)
        return ArrayState(
            missing=missing,
            operation=status.operation,
            share=status.share,
            has_failed=missing > survived or status.has_failed,
        )

    def fail(self, built: Built, leg: int, member: int) -> str:
        """Make a drive fail; if that is impossible, take it offline as faulted."""
        drive = built.assigned.legs[leg - 1][member - 1]
        if can_fail(drive):
            fail_drive(drive)
        else:
            pool = _pool(built.spec, built.name, leg)
            run_checked(["zpool", "offline", "-f", pool, drive])
        return drive

    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Replace a drive by a new one, with a resilvering.

        Raises:
            TargetError: when ZFS refuses.
        """
        old_device = built.assigned.legs[leg - 1][member - 1]
        pool = _pool(built.spec, built.name, leg)
        run_checked(["zpool", "replace", "-f", pool, old_device, new_device])
        built.assign(leg, member, new_device)

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start to read all data of a leg and to correct checksum errors."""
        run_checked(["zpool", "scrub", _pool(built.spec, built.name, leg)])

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return the errors found by reading, in blocks of 512 bytes.

        ZFS counts its blocks with a wrong checksum on each drive; their sizes vary, so each counts
        as the smallest: one sector.
        """
        return sum(_status(built, leg).checksum_errors)


def _create(spec: LayoutSpec, assigned: DriveRoles, name: str, leg: int, folder: str) -> Step:
    drives, spares = assigned.legs[leg - 1], assigned.spares[leg - 1]
    pool = _pool(spec, name, leg)
    extras = (("spare", spares), ("log", assigned.logs), ("cache", assigned.caches))
    words = [word for kind, members in extras if members for word in (kind, *members)]
    properties = [part for each in spec.mount_options for part in ("-O", _property(each))]
    # A pool that has lost too much returns errors instead of waiting for ever.
    options = ("-o", "cachefile=none", "-o", "failmode=continue", *properties, *spec.mkfs_options)
    devices = [*drives, *spares, *assigned.logs, *assigned.caches, *assigned.unused]
    return Step(
        command=(
            *("zpool", "create", "-f", *options, "-m", folder, pool),
            *(*_KINDS.get(spec.level, (spec.level,)), *drives, *words),
        ),
        undo="zfs",
        details={"pool": pool, "devices": ",".join(devices)},
    )


def _pool(spec: LayoutSpec, name: str, leg: int) -> str:
    return leg_name(name, leg) if spec.expose == "legs" else name


def _property(option: str) -> str:
    """Return the property that corresponds to a mount option; empty if there is none."""
    return option if "=" in option else _OPTIONS.get(option, "")


def _properties(pool: str) -> dict[str, str]:
    """Return the properties of a pool that are relevant for comparing layouts."""
    output = run_checked(["zpool", "get", "all", pool])
    fields = [line.split() for line in output.splitlines()]
    wanted = {"version", "ashift", "size"}
    return {words[1]: words[2] for words in fields if len(words) > 2 and words[1] in wanted}


def _status(built: Built, leg: int) -> PoolStatus:
    return read_status(_pool(built.spec, built.name, leg))


def _is_imported(pool: str) -> bool:
    try:
        return attempt(["zpool", "list", "-H", "-o", "name", pool]).status == 0
    except TargetError:
        return False


def _destroy(pool: str) -> Result:
    give_up_at_s = time.monotonic() + _DESTROY_PATIENCE_S
    attempt(["zpool", "scrub", "-s", pool])
    while True:
        ended = attempt(["zpool", "destroy", "-f", pool])
        if ended.status == 0 or not _is_imported(pool):
            return undone("destroyed")
        if time.monotonic() > give_up_at_s:
            return failed(
                f"`zpool destroy` failed: {ended.error_output.strip()}; a process may use it, or"
                " zfs-fuse must be ended before its drives are free"
            )
        time.sleep(POLL_S * 10)


BACKEND: Final = Zfs()
