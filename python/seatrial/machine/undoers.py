"""How each kind of change to the system is undone: one small function a kind.

Each looks first whether what it finds is still what the run made, and leaves alone what is not.
Each may be called again after it succeeded, and says then that nothing is left.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from seatrial.machine.commands import run_command
from seatrial.machine.fingerprint.layers import selected
from seatrial.machine.fingerprint.mounts import mount_of, mounts
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.frozen import FROZEN_UNDOERS
from seatrial.machine.marker import MARKER_NAME, is_made_by, marked_run
from seatrial.machine.opening import descriptor_path, open_without_links
from seatrial.machine.sysblock import node_by_name
from seatrial.machine.undoer import (
    PATIENCE_S,
    Outcome,
    Result,
    Undoer,
    comes_true,
    failed,
    foreign,
    gone,
    undone,
)
from seatrial.machine.unmounting import unmount
from seatrial.machine.uses import uses_of_device
from seatrial.processes import start_ticks
from seatrial.topic import topics

__all__ = ["UNDOERS", "Outcome", "Result", "Undoer"]


def undo_file(
    *,
    path: str,
    run_id: str,
    mount_point: str,
    inode: int = 0,
    files: Mapping[str, int] | None = None,
) -> Result:
    """Remove a trial folder, or a file in one, that bears the run's marker.

    Args:
        path: Of the folder.
        run_id: Whose marker it must bear.
        mount_point: Where its file system must be mounted; empty when it does not matter.
        inode: Of the folder that the run made; 0 where the file system keeps no numbers.
        files: Inodes of trial files in it, by name; they go with the folder.
    """
    target = Path(path)
    if mount_point and not _is_mounted_at(target.parent, mount_point):
        return failed(f"the file system of {mount_point} is not mounted; mount it and try again")
    if not _exists(target):
        return gone("it no longer exists")
    if target.is_symlink():
        return foreign("a symbolic link stands in its place")
    if target.is_dir():
        return _remove_folder(target, run_id, inode)
    if marked_run(target.parent) != run_id:
        return foreign("its folder does not bear the marker of the run")
    target.unlink()
    return undone("removed")


def undo_loop(*, device: str, backing: str) -> Result:
    """Detach a loop device whose backing file is still the recorded one."""
    now = loop_backing(Path(device).name)
    if not now:
        return gone("it is detached")
    if now != backing:
        return foreign(f"it now stands for {now}")
    node = node_by_name(Path(device).name)
    uses = uses_of_device(node.number) if node else []
    if uses:
        return failed(f"it {uses[0].phrase}; {uses[0].release}")
    run_command("losetup", "-d", device)
    if not comes_true(lambda: loop_backing(Path(device).name) != backing):
        return failed("a process keeps it open; it detaches when that process ends")
    return undone("detached")


def undo_mount(*, point: str, source: str) -> Result:
    """Unmount a file system whose source is still the recorded one."""
    there = [mount for mount in mounts(LIVE) if mount.point == point]
    if not there:
        return gone("it is not mounted")
    if os.path.realpath(there[-1].source) != os.path.realpath(source):
        return foreign(f"{there[-1].source} is mounted there now")
    return unmount(point)


def undo_scheduler(*, device: str, old: str, diskseq: str) -> Result:
    """Give a block device its former I/O scheduler, unless another disk bears its name now."""
    folder = f"/sys/block/{device}"
    now = selected(LIVE.text(f"{folder}/queue/scheduler"))
    if now is None:
        return gone("the device is gone")
    if (LIVE.text(f"{folder}/diskseq") or "") != diskseq:
        return foreign("another disk bears that name now")
    if now == old:
        return gone(f"it is {old}")
    Path(f"{folder}/queue/scheduler").write_text(old)
    return undone(f"set back to {old}")


def undo_cgroup(*, path: str, return_to: str) -> Result:
    """Move all processes of a control group back and remove it."""
    group = Path(path)
    if not group.is_dir():
        return gone("it no longer exists")
    if not group.name.startswith("seatrial-"):
        return foreign("its name is not one that seatrial gives")
    for pid in _processes_in(group):
        _move_process(pid, Path(return_to))
    if not comes_true(lambda: not _processes_in(group)):
        return failed(f"processes are still in it; see `cat {group}/cgroup.procs`")
    group.rmdir()
    return undone("removed")


def undo_process(*, pid: int, start_ticks: int, grace_s: float) -> Result:
    """End a process by SIGTERM and, after a grace time (s), SIGKILL; never a recycled number."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return gone("it has ended")
    try:
        # Only now that the handle holds the process can its number not be given to another.
        if _started(pid) != start_ticks:
            return gone("it has ended")
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if _has_ended(handle, grace_s):
            return undone("ended")
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if _has_ended(handle, PATIENCE_S):
            return undone(f"killed, for it did not end within {grace_s:g} s")
        return failed("it cannot be killed: it may wait for a device that hangs")
    finally:
        os.close(handle)


