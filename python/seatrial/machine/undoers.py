"""How each kind of change to the system is undone: one small function a kind.

Each first checks that what exists is still what the run made, and leaves anything else alone. A
second call after success reports that nothing is left.

Source: ioctl_fs(2) and the kernel's fs/ioctl.c, ``FIFREEZE`` and ``FITHAW``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import shutil
import signal
import time
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from seatrial.descriptor import closing
from seatrial.errors import TargetError
from seatrial.machine.commands import run_command
from seatrial.machine.fingerprint.layers import selected
from seatrial.machine.fingerprint.mounts import mount_of, mounts
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.marker import MARKER_NAME, is_made_by, marked_run
from seatrial.machine.resolve import descriptor_path, open_without_links
from seatrial.machine.sysblock import node_by_name
from seatrial.machine.undo_result import (
    PATIENCE_S,
    POLL_S,
    Outcome,
    Result,
    Undoer,
    failed,
    foreign,
    gone,
    undone,
    wait_until,
)
from seatrial.machine.uses import uses_of_device
from seatrial.process_identity import start_ticks as ticks_of
from seatrial.topic import topics


def unmount(point: str) -> Result:
    """Unmount the file system on a folder; on failure, report how to find its users."""
    give_up_at_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            run_command("umount", point)
        except TargetError as error:
            if time.monotonic() > give_up_at_s:
                return failed(f"{error.cause} `fuser -vm {point}` lists the processes that use it")
            time.sleep(POLL_S * 10)
        else:
            return undone("unmounted")


_FREEZE: Final = 0xC0045877  # _IOWR('X', 119, int)
_THAW: Final = 0xC0045878  # _IOWR('X', 120, int)


def freeze(point: Path) -> None:
    """Freeze a file system with all data written out; the caller recorded it before.

    Raises:
        OSError: when the kernel refuses.
    """
    _ioctl(point, _FREEZE)


def undo_frozen(*, point: str) -> Result:
    """Unfreeze a file system that a run froze."""
    try:
        _ioctl(Path(point), _THAW)
    except FileNotFoundError:
        return gone("its mount point no longer exists")
    except OSError as error:
        if error.errno == errno.EINVAL:
            return gone("it is not frozen")
        return failed(f"it could not be unfrozen: {error.strerror}; try `fsfreeze -u {point}`")
    return undone("thawed")


def _ioctl(point: Path, command: int) -> None:
    with closing(os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        fcntl.ioctl(descriptor, command, 0)


__all__ = ["UNDOERS", "Outcome", "Result", "Undoer"]


def undo_file(
    *,
    path: str,
    run_id: str,
    mount_point: str,
    inode: int = 0,
    files: Mapping[str, int] | None = None,
) -> Result:
    """Remove a trial folder, or a file in one, that has the run's marker.

    Args:
        path: The folder or file.
        run_id: The run whose marker is required.
        mount_point: Where its file system must be mounted; empty when it does not matter.
        inode: Inode of the folder that the run made; 0 where inodes are not stable.
        files: Inodes of trial files in it, by name; they are removed with the folder.
    """
    target = Path(path)
    if mount_point and not _is_mounted_at(target.parent, mount_point):
        return failed(f"the file system of {mount_point} is not mounted; mount it and try again")
    if not _exists(target):
        return gone("it no longer exists")
    if target.is_symlink():
        return foreign("it was replaced by a symbolic link")
    if target.is_dir():
        return _remove_folder(target, run_id, inode)
    if marked_run(target.parent) != run_id:
        return foreign("its directory does not contain the marker of the run")
    target.unlink()
    return undone("removed")


def undo_loop(*, device: str, backing: str) -> Result:
    """Detach a loop device if its backing file is still the recorded one."""
    now = loop_file(Path(device).name)
    if not now:
        return gone("it is detached")
    if now != backing:
        return foreign(f"it is now attached to {now}")
    node = node_by_name(Path(device).name)
    uses = uses_of_device(node.number) if node else []
    if uses:
        return failed(f"it {uses[0].phrase}; {uses[0].release}")
    run_command("losetup", "-d", device)
    if not wait_until(lambda: loop_file(Path(device).name) != backing):
        return failed("a process has it open; it is detached when that process ends")
    return undone("detached")


def undo_mount(*, point: str, source: str) -> Result:
    """Unmount a file system if its source is still the recorded one."""
    real_point = os.path.realpath(point)
    there = [mount for mount in mounts(LIVE) if mount.point == real_point]
    if not there:
        return gone("it is not mounted")
    if os.path.realpath(there[-1].source) != os.path.realpath(source):
        return foreign(f"{there[-1].source} is now mounted there")
    return unmount(point)


def undo_scheduler(*, device: str, old: str, diskseq: str, new: str = "") -> Result:
    """Restore a block device's I/O scheduler, unless its name now refers to another disk.

    A scheduler other than ``new``, if that is given, was set by someone else and remains.
    """
    folder = f"/sys/block/{device}"
    now = selected(LIVE.text(f"{folder}/queue/scheduler"))
    if now is None:
        return gone("the device was removed")
    if (LIVE.text(f"{folder}/diskseq") or "") != diskseq:
        return foreign("the name now refers to another disk")
    if now == old:
        return gone(f"it is {old}")
    if new and now != new:
        return foreign(f"it was changed to {now} meanwhile")
    Path(f"{folder}/queue/scheduler").write_text(old)
    return undone(f"restored to {old}")


def undo_cgroup(*, path: str, return_to: str) -> Result:
    """Move all processes of a control group back and remove it."""
    group = Path(path)
    if not group.is_dir():
        return gone("it no longer exists")
    if not group.name.startswith("seatrial-"):
        return foreign("its name was not created by seatrial")
    for pid in _processes_in(group):
        _move_process(pid, Path(return_to))
    if not wait_until(lambda: not _processes_in(group)):
        return failed(f"it still contains processes; check `cat {group}/cgroup.procs`")
    group.rmdir()
    return undone("removed")


def undo_process(*, pid: int, start_ticks: int, grace_s: float) -> Result:
    """End a process by SIGTERM and, after a grace time (s), SIGKILL; never a reused PID."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return gone("it has ended")
    with closing(handle):
        # The PID cannot be reused while the handle is open, so it is safe to check it now.
        if ticks_of(pid) != start_ticks:
            return gone("it has ended")
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if _has_ended(handle, grace_s):
            return undone("ended")
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if _has_ended(handle, PATIENCE_S):
            return undone(f"killed, as it did not end within {grace_s:g} s")
        return failed("it cannot be killed; it may wait for a hanging device")


