"""What a user's TARGET is: a directory, a file, a device, or no storage at all."""

from __future__ import annotations

import difflib
import os
import re
import stat
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
    """A target that exists or can be made.

    Attributes:
        kind: What it is.
        given: As the user wrote it.
        path: Where it really lies, symbolic links followed; None for null and simulated targets.
        name: Name of the simulated device's model; else empty.
    """

    kind: TargetKind
    given: str
    path: Path | None = None
    name: str = ""


def resolve(target: str) -> ResolvedTarget:
    """Tell what a target is. Nothing is opened or written.

    ``null`` is the engine alone and ``simulated:NAME`` a simulated device; a file or directory of
    such a name is written with a path (``./null``).

    Raises:
        UsageError: when it is no target at all, such as a size or a database's address.
        TargetError: when it does not exist and cannot be made, is of a kind without addresses, or
            its name is not UTF-8.
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
        UsageError: when it is no target at all.
        TargetError: when it does not exist or is not a directory.
    """
    found = resolve(target)
    if found.kind is TargetKind.DIRECTORY and found.path is not None:
        return found.path
    if found.kind is TargetKind.NEW_FILE and found.path is not None:
        near = _near(found.path)
        raise TargetError(
            seen=f"The directory {found.path} does not exist, though {found.path.parent} does",
            cause="The name is mistyped, or the directory has yet to be made",
            next_step=f"Did you mean `{near}`?" if near else f"Make it with `mkdir {found.path}`",
        )
    raise TargetError(
        seen=f"{target} is not a directory, but a {found.kind.replace('_', ' ')}",
        cause="This command makes its own trial files, so it needs a directory to make them in",
        next_step=f"Name a directory, or measure this target with `seatrial io {target}`",
    )


def _require_utf8(name: str) -> None:
    """Refuse a name that results, journals and reports, all text in UTF-8, cannot hold."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        raise TargetError(
            seen=f"The name {shown} is not text in UTF-8",
            cause="Results, the undo journal and reports name the target, and are text in UTF-8",
            next_step="Rename the directory, or mount it at a plain name with `mount --bind`",
        ) from None


def _simulated(target: str) -> ResolvedTarget:
    name = target.removeprefix(_SIMULATED)
    if not _SIMULATED_NAME.fullmatch(name):
        raise UsageError(
            seen=f"{target!r} does not name a simulated device",
            cause="After the colon stands the name of a model: lower-case letters, digits, hyphens",
            next_step="See `seatrial io --help` for the models",
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
        cause="It has no addresses to read and write at random, so it cannot be measured",
        next_step=hint,
    )


def _missing(target: str, path: Path) -> ResolvedTarget:
    """Return the new file that a name stands for, or say what the name more likely means."""
    _refuse_other_meanings(target)
    real = path.resolve()
    if path.is_symlink():
        raise TargetError(
            seen=f"{path} is a symbolic link to {real}, which does not exist",
            cause="What it points to was removed, or its file system is not mounted",
            next_step=f"See `ls -l {path}` and `findmnt`, then name the target itself",
        )
    if not real.parent.is_dir():
        raise _no_parent(real)
    if real.is_relative_to("/dev"):
        raise _no_device(real)
    if target.endswith("/"):
        near = _near(real)
        raise TargetError(
            seen=f"The directory {target} does not exist, though {real.parent} does",
            cause="The name is mistyped, or the directory has yet to be made",
            next_step=f"Did you mean `{near}`?" if near else f"Make it with `mkdir {real}`",
        )
    return ResolvedTarget(kind=TargetKind.NEW_FILE, given=target, path=real)


def _refuse_other_meanings(target: str) -> None:
    """Refuse words that are no path: taken as one, they would quietly make a file."""
    if _SIZE.fullmatch(target):
        raise UsageError(
            seen=f"The target is {target!r}, which looks like a size",
            cause="An option lost its name, or the target was left out",
            next_step=f"Name the target first: `seatrial io TARGET --size {target}`;"
            f" a file of that name is ./{target}",
        )
    if _DATABASE.match(target):
        raise UsageError(
            seen="The target is the address of a database",
            cause="This command measures files, directories and devices",
            next_step="Try the server with `seatrial db --url`, or name the directory that holds"
            " its data, such as its data_directory",
        )
    if _NETWORK.match(target):
        raise TargetError(
            seen=f"{target} does not exist here, and looks like a place on the network",
            cause="Only what is mounted or attached can be measured",
            next_step="Mount it first, and name the directory where it is mounted",
        )
    if target.lower() in {"nul", "null", "none", "/dev/nul"}:
        raise UsageError(
            seen=f"The target is {target!r}, and no such file exists",
            cause="The engine alone, without storage, is called null",
            next_step=f"Write `null`, or ./{target} for a file of that name",
        )
    if "/" not in target and _is_block_device(Path("/dev") / target):
        raise TargetError(
            seen=f"{target} does not exist here, but /dev/{target} is a block device",
            cause="The folder of the device was left out",
            next_step=f"Write /dev/{target}, or ./{target} for a file of that name",
        )


def _is_block_device(path: Path) -> bool:
    """Tell whether a path is a block device."""
    try:
        return stat.S_ISBLK(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _near(path: Path) -> Path | None:
    """Return the entry beside a missing one whose name is nearest to it, if any is near."""
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
        seen=f"{real} does not exist, nor does its directory; what exists of it is {nearest}",
        cause="The name is mistyped, or a file system is not mounted",
        next_step=f"Did you mean `{near}`?"
        if near
        else f"Make the directory with `mkdir -p {real.parent}`, or see `findmnt`",
    )


def _no_device(real: Path) -> TargetError:
    near = _near(real)
    return TargetError(
        seen=f"{real} does not exist",
        cause="The device is gone or mistyped; a file made there would lie in memory",
        next_step=f"Did you mean `{near}`? `lsblk` lists the block devices"
        if near
        else "`lsblk` lists the block devices",
    )


def _unreachable(target: str, error: Exception) -> TargetError:
    reason = error.strerror if isinstance(error, OSError) else "the name makes no sense as a path"
    return TargetError(
        seen=f"{target!r} cannot be reached: {reason}",
        cause="A folder above it is closed to you, the name is no path, or links run in a circle",
        next_step="See `namei -l` with that name, or name a directory of your own",
    )


def _empty() -> UsageError:
    return UsageError(
        seen="The target is empty",
        cause="A shell variable in its place was not set",
        next_step="Name a directory, a file or a block device",
    )
