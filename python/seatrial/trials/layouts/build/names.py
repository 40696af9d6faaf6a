"""Names of our arrays, by which undoing recognises them.

md, LVM, btrfs and ZFS carry the name ``seatrial-<run>-<number>``, or its end where its length is
limited. A UUID is derived from the name: so it is known, and in the undo journal, before the
command that sets it.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from typing import Final

from seatrial.machine.marker import folder_name

NAME_PREFIX: Final = "seatrial-"
MD_NAME_MAX: Final = 32
LABEL_MAX: Final = {"xfs": 12, "ext4": 16, "jfs": 16, "btrfs": 255}
"""Longest label of each file system (characters). Sources: mkfs.xfs(8), mke2fs(8), mkfs.jfs(8),
mkfs.btrfs(8)."""

_SHORT_PREFIX: Final = "st-"
_NAMESPACE: Final = uuid.UUID("5ea7b1a1-0000-4000-8000-5ea7b1a10000")


def array_name(run_id: str, number: int) -> str:
    """Return the name of the ``number``-th array of a run."""
    return f"{NAME_PREFIX}{run_id}-{number}"


def run_of(name: str) -> str:
    """Return the run of an array's name.

    Raises:
        ValueError: when it is not such a name.
    """
    run_id, dash, number = name.removeprefix(NAME_PREFIX).rpartition("-")
    if not (name.startswith(NAME_PREFIX) and dash and number.isdigit()):
        raise ValueError(f"not an array's name: {name!r}")
    return run_id


def shortened(name: str, characters_max: int) -> str:
    """Return a name of limited length: ``st-`` and its end if it is too long."""
    if len(name) <= characters_max:
        return name
    rest = name.removeprefix(NAME_PREFIX)
    return _SHORT_PREFIX + rest[len(_SHORT_PREFIX) - characters_max :].lstrip("-")


def identity(name: str, part: str = "") -> uuid.UUID:
    """Return the UUID of an array, or of a part of it; always the same for the same name.

    Source: RFC 9562, section 5.5 (version 5, of a name).
    """
    return uuid.uuid5(_NAMESPACE, f"{name}/{part}")


def mount_folder(name: str, label: str) -> str:
    """Return the mount point of an array's file system, in a folder with its run's marker.

    Its path is without links, as the kernel lists mounts.

    Args:
        name: Name of the array.
        label: Label of the target: the variant's, or that of one of its legs.
    """
    return f"{os.path.realpath(tempfile.gettempdir())}/{folder_name(run_of(name))}/{label}"
