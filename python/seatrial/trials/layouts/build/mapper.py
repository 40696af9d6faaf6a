"""Creates, reloads, queries and removes our own device-mapper devices.

Their names begin with ``seatrial-``, by which undoing recognises them. ``dmsetup`` creates their
nodes itself (``--noudevrules``) and does not wait for udev, which a lab lacks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.commands import run_command
from seatrial.machine.fingerprint.tree import LIVE, program_path
from seatrial.machine.sysblock import BlockNode, node_by_name
from seatrial.machine.undo_result import Result, Undoer, failed, foreign, gone, undone
from seatrial.machine.uses import uses_of_device
from seatrial.units import SECTOR_BYTES

NAME_PREFIX: Final = "seatrial-"
_ALONE: Final = ("--noudevsync", "--noudevrules")


def mapper_obstacle(targets: frozenset[str]) -> str:
    """Return why this kernel lacks some mapper targets, as a sentence; empty if it has all.

    Args:
        targets: Such as ``dust`` and ``delay``.
    """
    if program_path("dmsetup") is None:
        return "The program dmsetup is not installed; `apt-get install dmsetup` installs it"
    if "device-mapper" not in (LIVE.text("/proc/devices") or ""):
        return "This kernel has no device-mapper (module dm-mod)"
    loaded = {line.split()[0] for line in run_command("dmsetup", "targets").splitlines()}
    missing = sorted(f"dm-{name}" for name in targets - loaded)
    return f"This kernel has not loaded {' and '.join(missing)}" if missing else ""


def make(name: str, table: str) -> str:
    """Create a device and return its path; the caller has recorded it as ``dm``.

    Raises:
        TargetError: when the kernel refuses the table.
    """
    run_command("dmsetup", "create", *_ALONE, name, "--table", table)
    node = mapped_node(name)
    if node is None:
        raise TargetError(
            seen=f"Device-mapper created {name}, but it is not in sysfs",
            cause="It was removed by another process, or sysfs is not mounted",
            next_step="Check `dmsetup ls`",
        )
    return f"/dev/{node.name}"


def reload(name: str, table: str) -> None:
    """Switch a device to another table atomically; waiting requests continue with the new one.

    A single call exchanges the table and resumes, so that a kill never leaves it suspended.
    Source: dm_ioctl ``do_resume`` of the kernel.

    Raises:
        TargetError: when the kernel refuses the table.
    """
    run_command("dmsetup", "reload", name, "--table", table)
    run_command("dmsetup", "resume", *_ALONE, "--noflush", "--nolockfs", name)


def reload_over_below(name: str, target: str) -> None:
    """Switch a device to a table with one target over its underlying device.

    Args:
        name: Its mapper name.
        target: Such as ``linear {below} 0``.

    Raises:
        TargetError: when there is no such device, or the kernel refuses the table.
    """
    node = mapped_node(name)
    below = LIVE.names(f"{node.directory}/slaves") if node else []
    if node is None or not below:
        raise TargetError(
            seen=f"{name} has no underlying drive any more",
            cause="A fault was injected, or it was removed",
            next_step="Check `dmsetup table`",
        )
    sectors = node.size_bytes() // SECTOR_BYTES
    reload(name, f"0 {sectors} {target.format(below=f'/dev/{below[0]}')}")


def message(name: str, *words: str) -> None:
    """Send a message to a device's target.

    Raises:
        TargetError: when it does not take it.
    """
    run_command("dmsetup", "message", name, "0", *words)


def mapped_name(device: str) -> str:
    """Return the mapper name of a device; empty if it is not ours."""
    number = LIVE.block_number(device)
    found = (LIVE.word(f"/sys/dev/block/{number}/dm/name") or "") if number else ""
    return found if found.startswith(NAME_PREFIX) else ""


def mapped_node(name: str) -> BlockNode | None:
    """Return the block device with a mapper name."""
    nodes = (node_by_name(each) for each in LIVE.names("/sys/block") if each.startswith("dm-"))
    found = (node for node in nodes if node and LIVE.word(f"{node.directory}/dm/name") == name)
    return next(found, None)


def undo_dm(*, name: str) -> Result:
    """Remove a run's mapped device, unless it is in use."""
    node = _own_node(name)
    if isinstance(node, Result):
        return node
    uses = uses_of_device(node.number)
    if uses:
        return failed(f"it {uses[0].phrase}; {uses[0].release}")
    run_command("dmsetup", "remove", *_ALONE, "--retry", name)
    # Nodes created by dmsetup itself are not removed by anything else.
    Path("/dev/mapper", name).unlink(missing_ok=True)
    return undone("removed")


def undo_flaky(*, name: str) -> Result:
    """Make a run's flaky drive pass all requests again."""
    node = _own_node(name)
    if isinstance(node, Result):
        return node
    if not LIVE.names(f"{node.directory}/slaves"):
        return gone("it was made to fail permanently meanwhile")
    reload_over_below(name, "linear {below} 0")
    return undone("passes all requests again")


def _own_node(name: str) -> BlockNode | Result:
    """Return the mapped device of a run, or why there is nothing to undo."""
    if not name.startswith(NAME_PREFIX):
        return foreign("its name was not created by seatrial")
    return mapped_node(name) or gone("it no longer exists")


MAPPER_UNDOERS: Final[dict[str, Undoer]] = {
    "dm": Undoer(undo=undo_dm, subject="name"),
    "flaky": Undoer(undo=undo_flaky, subject="name"),
}
