"""The folder in which a run keeps its trial files: checked, marked, journalled, removed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from seatrial.errors import RefusedError, SpaceError, TargetError
from seatrial.machine.direct import direct_alignment, require_multiple
from seatrial.machine.fingerprint.mounts import mount_of
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.marker import MARKER_NAME, folder_name, is_made_by, write_marker
from seatrial.machine.opening import descriptor_path, open_beneath, open_without_links
from seatrial.machine.sizes import size_text
from seatrial.machine.undo import UndoJournal, Undone

RESERVE_SHARE: Final = 0.05
RESERVE_BYTES: Final = 64 * 1024 * 1024
_WITH_LASTING_INODES: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "jfs", "zfs", "tmpfs", "nfs4"}
)
"""File systems on which a file keeps its inode number for as long as it is there."""


class TrialFolder:
    """``DIRECTORY/.seatrial-<run>/``: all files that a run makes on a target.

    Opening it checks the directory first, in this order: that it is one, that the space suffices,
    that it can be written, that O_DIRECT works. Opening it again under the same run finds its
    files, or an empty folder when they were cleaned away. Leaving it as a context removes it.

    The folder is held open, and so is each file that ``claim`` gave out: what is written through
    these reaches them, even if another folder, file or link has been put in their place. Theirs
    are the inodes that the journal names.

    Attributes:
        path: The folder.
        logical_block_bytes: Smallest block that O_DIRECT takes there; 1 without O_DIRECT. Known
            once it is open.
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
        """Check the directory and make or find the folder.

        Args:
            needed_bytes: What all trial files together will hold.
            direct: Whether the files are to be opened with O_DIRECT.
            shrink_option: The option that makes the trial smaller, named when space is short.
            reserve_bytes: What stays free at least, beside 5 % of what is needed.

        Raises:
            TargetError: when the directory does not exist, is none or cannot be written.
            SpaceError: when too little space is free.
            DirectError: when O_DIRECT is wanted and not supported.
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
            ValueError: when the name is not a plain file name of the run's own.
        """
        if name in {"", ".", "..", MARKER_NAME} or "/" in name or "\0" in name:
            raise ValueError(f"not a name of a trial file: {name!r}")
        return self.path / name

    def claim(self, name: str) -> str:
        """Make a trial file or open the one that the run made; return a path to write to it by.

        Raises:
            ValueError: when the name is not a plain file name of the run's own.
            RefusedError: when what has that name is not the file that the run made.
            TargetError: when it cannot be made or opened.
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
        """Return the trial files that exist, in order of their names."""
        return sorted(entry for entry in self.path.iterdir() if entry.name != MARKER_NAME)

    def require_multiple(self, what: str, size_bytes: int) -> None:
        """Check that a size or offset (bytes) is a whole number of logical blocks.

        Raises:
            AlignmentError: when it is not.
        """
        require_multiple(what, size_bytes, self.logical_block_bytes)

    def remove(self) -> Undone:
        """Remove the folder and all in it; what fails stays in the journal for ``clean``."""
        self.close()
        return self._journal.undo(self._entry)

    def close(self) -> None:
        """Let go of the folder and its files, which stay; safe to call twice."""
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
        self._check_place(known[1] if known else None)
        mount = mount_of(LIVE, str(self.directory))
        # A file system that the run itself mounted goes with its own entry.
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
            # It was made anew, so of its earlier files none is there.
            self._journal.amend(self._entry, inode=inode, files={})
        elif self._has_inodes:
            self._journal.amend(self._entry, inode=inode)

    def _check_place(self, known: Mapping[str, Any] | None) -> None:
        """Check that what has the folder's name already is the folder that this run made.

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
            # Anybody can write a marker; only an empty folder is as good as one of our own.
            is_made = not self.files()
        if is_made and known is not None:
            is_made = known.get("inode", 0) in {0, status.st_ino}
        if not is_made:
            raise _taken(self.path)

    def _opened(self, path: Path) -> int:
        """Open a trial file: a new one, or that whose inode is in the journal."""
        if self._descriptor < 0:
            raise RuntimeError("a trial folder is opened before its files are claimed")
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
        """Return what an existing file is that the run did not make, as a phrase; else empty."""
        if not stat.S_ISREG(status.st_mode):
            return "no regular file"
        if status.st_nlink > 1:
            return "a file that has another name elsewhere"
        if status.st_uid != os.geteuid():
            return "a file of another user"
        # A kill between the making of a file and its record leaves an empty one.
        if self._has_inodes and status.st_size and status.st_ino != inode:
            return "another file than the run made"
        return ""