def undo_setting(*, path: str, old: str) -> Result:
    """Write the former value back to a file of /sys or /proc/sys."""
    setting = Path(os.path.realpath(path))
    if not any(setting.is_relative_to(root) for root in ("/sys", "/proc/sys")):
        return foreign("it is no setting of the kernel")
    if not setting.exists():
        return gone("it no longer exists")
    if LIVE.text(str(setting)) == old:
        return gone(f"it is {old}")
    setting.write_text(old)
    return undone(f"set back to {old}")


class _OfTopics(Mapping[str, Undoer]):
    """The kinds of change that topics make; they are loaded when asked for.

    So that a new kind is one file of its topic, and no command that makes none loads any.
    """

    def __getitem__(self, kind: str) -> Undoer:
        return _undoers_of_topics()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(_undoers_of_topics())

    def __len__(self) -> int:
        return len(_undoers_of_topics())


def _undoers_of_topics() -> Mapping[str, Undoer]:
    return {kind: undoer for topic in topics() for kind, undoer in topic.undoers().items()}


_KNOWN: Final[dict[str, Undoer]] = {
    "file": Undoer(undo=undo_file, subject="path", survives_reboot=True),
    "loop": Undoer(undo=undo_loop, subject="device"),
    "mount": Undoer(undo=undo_mount, subject="point"),
    "scheduler": Undoer(undo=undo_scheduler, subject="device"),
    "cgroup": Undoer(undo=undo_cgroup, subject="path"),
    "process": Undoer(undo=undo_process, subject="pid"),
    "setting": Undoer(undo=undo_setting, subject="path"),
    **FROZEN_UNDOERS,
}

UNDOERS: Final[ChainMap[str, Undoer]] = ChainMap(_KNOWN, cast("dict[str, Undoer]", _OfTopics()))
"""How each kind of change is undone; the topics bring theirs."""


def loop_backing(name: str) -> str:
    """Return the backing file of a loop device, such as ``loop3``; empty when it is detached.

    A backing file that was removed meanwhile keeps its name, without the kernel's remark.
    """
    backing = LIVE.text(f"/sys/block/{name}/loop/backing_file") or ""
    return backing.removesuffix(" (deleted)")


def _exists(path: Path) -> bool:
    """Tell whether something is there; a file system that fails to say raises OSError."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _remove_folder(folder: Path, run_id: str, inode: int) -> Result:
    """Remove a folder by its descriptor, so that none that is put in its place is emptied."""
    descriptor = open_without_links(folder.resolve(), os.O_RDONLY | os.O_DIRECTORY)
    try:
        if inode not in {0, os.fstat(descriptor).st_ino}:
            return foreign("it is another folder than the run made")
        if not is_made_by(folder, run_id):
            return foreign("it does not bear the marker of the run")
        inside = next(_what_lies_on(folder), None)
        if inside:
            return failed(inside)
        opened = Path(descriptor_path(descriptor))
        # The marker goes last, so that a kill on the way leaves the rest still known as ours.
        for name in sorted(entry.name for entry in opened.iterdir()):
            entry = opened / name
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif name != MARKER_NAME:
                entry.unlink()
        (opened / MARKER_NAME).unlink(missing_ok=True)
    finally:
        os.close(descriptor)
    folder.rmdir()
    return undone("removed")


def _what_lies_on(folder: Path) -> Iterator[str]:
    """Yield what would be torn away with the folder: mounts in it and loop devices on its files."""
    for mount in mounts(LIVE):
        if Path(mount.point).is_relative_to(folder):
            yield f"a file system is mounted in it; unmount it with `umount {mount.point}`"
    for name in LIVE.names("/sys/block"):
        backing = loop_backing(name)
        if backing and Path(backing).is_relative_to(folder):
            yield f"/dev/{name} stands for a file in it; detach it with `losetup -d /dev/{name}`"


def _is_mounted_at(folder: Path, mount_point: str) -> bool:
    mount = mount_of(LIVE, str(folder))
    return mount is not None and mount.point == mount_point


def _processes_in(group: Path) -> list[str]:
    return (LIVE.text(f"{group}/cgroup.procs") or "").split()


def _move_process(pid: str, return_to: Path) -> None:
    """Move a process to the group that it came from; one that has just ended needs no move."""
    try:
        (return_to / "cgroup.procs").write_text(pid)
    except ProcessLookupError:
        return


def _has_ended(handle: int, patience_s: float) -> bool:
    """Wait for the process behind a handle; an ended one makes the handle readable."""
    return bool(select.select([handle], [], [], patience_s)[0])


def _started(pid: int) -> int | None:
    return start_ticks(pid)