def undo_setting(*, path: str, old: str, new: str = "") -> Result:
    """Restore a value in /sys or /proc/sys.

    A value other than ``new``, if that is given, was set by someone else and remains.
    """
    setting = Path(os.path.realpath(path))
    if not any(setting.is_relative_to(root) for root in ("/sys", "/proc/sys")):
        return foreign("it is not a kernel setting")
    if not setting.exists():
        return gone("it no longer exists")
    now = LIVE.text(str(setting))
    if now == old:
        return gone(f"it is {old}")
    if new and now != new:
        return foreign(f"it was changed to {now} meanwhile")
    setting.write_text(old)
    return undone(f"restored to {old}")


class _TopicUndoers(Mapping[str, Undoer]):
    """The kinds of change that topics make, loaded on first use.

    A new kind is then one file of its topic, and other commands do not load it.
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
    "frozen": Undoer(undo=undo_frozen, subject="point"),
}

UNDOERS: Final[ChainMap[str, Undoer]] = ChainMap(_KNOWN, cast("dict[str, Undoer]", _TopicUndoers()))
"""How each kind of change is undone, including those of topics."""


def loop_file(name: str) -> str:
    """Return the backing file of a loop device, such as ``loop3``; empty when it is detached.

    A removed backing file keeps its name, without the kernel's remark.
    """
    backing = LIVE.text(f"/sys/block/{name}/loop/backing_file") or ""
    return backing.removesuffix(" (deleted)")


def _exists(path: Path) -> bool:
    """Return whether a path exists; other failures to stat it raise OSError."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _remove_folder(folder: Path, run_id: str, inode: int) -> Result:
    """Remove a folder by its descriptor, so that a folder that replaces it is not emptied."""
    with closing(open_without_links(folder.resolve(), os.O_RDONLY | os.O_DIRECTORY)) as descriptor:
        if inode not in {0, os.fstat(descriptor).st_ino}:
            return foreign("it is not the directory that the run created")
        if not is_made_by(folder, run_id):
            return foreign("it does not contain the marker of the run")
        inside = next(_users_of_folder(folder), None)
        if inside:
            return failed(inside)
        opened = Path(descriptor_path(descriptor))
        # The marker goes last, so that after a kill the rest is still recognised as ours.
        for name in sorted(entry.name for entry in opened.iterdir()):
            entry = opened / name
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif name != MARKER_NAME:
                entry.unlink()
        (opened / MARKER_NAME).unlink(missing_ok=True)
    folder.rmdir()
    return undone("removed")


def _users_of_folder(folder: Path) -> Iterator[str]:
    """Yield what uses the folder: mounts in it and loop devices on its files."""
    folder = folder.resolve()  # The kernel lists real paths.
    for mount in mounts(LIVE):
        if Path(mount.point).is_relative_to(folder):
            yield f"a file system is mounted in it; unmount it with `umount {mount.point}`"
    for name in LIVE.names("/sys/block"):
        backing = loop_file(name)
        if backing and Path(backing).is_relative_to(folder):
            yield (
                f"/dev/{name} is attached to a file in it; detach it with `losetup -d /dev/{name}`"
            )


def _is_mounted_at(folder: Path, mount_point: str) -> bool:
    mount = mount_of(LIVE, str(folder))
    return mount is not None and mount.point == mount_point


def _processes_in(group: Path) -> list[str]:
    return (LIVE.text(f"{group}/cgroup.procs") or "").split()


def _move_process(pid: str, return_to: Path) -> None:
    """Move a process back to its group; one that has just ended needs no move."""
    try:
        (return_to / "cgroup.procs").write_text(pid)
    except ProcessLookupError:
        return


def _has_ended(handle: int, patience_s: float) -> bool:
    """Wait for the process behind a handle, which becomes readable when it ends."""
    return bool(select.select([handle], [], [], patience_s)[0])
