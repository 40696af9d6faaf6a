"""Whether a run that is gone on with still finds the targets that it was measured on.

A path is only a name: where nothing is mounted any more, the directory below it still takes
files, and samples of another drive would join the run as if they were of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from seatrial.errors import TargetError
from seatrial.machine import fingerprint as context
from seatrial.results.model import Run
from seatrial.study.model import Plan
from seatrial.study.units import format_size

DEVICE_FACTS: Final = ("kind", "model", "size_bytes", "serial_hash")
"""What tells one device from another; its name may be another after a restart."""
FILESYSTEM_FACTS: Final = ("type", "mount_point")

Facts = Mapping[str, Any]


def require_same_targets(run: Run, plan: Plan) -> None:
    """Check that each target of a stored run lies on the devices that it lay on.

    Raises:
        TargetError: when one lies on other devices or another file system, as far as both are
            known.
    """
    for label, path in storage_paths(plan).items():
        then = _then(run.fingerprint_before, label)
        now = context.target_fingerprint(path)
        if then and now and _differ(then, now):
            raise TargetError(
                seen=f"{path} lay on {_reported(then)} when run {run.id} was measured, and lies on "
                f"{_reported(now)} now",
                cause="What was measured is not mounted or attached there any more; its samples "
                "and those of something else make no common result",
                next_step="Mount or attach it again, or measure anew as a run of its own",
            )


def storage_paths(plan: Plan) -> dict[str, Path]:
    """Return the path of each target that lies on storage, by label, in the order of the plan.

    Layouts are not there before they are built; in their place stand the drives that they are
    built of, by their paths, or the folder in which the files of loop devices lie.
    """
    targets = {
        target.label: Path(target.path)
        for target in plan.targets
        if target.is_storage and target.path
    }
    drives = plan.study.drives
    if not plan.study.layouts:
        return targets
    if drives.loop:
        return targets | {"drives": Path(drives.folder or ".").resolve()}
    return targets | {path: Path(path) for path in drives.devices}


def _then(before: Facts, label: str) -> Facts | None:
    """Return what the fingerprint of a run holds of a target: the first one's has no label."""
    found = (before.get("other_targets") or {}).get(label, before.get("target"))
    return found if isinstance(found, dict) else None


def _differ(then: Facts, now: Facts) -> bool:
    system_then, system_now = then.get("filesystem"), now.get("filesystem")
    if (
        system_then
        and system_now
        and _facts(system_then, FILESYSTEM_FACTS) != _facts(system_now, FILESYSTEM_FACTS)
    ):
        return True
    devices_then, devices_now = _devices(then), _devices(now)
    if not devices_then or not devices_now:
        return False
    media = _medium(then), _medium(now)
    return devices_then != devices_now or (all(media) and media[0] != media[1])


def _medium(target: Facts) -> str | None:
    """Return what tells the topmost device's medium from others; None where it is not known."""
    found: str | None = target["stack"][0].get("medium_hash")
    return found


def _devices(target: Facts) -> list[str]:
    return sorted(_facts(node, DEVICE_FACTS) for node in target.get("stack") or [])


def _facts(part: Facts, names: tuple[str, ...]) -> str:
    return repr([part.get(name) for name in names])


def _reported(target: Facts) -> str:
    """Return what a target lies on, such as ``loop0 (400 MiB, loop) with xfs on /mnt/ssd``."""
    nodes = target.get("stack") or []
    reported = "no device that is visible"
    if nodes:
        top = nodes[0]
        size = f"{format_size(top['size_bytes'])}, " if top.get("size_bytes") else ""
        reported = f"{top.get('name')} ({size}{top.get('model') or top.get('kind')})"
    system = target.get("filesystem")
    where = f" with {system.get('type')} on {system.get('mount_point')}" if system else ""
    return reported + where
