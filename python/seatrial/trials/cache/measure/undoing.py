"""Ends the ZFS daemon of a trial."""

from __future__ import annotations

import os
import re
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from seatrial.machine.undo_result import Result, Undoer, failed, gone, undone, wait_until

_TOKEN: Final = re.compile(r"seatrial-.+-zfs-[0-9a-f]{6}")


def new_token(run_id: str) -> str:
    """Return a name for a new pool of a run, which all its processes have as an argument."""
    return f"seatrial-{run_id}-zfs-{secrets.token_hex(3)}"


def pool_processes(token: str) -> list[int]:
    """Return the processes of a pool that have not ended: those with the token as an argument."""
    return [pid for pid, names in _names() if token in names]


def all_pools() -> dict[int, str]:
    """Return the tokens of all pools of this machine, by process."""
    return {pid: token for pid, names in _names() for token in names if _TOKEN.fullmatch(token)}


def other_daemons() -> list[int]:
    """Return the daemons of zfs-fuse that no pool started."""
    return [
        pid
        for pid, names in _names()
        if names[0] == "zfs-fuse" and not any(map(_TOKEN.fullmatch, names))
    ]


def _names() -> Iterator[tuple[int, list[str]]]:
    """Yield number and arguments of each process, paths without their folders.

    One that has ended has an empty one.
    """
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                raw = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            arguments = (os.fsdecode(each) for each in raw.split(b"\0"))
            yield int(folder.name), [each.rpartition("/")[2] for each in arguments]


def undo_zfs_daemon(*, token: str) -> Result:
    """Kill the processes of a pool; its mounts end with them, as no other process has them.

    It is killed, not stopped: it would write to disks that are removed next.
    """
    if not _TOKEN.fullmatch(token):
        return failed("it is not the name of a pool")
    pids = pool_processes(token)
    if not pids:
        return gone("it has ended")
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if wait_until(lambda: not pool_processes(token)):
        return undone("killed")
    return failed("it cannot be killed; it may wait for a device that hangs")


POOL_UNDOERS: Final[dict[str, Undoer]] = {
    "zfs_daemon": Undoer(undo=undo_zfs_daemon, subject="token"),
}
