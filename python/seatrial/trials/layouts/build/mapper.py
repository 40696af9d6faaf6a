"""The device-mapper as this house uses it: make, reload, tell and remove devices of our own.

Their names begin with ``seatrial-``; by that the undoing knows them. ``dmsetup`` makes their nodes
itself (``--noudevrules``) and does not wait for udev, which a lab has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.commands import run_command
from seatrial.machine.fingerprint.tree import LIVE, program_path
from seatrial.machine.sysblock import BlockNode, node_by_name
from seatrial.machine.undoer import Result, Undoer, failed, foreign, gone, undone
from seatrial.machine.uses import uses_of_device

NAME_PREFIX: Final = "seatrial-"
SECTOR_BYTES: Final = 512
_ALONE: Final = ("--noudevsync", "--noudevrules")


def mapper_obstacle(targets: frozenset[str]) -> str:
    """Return why this kernel cannot map devices by some targets, as a sentence; empty if it can.

    Args:
        targets: Such as ``dust`` and ``delay``.
    """
    if program_path("dmsetup") is None:
        return "The program dmsetup is not installed; `apt-get install dmsetup` brings it"
    if "device-mapper" not in (LIVE.text("/proc/devices") or ""):
        return "This kernel has no device-mapper (module dm-mod)"
    there = {line.split()[0] for line in run_command("dmsetup", "targets").splitlines()}
    missing = sorted(f"dm-{name}" for name in targets - there)
    return f"This kernel has not loaded {' and '.join(missing)}" if missing else ""


def make(name: str, table: str) -> str:
    """Make a device and return its path; the caller has journalled it as ``dm``.

    Raises:
        TargetError: when the kernel refuses the table.
    """
    run_command("dmsetup", "create", *_ALONE, name, "--table", table)
    node = mapped_node(name)
    if node is None:
        raise TargetError(
            seen=f"The device-mapper made {name}, but sysfs does not show it",
            cause="Something removed it, or sysfs is not mounted",
            next_step="See `dmsetup ls`",
        )
    return f"/dev/{node.name}"


def reload(name: str, table: str) -> None:
    """Give a device another table at once; requests that wait get on by the new one.

    The one call that resumes it also exchanges the table, so that no kill leaves it suspended.
    Source: dm_ioctl ``do_resume`` of the kernel.

    Raises:
        TargetError: when the kernel refuses the table.
    """
    run_command("dmsetup", "reload", name, "--table", table)
    run_command("dmsetup", "resume", *_ALONE, "--noflush", "--nolockfs", name)


def reload_over_below(name: str, target: str) -> None:
    """Give a device a table of one target over what it lies on.

    Args:
        name: The mapper's name of it.
        target: Such as ``linear {below} 0``.

    Raises:
        TargetError: when there is no such device, or the kernel refuses the table.
    """
    node = mapped_node(name)
    below = LIVE.names(f"{node.directory}/slaves") if node else []
    if node is None or not below:
        raise TargetError(
            seen=f"{name} lies on no drive any more",
            cause="It was made to fail, or removed",
            next_step="See `dmsetup table`",
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
    """Return the mapper's name of a device; empty where it is none of our own."""
    number = LIVE.block_number(device)
    found = (LIVE.word(f"/sys/dev/block/{number}/dm/name") or "") if number else ""
    return found if found.startswith(NAME_PREFIX) else ""


def mapped_node(name: str) -> BlockNode | None:
    """Return the block device that bears a mapper's name now."""
    return next(
        (node for node in _mapped() if LIVE.word(f"{node.directory}/dm/name") == name), None
    )


def undo_dm(*, name: str) -> Result:
    """Remove a mapped device of a run's, unless something still uses it."""
    if not name.startswith(NAME_PREFIX):
        return foreign("its name is not one that seatrial gives")
    node = mapped_node(name)
    if node is None:
        return gone("it no longer exists")
    uses = uses_of_device(node.number)
    if uses:
        return failed(f"it {uses[0].phrase}; {uses[0].release}")
    run_command("dmsetup", "remove", *_ALONE, "--retry", name)
    # Where dmsetup made the node itself, nobody else removes it.
    Path("/dev/mapper", name).unlink(missing_ok=True)
    return undone("removed")


def undo_flaky(*, name: str) -> Result:
    """Have a drive of a run's that was made flaky pass every request on again."""
    if not name.startswith(NAME_PREFIX):
        return foreign("its name is not one that seatrial gives")
    node = mapped_node(name)
    if node is None:
        return gone("it no longer exists")
    if not LIVE.names(f"{node.directory}/slaves"):
        return gone("it was made to fail for good meanwhile")
    reload_over_below(name, "linear {below} 0")
    return undone("passes all requests on again")


MAPPER_UNDOERS: Final[dict[str, Undoer]] = {
    "dm": Undoer(undo=undo_dm, subject="name"),
    "flaky": Undoer(undo=undo_flaky, subject="name"),
}


def _mapped() -> Iterator[BlockNode]:
    for kernel_name in LIVE.names("/sys/block"):
        node = node_by_name(kernel_name) if kernel_name.startswith("dm-") else None
        if node is not None:
            yield node
