"""Facts that a plan needs about the targets and drives that a user names; nothing is changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from seatrial.errors import StudyError, TargetError, UsageError
from seatrial.fingerprint import Target as FoundTarget
from seatrial.machine.file import check_space, usable_bytes
from seatrial.machine.fingerprint import target_fingerprint
from seatrial.machine.guard import inspect
from seatrial.machine.marker import folder_name
from seatrial.machine.resolve import ResolvedTarget, TargetKind, resolve
from seatrial.study.layouts.layout import DriveInfo, planned_drives
from seatrial.study.model import Plan, TargetInfo
from seatrial.study.schema import Study, Target
from seatrial.topic import topics
from seatrial.trials.database.study.workloads import OnDatabase


def with_absolute_paths(study: Study) -> Study:
    """Return the study with absolute paths of targets and drives, as stored with the run.

    A run to be resumed is found by them from any folder.

    Raises:
        TargetError: when a target does not exist.
    """
    targets = [_from_the_root(target) for target in study.targets]
    drives = study.drives
    if drives.loop:
        drives = msgspec.structs.replace(drives, folder=_absolute(drives.folder or "."))
    devices = [_absolute(device) for device in drives.devices]
    drives = msgspec.structs.replace(drives, devices=devices)
    return msgspec.structs.replace(study, targets=targets, drives=drives)


def targets_info(study: Study) -> dict[str, TargetInfo]:
    """Return what is known of each target of a study that has a path, by label.

    Raises:
        TargetError: when a target does not exist.
    """
    infos = {}
    for target in study.targets:
        if target.kind in ("null", "simulated", "database"):
            infos[target.label] = TargetInfo(kind=target.kind)
        elif target.path:
            found = existing(target.path)
            info = _info(found)
            if info.kind == "directory" and found.path is not None and _has_database(study, target):
                info = _with_database(info, found.path, target.pg_bin)
            infos[target.label] = info
    return infos


def drives_info(study: Study) -> list[DriveInfo]:
    """Return the drives of layouts, with the known facts of devices; root is not needed.

    Raises:
        TargetError: when a device does not exist.
        StudyError: when one is not a block device.
    """
    if not study.layouts:
        return []
    known = {device: _drive_info(device) for device in study.drives.devices}
    return planned_drives(study.drives, known)


def _drive_info(device: str) -> DriveInfo:
    info = _info(existing(device))
    if info.kind != "device":
        raise StudyError(
            seen=f"{device} was given as a drive for layouts, but it is a {info.kind or 'name'}",
            cause="Layouts are built from block devices",
            next_step="Name devices such as /dev/sdb, or use loop devices with --loop 6x2G",
        )
    return DriveInfo(
        name=device, size_bytes=info.size_bytes, logical_block_bytes=info.logical_block_bytes
    )


def require_room(plan: Plan) -> None:
    """Check that the directories of a plan have room for its files and databases.

    Raises:
        SpaceError: when one has not enough.
        TargetError: when one cannot be read.
    """
    for target in plan.targets:
        if target.kind == "directory" and target.path:
            file_bytes = sum(file.size_bytes for file in plan.files if file.target == target.label)
            own = plan.cells_on(target.label)
            other_bytes = sum(topic.space_bytes(own) for topic in topics())
            check_space(
                Path(target.path, folder_name("planned")),
                file_bytes + other_bytes,
                "a smaller size or scale" if other_bytes else "--size",
            )


def refusals(plan: Plan) -> list[str]:
    """Return why a run of a plan would be refused now, as notes: no space, or read-only.

    On many hosts, the directories of this one say nothing.
    """
    if plan.study.hosts:
        return []
    found = [
        f"The directory {target.path} is not writable"
        for target in plan.targets
        if target.kind == "directory" and target.path and not os.access(target.path, os.W_OK)
    ]
    try:
        require_room(plan)
    except TargetError as error:
        found.append(error.seen.removesuffix("."))
    return [f"A run would be refused now: {reason}" for reason in found]


def existing(target: str) -> ResolvedTarget:
    """Return an existing target.

    Raises:
        TargetError: when it does not exist.
        UsageError: when it is a simulated device with a name; they have none.
    """
    found = resolve(target)
    if found.kind is TargetKind.SIMULATED:
        raise UsageError(
            seen=f"There is no simulated device called {found.name!r}",
            cause="A simulated device has no name, only a model",
            next_step="Write `seatrial io simulated --model FILE`, with the model in a TOML file",
        )
    if found.kind is TargetKind.NEW_FILE and found.path is not None:
        raise TargetError(
            seen=f"{found.path} does not exist, though its directory does",
            cause="The name is mistyped; trial files are created and removed inside a directory",
            next_step=f"Name a directory that exists, such as {found.path.parent}",
        )
    return found


def _from_the_root(target: Target) -> Target:
    if not target.path or resolve(target.path).path is None:
        return target
    return msgspec.structs.replace(target, path=_absolute(target.path))


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _info(found: ResolvedTarget) -> TargetInfo:
    if found.path is None:
        return TargetInfo(kind=found.kind.value)
    target = target_fingerprint(found.path)
    block_bytes = target.logical_block_bytes or 512
    drive_bytes = _drive_bytes(target)
    if found.kind is TargetKind.DIRECTORY:
        return TargetInfo(
            kind="directory", drive_bytes=drive_bytes, logical_block_bytes=block_bytes
        )
    kind = "device" if found.kind is TargetKind.BLOCK_DEVICE else "file"
    return TargetInfo(
        kind=kind,
        size_bytes=inspect(found.path).size_bytes,
        drive_bytes=drive_bytes,
        logical_block_bytes=block_bytes,
    )


def _has_database(study: Study, target: Target) -> bool:
    return any(
        isinstance(workload, OnDatabase)
        and (not workload.targets or target.label in workload.targets)
        for workload in study.workloads
    )


def _with_database(info: TargetInfo, folder: Path, pg_bin: str) -> TargetInfo:
    """Return the facts of a directory, with whether a PostgreSQL of our own can run there."""
    from seatrial.postgres.account import account_for  # noqa: PLC0415 - only here
    from seatrial.postgres.binaries import find_binaries  # noqa: PLC0415 - only here

    obstacle = ""
    try:
        binaries = find_binaries(pg_bin)
        account_for(folder / "data", binaries)
    except TargetError as error:
        obstacle = error.seen.removesuffix(".")
    found_bytes = usable_bytes(shutil.disk_usage(folder).free)
    return msgspec.structs.replace(info, usable_bytes=found_bytes, database_obstacle=obstacle)


def _drive_bytes(target: FoundTarget) -> int | None:
    """Return the capacity of the drives at the bottom of the stack; None if one is unknown."""
    sizes = [device.size_bytes for device in target.physical_devices]
    known = [size for size in sizes if size]
    return sum(known) if known and len(known) == len(sizes) else None
