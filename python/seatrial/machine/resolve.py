"""What a user's TARGET is: a directory, a file, a device, or no storage."""

from __future__ import annotations

import ctypes
import difflib
import errno
import os
import re
import stat
import struct
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from seatrial.errors import TargetError, UsageError

_SIMULATED: Final = "simulated:"
_SIMULATED_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SIZE: Final = re.compile(r"[0-9][0-9.]*\s*[kKmMgGtTpP]?(i?[bB])?")
_DATABASE: Final = re.compile(r"(postgres|postgresql|mysql|mariadb)://")
_NETWORK: Final = re.compile(r"//|[A-Za-z][A-Za-z0-9+]*://|[A-Za-z0-9][A-Za-z0-9._-]*:/")
_NEAR_SHARE: Final = 0.75


class TargetKind(StrEnum):
    """The kinds of target that a user can name."""

    DIRECTORY = "directory"
    FILE = "file"
    NEW_FILE = "new_file"
    BLOCK_DEVICE = "block_device"
    NULL = "null"
    SIMULATED = "simulated"


@dataclass(frozen=True, kw_only=True)
class ResolvedTarget:
    """A target that exists or can be created.

    Attributes:
        kind: What it is.
        given: As the user wrote it.
            path: Its real path, symbolic links followed; None for null and simulated targets.
            name: Name of the simulated device's model; else empty.
    """

    kind: TargetKind
    given: str
    path: Path | None = None
    name: str = ""


def resolve(target: str) -> ResolvedTarget:
    """Return what a target is. Nothing is opened or written.

    ``null`` is the engine alone and ``simulated:NAME`` a simulated device; a file or directory of
    such a name is written with a path (``./null``).

    Raises:
        UsageError: when it is not a target, such as a size or a database URL.
        TargetError: when it does not exist and cannot be created, is of a kind without addresses,
            or its name is not UTF-8.
    """
    if not target.strip():
        raise _empty()
    if target == "null":
        return ResolvedTarget(kind=TargetKind.NULL, given=target)
    if target.startswith(_SIMULATED):
        return _simulated(target)
    _require_utf8(target)
    try:
        path = Path(target).expanduser()
        real = path.resolve()
        _require_utf8(str(real))
        status = real.stat()
    except (FileNotFoundError, NotADirectoryError):
        return _missing(target, path)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreachable(target, error) from None
    return ResolvedTarget(kind=_kind_of(real, status), given=target, path=real)


def resolve_directory(target: str) -> Path:
    """Return the directory that a user named.

    Raises:
        UsageError: when it is not a target.
        TargetError: when it does not exist or is not a directory.
    """
    found = resolve(target)
    if found.kind is TargetKind.DIRECTORY and found.path is not None:
        return found.path
    if found.kind is TargetKind.NEW_FILE and found.path is not None:
        near = _near(found.path)
        raise TargetError(
            seen=f"The directory {found.path} does not exist, but {found.path.parent} does",
            cause="The name is misspelled, or the directory has not been created",
            next_step=f"Did you mean `{near}`?" if near else f"Create it with `mkdir {found.path}`",
        )
    raise TargetError(
        seen=f"{target} is not a directory, but a {found.kind.replace('_', ' ')}",
        cause="This command needs a directory in which to create its trial files",
        next_step=f"Specify a directory, or measure this target with `seatrial io {target}`",
    )


