"""What is particular to a device made of others: md, device mapper, loop, zram, partition.

Sources: the kernel's Documentation/admin-guide/md.rst (files under ``md/``),
Documentation/ABI/testing/sysfs-block-dm, sysfs-block-loop, sysfs-block-zram; dmsetup(8).
"""

from __future__ import annotations

from typing import Any, Final

from seatrial.machine.fingerprint.privacy import without_host
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree

SECTOR_BYTES: Final = 512
"""Unit of sizes and offsets in sysfs, whatever the device's own block is."""

_DMSETUP_TIMEOUT_S: Final = 5.0
_TARGET_FIELDS: Final = 3


def layer(tree: SystemTree, directory: str, kind: str, number: str) -> dict[str, Any]:
    """Return what is particular to a device of this kind, under the kind's name; or nothing.

    ``md``: ``level``, ``members`` (``name``, ``state``, ``slot``, ``errors`` corrected),
    ``chunk_bytes``, ``array_state``, ``degraded`` (missing members), ``sync_action``,
    ``consistency_policy``, ``bitmap``, ``stripe_cache_pages``.
    ``dm``: ``name``, ``subsystem`` (``LVM``, ``CRYPT`` ...), ``targets`` (``type``,
    ``length_bytes``, and ``stripes`` and ``chunk_bytes`` where striped), ``not_readable``.
    ``loop``: ``backing_file``, ``direct_io``, ``offset_bytes``.
    ``zram``: ``algorithm``. ``partition``: ``start_bytes``.
    """
    if kind == "md":
        return {"md": _md(tree, f"{directory}/md")}
    if kind == "dm":
        return {"dm": _dm(tree, directory, number)}
    if kind == "loop":
        return {"loop": _loop(tree, f"{directory}/loop")}
    if kind == "zram":
        return {"zram": {"algorithm": selected(tree.text(f"{directory}/comp_algorithm"))}}
    if kind == "partition":
        return {"partition": {"start_bytes": sectors_bytes(tree, f"{directory}/start")}}
    return {}


def selected(text: str | None) -> str | None:
    """Return the choice in brackets of ``none [mq-deadline] bfq``; the text where none has any."""
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


def _md(tree: SystemTree, folder: str) -> dict[str, Any]:
    """Return the state of a software array."""
    return {
        "level": tree.word(f"{folder}/level"),
        "raid_disks": tree.integer(f"{folder}/raid_disks"),
        "chunk_bytes": tree.integer(f"{folder}/chunk_size"),
        "array_state": tree.word(f"{folder}/array_state"),
        "degraded": tree.integer(f"{folder}/degraded"),
        "sync_action": tree.word(f"{folder}/sync_action"),
        "consistency_policy": tree.word(f"{folder}/consistency_policy"),
        "bitmap": tree.word(f"{folder}/bitmap/location"),
        "stripe_cache_pages": tree.integer(f"{folder}/stripe_cache_size"),
        "members": [
            _member(tree, f"{folder}/{name}")
            for name in tree.names(folder)
            if name.startswith("dev-")
        ],
    }


def _member(tree: SystemTree, folder: str) -> dict[str, Any]:
    """Return one member of a software array."""
    return {
        "name": folder.rpartition("/dev-")[2],
        "state": tree.word(f"{folder}/state"),
        "slot": tree.word(f"{folder}/slot"),
        "errors": tree.integer(f"{folder}/errors"),
    }


def _dm(tree: SystemTree, directory: str, number: str) -> dict[str, Any]:
    """Return name, owner and table of a device-mapper device.

    Of its uuid only the prefix is kept, which says who made it; the rest identifies the volume.
    """
    prefix, dash, _ = (tree.text(f"{directory}/dm/uuid") or "").partition("-")
    name = tree.word(f"{directory}/dm/name")
    targets, reason = _dm_table(tree, number)
    return {
        "name": None if name is None else without_host(name, tree),
        "subsystem": prefix if dash else None,
        "targets": targets,
        "not_readable": reason,
    }


def _dm_table(tree: SystemTree, number: str) -> tuple[list[dict[str, Any]] | None, str]:
    """Return the targets of a device-mapper table, or None and why it is not readable.

    Of each target's arguments only the shape of a stripe is kept: others may hold keys.
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
        return None, "dmsetup needs root" if _forbidden(printed.complaint) else "dmsetup failed"
    return [_dm_target(line.split()) for line in printed.output.splitlines() if line], ""


def _forbidden(complaint: str) -> bool:
    """Return whether a command was refused for want of rights."""
    return "ermission denied" in complaint or "not permitted" in complaint


def _dm_target(fields: list[str]) -> dict[str, Any]:
    """Return one line of a table: ``start length type arguments``, in sectors."""
    if len(fields) < _TARGET_FIELDS or not fields[1].isdigit():
        return {"type": None, "length_bytes": None}
    target: dict[str, Any] = {"type": fields[2], "length_bytes": int(fields[1]) * SECTOR_BYTES}
    shape = fields[_TARGET_FIELDS : _TARGET_FIELDS + 2]
    if fields[2] == "striped" and len(shape) == 2 and all(word.isdigit() for word in shape):
        target |= {"stripes": int(shape[0]), "chunk_bytes": int(shape[1]) * SECTOR_BYTES}
    return target


def _loop(tree: SystemTree, folder: str) -> dict[str, Any]:
    """Return what a loop device is laid on; a file since deleted keeps its name with a note."""
    return {
        "backing_file": tree.word(f"{folder}/backing_file"),
        "direct_io": tree.flag(f"{folder}/dio"),
        "offset_bytes": tree.integer(f"{folder}/offset"),
    }
