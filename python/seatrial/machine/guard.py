"""The one guard: every write to anything except a file of the run's own passes here.

A target that is mounted, held, used as swap or open is always refused. One that could merely hold
data is refused unless --destroy gives its serial number, or its path where it has none. What counts
is the medium, not its name: all other devices with the same bytes are checked. The guard claims the
target and these devices before its last check, so that nothing can be mounted between the check and
the first write.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Self

from seatrial.descriptor import closing
from seatrial.errors import RefusedError, TargetError
from seatrial.machine.fingerprint.layers import dm_table
from seatrial.machine.fingerprint.medium import (
    Extent,
    extent_of_device,
    file_text,
    layers_below,
    number_text,
)
from seatrial.machine.fingerprint.mounts import mount_of
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.resolve import descriptor_path, open_without_links
from seatrial.machine.signatures import Signature, probe_signatures, read_signatures
from seatrial.machine.sizes import size_text
from seatrial.machine.sysblock import BlockNode, node_by_number
from seatrial.machine.uses import (
    CLAIMED,
    Survey,
    Use,
    exclusive_use,
    hidden_writer,
    uses_of_device,
    uses_of_file,
    uses_of_node,
)
from seatrial.program import with_root

_LINEAR: Final = re.compile(r"^\d+ (\d+) linear (\d+:\d+) (\d+)$")
_THIN: Final = re.compile(r"^\d+ \d+ thin (\d+:\d+) (\d+)")
_GROUP_CHARACTERS: Final = len("LVM-") + 32


def overlapping_devices(number: str, survey: Survey) -> list[BlockNode]:
    """Return every block device that shares bytes with one and is neither its disk nor its part.

    For an array or volume: every device that shares bytes with a member and is not a member. The
    array itself holds the members.
    """
    tree = survey.tree
    members = list(layers_below(tree, number))
    known = {node.number for node in node_by_number(number, tree).relatives()}
    for member in members:
        node = node_by_number(member, tree)
        known |= {member, node.disk().number}
    own = [extent_of_device(tree, each) for each in (number, *members)]
    found = [
        extent.number
        for extent in survey.extents
        if extent.number not in known and any(extent.overlaps(each) for each in own)
    ]
    return [node_by_number(each, tree) for each in found]


def uses_of_overlapping(number: str, survey: Survey) -> list[Use]:
    """Return the uses of the bytes of a block device through other devices, each with its name."""
    found: list[Use] = []
    file = extent_of_device(survey.tree, number).medium.file
    if file:
        # The target itself is such a loop device.
        others = [use for use in uses_of_file(file, survey) if use.kind != "loop"]
        found += [replace(use, phrase=f"is part of a file that {use.phrase}") for use in others]
    for node in overlapping_devices(number, survey):
        found += [_by(node, use) for use in uses_of_node(node, survey)]
    return found + list(_uses_of_shared_sectors(number, survey))


def claimed_overlapping(number: str, survey: Survey) -> Iterator[Use]:
    """Yield each other device that cannot be opened with O_EXCL because it is in use.

    This catches a mount in a namespace that is not visible from here.
    """
    for node in devices_to_claim(number, survey):
        path = node_path(node)
        # A user who may not open it may not write to the target either.
        with suppress(OSError):
            use = exclusive_use(path) if path else None
            if use is not None:
                yield _by(node, use)


def devices_to_claim(number: str, survey: Survey) -> list[BlockNode]:
    """Return the devices to open with O_EXCL, in addition to the target, to exclude other users.

    A disk that extends beyond the target is not claimed; its partitions within the target are.
    """
    target = extent_of_device(survey.tree, number)
    nodes = overlapping_devices(number, survey)
    disks = [node for node in nodes if node.disk() == node]
    whole = {disk.number for disk in disks if _is_taken_whole(disk, target)}
    parts = [node for node in nodes if node not in disks and node.disk().number not in whole]
    return [disk for disk in disks if disk.number in whole] + parts


def _is_taken_whole(disk: BlockNode, target: Extent) -> bool:
    return not disk.partitions() or extent_of_device(disk.tree, disk.number).lies_in(target)


def _by(node: BlockNode, use: Use) -> Use:
    return replace(use, phrase=f"shares its data with {node.name}, which {use.phrase}")


def node_path(node: BlockNode) -> Path | None:
    """Return the device node of a block device; None if it does not exist."""
    # sysfs writes a slash in a device's name as an exclamation mark (cciss/c0d0).
    name = f"/dev/{node.name.replace('!', '/')}"
    return Path(name) if node.tree.block_number(name) == node.number else None


def _uses_of_shared_sectors(number: str, survey: Survey) -> Iterator[Use]:
    """Yield the uses of device-mapper devices that are on the same sectors of a member.

    Volumes of one LVM group share members, but never sectors. Others are checked by their
    device-mapper tables; without a table, a device in use counts as sharing.
    """
    tree = survey.tree
    target = node_by_number(number, tree).disk()
    members = list(layers_below(tree, number))
    chain = {number, target.number, *members}
    for member in members:
        for holder in node_by_number(member, tree).holders():
            if holder.number in chain or _are_apart(target, holder):
                continue
            for node in (holder, *holder.partitions()):
                yield from (_by(node, use) for use in uses_of_node(node, survey))


def _are_apart(one: BlockNode, other: BlockNode) -> bool:
    """Return whether two devices on one member certainly share no sector of it."""
    ours, theirs = (node.tree.word(f"{node.directory}/dm/uuid") or "" for node in (one, other))
    if ours.startswith("LVM-") and ours[:_GROUP_CHARACTERS] == theirs[:_GROUP_CHARACTERS]:
        return True
    tables = [_table(node) for node in (one, other)]
    if any(table is None for table in tables):
        return False
    first, second = (table or [] for table in tables)
    return not any(
        mine[0] == other_one[0] and mine[1] < other_one[2] and other_one[1] < mine[2]
        for mine in first
        for other_one in second
    )


def _table(node: BlockNode) -> list[tuple[str, int, int]] | None:
    """Return member, first and end sector of each part of a volume; None if not known.

    Source: dmsetup(8), and the kernel's Documentation/admin-guide/device-mapper/linear.rst.
    """
    if not node.tree.exists(f"{node.directory}/dm"):
        return None
    lines, _ = dm_table(node.tree, node.number)
    parts = [_table_part(line) for line in lines or []]
    known = [part for part in parts if part]
    return known if known and len(known) == len(parts) else None


def _table_part(line: str) -> tuple[str, int, int] | None:
    """Parse a line of a table; a thin volume shares its pool, but not its device number in it."""
    if found := _LINEAR.match(line):
        return found[2], int(found[3]), int(found[3]) + int(found[1])
    if found := _THIN.match(line):
        return f"pool {found[1]}", int(found[2]), int(found[2]) + 1
    return None


_USES_SHOWN_MAX: Final = 3
_OF_KERNEL: Final = frozenset(
    {
        *("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "configfs", "securityfs"),
        *("efivarfs", "bpf", "pstore", "selinuxfs", "binfmt_misc", "fusectl", "nfsd"),
        *("rpc_pipefs", "mqueue", "devpts"),
    }
)
"""File systems whose files are not storage: writing to them changes kernel settings."""
_NO_MEDIUM: Final = (errno.ENXIO, errno.ENOMEDIUM, errno.ENODEV)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The identity of an open file by fields of fstat(2), to detect an exchanged path."""

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
        path: Its real path, symbolic links followed.
        kind: ``block`` or ``file``.
        identity: Its identity, independent of its path.
        size_bytes: Its size; 0 for a device without a medium.
        is_read_only: Whether the kernel refuses writes to it.
        serial: Serial number or world-wide name of its disk; empty where it has none.
        uses: Its current uses.
        signatures: The known signatures on it.
        denied: Why it could not be opened to read signatures; empty when it could.
        failing: Why signatures could not be read; empty when they could.
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
        """The value of --destroy that allows overwriting: the serial number, else the path."""
        return self.serial or str(self.path)

    def __str__(self) -> str:
        serial = f"serial {self.serial}" if self.serial else "no serial number"
        detail = f", {serial}" if self.kind == "block" else ""
        return f"{self.path} ({size_text(self.size_bytes)}{detail})"


