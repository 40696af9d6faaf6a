"""ZFS: a pool of drives that is a file system, with spares, intent log and read cache.

It works with the programs of OpenZFS and with the older ones of zfs-fuse; what only one of them
knows is not asked for.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final

from seatrial.errors import TargetError
from seatrial.machine.undoer import POLL_S, Outcome, Result, Undoer, failed, foreign, gone, undone
from seatrial.study.layouts.layout import Assigned, LayoutSpec
from seatrial.trials.layouts.build.backend import (
    ArrayState,
    Backend,
    Built,
    Construction,
    Program,
    Step,
)
from seatrial.trials.layouts.build.drive_failure import can_fail, fail_drive
from seatrial.trials.layouts.build.names import NAME_PREFIX, mount_folder
from seatrial.trials.layouts.build.running import attempt, run_checked
from seatrial.trials.layouts.build.zfs_labels import wipe_labels
from seatrial.trials.layouts.build.zfs_status import PoolStatus, read_status

_DESTROY_PATIENCE_S: Final = 10.0
"""zfs-fuse keeps a pool busy for a while after a resilvering or an unmount."""
_KINDS: Final = {"stripe": (), "mirror": ("mirror",)}
_OPTIONS: Final = {"noatime": "atime=off", "atime": "atime=on"}


def undo_zfs(*, pool: str, devices: str) -> Result:
    """Destroy a pool of ours and wipe it from its drives.

    ``devices`` are all that it may have come to lie on, separated by commas.
    """
    if not pool.startswith(NAME_PREFIX):
        return foreign("its name is not one that seatrial gives")
    found = gone("it no longer exists")
    if _is_imported(pool):
        found = _destroy(pool)
        if found.outcome == Outcome.FAILED:
            return found
    wiped = [device for device in devices.split(",") if wipe_labels(device, pool)]
    return undone(f"wiped from {len(wiped)} drives") if wiped else found


class Zfs(Backend):
    """ZFS, of the kernel (OpenZFS) or of a daemon (zfs-fuse)."""

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
        """Return why ZFS does not answer, as a sentence: no module, or no daemon."""
        try:
            ended = attempt(["zpool", "list", "-H", "-o", "name"])
        except TargetError as error:
            return error.seen
        if ended.status == 0:
            return ""
        words = " ".join(ended.complaint.split())
        return f"ZFS does not answer (`modprobe zfs` or `zfs-fuse` starts it): {words}"

    def check(self, spec: LayoutSpec) -> str:
        """Return what of a variant it cannot do, as a sentence."""
        if spec.member_bytes is not None:
            return "ZFS takes the whole of each drive, so it has no member_size"
        if (spec.logs or spec.caches) and spec.expose == "legs":
            return "A log or cache drive belongs to one pool, and every leg would be one"
        unknown = [each for each in spec.mount_options if not _property(each)]
        if unknown:
            return f"{unknown[0]} is no mount option of ZFS; write properties, such as atime=off"
        return ""

    def plan(self, spec: LayoutSpec, assigned: Assigned, name: str) -> Construction:
        """Return how it is built: one pool, or one a leg that stands side by side."""
        steps = []
        folders = []
        for place, label in enumerate(spec.target_labels):
            folder = mount_folder(name, label)
            steps.append(_create(spec, assigned, name, place, folder))
            folders.append(folder)
        return Construction(steps=tuple(steps), folders=tuple(folders))

    def describe(self, built: Built) -> dict[str, str]:
        """Return facts: version, blocks and what the last scrub or resilvering said."""
        facts = {"chunk": "recordsize, as ZFS has no chunk"}
        for leg in range(1, len(built.folders) + 1):
            mark = f" of leg {leg}" if len(built.folders) > 1 else ""
            pool = _pool(built.spec, built.name, leg - 1)
            facts |= {f"{key}{mark}": value for key, value in _properties(pool).items()}
            facts[f"scan{mark}"] = read_status(pool).scan or "none"
        return facts

    def state(self, built: Built, leg: int) -> ArrayState:
        """Return how the pool of a leg is, by `zpool status`."""
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
        """Make a drive fail; one that cannot be made to is taken offline as faulted."""
        drive = built.assigned.legs[leg - 1][member - 1]
        if can_fail(drive):
            fail_drive(drive)
        else:
            pool = _pool(built.spec, built.name, leg - 1)
            run_checked(["zpool", "offline", "-f", pool, drive])
        return drive

    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Have a new drive resilvered in place of a member.

        Raises:
            TargetError: when ZFS refuses.
        """
        drives = built.assigned.legs[leg - 1]
        pool = _pool(built.spec, built.name, leg - 1)
        run_checked(["zpool", "replace", "-f", pool, drives[member - 1], new_device])
        drives[member - 1] = new_device
        if new_device in built.assigned.unused:
            built.assigned.unused.remove(new_device)

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start to read all data of a leg, and to mend what does not agree with its checksum."""
        run_checked(["zpool", "scrub", _pool(built.spec, built.name, leg - 1)])

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return what reading found wrong, in blocks of 512 bytes.

        ZFS counts the blocks of its own that had a wrong checksum on each drive; they are of many
        sizes, so each is told as its smallest: one sector.
        """
        return sum(_status(built, leg).checksum_errors)


def _create(spec: LayoutSpec, assigned: Assigned, name: str, place: int, folder: str) -> Step:
    drives = assigned.legs[place]
    pool = _pool(spec, name, place)
    extras = [("spare", assigned.spares[place]), ("log", assigned.logs)]
    extras.append(("cache", assigned.caches))
    words = [word for kind, members in extras if members for word in (kind, *members)]
    properties = [part for each in spec.mount_options for part in ("-O", _property(each))]
    # A pool of which too much is gone answers with errors instead of waiting for it for ever.
    kept = ("-o", "cachefile=none", "-o", "failmode=continue", *properties, *spec.mkfs_options)
    every = [*drives, *assigned.spares[place], *assigned.logs, *assigned.caches, *assigned.unused]
    return Step(
        command=(
            *("zpool", "create", "-f", *kept, "-m", folder, pool),
            *(*_KINDS.get(spec.level, (spec.level,)), *drives, *words),
        ),
        undo="zfs",
        details={"pool": pool, "devices": ",".join(every)},
    )


def _pool(spec: LayoutSpec, name: str, place: int) -> str:
    return f"{name}-leg{place + 1}" if spec.expose == "legs" else name


def _property(option: str) -> str:
    """Return the property that a mount option stands for; empty where there is none."""
    return option if "=" in option else _OPTIONS.get(option, "")


def _properties(pool: str) -> dict[str, str]:
    """Return the properties of a pool that matter to whoever compares layouts."""
    reported = run_checked(["zpool", "get", "all", pool])
    fields = [line.split() for line in reported.splitlines()]
    wanted = {"version", "ashift", "size"}
    return {words[1]: words[2] for words in fields if len(words) > 2 and words[1] in wanted}


def _status(built: Built, leg: int) -> PoolStatus:
    return read_status(_pool(built.spec, built.name, leg - 1))


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
                f"`zpool destroy` said: {ended.complaint.strip()}; a process may use its folder, or"
                " zfs-fuse must be ended before its drives are free"
            )
        time.sleep(POLL_S * 10)


BACKEND: Final = Zfs()
