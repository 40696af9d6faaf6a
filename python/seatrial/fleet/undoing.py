"""Removes a lab of several hosts, at its end and by ``seatrial clean``.

Each host is a process namespace: its processes end with the first of them, which ends with its
``unshare``. Their changes are in journals of each host, below the folder of the lab, and are undone
when the hosts have ended.

Source: pid_namespaces(7), ip-netns(8).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seatrial.descriptor import closing
from seatrial.machine.undo_result import (
    Outcome,
    Result,
    Undoer,
    failed,
    foreign,
    gone,
    undone,
    wait_until,
)
from seatrial.process_identity import pids_in
from seatrial.process_identity import start_ticks as ticks_of

if TYPE_CHECKING:
    from seatrial.machine.undo_journal import Undone

STATE: Final = "state"
"""The folder of a host's journals, below that of the host."""
_NOT_UNDONE: Final = frozenset({Outcome.FAILED, Outcome.RUNNING})


def undo_host(*, pid: int, start_ticks: int) -> Result:
    """Kill a host of a lab: the process that was started, and its descendants."""
    if ticks_of(pid) != start_ticks:
        return gone("it has ended")
    below = processes_of_host(pid)
    with suppress(ProcessLookupError), closing(os.pidfd_open(pid)) as handle:
        if ticks_of(pid) == start_ticks:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    if wait_until(lambda: not any(ticks_of(each) for each in [pid, *below])):
        _reap(pid)
        return undone("killed")
    return failed("it cannot be killed: it may be waiting for a hung file system")


def _reap(pid: int) -> None:
    """Collect the exit code of a child, so that none is left as a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def processes_of_host(pid: int) -> list[int]:
    """Return all processes in the process namespace that a process has made for its children."""
    try:
        namespace = Path(f"/proc/{pid}/ns/pid_for_children").readlink()
        own_namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return []
    return [] if namespace == own_namespace else pids_in(str(namespace)) or []


def undo_namespace(*, name: str) -> Result:
    """Remove a network namespace with its links."""
    if not Path("/run/netns", name).exists():
        return gone("it does not exist")
    result = subprocess.run(
        ["ip", "netns", "delete", name], check=False, capture_output=True, text=True
    )
    return failed(result.stderr.strip()) if result.returncode else undone("removed")


def undo_bridge(*, name: str) -> Result:
    """Remove a bridge."""
    if not Path("/sys/class/net", name).exists():
        return gone("it does not exist")
    if not Path("/sys/class/net", name, "bridge").exists():
        return foreign("it is not a bridge")
    result = subprocess.run(
        ["ip", "link", "delete", name, "type", "bridge"],
        check=False,
        capture_output=True,
        text=True,
    )
    return failed(result.stderr.strip()) if result.returncode else undone("removed")


def undo_folder(*, path: str, own_paths: Sequence[str] = ()) -> Result:
    """Undo the changes of a lab's hosts, and remove its folder, which has a random name.

    Args:
        path: The folder; kept while a change of a host is not undone.
        own_paths: Paths at which each host had a folder of its own.
    """
    folder = Path(path)
    if not folder.exists():
        return gone("it does not exist")
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return foreign("it is not a folder of ours")
    changes = _undo_hosts(folder, own_paths)
    not_undone = [each for each in changes if each.outcome in _NOT_UNDONE]
    if not_undone:
        listed = "; ".join(f"{each.kind} {each.subject}: {each.detail}" for each in not_undone)
        return failed(f"changes of its hosts could not be undone: {listed}")
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        return failed("some of its files could not be removed")
    return undone(f"removed, after {len(changes)} changes of its hosts" if changes else "removed")


def _undo_hosts(folder: Path, own_paths: Sequence[str]) -> list[Undone]:
    """Undo the changes of a lab's hosts, whose processes may still be ending."""
    from seatrial.machine.undo_journal import Container, clean  # noqa: PLC0415 - it has our undoers

    container = Container(own_paths=list(own_paths))
    found: list[Undone] = []

    def have_ended() -> bool:
        found[:] = [each for each in found if each.outcome not in _NOT_UNDONE]
        for state in sorted(folder.glob(f"*/{STATE}")):
            found.extend(clean(folder=state, container=container))
        return not any(each.outcome == Outcome.RUNNING for each in found)

    wait_until(have_ended)
    return found


FLEET_UNDOERS: Final[dict[str, Undoer]] = {
    "fleet_host": Undoer(undo=undo_host, subject="pid"),
    "fleet_namespace": Undoer(undo=undo_namespace, subject="name"),
    "fleet_bridge": Undoer(undo=undo_bridge, subject="name"),
    "fleet_folder": Undoer(undo=undo_folder, subject="path", survives_reboot=True),
}
