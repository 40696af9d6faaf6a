"""The folder of a run's trial files: checked, marked, journalled, removed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from seatrial.errors import RefusedError, SeatrialError, SpaceError, TargetError
from seatrial.machine.direct import direct_alignment, require_multiple
from seatrial.machine.fingerprint.mounts import mount_of
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.marker import (
    FOLDER_PREFIX,
    MARKER_NAME,
    folder_name,
    is_made_by,
    write_marker,
)
from seatrial.machine.resolve import descriptor_path, open_beneath, open_without_links
from seatrial.machine.sizes import size_text
from seatrial.machine.undo_journal import UndoJournal, Undone
from seatrial.units import MIB

RESERVE_SHARE: Final = 0.05
RESERVE_BYTES: Final = 64 * 1024 * 1024
_WITH_LASTING_INODES: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "jfs", "zfs", "tmpfs", "nfs4"}
)
"""File systems on which a file keeps its inode number as long as it exists."""


class TrialFolder:
    """``DIRECTORY/.seatrial-<run>/``: all files that a run makes on a target.

    Opening it checks the directory first, in this order: that it is one, that the space suffices,
    that it is writable, that O_DIRECT works. Opening it again under the same run finds its files,
    or an empty folder if they were cleaned up. Leaving it as a context removes it.

    The folder and each file that ``claim`` returned are held open, so writes through them reach the
    right files even if another folder, file or link has replaced them. The run's own files are
    identified by the inodes in the journal.

    Attributes:
        path: The folder.
        logical_block_bytes: Smallest block that O_DIRECT accepts there; 1 without O_DIRECT. Known
                once the folder is open.
    """

    def __init__(self, directory: Path | str, run_id: str, journal: UndoJournal) -> None:
        self.directory = Path(directory)
        self.run_id = run_id
        self.path = self.directory.resolve() / folder_name(run_id)
        self.logical_block_bytes = 1
        self._journal = journal
        self._entry = 0
        self._descriptor = -1
        self._claimed: dict[str, int] = {}
        self._has_inodes = False

    def open(
        self,
        needed_bytes: int,
        *,
        direct: bool = True,
        shrink_option: str = "--size",
        reserve_bytes: int = RESERVE_BYTES,
    ) -> Self:
        """Check the directory and create or find the folder.

        Args:
            needed_bytes: Total size of all trial files.
            direct: Whether the files are to be opened with O_DIRECT.
            shrink_option: The option that makes the trial smaller, named when space is short.
            reserve_bytes: Minimum free space to keep, in addition to 5 % of ``needed_bytes``.

        Raises:
            TargetError: when it does not exist, is not a directory or is not writable.
            SpaceError: when too little space is free.
            DirectError: when O_DIRECT is requested but not supported.
            UsageError: when the undo journal cannot be written.
        """
        check_directory(self.directory)
        check_space(self.path, needed_bytes, shrink_option, reserve_bytes)
        self._make()
        try:
            self.logical_block_bytes = direct_alignment(self.path) if direct else 1
        except TargetError:
            self.close()
            if not self.files():
                self.remove()
            raise
        return self

    def file(self, name: str) -> Path:
        """Return the path of a trial file; it need not exist yet.

        Raises:
            ValueError: when it is not a plain file name or is reserved.
        """
        if name in {"", ".", "..", MARKER_NAME} or "/" in name or "\0" in name:
            raise ValueError(f"invalid name of a trial file: {name!r}")
        return self.path / name

    def claim(self, name: str) -> str:
        """Create a trial file, or open the run's own; return a path to write through.

        Raises:
            ValueError: when it is not a plain file name or is reserved.
            RefusedError: when the existing file is not the one that the run created.
            TargetError: when it cannot be created or opened.
        """
        path = self.file(name)
        if name not in self._claimed:
            try:
                self._claimed[name] = self._opened(path)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise _not_ours(path, "a symbolic link") from None
                raise _not_writable(self.path, error) from None
        return descriptor_path(self._claimed[name])

    def files(self) -> list[Path]:
        """Return the existing trial files, sorted by name."""
        return sorted(entry for entry in self.path.iterdir() if entry.name != MARKER_NAME)

    def require_multiple(self, what: str, size_bytes: int) -> None:
        """Check that a size or offset (bytes) is a whole number of logical blocks.

        Raises:
            AlignmentError: when it is not.
        """
        require_multiple(what, size_bytes, self.logical_block_bytes)

    def remove(self) -> Undone:
        """Remove the folder and its contents; what fails stays in the journal for ``clean``."""
        self.close()
        return self._journal.undo(self._entry)

    def close(self) -> None:
        """Close the folder and its files without removing them; safe to call twice."""
        for descriptor in (*self._claimed.values(), self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self._claimed, self._descriptor = {}, -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()

    def _make(self) -> None:
        known = self._journal.find("file", path=str(self.path), run_id=self.run_id)
        self._check_existing(known[1] if known else None)
        mount = mount_of(LIVE, str(self.directory))
        # A file system that the run itself mounted is undone by its own entry.
        is_own = mount is None or self._journal.has_mounted(mount.point)
        self._has_inodes = mount is not None and mount.kind in _WITH_LASTING_INODES
        self._entry = (
            known[0]
            if known
            else self._journal.record(
                "file",
                path=str(self.path),
                run_id=self.run_id,
                mount_point="" if is_own or mount is None else mount.point,
            )
        )
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            write_marker(self.path, self.run_id)
            self.close()
            self._descriptor = open_without_links(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            self._journal.undo(self._entry)
            raise _not_writable(self.directory, error) from None
        inode = os.fstat(self._descriptor).st_ino
        if self._has_inodes and known is not None and known[1].get("inode") != inode:
            # The folder is new, so none of the earlier files exists.
            self._journal.amend(self._entry, inode=inode, files={})
        elif self._has_inodes:
            self._journal.amend(self._entry, inode=inode)

    def _check_existing(self, known: Mapping[str, Any] | None) -> None:
        """Check that an existing folder of this name is the one that this run created.

        Raises:
            TargetError: when it is not.
        """
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise _not_writable(self.directory, error) from None
        is_made = is_made_by(self.path, self.run_id) and status.st_uid == os.geteuid()
        if is_made and known is None:
            # Anybody can write a marker; an empty folder does no harm.
            is_made = not self.files()
        if is_made and known is not None:
            is_made = known.get("inode", 0) in {0, status.st_ino}
        if not is_made:
            raise _taken(self.path)

    def _opened(self, path: Path) -> int:
        """Open a trial file: a new one, or the one whose inode is in the journal."""
        if self._descriptor < 0:
            raise RuntimeError("open the trial folder before claiming files")
        flags = os.O_RDWR | os.O_NONBLOCK
        found = self._journal.find("file", path=str(self.path), run_id=self.run_id)
        known: dict[str, int] = dict((found[1] if found else {}).get("files") or {})
        try:
            made = os.O_CREAT | os.O_EXCL
            descriptor = open_beneath(self._descriptor, path.name, flags | made, 0o600)
        except FileExistsError:
            descriptor = open_beneath(self._descriptor, path.name, flags)
            status = os.fstat(descriptor)
            wrong = self._why_not_ours(status, known.get(path.name, 0))
            if wrong:
                os.close(descriptor)
                raise _not_ours(path, wrong) from None
        if self._has_inodes:
            known[path.name] = os.fstat(descriptor).st_ino
            self._journal.amend(self._entry, files=known)
        return descriptor

    def _why_not_ours(self, status: os.stat_result, inode: int) -> str:
        """Return why an existing file is not the run's own, as a phrase; empty if it is."""
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if status.st_nlink > 1:
            return "a file with several hard links"
        if status.st_uid != os.geteuid():
            return "owned by another user"
        # A kill between creating a file and recording it leaves an empty one.
        if self._has_inodes and status.st_size and status.st_ino != inode:
            return "not the file that this run created"
        return ""


