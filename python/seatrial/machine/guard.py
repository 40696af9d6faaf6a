"""The one guard: every write to anything but a file of the run's own passes here.

What is mounted, held, swapped to or open is refused whatever the user says. What merely could
hold data is refused unless its serial number, or its path where it has none, is given with
--destroy. What counts is the medium, not its name: every other way to the same bytes is looked at.
The guard claims the target and these before it judges for the last time, so nothing can be
mounted between the judgement and the first write.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Self

from seatrial.errors import RefusedError, TargetError
from seatrial.machine.fingerprint.medium import file_text, number_text
from seatrial.machine.fingerprint.mounts import mount_of
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.opening import descriptor_path, open_without_links
from seatrial.machine.signatures import Signature, probe_signatures, read_signatures
from seatrial.machine.sizes import size_text
from seatrial.machine.sysblock import node_by_number
from seatrial.machine.uses import (
    CLAIMED,
    Survey,
    Use,
    exclusive_use,
    unseen_writer,
    uses_of_device,
    uses_of_file,
)
from seatrial.machine.ways import claimed_ways, node_path, uses_of_other_ways, ways_to_claim
from seatrial.program import with_root

_USES_SHOWN_MAX: Final = 3
_OF_KERNEL: Final = frozenset(
    {
        *("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "configfs", "securityfs"),
        *("efivarfs", "bpf", "pstore", "selinuxfs", "binfmt_misc", "fusectl", "nfsd"),
        *("rpc_pipefs", "mqueue", "devpts"),
    }
)
"""File systems whose files are no storage: what is written there commands the kernel."""
_NO_MEDIUM: Final = (errno.ENXIO, errno.ENOMEDIUM, errno.ENODEV)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What an open file is, so that a path cannot be exchanged unnoticed: fields of fstat(2)."""

    st_dev: int
    st_ino: int
    st_rdev: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Return the identity in the result of a stat call."""
        return cls(st_dev=status.st_dev, st_ino=status.st_ino, st_rdev=status.st_rdev)


@dataclass(frozen=True, kw_only=True)
class DeviceState:
    """What is known of a device or file before anything is written to it.

    Attributes:
        path: Where it really lies, symbolic links followed.
        kind: ``block`` or ``file``.
        identity: What it is, whatever its path.
        size_bytes: Its size; 0 for a device without a medium.
        is_read_only: Whether the kernel refuses writes to it.
        serial: Serial number or world-wide name of its disk; empty where it has none.
        uses: Who uses it now.
        signatures: What it bears, by the marks that are known here.
        denied: Why it could not be opened to look for them; empty when it could.
        failing: Why it could not be read where they would be; empty when it could.
    """

    path: Path
    kind: Literal["block", "file"]
    identity: Identity
    size_bytes: int
    is_read_only: bool
    serial: str
    uses: tuple[Use, ...]
    signatures: tuple[Signature, ...]
    denied: str = ""
    failing: str = ""

    @property
    def destroy_word(self) -> str:
        """What --destroy must be to let its data be lost: the serial number, else the path."""
        return self.serial or str(self.path)

    def __str__(self) -> str:
        serial = f"serial {self.serial}" if self.serial else "no serial number"
        detail = f", {serial}" if self.kind == "block" else ""
        return f"{self.path} ({size_text(self.size_bytes)}{detail})"


@dataclass(kw_only=True)
class Permit:
    """Leave to write to one target; holds it claimed until it is closed.

    A block device is held with O_EXCL, and so is every other way to its bytes, so that nobody can
    mount it or build on it meanwhile.

    Attributes:
        path: Where the target really lies.
        identity: What an opener must find there.
        bytes_to_write: What was announced.
        is_new: Whether the guard made the (empty) file.
    """

    path: Path
    identity: Identity
    bytes_to_write: int
    is_new: bool
    _descriptor: int
    _others: Sequence[int] = ()

    @property
    def safe_path(self) -> str:
        """A path that opens the judged target itself, even if its own path was exchanged."""
        return descriptor_path(self._descriptor)

    def verify(self, descriptor: int) -> None:
        """Compare what an opener got with what was judged.

        Raises:
            RefusedError: when it is another file or device.
        """
        if Identity.of(os.fstat(descriptor)) != self.identity:
            raise _exchanged(self.path)

    def close(self) -> None:
        """Release the claim; safe to call twice."""
        if self._descriptor >= 0:
            _close([self._descriptor, *self._others])
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def inspect(path: Path | str, tree: SystemTree = LIVE, survey: Survey | None = None) -> DeviceState:
    """Return what a block device or regular file is, bears and is used for.

    Nothing is written. Symbolic links are followed first. What may not be opened is still judged
    by what the system tells of it.

    Args:
        path: The device or file.
        tree: The machine.
        survey: What was found on it just now, where several devices are looked at.

    Raises:
        TargetError: when it does not exist, cannot be reached or is neither of the two.
    """
    given = Path(path)
    try:
        real = given.resolve(strict=True)
        status = real.stat()
        if stat.S_ISBLK(status.st_mode):
            return _inspect_device(real, status, survey or Survey(tree))
        if stat.S_ISREG(status.st_mode):
            _require_storage(real, tree)
            return _inspect_file(real, status, survey or Survey(tree))
    except FileNotFoundError:
        raise _missing(given) from None
    except OSError as error:
        raise unreadable(given, error.strerror or str(error)) from None
    raise TargetError(
        seen=f"{real} is neither a block device nor a regular file",
        cause="Only these have addresses that can be read and written at random",
        next_step="Name a directory, a file or a block device; `lsblk` lists the devices",
    )


def bearing(state: DeviceState) -> str:
    """Return what a target bears, as a phrase such as ``bears XFS file system``."""
    if state.denied or state.failing:
        return f"cannot be looked into here ({state.denied or state.failing})"
    bears = " and ".join(str(signature) for signature in _known_signatures(state))
    return f"bears {bears}" if bears else "bears no signature that is known"


def _known_signatures(state: DeviceState) -> Sequence[Signature]:
    """Return what a target bears with what ``blkid`` adds to it.

    It is asked only for these words: whether a target is refused does not depend on its answer,
    and starting it for every look at every drive of an array takes longer than the look.
    """
    try:
        return probe_signatures(state.path)
    except OSError:
        return state.signatures


def permit_write(
    path: Path | str,
    *,
    destroy: str | None,
    bytes_to_write: int,
    tree: SystemTree = LIVE,
) -> Permit:
    """Judge whether a run may write to a target, and claim it.

    A file that does not exist is made, empty. A file that is empty holds nobody's data. Everything
    else must be named with ``destroy``, whatever folder it lies in; several words are separated by
    commas, where a run has several targets.

    Raises:
        RefusedError: when it is in use, or holds or could hold data and was not named.
        TargetError: when it cannot be opened for writing.
    """
    real = Path(path).resolve()
    if not real.exists():
        return _permit_new(real, bytes_to_write)
    state = inspect(real, tree)
    _judge(state, destroy, bytes_to_write)
    permit = Permit(
        path=real,
        identity=state.identity,
        bytes_to_write=bytes_to_write,
        is_new=False,
        _descriptor=_claim(state, bytes_to_write),
    )
    try:
        permit.verify(permit._descriptor)
        permit._others = _claim_other_ways(state, bytes_to_write, tree)
        # Whoever came between the first look and the claim is seen by a second look.
        unseen = unseen_writer(permit._descriptor) if state.kind == "file" else None
        uses = _uses(state, tree) or ((unseen,) if unseen else ())
        size_bytes = state.size_bytes or os.fstat(permit._descriptor).st_size
        _judge(replace(state, uses=uses, size_bytes=size_bytes), destroy, bytes_to_write)
    except BaseException:
        permit.close()
        raise
    return permit


def require_permitted(state: DeviceState, *, destroy: str | None) -> None:
    """Judge a device that was looked at just now, and try whether it can be claimed.

    The claim is not kept: this is for tools that claim their devices themselves.

    Raises:
        RefusedError: when it is in use, or could hold data and was not named, or is another one
            now.
        TargetError: when it cannot be opened for writing.
    """
    _judge(state, destroy, state.size_bytes)
    descriptor = _claim(state, state.size_bytes)
    try:
        if Identity.of(os.fstat(descriptor)) != state.identity:
            raise _exchanged(state.path)
        _close(_claim_other_ways(state, state.size_bytes, LIVE))
    finally:
        os.close(descriptor)


def _inspect_device(real: Path, status: os.stat_result, survey: Survey) -> DeviceState:
    node = node_by_number(number_text(status.st_rdev), survey.tree)
    # sysfs tells who uses a device even to those who may not open it.
    uses = _uses_of_medium(node.number, survey)
    size_bytes = node.size_bytes()
    signatures: list[Signature] = []
    denied = failing = ""
    try:
        claimed = exclusive_use(real)
        uses = uses or ([claimed] if claimed else [])
        uses = uses or list(claimed_ways(node.number, survey))
        signatures, failing = _signatures(real)
    except PermissionError as error:
        denied = error.strerror or "permission denied"
    return DeviceState(
        path=real,
        kind="block",
        identity=Identity.of(status),
        size_bytes=size_bytes,
        is_read_only=node.is_read_only,
        serial=node.serial(),
        uses=tuple(uses),
        signatures=tuple(signatures),
        denied=denied,
        failing=failing,
    )


def _inspect_file(real: Path, status: os.stat_result, survey: Survey) -> DeviceState:
    uses = uses_of_file(file_text(status), survey)
    signatures: list[Signature] = []
    denied = failing = ""
    try:
        uses = uses or _unseen_uses(real, status)
        signatures, failing = _signatures(real)
    except PermissionError as error:
        denied = error.strerror or "permission denied"
    return DeviceState(
        path=real,
        kind="file",
        identity=Identity.of(status),
        size_bytes=status.st_size,
        is_read_only=False,
        serial="",
        uses=tuple(uses),
        signatures=tuple(signatures),
        denied=denied,
        failing=failing,
    )


def _signatures(real: Path) -> tuple[list[Signature], str]:
    """Return what a target bears and, where that cannot be read, why: a drive may be failing.

    Raises:
        PermissionError: when it may not be opened.
    """
    try:
        return read_signatures(real), ""
    except PermissionError:
        raise
    except OSError as error:
        return [], error.strerror or str(error)


def _require_storage(real: Path, tree: SystemTree) -> None:
    mount = mount_of(tree, str(real))
    if mount is None or mount.kind not in _OF_KERNEL:
        return
    raise TargetError(
        seen=f"{real} is no storage: it lies on {mount.point} ({mount.kind})",
        cause="What is written there changes how the kernel works",
        next_step="Name a directory on a disk; `findmnt` shows what is mounted where",
    )


def _unseen_uses(real: Path, status: os.stat_result) -> list[Use]:
    """Return a use when somebody who cannot be seen writes to the file.

    Raises:
        PermissionError: when it may not be opened.
    """
    descriptor = open_without_links(real, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if Identity.of(os.fstat(descriptor)) != Identity.of(status):
            raise _exchanged(real)
        unseen = unseen_writer(descriptor)
    finally:
        os.close(descriptor)
    return [unseen] if unseen else []


def _uses_of_medium(number: str, survey: Survey) -> list[Use]:
    """Return who uses the bytes of a block device, by whatever way."""
    return [*uses_of_device(number, survey.tree, survey), *uses_of_other_ways(number, survey)]


def _uses(state: DeviceState, tree: SystemTree) -> tuple[Use, ...]:
    survey = Survey(tree)
    if state.kind == "block":
        return tuple(_uses_of_medium(number_text(state.identity.st_rdev), survey))
    file = f"{number_text(state.identity.st_dev)}:{state.identity.st_ino}"
    return tuple(uses_of_file(file, survey))


def _judge(state: DeviceState, destroy: str | None, bytes_to_write: int) -> None:
    if state.uses:
        raise _refused_in_use(state, bytes_to_write)
    if state.is_read_only:
        raise TargetError(
            seen=f"{state.path} is read-only",
            cause="The kernel or the rights of the file forbid writes to it",
            next_step=f"Measure reads only, or allow writes (`blockdev --setrw {state.path}` for a"
            " device)",
        )
    # Neither a name nor a marker beside it tells whose a file is: anybody can make them.
    holds_no_data = state.kind == "file" and state.size_bytes == 0
    if not holds_no_data and not _names(destroy or "", state.destroy_word):
        raise _refused_unnamed(state, destroy, bytes_to_write)


def _names(destroy: str, word: str) -> bool:
    """Return whether ``--destroy``, which may hold several words with commas, names a target."""
    return word in (destroy, *(each.strip() for each in destroy.split(",")))


def _claim(state: DeviceState, bytes_to_write: int) -> int:
    """Open the target so that nobody else can claim it; the caller closes it."""
    # Closing a device that was open for writing would make udev probe it, and a file that we have
    # open for writing could not be asked for other writers: read-only is enough.
    flags = os.O_RDONLY | (os.O_EXCL if state.kind == "block" else 0)
    try:
        if not os.access(state.path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return open_without_links(state.path, flags)
    except OSError as error:
        if state.kind == "block" and error.errno == errno.EBUSY:
            raise _refused_in_use(replace(state, uses=(CLAIMED,)), bytes_to_write) from None
        raise _unwritable(state.path, error) from None


def _claim_other_ways(state: DeviceState, bytes_to_write: int, tree: SystemTree) -> Sequence[int]:
    """Open every other way to the bytes of a device so that nobody else can claim one."""
    if state.kind != "block":
        return ()
    number = number_text(state.identity.st_rdev)
    claimed: list[int] = []
    for node in ways_to_claim(number, Survey(tree)):
        path = node_path(node)
        if path is None:
            continue
        try:
            claimed.append(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as error:
            if error.errno in _NO_MEDIUM:
                continue
            _close(claimed)
            use = replace(CLAIMED, phrase=f"shares its bytes with {path}, which {CLAIMED.phrase}")
            raise _refused_in_use(replace(state, uses=(use,)), bytes_to_write) from None
    return tuple(claimed)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _permit_new(path: Path, bytes_to_write: int) -> Permit:
    """Make an empty file where there was none, and never in place of another."""
    try:
        descriptor = open_without_links(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from None
    return Permit(
        path=path,
        identity=Identity.of(os.fstat(descriptor)),
        bytes_to_write=bytes_to_write,
        is_new=True,
        _descriptor=descriptor,
    )


def _refused_in_use(state: DeviceState, bytes_to_write: int) -> RefusedError:
    shown = [use.phrase for use in state.uses[:_USES_SHOWN_MAX]]
    more = len(state.uses) - len(shown)
    tail = f" and has {more} more uses" if more else ""
    return RefusedError(
        seen=f"{size_text(bytes_to_write)} would be written to {state},"
        f" but it {', '.join(shown)}{tail}",
        cause="Writing to what is in use would destroy what uses it, so --destroy cannot allow it",
        next_step=f"Name another target, or first {state.uses[0].release}",
    )


def _refused_unnamed(state: DeviceState, destroy: str | None, bytes_to_write: int) -> RefusedError:
    named = f", and --destroy names {destroy}" if destroy else ""
    word = "serial number" if state.serial else "exact path"
    return RefusedError(
        seen=f"{size_text(bytes_to_write)} would be written to {state}, which"
        f" {bearing(state)}{named}",
        cause="All data on it would be lost, so it must be named on purpose",
        next_step=f"To destroy what it holds, repeat the command with its {word}:"
        f" `--destroy {state.destroy_word}`",
    )


def _exchanged(path: Path) -> RefusedError:
    return RefusedError(
        seen=f"{path} is no longer the target that was checked",
        cause="Something exchanged the file or device between the check and the opening",
        next_step="Find out what changes it (`ls -l` and `dmesg` help), then run the command again",
    )


def _missing(path: Path) -> TargetError:
    return TargetError(
        seen=f"{path} does not exist",
        cause="The name is mistyped, or the device is gone",
        next_step="`lsblk` lists the block devices",
    )


def unreadable(path: Path, reason: str) -> TargetError:
    """Return the error of a target that may not be read; ``reason`` is the system's own word."""
    if os.geteuid() == 0 and reason == os.strerror(errno.EPERM):
        return TargetError(
            seen=f"{path} cannot be read: {reason}",
            cause="Even root may not: a container or a sandbox closes it to this process",
            next_step="Run the command outside of it, or name a directory",
        )
    return TargetError(
        seen=f"{path} cannot be read: {reason}",
        cause="Devices are for root and the group disk, and other users' files for them",
        next_step=f"Run it {with_root()}, or name a directory of your own",
    )


def _unwritable(path: Path, error: OSError) -> TargetError:
    return TargetError(
        seen=f"{path} cannot be opened for writing: {error.strerror}",
        cause="You may not write there, or the file system is read-only",
        next_step=f"Run it {with_root()}, or name a directory of your own",
    )
