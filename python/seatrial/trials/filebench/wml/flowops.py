"""The types of flowops and their requirements."""

from __future__ import annotations

from typing import Final, NamedTuple


class FlowopType(NamedTuple):
    """A type of flowop.

    Attributes:
        moves: ``read``, ``write``, ``sync`` or ``metadata``; empty if it is not a request.
        needs_set: Whether it chooses from a set unless it has an open file.
        opens: Whether it opens a file in a slot, which must be free.
        uses_open: Whether it needs an open file.
        needs_size: Whether its transfers need a size.
        is_targeted: Whether ``target`` is required.
    """

    moves: str = ""
    needs_set: bool = False
    opens: bool = False
    uses_open: bool = False
    needs_size: bool = False
    is_targeted: bool = False


TYPES: Final = {
    "openfile": FlowopType("metadata", needs_set=True, opens=True),
    "createfile": FlowopType("metadata", needs_set=True, opens=True),
    "closefile": FlowopType("metadata", uses_open=True),
    "deletefile": FlowopType("metadata", needs_set=True),
    "statfile": FlowopType("metadata", needs_set=True),
    "makedir": FlowopType("metadata", needs_set=True),
    "removedir": FlowopType("metadata", needs_set=True),
    "listdir": FlowopType("metadata", needs_set=True),
    "readwholefile": FlowopType("read", needs_set=True),
    "writewholefile": FlowopType("write", needs_set=True),
    "appendfile": FlowopType("write", needs_set=True, needs_size=True),
    "appendfilerand": FlowopType("write", needs_set=True, needs_size=True),
    "read": FlowopType("read", needs_set=True, needs_size=True),
    "write": FlowopType("write", needs_set=True, needs_size=True),
    "aiowrite": FlowopType("write", needs_set=True, needs_size=True),
    "fsync": FlowopType("sync", uses_open=True),
    "fsyncset": FlowopType("sync", needs_set=True),
    "aiowait": FlowopType(),
    "block": FlowopType(),
    "wakeup": FlowopType(is_targeted=True),
    "semblock": FlowopType(),
    "sempost": FlowopType(is_targeted=True),
    "eventlimit": FlowopType(),
    "opslimit": FlowopType(),
    "iopslimit": FlowopType(),
    "bwlimit": FlowopType(),
    "delay": FlowopType(),
    "hog": FlowopType(),
    "finishoncount": FlowopType(),
    "finishonbytes": FlowopType(),
}

UNSUPPORTED: Final = {
    "print": "It prints a message in every loop",
    "testrandvar": "It tests Filebench's own random numbers",
}
"""Unsupported types of Filebench, with what they do."""

TRANSFERS: Final = frozenset(
    name for name, kind in TYPES.items() if kind.moves in ("read", "write")
)
EVENT_LIMITS: Final = frozenset({"eventlimit", "opslimit", "iopslimit", "bwlimit"})
"""Flowops that take the events of a generator."""
FOLDER_OPERATIONS: Final = frozenset({"makedir", "removedir"})
SLOTS: Final = 128
"""Slots for open files that a workload file may number by ``fd``."""
