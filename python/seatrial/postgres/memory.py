"""A limit of memory for a server, page cache included, so that a small database is "too large".

Sources: the kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst, sections
"Memory" and "No Internal Process Constraint".
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial import program
from seatrial.errors import TargetError, UsageError
from seatrial.machine.fingerprint.cgroup import own_groups
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.sizes import size_text
from seatrial.machine.undo import UndoJournal, Undone
from seatrial.program import with_root

LIMIT_BYTES_MIN: Final = 64 * 1024 * 1024
"""Below this a server hardly starts."""

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class MemoryGroup:
    """A control group with a limit of memory.

    Attributes:
        path: Its folder.
        limit_bytes: What its processes may hold together, with the page cache that they fill.
        version: Of the kernel's control groups, 1 or 2.
        entry: Its number in the undo journal.
    """

    path: Path
    limit_bytes: int
    version: int
    entry: int

    def command(self, args: Sequence[str]) -> list[str]:
        """Return the arguments of a process that enters the group and then becomes a program.

        So all that the program ever touches is charged to the group.
        """
        return ["/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', f"{self.path}/cgroup.procs", *args]

    def used_bytes(self) -> int:
        """Return what the group holds now, page cache included."""
        file = "memory.usage_in_bytes" if self.version == 1 else "memory.current"
        return LIVE.integer(f"{self.path}/{file}") or 0

    def kills(self) -> int:
        """Return how many processes the kernel killed because they needed more than the limit."""
        file = "memory.oom_control" if self.version == 1 else "memory.events"
        match = re.search(r"^oom_kill (\d+)$", LIVE.text(f"{self.path}/{file}") or "", re.MULTILINE)
        return int(match[1]) if match else 0


def memory_limit(limit_bytes: int, journal: UndoJournal) -> MemoryGroup:
    """Make a control group whose processes may hold ``limit_bytes`` together.

    It lies in our own group or, with version 2, in the nearest one above that may have groups with
    a limit of memory, so limits from above go on to hold. Recorded in the journal before.

    Raises:
        UsageError: when the limit is too small for any server.
        TargetError: when this machine does not let us make such a group, with the reason.
    """
    if limit_bytes < LIMIT_BYTES_MIN:
        raise UsageError(
            seen=f"A memory limit of {size_text(limit_bytes)} was asked for",
            cause=f"A server needs at least {size_text(LIMIT_BYTES_MIN)}",
            next_step="Give a larger limit",
        )
    parent, own, version = _place()
    path = Path(parent, f"seatrial-{journal.run_id}-{secrets.token_hex(4)}")
    entry = journal.record("cgroup", path=str(path), return_to=own)
    # The kernel rounds down to pages.
    group = MemoryGroup(
        path=path,
        limit_bytes=limit_bytes // _PAGE_BYTES * _PAGE_BYTES,
        version=version,
        entry=entry,
    )
    try:
        path.mkdir()
        _set_limits(group)
    except OSError as error:
        journal.undo(entry)
        raise _cannot(f"the group {path} cannot be set up ({error.strerror})") from None
    return group


def limit_obstacle() -> str:
    """Return why no memory can be limited on this machine, as a sentence; empty where it can."""
    try:
        _place()
    except TargetError as error:
        return error.cause
    return ""


def remove_group(group: MemoryGroup, journal: UndoJournal) -> Undone:
    """Remove a group whose processes have ended; what fails stays in the journal."""
    return journal.undo(group.entry)


def _place() -> tuple[str, str, int]:
    """Return where a group with a limit may be made, our own group, and the version."""
    first_version = list(own_groups(LIVE, "memory"))
    if first_version:
        own = first_version[0]
        if not _is_writable(own):
            raise _cannot(f"only its administrator may make groups below {own}")
        return own, own, 1
    second_version = list(own_groups(LIVE))
    if not second_version:
        raise _cannot("no control groups are mounted here")
    for folder in second_version:
        controllers = (LIVE.text(f"{folder}/cgroup.subtree_control") or "").split()
        if "memory" in controllers and _is_writable(folder):
            return folder, second_version[0], 2
    raise _cannot(
        f"neither {second_version[0]} nor a group above it is delegated to this user with its"
        " memory controller"
    )


def _is_writable(folder: str) -> bool:
    return all(os.access(path, os.W_OK) for path in (folder, f"{folder}/cgroup.procs"))


def _set_limits(group: MemoryGroup) -> None:
    """Write the limit; memory that is swapped out instead would be no limit."""
    limit = str(group.limit_bytes)
    if group.version == 1:
        (group.path / "memory.limit_in_bytes").write_text(limit)
        settings = {"memory.memsw.limit_in_bytes": limit}
    else:
        (group.path / "memory.max").write_text(limit)
        settings = {"memory.swap.max": "0"}
    for name, value in settings.items():
        if (group.path / name).exists():
            (group.path / name).write_text(value)


def _cannot(reason: str) -> TargetError:
    return TargetError(
        seen="The server's memory cannot be limited on this machine",
        cause=f"That needs a control group with a memory controller, but {reason}",
        next_step=f"Run it {with_root()}, or by `systemd-run --user --scope -p Delegate=yes "
        f"{program.path()} ...`, or leave the memory limit away and take a larger scale",
    )
