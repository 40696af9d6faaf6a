"""How a lab of many hosts is taken down, at its end and by ``seatrial clean``.

Each host is a process namespace: all of its processes end with the first of them, which ends with
the ``unshare`` that was started. What they had changed is in journals of each host's own, below the
folder of the lab: these are undone when the hosts have ended, whether they were killed or not.

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

from seatrial.machine.undoer import (
    Outcome,
    Result,
    Undoer,
    comes_true,
    failed,
    foreign,
    gone,
    undone,
)
from seatrial.processes import pids_in
from seatrial.processes import start_ticks as ticks_of

if TYPE_CHECKING:
    from seatrial.machine.undo import Undone

STATE: Final = "state"
"""The folder of a host's journals, below that of the host."""
_LEFT: Final = frozenset({Outcome.FAILED, Outcome.RUNNING})


def undo_host(*, pid: int, start_ticks: int) -> Result:
    """Kill a host of a lab: the process that was started, and all below it."""
    if ticks_of(pid) != start_ticks:
        return gone("it has ended")
    below = processes_of_host(pid)
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if ticks_of(pid) == start_ticks:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
    if comes_true(lambda: not any(ticks_of(each) for each in [pid, *below])):
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
        space = Path(f"/proc/{pid}/ns/pid_for_children").readlink()
        own = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return []
    return [] if space == own else pids_in(str(space)) or []


def undo_namespace(*, name: str) -> Result:
    """Remove a network namespace, and with it the links that lead into it."""
    if not Path("/run/netns", name).exists():
        return gone("it does not exist")
    done = subprocess.run(
        ["ip", "netns", "delete", name], check=False, capture_output=True, text=True
    )
    return failed(done.stderr.strip()) if done.returncode else undone("removed")


def undo_bridge(*, name: str) -> Result:
    """Remove a bridge."""
    if not Path("/sys/class/net", name).exists():
        return gone("it does not exist")
    if not Path("/sys/class/net", name, "bridge").exists():
        return foreign("it is not a bridge")
    done = subprocess.run(
        ["ip", "link", "delete", name, "type", "bridge"],
        check=False,
        capture_output=True,
        text=True,
    )
    return failed(done.stderr.strip()) if done.returncode else undone("removed")


def undo_folder(*, path: str, own_paths: Sequence[str] = ()) -> Result:
    """Undo what hosts of a lab had changed, and remove its folder, which has a random name.

    Args:
        path: The folder; it stays while a change of a host is not undone.
        own_paths: Where each host had a folder below it.
    """
    folder = Path(path)
    if not folder.exists():
        return gone("it does not exist")
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return foreign("it is not a folder of ours")
    changes = _undo_hosts(folder, own_paths)
    left = [each for each in changes if each.outcome in _LEFT]
    if left:
        listed = "; ".join(f"{each.kind} {each.subject}: {each.detail}" for each in left)
        return failed(f"changes of its hosts could not be undone: {listed}")
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        return failed("some of its files could not be removed")
    return undone(f"removed, after {len(changes)} changes of its hosts" if changes else "removed")


def _undo_hosts(folder: Path, own_paths: Sequence[str]) -> list[Undone]:
    """Undo what the processes of a lab's hosts had changed; they may end just now."""
    from seatrial.machine.undo import Container, clean  # noqa: PLC0415 - it asks for our undoers

    container = Container(own_paths=list(own_paths))
    found: list[Undone] = []

    def have_ended() -> bool:
        found[:] = [each for each in found if each.outcome not in _LEFT]
        for state in sorted(folder.glob(f"*/{STATE}")):
            found.extend(clean(folder=state, container=container))
        return not any(each.outcome == Outcome.RUNNING for each in found)

    comes_true(have_ended)
    return found


FLEET_UNDOERS: Final[dict[str, Undoer]] = {
    "fleet_host": Undoer(undo=undo_host, subject="pid"),
    "fleet_namespace": Undoer(undo=undo_namespace, subject="name"),
    "fleet_bridge": Undoer(undo=undo_bridge, subject="name"),
    "fleet_folder": Undoer(undo=undo_folder, subject="path", survives_reboot=True),
}
