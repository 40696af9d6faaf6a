"""Copies a loaded data folder, sharing its blocks if the file system supports it.

Sources: ioctl_ficlonerange(2), ``FICLONE``; lseek(2), ``SEEK_DATA``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from seatrial.errors import SpaceError, TargetError
from seatrial.machine.sizes import size_text
from seatrial.postgres.page_cache import sync_file_system

CloneMethod = Literal["auto", "reflink", "copy"]

_FICLONE: Final = 0x40049409
_CANNOT_SHARE: Final = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS)
_CHUNK_BYTES_MAX: Final = 1 << 30


class CloneResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of cloning.

    Attributes:
        how: ``reflink`` for shared blocks, ``copy`` for a full copy.
        elapsed_s: How long it took, until everything was on the medium.
        size_bytes: Total size of the files; holes count.
    """

    how: str
    elapsed_s: float
    size_bytes: int


def clone_folder(source: Path, copy: Path, how: CloneMethod = "auto") -> CloneResult:
    """Clone ``source`` to a new folder ``copy``.

    Owners, modes, times, links and holes are preserved; sockets are omitted. Everything is on the
    medium when this returns, so that its write-back does not affect the next measurement. A
    ``copy`` never shares blocks: a server's first write to a shared block would cost more than a
    later one.

    Args:
        source: A folder without writers.
        copy: The folder to create.
        how: ``reflink`` or ``copy``; ``auto`` shares blocks if the file system can.

    Raises:
        TargetError: when it fails, or the file system cannot share blocks as requested.
        SpaceError: when the file system is full.
        ValueError: when ``how`` is none of the three.
    """
    if how not in get_args(CloneMethod):
        raise ValueError(f"no method of cloning: {how!r}")
    if os.path.lexists(copy):
        raise _failed(source, copy, FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)))
    started_s = time.monotonic()
    try:
        shares = how != "copy" and _shares_blocks(source, copy.parent)
        if how == "reflink" and not shares:
            raise _cannot_share(copy.parent)
        _clone_tree(source, copy, shares=shares)
        sync_file_system(copy)
    except OSError as error:
        shutil.rmtree(copy, ignore_errors=True)
        raise _failed(source, copy, error) from None
    return CloneResult(
        how="reflink" if shares else "copy",
        elapsed_s=time.monotonic() - started_s,
        size_bytes=folder_size_bytes(copy),
    )


def copy_file(source: Path, copy: Path) -> None:
    """Copy a file, sharing its blocks if the file system can.

    Holes are preserved; ``copy`` is overwritten.

    Raises:
        OSError: when it cannot be read or written.
    """
    if not _share_file(source, copy):
        _copy_file(source, copy)


def folder_size_bytes(folder: Path) -> int:
    """Return the total size of all regular files below a folder; holes count."""
    return sum(path.lstat().st_size for path in _files(folder))


def _shares_blocks(source: Path, folder: Path) -> bool:
    """Return whether the file system can share blocks, by a test file."""
    probe = next((path for path in _files(source) if path.stat().st_size), None)
    if probe is None:
        return False
    trial = folder / f".seatrial-probe-{os.getpid()}"
    try:
        return _share_file(probe, trial)
    finally:
        trial.unlink(missing_ok=True)


def _clone_tree(source: Path, copy: Path, *, shares: bool) -> None:
    copy.mkdir(mode=0o700)
    with os.scandir(source) as entries:
        for entry in entries:
            target = copy / entry.name
            if entry.is_symlink():
                target.symlink_to(Path(entry.path).readlink())
                _copy_owner(Path(entry.path), target)
            elif entry.is_dir():
                _clone_tree(Path(entry.path), target, shares=shares)
            elif entry.is_file():
                # A file system may share most files but refuse some, such as inline ones.
                if not (shares and _share_file(Path(entry.path), target)):
                    _copy_file(Path(entry.path), target)
                _copy_owner(Path(entry.path), target)
                shutil.copystat(entry.path, target)
    _copy_owner(source, copy)
    shutil.copystat(source, copy)


def _share_file(source: Path, target: Path) -> bool:
    """Create a file that shares all blocks; False when the file system cannot."""
    with source.open("rb") as old, target.open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError as error:
            if error.errno in _CANNOT_SHARE:
                return False
            raise
    return True


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file's content and holes.

    copy_file_range(2) is not used, as it may share blocks.
    """
    with source.open("rb", buffering=0) as old, target.open("wb", buffering=0) as new:
        size_bytes = os.fstat(old.fileno()).st_size
        for start_bytes, end_bytes in _filled_ranges(old.fileno(), size_bytes):
            new.seek(start_bytes)
            offset_bytes = start_bytes
            while offset_bytes < end_bytes:
                chunk_bytes = min(end_bytes - offset_bytes, _CHUNK_BYTES_MAX)
                sent_bytes = os.sendfile(new.fileno(), old.fileno(), offset_bytes, chunk_bytes)
                if sent_bytes == 0:
                    raise OSError(errno.EIO, f"{source} became shorter while it was copied")
                offset_bytes += sent_bytes
        new.truncate(size_bytes)


def _filled_ranges(descriptor: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a file that is not a hole."""
    end_bytes = 0
    while end_bytes < size_bytes:
        try:
            start_bytes = os.lseek(descriptor, end_bytes, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # The rest is a hole.
            raise
        end_bytes = os.lseek(descriptor, start_bytes, os.SEEK_HOLE)
        yield start_bytes, end_bytes


def _copy_owner(source: Path, target: Path) -> None:
    status = source.lstat()
    if os.geteuid() == 0:
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder."""
    for parent, _folders, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _cannot_share(folder: Path) -> TargetError:
    return TargetError(
        seen=f"The file system of {folder} cannot share blocks between files",
        cause="Reflinks need btrfs, XFS made with reflink=1, bcachefs or ZFS with block cloning",
        next_step="Use `copy` or `auto` instead of `reflink`",
    )


def _failed(source: Path, copy: Path, error: OSError) -> TargetError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SpaceError(
            seen=f"{source} could not be cloned to {copy}: {error.strerror}",
            cause=f"There is no space for another {size_text(folder_size_bytes(source))}",
            next_step="Free some space, or use a smaller scale",
        )
    return TargetError(
        seen=f"{source} could not be cloned to {copy}: {error.strerror or error}",
        cause="The copy exists already, the source is not readable, or the device fails",
        next_step="See the end of `dmesg` for errors of the device, then try again",
    )