@dataclass(kw_only=True)
class Permit:
    """Permission to write to one target, which stays claimed until it is closed.

    A block device and all other devices with its bytes are held open with O_EXCL, so that nobody
    can mount it or build on it meanwhile.

    Attributes:
        path: The real path of the target.
        identity: The identity that an opened file must have.
        bytes_to_write: The announced number of bytes.
        is_new: Whether the guard created the (empty) file.
    """

    path: Path
    identity: Identity
    bytes_to_write: int
    is_new: bool
    _descriptor: int
    _others: Sequence[int] = ()

    @property
    def safe_path(self) -> str:
        """A path that opens the checked target itself, even if its own path was exchanged."""
        return descriptor_path(self._descriptor)

    def verify(self, descriptor: int) -> None:
        """Compare an opened file with the one that was checked.

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
    """Return what a block device or regular file contains and who uses it.

    Nothing is written. Symbolic links are followed first. What may not be opened is judged by what
    the system reports of it.

    Args:
        path: The device or file.
        tree: The machine.
        survey: A current survey of the machine, for several devices.

    Raises:
        TargetError: when it does not exist, is not accessible or is neither of the two.
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
        cause="Only devices and files can be read and written at random offsets",
        next_step="Specify a directory, a file or a block device; `lsblk` lists the devices",
    )