def check_directory(directory: Path) -> None:
    """Check that a directory exists and is one.

    Raises:
        TargetError: when not, with the command that makes it.
    """
    if directory.is_dir():
        return
    if os.path.lexists(directory):
        raise TargetError(
            seen=f"{directory} is not a directory",
            cause="A trial makes its own files, so it needs a directory to make them in",
            next_step=f"Name the directory, such as {directory.parent}",
        )
    raise TargetError(
        seen=f"The directory {directory} does not exist",
        cause="The name is mistyped, or the file system is not mounted",
        next_step=f"Make it with `mkdir -p {directory}`, or see `findmnt` for what is mounted",
    )


def check_space(
    folder: Path,
    needed_bytes: int,
    shrink_option: str = "--size",
    reserve_bytes: int = RESERVE_BYTES,
) -> None:
    """Check that a folder's file system holds a trial and a reserve of 5 % or 64 MiB beside it.

    What the folder's own files hold already, from before a resume, counts as there.

    Raises:
        SpaceError: when it does not; the sentence gives both sizes.
        TargetError: when the directory above cannot be asked.
    """
    try:
        status = os.statvfs(folder.parent)
        # With the data folders of databases, which lie in folders below.
        held_bytes = sum(
            Path(place, name).lstat().st_blocks * 512
            for place, _folders, names in os.walk(folder)
            for name in names
        )
    except OSError as error:
        raise _not_writable(folder.parent, error) from None
    if status.f_blocks == 0:
        return  # A file system such as ramfs, which keeps no account of its space.
    free_bytes = status.f_bavail * status.f_frsize
    kept_bytes = max(int(needed_bytes * RESERVE_SHARE), reserve_bytes)
    wanted_bytes = max(needed_bytes - held_bytes, 0) + kept_bytes
    if wanted_bytes <= free_bytes:
        return
    largest_bytes = min(int(free_bytes / (1 + RESERVE_SHARE)), free_bytes - reserve_bytes)
    fits_bytes = max(largest_bytes + held_bytes, 0)
    raise SpaceError(
        seen=f"The trial needs {size_text(wanted_bytes)} in {folder.parent}, of which"
        f" {size_text(kept_bytes)} stay free, but only {size_text(free_bytes)} are free",
        cause="A file system filled to the brim would measure its own distress, and harm others",
        next_step=f"Free some space, or make the trial smaller with {shrink_option}"
        f" (its files together at most {size_text(fits_bytes)})"
        if fits_bytes
        else "Free some space, or name a directory on a larger file system",
    )


def _taken(path: Path) -> TargetError:
    return TargetError(
        seen=f"{path} exists, but is not the folder that this run made",
        cause="Something else made it, whatever marker it bears, or the undo journal is gone",
        next_step=f"Look into it, move it away (`mv {path} {path}.old`) and try again",
    )


def _not_ours(path: Path, what: str) -> RefusedError:
    return RefusedError(
        seen=f"{path} is {what}",
        cause="Something put it into the trial folder, or in the place of a trial file",
        next_step=f"Look into it, move it away (`mv {path} {path.parent.parent}`) and try again",
    )


def _not_writable(directory: Path, error: OSError) -> TargetError:
    causes = {
        errno.EROFS: "Its file system is mounted read-only",
        errno.EACCES: "You have no right to write there",
        errno.EPERM: "You have no right to write there",
        errno.ENOSPC: "The file system is full, or has no inodes left",
        errno.EDQUOT: "Your quota is used up",
    }
    return TargetError(
        seen=f"The directory {directory} cannot be written: {error.strerror}",
        cause=causes.get(error.errno or 0, "The file system or the device below it fails"),
        next_step=f"Name a directory of your own, or see `ls -ld {directory}` and"
        f" `findmnt -T {directory}`",
    )
