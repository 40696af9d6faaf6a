"""Cleanup of a lab: every process of its kernel is killed.

Their working folder is the lab's own folder, which no other run has, so a reused process number is
never hit. Processes traced by user-mode Linux survive the kill of its main process, so it is not
sufficient to kill that one.

Source: proc_pid_cwd(5), proc_pid_exe(5), pidfd_send_signal(2).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from seatrial.descriptor import closing
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.undo_result import Result, Undoer, failed, gone, undone, wait_until
from seatrial.process_identity import start_ticks

_REMOVED: Final = " (deleted)"


def undo_lab(*, folder: str, program: str, run_id: str) -> Result:
    """Kill every process of a program whose working folder is a lab's folder.

    ``run_id`` is the run that started it, for readers of the journal.
    """
    if not any(lab_processes(folder, program)):
        return gone("it has ended")
    if wait_until(lambda: not _kill_all(folder, program)):
        return undone(f"killed; it was started by run {run_id}")
    return failed("it cannot be killed: it may be waiting for a hung file system")


def lab_processes(folder: str, program: str) -> Iterator[int]:
    """Yield the processes of a program with a working folder, without zombies."""
    for name in LIVE.names("/proc"):
        if name.isdigit() and _is_of(int(name), folder, program):
            yield int(name)


def _kill_all(folder: str, program: str) -> int:
    """Kill all such processes; return their number."""
    found = list(lab_processes(folder, program))
    for pid in found:
        with suppress(ProcessLookupError), closing(os.pidfd_open(pid)) as handle:
            # With the handle open, the number can no longer be reused by another process.
            if _is_of(pid, folder, program):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    return len(found)


def _is_of(pid: int, folder: str, program: str) -> bool:
    process = Path("/proc", str(pid))
    try:
        working, running = str((process / "cwd").readlink()), str((process / "exe").readlink())
    except OSError:
        return False
    return (
        working.removesuffix(_REMOVED) == folder
        and running.removesuffix(_REMOVED) == program
        and start_ticks(pid) is not None
    )


LAB_UNDOERS: Final[dict[str, Undoer]] = {"lab": Undoer(undo=undo_lab, subject="folder")}