def check_directory(directory: Path) -> None:
    """Check that a directory exists.

    Raises:
        TargetError: when it does not, with the command that creates it.
    """
    if directory.is_dir():
        return
    if os.path.lexists(directory):
        raise TargetError(
            seen=f"{directory} is not a directory",
            cause="A trial needs a directory in which to create its files",
            next_step=f"Specify the directory, such as {directory.parent}",
        )
    raise TargetError(
        seen=f"The directory {directory} does not exist",
        cause="The name is misspelled, or the file system is not mounted",
        next_step=f"Create it with `mkdir -p {directory}`, or check mounts with `findmnt`",
    )


def usable_bytes(free_bytes: int, reserve_bytes: int = RESERVE_BYTES) -> int:
    """Return the free space that a trial may use, without the reserve."""
    return max(0, min(int(free_bytes / (1 + RESERVE_SHARE)), free_bytes - reserve_bytes))


def check_space(
    folder: Path,
    needed_bytes: int,
    shrink_option: str = "--size",
    reserve_bytes: int = RESERVE_BYTES,
) -> None:
    """Check that a folder's file system has space for a trial and a reserve of 5 % or 64 MiB.

    Files of an earlier part of the run, in the same folder, count as free space.

    Raises:
        SpaceError: when it has not; the message gives both sizes.
        TargetError: when the directory above cannot be read.
    """
    try:
        status = os.statvfs(folder.parent)
        # Includes the data folders of databases, which are below.
        held_bytes = sum(
            Path(parent, name).lstat().st_blocks * 512
            for parent, _folders, names in os.walk(folder)
            for name in names
        )
    except OSError as error:
        raise _not_writable(folder.parent, error) from None
    if status.f_blocks == 0:
        return  # A file system such as ramfs, which does not account for its space.
    free_bytes = status.f_bavail * status.f_frsize
    kept_bytes = max(int(needed_bytes * RESERVE_SHARE), reserve_bytes)
    wanted_bytes = max(needed_bytes - held_bytes, 0) + kept_bytes
    if wanted_bytes <= free_bytes:
        return
    largest_bytes = usable_bytes(free_bytes, reserve_bytes)
    # Whole MiB: --size takes the number as it is printed, and the result must fit.
    fits_mib = max(largest_bytes + held_bytes, 0) // MIB
    raise SpaceError(
        seen=f"The trial needs {size_text(wanted_bytes)} in {folder.parent}, including a reserve "
        f"of {size_text(kept_bytes)}, but only {size_text(free_bytes)} are available",
        cause="A full file system would distort the results and affect other users",
        next_step=f"Free some space, or make the trial smaller with {shrink_option} (at most "
        f"{fits_mib} MiB for all files)"
        if fits_mib
        else "Free some space, or specify a directory on a larger file system",
    )


