"""How a lab of many hosts is taken down, at its end and by ``seatrial clean``.

Each host is a process namespace: all of its processes end with the first of them, which ends with
the ``unshare`` that was started.

Source: pid_namespaces(7), ip-netns(8).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from seatrial.machine.undoer import Result, Undoer, comes_true, failed, foreign, gone, undone
from seatrial.processes import start_ticks as ticks_of


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
    if space == own:
        return []
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):
                if (each / "ns/pid").readlink() == space:
                    found.append(int(each.name))
    return found


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


def undo_folder(*, path: str) -> Result:
    """Remove the folder of a lab, which has a random name."""
    folder = Path(path)
    if not folder.exists():
        return gone("it does not exist")
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return foreign("it is not a folder of ours")
    shutil.rmtree(folder, ignore_errors=True)
    return (
        failed("some of its files could not be removed") if folder.exists() else undone("removed")
    )


FLEET_UNDOERS: Final[dict[str, Undoer]] = {
    "fleet_host": Undoer(undo=undo_host, subject="pid"),
    "fleet_namespace": Undoer(undo=undo_namespace, subject="name"),
    "fleet_bridge": Undoer(undo=undo_bridge, subject="name"),
    "fleet_folder": Undoer(undo=undo_folder, subject="path", survives_reboot=True),
}
