"""Opening what was judged and nothing else: no symbolic link on the way is followed."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import Final

# Source: openat2(2) and include/uapi/linux/openat2.h.
_SYS_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_AT_FDCWD: Final = -100
_UNAVAILABLE: Final = (errno.ENOSYS, errno.EPERM, errno.E2BIG)


def open_without_links(path: Path, flags: int, mode: int = 0) -> int:
    """Open a path from the root, of which no part may be a symbolic link; return the descriptor.

    Raises:
        OSError: when it cannot be opened; ELOOP when a link stands in its way.
    """
    return _open(_AT_FDCWD, str(path), flags, mode, 0)


def open_beneath(folder: int, name: str, flags: int, mode: int = 0) -> int:
    """Open a name in an open folder, and nothing outside of it; return the descriptor.

    Raises:
        OSError: when it cannot be opened; ELOOP when it is a symbolic link.
    """
    return _open(folder, name, flags, mode, _RESOLVE_BENEATH)


def descriptor_path(descriptor: int) -> str:
    """Return a path that opens again what a descriptor of this process leads to."""
    return f"/proc/self/fd/{descriptor}"


def _open(folder: int, name: str, flags: int, mode: int, resolve: int) -> int:
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    how = struct.pack("=QQQ", flags, mode, resolve | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(
        libc.syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(os.fsencode(name)),
            ctypes.c_char_p(how),
            ctypes.c_size_t(len(how)),
        )
    )
    if descriptor >= 0:
        return descriptor
    code = ctypes.get_errno()
    if code not in _UNAVAILABLE:
        raise OSError(code, os.strerror(code), name)
    return _open_and_compare(folder, name, flags, mode)


def _open_and_compare(folder: int, name: str, flags: int, mode: int) -> int:
    """Open without openat2 (before Linux 5.6, or forbidden): the kernel tells where it led."""
    wanted = Path(name)
    if folder != _AT_FDCWD:
        wanted = Path(f"/proc/self/fd/{folder}").readlink() / name
    descriptor = os.open(name, flags, mode, dir_fd=None if folder == _AT_FDCWD else folder)
    if Path(descriptor_path(descriptor)).readlink() != wanted:
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return descriptor