def _taken(path: Path) -> TargetError:
    return TargetError(
        seen=f"{path} exists, but was not created by this run",
        cause="Another program created it, or the undo journal was removed",
        next_step=f"Inspect it, move it away (`mv {path} {path}.old`) and retry",
    )


def _not_ours(path: Path, what: str) -> RefusedError:
    return RefusedError(
        seen=f"{path} is {what}",
        cause="Another program put it into the trial folder or replaced a trial file",
        next_step=f"Inspect it, move it away (`mv {path} {path.parent.parent}`) and retry",
    )


def write_obstacle(directory: Path) -> TargetError | None:
    """Return why this user cannot make files in a directory; None if it can. Nothing is written."""
    if os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        return None
    is_read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
    number = errno.EROFS if is_read_only else errno.EACCES
    return _not_writable(directory, OSError(number, os.strerror(number)))


def _not_writable(directory: Path, error: OSError) -> TargetError:
    causes = {
        errno.EROFS: "Its file system is mounted read-only",
        errno.EACCES: "You do not have write permission",
        errno.EPERM: "You do not have write permission",
        errno.ENOSPC: "The file system is full, or has no inodes left",
        errno.EDQUOT: "Your quota is exhausted",
    }
    return TargetError(
        seen=f"The directory {directory} is not writable: {error.strerror}",
        cause=causes.get(error.errno or 0, "The file system or its device is failing"),
        next_step=f"Specify a directory that you can write, or check `ls -ld {directory}` and "
        f"`findmnt -T {directory}`",
    )


FULL_WORDS: Final = os.strerror(errno.ENOSPC)
FULL_NAMES: Final = frozenset({"ENOSPC", "EDQUOT"})
FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHARED_MEMORY_WORDS: Final = "could not resize shared memory segment"
FULL_BYTES: Final = 16 * 1024 * 1024
"""Less free space is too little for PostgreSQL's next WAL segment, at initdb's default size."""


def no_space(path: Path, words: str = "", *, by_quota: bool = False) -> SpaceError:
    """Return the error for a file system that has no space left.

    Args:
        path: A file or folder on it; the directory under trial is named for a trial folder.
        words: The operation that failed, or a program's error message, as a phrase.
        by_quota: Whether the error was that of a quota (EDQUOT).
    """
    target = directory_of(path)
    text = f": {words}" if words else ""
    if _SHARED_MEMORY_WORDS in words:
        return SpaceError(
            seen=f"No space left on /dev/shm{text}",
            cause="PostgreSQL has shared memory there, and it is small, as in many containers, or "
            "other programs filled it",
            next_step="Enlarge it (`--shm-size=1g` for a container, else `mount -o "
            "remount,size=1G /dev/shm`), or free some space there (`df -h /dev/shm`)",
        )
    if by_quota:
        return SpaceError(
            seen=f"The quota of {target} is exhausted{text}",
            cause="A quota of this user, group, project or subvolume allows no more; the file "
            "system itself may have space",
            next_step="Raise the quota (`quota -v`; on btrfs `btrfs qgroup show "
            f"{target}`), or make the trial smaller; completed measurements are stored",
        )
    return SpaceError(
        seen=f"No space left on {target}{text}",
        cause="The trial needed more space than was free, or another program filled the file "
        "system",
        next_step=f"Free some space (`df -h {target}`), or make the trial smaller; completed "
        "measurements are stored",
    )


def directory_of(path: Path) -> Path:
    """Return the directory under trial for a path in a run's folder, else the path."""
    for part in (path, *path.parents):
        if part.name.startswith(FOLDER_PREFIX):
            return part.parent
    return path


def free_text(path: Path) -> str:
    """Return that the file system of a path is almost full; empty if it is not.

    A server that ran out of space may log nothing: its log is on the full file system.
    """
    existing = next((each for each in (path, *path.parents) if each.exists()), path)
    try:
        status = os.statvfs(existing)
    except OSError:
        return ""
    if status.f_blocks == 0:
        return ""  # A file system such as ramfs, which does not account for its space.
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < FULL_BYTES:
        return f"{size_text(free_bytes)} are free"
    return "no free inodes" if status.f_files and status.f_favail == 0 else ""


def as_space_error(error: SeatrialError, path: Path) -> SeatrialError:
    """Return an error for a full file system if a program's message reports one."""
    if isinstance(error, SpaceError) or FULL_WORDS not in error.seen + error.cause:
        return error
    return no_space(path, error.seen.rstrip("."))
