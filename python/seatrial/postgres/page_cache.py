"""Drops a folder's files from the page cache, and verifies it.

Only the trial's own files are dropped: ``/proc/sys/vm/drop_caches`` would affect all others.

Sources: posix_fadvise(2), ``POSIX_FADV_DONTNEED`` (dirty pages stay, so the files are synced
before); syncfs(2); cachestat(2), since Linux 6.5; mincore(2).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from seatrial.descriptor import closing

_CACHESTAT: Final = 451
"""System call number, the same on every architecture except alpha."""

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_WINDOW_BYTES: Final = 1 << 30
_READ_ONLY_MAPPING: Final = (1, 1)  # PROT_READ, MAP_SHARED
_FAILED_MAPPING: Final = ctypes.c_void_p(-1).value


class CacheDrop(msgspec.Struct, frozen=True, kw_only=True):
    """The result of dropping.

    Attributes:
        bytes_cached_before: Bytes of the folder's files in the page cache before.
        bytes_cached_after: The same afterwards; 0 proves that it is cold. A file system in memory
            (tmpfs) cannot be dropped.
    """

    bytes_cached_before: int
    bytes_cached_after: int


class _Range(ctypes.Structure):
    _fields_ = (("offset_bytes", ctypes.c_uint64), ("length_bytes", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = (
        ("cached", ctypes.c_uint64),
        ("dirty", ctypes.c_uint64),
        ("writeback", ctypes.c_uint64),
        ("evicted", ctypes.c_uint64),
        ("recently_evicted", ctypes.c_uint64),
    )


def drop_cached(folder: Path) -> CacheDrop:
    """Write back a folder's files, drop them from the page cache, and count the remaining pages.

    Symbolic links to folders are not followed. A file that is mapped or written by another process
    may keep pages, which are counted.

    Raises:
        OSError: when a file cannot be opened or synced.
    """
    before_bytes = cached_bytes(folder)
    sync_file_system(folder)
    for descriptor in _opened_files(folder):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return CacheDrop(bytes_cached_before=before_bytes, bytes_cached_after=cached_bytes(folder))


def sync_file_system(folder: Path) -> None:
    """Write all data of a folder's file system to its medium.

    A data folder has a thousand files, and ext4 flushes the device's cache at each fsync even of a
    clean
    file: a thousand flushes, of 10 ms each on a disk, instead of one.

    Raises:
        OSError: when something could not be written.
    """
    with closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        _checked(lambda libc: libc.syncfs(descriptor))


def write_back(path: Path) -> None:
    """Write back all dirty pages of a file system or a block device.

    Args:
        path: A folder of the file system, or the device.

    Raises:
        OSError: when something could not be written.
    """
    if path.is_dir():
        sync_file_system(path)
        return
    with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def cached_bytes(folder: Path) -> int:
    """Return how many bytes of a folder's files are in the page cache.

    Raises:
        OSError: when a file cannot be opened, or the kernel does not support it.
    """
    count = _pages_by_cachestat if _has_cachestat() else _pages_by_mincore
    return sum(count(descriptor) for descriptor in _opened_files(folder)) * _PAGE_BYTES


def _opened_files(folder: Path) -> Iterator[int]:
    """Yield a descriptor of each regular file below a folder, open until the next one."""
    for parent, _folders, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if path.is_symlink() or not path.is_file():
                continue
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue  # A running server removes files.
            with closing(descriptor):
                yield descriptor


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_longlong,
    )
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    return libc


@cache
def _has_cachestat() -> bool:
    """Return whether the kernel has the call and no seccomp filter forbids it."""
    with closing(os.open("/proc/self/exe", os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        try:
            _pages_by_cachestat(descriptor)
        except OSError:
            return False
    return True


def _pages_by_cachestat(descriptor: int) -> int:
    """Return how many pages of a file are cached; the range 0, 0 is the whole file."""
    counts = _Counts()
    _checked(
        lambda libc: libc.syscall(
            _CACHESTAT, descriptor, ctypes.byref(_Range(0, 0)), ctypes.byref(counts), 0
        )
    )
    return int(counts.cached)


def _pages_by_mincore(descriptor: int) -> int:
    """Return how many pages of a file are cached, by mapping it in windows without access."""
    size_bytes = os.fstat(descriptor).st_size
    pages = 0
    for offset_bytes in range(0, size_bytes, _WINDOW_BYTES):
        length_bytes = min(_WINDOW_BYTES, size_bytes - offset_bytes)
        pages += _pages_of_window(descriptor, offset_bytes, length_bytes)
    return pages


def _pages_of_window(descriptor: int, offset_bytes: int, length_bytes: int) -> int:
    protection, sharing = _READ_ONLY_MAPPING
    start = _libc().mmap(None, length_bytes, protection, sharing, descriptor, offset_bytes)
    if start == _FAILED_MAPPING:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    resident = ctypes.create_string_buffer(-(-length_bytes // _PAGE_BYTES))
    try:
        _checked(lambda libc: libc.mincore(start, length_bytes, resident))
    finally:
        _libc().munmap(start, length_bytes)
    # Only the lowest bit of each byte is defined.
    return sum(byte & 1 for byte in resident.raw)


def _checked(call: Callable[[ctypes.CDLL], int]) -> None:
    if call(_libc()) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