def contents_phrase(state: DeviceState) -> str:
    """Return what a target contains, as a phrase such as ``contains XFS file system``."""
    if state.denied or state.failing:
        return f"cannot be inspected ({state.denied or state.failing})"
    bears = " and ".join(str(signature) for signature in _known_signatures(state))
    return f"contains {bears}" if bears else "contains no known signature"


def _known_signatures(state: DeviceState) -> Sequence[Signature]:
    """Return a target's signatures, including those by ``blkid``.

    ``blkid`` is used only for this text, not for the decision to refuse: starting it for every
    check of every drive of an array takes longer than the check.
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

    A file that does not exist is created, empty. An empty file is accepted. Everything else must be
    named with ``destroy``, whatever folder it is in; several names are separated by commas.

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
        permit._others = _claim_overlapping(state, bytes_to_write, tree)
        # A second check after the claim catches uses that began between the first check and the
        # claim.
        unseen = hidden_writer(permit._descriptor) if state.kind == "file" else None
        uses = _uses(state, tree) or ((unseen,) if unseen else ())
        size_bytes = state.size_bytes or os.fstat(permit._descriptor).st_size
        _judge(replace(state, uses=uses, size_bytes=size_bytes), destroy, bytes_to_write)
    except BaseException:
        permit.close()
        raise
    return permit


def require_permitted(state: DeviceState, *, destroy: str | None) -> None:
    """Judge a device that was just inspected, and try to claim it.

    The claim is released again: this is for tools that claim their devices themselves.

    Raises:
        RefusedError: when it is in use, could hold data and was not named, or was replaced.
        TargetError: when it cannot be opened for writing.
    """
    _judge(state, destroy, state.size_bytes)
    with closing(_claim(state, state.size_bytes)) as descriptor:
        if Identity.of(os.fstat(descriptor)) != state.identity:
            raise _exchanged(state.path)
        _close(_claim_overlapping(state, state.size_bytes, LIVE))


def _inspect_device(real: Path, status: os.stat_result, survey: Survey) -> DeviceState:
    node = node_by_number(number_text(status.st_rdev), survey.tree)

    def claims() -> Iterable[Use]:
        claimed = exclusive_use(real)
        return [claimed] if claimed else claimed_overlapping(node.number, survey)

    state = DeviceState(
        path=real,
        kind="block",
        identity=Identity.of(status),
        size_bytes=node.size_bytes(),
        is_read_only=node.is_read_only,
        serial=node.serial(),
        # sysfs lists the users of a device even to those who may not open it.
        uses=tuple(_uses_of_medium(node.number, survey)),
        signatures=(),
    )
    return _with_content(state, claims)


def _inspect_file(real: Path, status: os.stat_result, survey: Survey) -> DeviceState:
    state = DeviceState(
        path=real,
        kind="file",
        identity=Identity.of(status),
        size_bytes=status.st_size,
        is_read_only=False,
        serial="",
        uses=tuple(uses_of_file(file_text(status), survey)),
        signatures=(),
    )
    return _with_content(state, lambda: _hidden_uses(real, status))


def _with_content(state: DeviceState, hidden_uses: Callable[[], Iterable[Use]]) -> DeviceState:
    """Return a state with its signatures, and with uses that are found only by opening it."""
    try:
        state = replace(state, uses=state.uses or tuple(hidden_uses()))
        try:
            return replace(state, signatures=tuple(read_signatures(state.path)))
        except PermissionError:
            raise
        except OSError as error:
            return replace(state, failing=error.strerror or str(error))  # A drive may be failing.
    except PermissionError as error:
        return replace(state, denied=error.strerror or "permission denied")


def _require_storage(real: Path, tree: SystemTree) -> None:
    mount = mount_of(tree, str(real))
    if mount is None or mount.kind not in _OF_KERNEL:
        return
    raise TargetError(
        seen=f"{real} is not storage: it is on {mount.point} ({mount.kind})",
        cause="Writing there changes kernel settings",
        next_step="Specify a directory on a disk; `findmnt` lists the mounts",
    )


def _hidden_uses(real: Path, status: os.stat_result) -> list[Use]:
    """Return a use when a process that is not visible has the file open for writing.

    Raises:
        PermissionError: when it may not be opened.
    """
    with closing(open_without_links(real, os.O_RDONLY | os.O_NONBLOCK)) as descriptor:
        if Identity.of(os.fstat(descriptor)) != Identity.of(status):
            raise _exchanged(real)
        unseen = hidden_writer(descriptor)
    return [unseen] if unseen else []


def _uses_of_medium(number: str, survey: Survey) -> list[Use]:
    return [*uses_of_device(number, survey.tree, survey), *uses_of_overlapping(number, survey)]


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
            cause="The device is read-only, or the file permissions forbid writing",
            next_step=f"Measure reads only, or allow writes (`blockdev --setrw {state.path}` for "
            "a device)",
        )
    # Neither the name of a file nor a marker next to it proves its owner: anybody can create them.
    holds_no_data = state.kind == "file" and state.size_bytes == 0
    if not holds_no_data and not _names(destroy or "", state.destroy_word):
        raise _refused_unnamed(state, destroy, bytes_to_write)


def _names(destroy: str, word: str) -> bool:
    """Return whether ``--destroy``, a comma-separated list, names a target."""
    return word in (destroy, *(each.strip() for each in destroy.split(",")))


def _claim(state: DeviceState, bytes_to_write: int) -> int:
    """Open the target so that nobody else can claim it; the caller closes it."""
    # Closing a device that was open for writing would make udev probe it, and other writers of a
    # file cannot be detected while we have it open for writing: read-only is enough.
    flags = os.O_RDONLY | (os.O_EXCL if state.kind == "block" else 0)
    try:
        if not os.access(state.path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return open_without_links(state.path, flags)
    except OSError as error:
        if state.kind == "block" and error.errno == errno.EBUSY:
            raise _refused_in_use(replace(state, uses=(CLAIMED,)), bytes_to_write) from None
        raise _unwritable(state.path, error) from None


def _claim_overlapping(state: DeviceState, bytes_to_write: int, tree: SystemTree) -> Sequence[int]:
    """Open every other device with the bytes of a device so that nobody else can claim one."""
    if state.kind != "block":
        return ()
    number = number_text(state.identity.st_rdev)
    claimed: list[int] = []
    for node in devices_to_claim(number, Survey(tree)):
        path = node_path(node)
        if path is None:
            continue
        try:
            claimed.append(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK))
        except OSError as error:
            if error.errno in _NO_MEDIUM:
                continue
            _close(claimed)
            use = replace(CLAIMED, phrase=f"shares its data with {path}, which {CLAIMED.phrase}")
            raise _refused_in_use(replace(state, uses=(use,)), bytes_to_write) from None
    return tuple(claimed)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _permit_new(path: Path, bytes_to_write: int) -> Permit:
    """Create an empty file, never replacing another."""
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
        cause="Writing to a device or file in use would destroy its data; --destroy does not "
        "allow this",
        next_step=f"Choose another target, or first {state.uses[0].release}",
    )


def _refused_unnamed(state: DeviceState, destroy: str | None, bytes_to_write: int) -> RefusedError:
    named = f", and --destroy specifies {destroy}" if destroy else ""
    word = "serial number" if state.serial else "exact path"
    return RefusedError(
        seen=f"{size_text(bytes_to_write)} would be written to {state}, which"
        f" {contents_phrase(state)}{named}",
        cause="All data on it would be lost, so --destroy must name it explicitly",
        next_step=f"To destroy this data, repeat the command with its {word}: `--destroy "
        f"{state.destroy_word}`",
    )


def _exchanged(path: Path) -> RefusedError:
    return RefusedError(
        seen=f"{path} is no longer the target that was checked",
        cause="The file or device was replaced between the check and the opening",
        next_step="Find out what changes it (`ls -l`, `dmesg`), then repeat the command",
    )


def _missing(path: Path) -> TargetError:
    return TargetError(
        seen=f"{path} does not exist",
        cause="The name is misspelled, or the device was removed",
        next_step="`lsblk` lists the block devices",
    )


def unreadable(path: Path, reason: str) -> TargetError:
    """Return the error for a target that may not be read; ``reason`` is the system's message."""
    if os.geteuid() == 0 and reason == os.strerror(errno.EPERM):
        return TargetError(
            seen=f"{path} cannot be read: {reason}",
            cause="Access is denied even to root, as in a container or sandbox",
            next_step="Run the command outside the container, or specify a directory",
        )
    return TargetError(
        seen=f"{path} cannot be read: {reason}",
        cause="Devices require root or the group disk; files require their owner's permission",
        next_step=f"Run it {with_root()}, or specify a directory that you own",
    )


def _unwritable(path: Path, error: OSError) -> TargetError:
    return TargetError(
        seen=f"{path} cannot be opened for writing: {error.strerror}",
        cause="You do not have write permission, or the file system is read-only",
        next_step=f"Run it {with_root()}, or specify a directory that you own",
    )