def _require_utf8(name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        raise TargetError(
            seen=f"The name {shown} is not valid UTF-8",
            cause="Results, the undo journal and reports contain the target's name as UTF-8 text",
            next_step="Rename the directory, or mount it under another name with `mount --bind`",
        ) from None


def _simulated(target: str) -> ResolvedTarget:
    name = target.removeprefix(_SIMULATED)
    if not _SIMULATED_NAME.fullmatch(name):
        raise UsageError(
            seen=f"{target!r} is not a simulated device",
            cause="The colon must be followed by a model name: lower-case letters, digits and "
            "hyphens",
            next_step="`seatrial io --help` lists the models",
        )
    return ResolvedTarget(kind=TargetKind.SIMULATED, given=target, name=name)


def _kind_of(real: Path, status: os.stat_result) -> TargetKind:
    kinds = {
        stat.S_IFDIR: TargetKind.DIRECTORY,
        stat.S_IFREG: TargetKind.FILE,
        stat.S_IFBLK: TargetKind.BLOCK_DEVICE,
    }
    kind = kinds.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        return kind
    others = {stat.S_IFCHR: "character device", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    what = others.get(stat.S_IFMT(status.st_mode), "special file")
    namespace = re.fullmatch(r"/dev/(nvme\d+)", str(real))
    hint = f"Did you mean its disk, `{real}n1`?" if namespace else "`lsblk` lists the block devices"
    raise TargetError(
        seen=f"{real} is a {what}",
        cause="It has no random-access data, so it cannot be measured",
        next_step=hint,
    )


def _missing(target: str, path: Path) -> ResolvedTarget:
    """Return the new file that a name stands for, or raise with what the user probably meant."""
    _refuse_other_meanings(target)
    real = path.resolve()
    if path.is_symlink():
        raise TargetError(
            seen=f"{path} is a symbolic link to {real}, which does not exist",
            cause="The target of the link was removed, or its file system is not mounted",
            next_step=f"Check `ls -l {path}` and `findmnt`, or specify the target of the link",
        )
    if not real.parent.is_dir():
        raise _no_parent(real)
    if real.is_relative_to("/dev"):
        raise _no_device(real)
    if target.endswith("/"):
        near = _near(real)
        raise TargetError(
            seen=f"The directory {target} does not exist, but {real.parent} does",
            cause="The name is misspelled, or the directory has not been created",
            next_step=f"Did you mean `{near}`?" if near else f"Create it with `mkdir {real}`",
        )
    return ResolvedTarget(kind=TargetKind.NEW_FILE, given=target, path=real)


def _refuse_other_meanings(target: str) -> None:
    """Refuse words that are probably not meant as a path, rather than create a file."""
    if _SIZE.fullmatch(target):
        raise UsageError(
            seen=f"The target is {target!r}, which looks like a size",
            cause="The target or the name of an option is missing",
            next_step=f"Specify the target first: `seatrial io TARGET --size {target}`; use "
            f"./{target} for a file of that name",
        )
    if _DATABASE.match(target):
        raise UsageError(
            seen="The target is a database URL",
            cause="This command measures files, directories and devices",
            next_step="Measure the server with `seatrial db --url`, or specify a directory on "
            "its storage, such as data_directory",
        )
    if _NETWORK.match(target):
        raise TargetError(
            seen=f"{target} does not exist, and looks like a network location",
            cause="Only mounted or attached storage can be measured",
            next_step="Mount it first, and specify the mount point",
        )
    if target.lower() in {"nul", "null", "none", "/dev/nul"}:
        raise UsageError(
            seen=f"The target is {target!r}, and there is no such file",
            cause="The target that measures only the engine, without storage, is called null",
            next_step=f"Use `null`, or ./{target} for a file of that name",
        )
    if "/" not in target and _is_block_device(Path("/dev") / target):
        raise TargetError(
            seen=f"{target} does not exist, but /dev/{target} is a block device",
            cause="The directory of the device is missing",
            next_step=f"Use /dev/{target}, or ./{target} for a file of that name",
        )


def _is_block_device(path: Path) -> bool:
    try:
        return stat.S_ISBLK(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _near(path: Path) -> Path | None:
    """Return the existing sibling whose name is closest to a missing one, if any is close."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return None
    found = difflib.get_close_matches(path.name, names, n=1, cutoff=_NEAR_SHARE)
    return path.parent / found[0] if found else None


def _no_parent(real: Path) -> TargetError:
    nearest = next(parent for parent in real.parents if parent.exists())
    missing = nearest / real.relative_to(nearest).parts[0]
    near = _near(missing)
    return TargetError(
        seen=f"{real} does not exist, nor does its directory; the nearest existing directory is "
        f"{nearest}",
        cause="The name is misspelled, or a file system is not mounted",
        next_step=f"Did you mean `{near}`?"
        if near
        else f"Create the directory with `mkdir -p {real.parent}`, or check mounts with `findmnt`",
    )


def _no_device(real: Path) -> TargetError:
    near = _near(real)
    return TargetError(
        seen=f"{real} does not exist",
        cause="The device was removed or is misspelled; a new file there would be in memory",
        next_step=f"Did you mean `{near}`? `lsblk` lists the block devices"
        if near
        else "`lsblk` lists the block devices",
    )


def _unreachable(target: str, error: Exception) -> TargetError:
    reason = error.strerror if isinstance(error, OSError) else "the name is not a valid path"
    return TargetError(
        seen=f"{target!r} is not accessible: {reason}",
        cause="You have no access to a parent directory, the name is invalid, or it is a "
        "symbolic link loop",
        next_step="Check `namei -l` with that name, or specify a directory that you own",
    )


def _empty() -> UsageError:
    return UsageError(
        seen="The target is empty",
        cause="A shell variable may be unset",
        next_step="Specify a directory, a file or a block device",
    )


# Source: openat2(2) and include/uapi/linux/openat2.h.
_SYS_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_AT_FDCWD: Final = -100
_UNAVAILABLE: Final = (errno.ENOSYS, errno.EPERM, errno.E2BIG)


def open_without_links(path: Path, flags: int, mode: int = 0) -> int:
    """Open a path from the root without following any symbolic link; return the descriptor.

    Raises:
        OSError: when it cannot be opened; ELOOP when it contains a symbolic link.
    """
    return _open(_AT_FDCWD, str(path), flags, mode, 0)


def open_beneath(folder: int, name: str, flags: int, mode: int = 0) -> int:
    """Open a name in an open folder, without leaving the folder; return the descriptor.

    Raises:
        OSError: when it cannot be opened; ELOOP when it is a symbolic link.
    """
    return _open(folder, name, flags, mode, _RESOLVE_BENEATH)


def descriptor_path(descriptor: int) -> str:
    """Return a path that reopens what a descriptor of this process refers to."""
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
    """Open without openat2 (before Linux 5.6, or forbidden) and check where the path led."""
    wanted = Path(name)
    if folder != _AT_FDCWD:
        wanted = Path(f"/proc/self/fd/{folder}").readlink() / name
    descriptor = os.open(name, flags, mode, dir_fd=None if folder == _AT_FDCWD else folder)
    if Path(descriptor_path(descriptor)).readlink() != wanted:
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return descriptor
