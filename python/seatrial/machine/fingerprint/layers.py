"""What is particular to a device made of others: md, device mapper, loop, zram, partition.

Sources: the kernel's Documentation/admin-guide/md.rst (files under ``md/``),
Documentation/ABI/testing/sysfs-block-dm, sysfs-block-loop, sysfs-block-zram; dmsetup(8).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from seatrial.fingerprint import Device, Dm, DmTarget, Loop, Md, MdMember, Partition, Zram
from seatrial.machine.fingerprint.privacy import without_host
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree
from seatrial.units import SECTOR_BYTES

_DMSETUP_TIMEOUT_S: Final = 5.0
_TARGET_FIELDS: Final = 3


def with_layer(tree: SystemTree, directory: str, device: Device) -> Device:
    """Return a device with the details of its kind."""
    if device.kind == "md":
        return replace(device, md=_md(tree, f"{directory}/md"))
    if device.kind == "dm":
        return replace(device, dm=_dm(tree, directory, device.major_minor or ""))
    if device.kind == "loop":
        return replace(device, loop=_loop(tree, f"{directory}/loop"))
    if device.kind == "zram":
        algorithm = selected(tree.text(f"{directory}/comp_algorithm"))
        return replace(device, zram=Zram(algorithm=algorithm))
    if device.kind == "partition":
        start_bytes = sectors_bytes(tree, f"{directory}/start")
        return replace(device, partition=Partition(start_bytes=start_bytes))
    return device


def selected(text: str | None) -> str | None:
    """Return the bracketed choice of ``none [mq-deadline] bfq``; the text if it has none."""
    if not text:
        return None
    for word in text.split():
        if word.startswith("["):
            return word.strip("[]")
    return text


def sectors_bytes(tree: SystemTree, path: str) -> int | None:
    """Return a size that sysfs keeps in sectors of 512 bytes."""
    sectors = tree.integer(path)
    return None if sectors is None else sectors * SECTOR_BYTES


def _md(tree: SystemTree, folder: str) -> Md:
    return Md(
        level=tree.word(f"{folder}/level"),
        raid_disks=tree.integer(f"{folder}/raid_disks"),
        chunk_bytes=tree.integer(f"{folder}/chunk_size"),
        array_state=tree.word(f"{folder}/array_state"),
        degraded=tree.integer(f"{folder}/degraded"),
        sync_action=tree.word(f"{folder}/sync_action"),
        consistency_policy=tree.word(f"{folder}/consistency_policy"),
        bitmap=tree.word(f"{folder}/bitmap/location"),
        stripe_cache_pages=tree.integer(f"{folder}/stripe_cache_size"),
        members=[
            _member(tree, f"{folder}/{name}")
            for name in tree.names(folder)
            if name.startswith("dev-")
        ],
    )


def _member(tree: SystemTree, folder: str) -> MdMember:
    return MdMember(
        name=folder.rpartition("/dev-")[2],
        state=tree.word(f"{folder}/state"),
        slot=tree.word(f"{folder}/slot"),
        errors=tree.integer(f"{folder}/errors"),
    )


def _dm(tree: SystemTree, directory: str, number: str) -> Dm:
    """Return name, owner and table of a device-mapper device.

    Only the prefix of its uuid is stored, which names the creator; the rest identifies the volume.
    """
    prefix, dash, _ = (tree.text(f"{directory}/dm/uuid") or "").partition("-")
    name = tree.word(f"{directory}/dm/name")
    lines, reason = dm_table(tree, number)
    return Dm(
        name=None if name is None else without_host(name, tree),
        subsystem=prefix if dash else None,
        targets=None if lines is None else [_dm_target(each.split()) for each in lines],
        not_readable=reason,
    )


def dm_table(tree: SystemTree, number: str) -> tuple[list[str] | None, str]:
    """Return the lines of a device-mapper table, or None and why it is not readable.

    Args:
        tree: The machine.
        number: ``major:minor`` of the device.
    """
    major, _, minor = number.partition(":")
    command = ["dmsetup", "table", "--major", major, "--minor", minor]
    try:
        printed = tree.run(command, _DMSETUP_TIMEOUT_S)
    except CommandMissingError:
        return None, "dmsetup is not installed"
    except CommandTimeoutError:
        return None, f"dmsetup did not answer within {_DMSETUP_TIMEOUT_S:g} s"
    if printed.status != 0:
        return None, "dmsetup requires root" if _forbidden(
            printed.error_output
        ) else "dmsetup failed"
    return [line for line in printed.output.splitlines() if line], ""


def _forbidden(error_output: str) -> bool:
    """Return whether a command failed for lack of permission."""
    return "ermission denied" in error_output or "not permitted" in error_output


def _dm_target(fields: list[str]) -> DmTarget:
    """Parse one line of a table: ``start length type arguments``, in sectors.

    Only the stripe parameters of its arguments are stored: others may contain keys.
    """
    if len(fields) < _TARGET_FIELDS or not fields[1].isdigit():
        return DmTarget()
    target = DmTarget(type=fields[2], length_bytes=int(fields[1]) * SECTOR_BYTES)
    shape = fields[_TARGET_FIELDS : _TARGET_FIELDS + 2]
    if fields[2] == "striped" and len(shape) == 2 and all(word.isdigit() for word in shape):
        chunk_bytes = int(shape[1]) * SECTOR_BYTES
        return replace(target, stripes=int(shape[0]), chunk_bytes=chunk_bytes)
    return target


def _loop(tree: SystemTree, folder: str) -> Loop:
    """Return a loop device's backing; the name of a deleted file ends with a note."""
    return Loop(
        backing_file=tree.word(f"{folder}/backing_file"),
        direct_io=tree.flag(f"{folder}/dio"),
        offset_bytes=tree.integer(f"{folder}/offset"),
    )
