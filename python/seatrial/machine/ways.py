"""All other ways to the bytes of a block device: further paths to its disk, loop devices, members.

What is mounted, swapped to or open by one of them is destroyed by a write through any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from seatrial.machine.fingerprint.medium import Extent, extent_of_device, layers_below
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError
from seatrial.machine.sysblock import BlockNode, node_by_number
from seatrial.machine.uses import Survey, Use, exclusive_use, uses_of_file, uses_of_node

_TABLE_TIMEOUT_S: Final = 5.0
_LINEAR: Final = re.compile(r"^\d+ (\d+) linear (\d+:\d+) (\d+)$")
_THIN: Final = re.compile(r"^\d+ \d+ thin (\d+:\d+) (\d+)")
_GROUP_CHARACTERS: Final = len("LVM-") + 32


def other_ways(number: str, survey: Survey) -> list[BlockNode]:
    """Return every block device that shares bytes with one and is neither its disk nor its part.

    For an array or volume: every device that shares bytes with a member and is no member. The
    members themselves are held by the array, as they must be.
    """
    tree = survey.tree
    members = list(layers_below(tree, number))
    known = {node.number for node in node_by_number(number, tree).relatives()}
    for member in members:
        node = node_by_number(member, tree)
        known |= {member, node.disk().number}
    own = [extent_of_device(tree, each) for each in (number, *members)]
    found = [
        extent.number
        for extent in survey.extents
        if extent.number not in known and any(extent.overlaps(each) for each in own)
    ]
    return [node_by_number(each, tree) for each in found]


def uses_of_other_ways(number: str, survey: Survey) -> list[Use]:
    """Return what uses the bytes of a block device by another way, each with its name."""
    found: list[Use] = []
    file = extent_of_device(survey.tree, number).medium.file
    if file:
        # That a loop device stands for the file is how the target came about.
        others = [use for use in uses_of_file(file, survey) if use.kind != "loop"]
        found += [replace(use, phrase=f"is a part of a file that {use.phrase}") for use in others]
    for node in other_ways(number, survey):
        found += [_by(node, use) for use in uses_of_node(node, survey)]
    return found + list(_uses_of_mapped_alike(number, survey))


def claimed_ways(number: str, survey: Survey) -> Iterator[Use]:
    """Yield each other way that cannot be opened with O_EXCL, as whatever the kernel has in use.

    This catches a mount in a namespace that cannot be seen from here.
    """
    for node in ways_to_claim(number, survey):
        path = node_path(node)
        # Who may not open it may not write to the target either.
        with suppress(OSError):
            use = exclusive_use(path) if path else None
            if use is not None:
                yield _by(node, use)


def ways_to_claim(number: str, survey: Survey) -> list[BlockNode]:
    """Return the devices that must be open with O_EXCL, beside the target, to keep others off.

    A disk that reaches beyond the target is left to others; its parts that do not are claimed.
    """
    target = extent_of_device(survey.tree, number)
    nodes = other_ways(number, survey)
    disks = [node for node in nodes if node.disk() == node]
    whole = {disk.number for disk in disks if _is_taken_whole(disk, target)}
    parts = [node for node in nodes if node not in disks and node.disk().number not in whole]
    return [disk for disk in disks if disk.number in whole] + parts


def _is_taken_whole(disk: BlockNode, target: Extent) -> bool:
    return not disk.partitions() or extent_of_device(disk.tree, disk.number).lies_in(target)


def _by(node: BlockNode, use: Use) -> Use:
    return replace(use, phrase=f"shares its bytes with {node.name}, which {use.phrase}")


def node_path(node: BlockNode) -> Path | None:
    """Return the device node of a block device; None where there is none that is it."""
    # sysfs writes a slash in a device's name as an exclamation mark (cciss/c0d0).
    name = f"/dev/{node.name.replace('!', '/')}"
    return Path(name) if node.tree.block_number(name) == node.number else None


def _uses_of_mapped_alike(number: str, survey: Survey) -> Iterator[Use]:
    """Yield the uses of device-mapper devices that lie on the same sectors of a member.

    Volumes of one LVM group share their members, and never sectors. For others the tables of
    device-mapper tell; where they do not, a device that is in use counts as one that shares.
    """
    tree = survey.tree
    target = node_by_number(number, tree).disk()
    members = list(layers_below(tree, number))
    chain = {number, target.number, *members}
    for member in members:
        for holder in node_by_number(member, tree).holders():
            if holder.number in chain or _are_apart(target, holder):
                continue
            for node in (holder, *holder.partitions()):
                yield from (_by(node, use) for use in uses_of_node(node, survey))


def _are_apart(one: BlockNode, other: BlockNode) -> bool:
    """Tell whether two devices on one member surely share no sector of it."""
    ours, theirs = (node.tree.word(f"{node.directory}/dm/uuid") or "" for node in (one, other))
    if ours.startswith("LVM-") and ours[:_GROUP_CHARACTERS] == theirs[:_GROUP_CHARACTERS]:
        return True
    tables = [_table(node) for node in (one, other)]
    if any(table is None for table in tables):
        return False
    first, second = (table or [] for table in tables)
    return not any(
        mine[0] == other_one[0] and mine[1] < other_one[2] and other_one[1] < mine[2]
        for mine in first
        for other_one in second
    )


def _table(node: BlockNode) -> list[tuple[str, int, int]] | None:
    """Return member, first and end sector of each part of a volume; None where it is not known.

    Source: dmsetup(8), and the kernel's Documentation/admin-guide/device-mapper/linear.rst.
    """
    name = node.tree.word(f"{node.directory}/dm/name")
    if not name:
        return None
    try:
        reported = node.tree.run(["dmsetup", "table", name], _TABLE_TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return None
    if reported.status != 0 or not reported.output:
        return None
    parts = [_table_part(line) for line in reported.output.splitlines()]
    return [part for part in parts if part] if all(parts) else None


def _table_part(line: str) -> tuple[str, int, int] | None:
    """Read a line of a table; a thin volume shares its pool, but not its number in there."""
    if found := _LINEAR.match(line):
        return found[2], int(found[3]), int(found[3]) + int(found[1])
    if found := _THIN.match(line):
        return f"pool {found[1]}", int(found[2]), int(found[2]) + 1
    return None
