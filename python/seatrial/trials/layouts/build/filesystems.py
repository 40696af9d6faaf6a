"""File systems on an array: created to match its stripes, labelled, mounted.

Sources: mkfs.xfs(8) ``su`` and ``sw``, mke2fs(8) ``stride`` and ``stripe_width``, mkfs.jfs(8),
mkfs.btrfs(8); blkid(8) and wipefs(8) for removing a file system's signature from a bare drive.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial.machine.undo_result import Result, Undoer, failed, foreign, gone, undone
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.study.units import format_size
from seatrial.trials.layouts.build.backend import Program, Step
from seatrial.trials.layouts.build.names import LABEL_MAX, identity, shortened
from seatrial.trials.layouts.build.running import attempt, run_checked
from seatrial.units import KIB, MIB

BLOCK_BYTES: Final = 4096
_MKFS_PATIENCE_S: Final = 1800.0
_XFS_FEW_GROUPS: Final = 4
_XFS_FEW_GROUPS_BYTES: Final = 1024 * MIB
"""Below that, mkfs.xfs 6.1 divides a striped device into 8 groups, none of which can contain the 64
MiB log that it requires (mkfs/xfs_mkfs.c, ``calc_default_ag_geometry``); a plain one gets 4."""
_BLKID_NOTHING: Final = 2
"""Exit status of blkid(8) where it finds no known signature."""


@dataclass(frozen=True, kw_only=True)
class Stripes:
    """How a device is striped, for a file system.

    Attributes:
        unit_kib: Stripe unit on one drive; 0 without stripes.
        count: Units of data in a full stripe.
    """

    unit_kib: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Filesystem:
    """One kind of file system.

    Attributes:
        program: The program that creates it.
        size_min_bytes: Smallest device that the program accepts.
        make: Returns the program's arguments for stripes, label, UUID and size (blocks of 4 KiB;
            0 for the whole device); the device comes between these and the size.
        size_last: Whether the size is a last argument, after the device.
    """

    program: Program
    size_min_bytes: int
    make: Callable[[Stripes, str, str, int], list[str]]
    size_last: bool = False


def _xfs(stripes: Stripes, label: str, uuid: str, blocks: int) -> list[str]:
    data = [f"su={stripes.unit_kib}k,sw={stripes.count}"] if stripes.unit_kib else []
    data += [f"size={blocks * BLOCK_BYTES}"] if blocks else []
    options = ["-d", ",".join(data)] if data else []
    return ["-q", "-f", "-L", label, "-m", f"uuid={uuid}", *options]


def _ext4(stripes: Stripes, label: str, uuid: str, _blocks: int) -> list[str]:
    # Lazy initialisation would write during a measurement.
    extended = ["lazy_itable_init=0", "lazy_journal_init=0"]
    if stripes.unit_kib:
        stride = stripes.unit_kib * KIB // BLOCK_BYTES
        extended += [f"stride={stride}", f"stripe_width={stride * stripes.count}"]
    options = ["-q", "-F", "-b", str(BLOCK_BYTES), "-L", label, "-U", uuid]
    return [*options, "-E", ",".join(extended)]


def _jfs(_stripes: Stripes, label: str, _uuid: str, _blocks: int) -> list[str]:
    return ["-q", "-L", label]


def _btrfs(_stripes: Stripes, label: str, uuid: str, blocks: int) -> list[str]:
    size = ["-b", str(blocks * BLOCK_BYTES)] if blocks else []
    return ["-q", "-f", "-L", label, "-U", uuid, *size]


FILESYSTEMS: Final = {
    "xfs": Filesystem(
        program=Program(name="mkfs.xfs", package="xfsprogs"),
        size_min_bytes=300 * MIB,
        make=_xfs,
    ),
    "ext4": Filesystem(
        program=Program(name="mkfs.ext4", package="e2fsprogs"),
        size_min_bytes=8 * MIB,
        make=_ext4,
        size_last=True,
    ),
    "jfs": Filesystem(
        program=Program(name="mkfs.jfs", package="jfsutils"),
        size_min_bytes=16 * MIB,
        make=_jfs,
        size_last=True,
    ),
    "btrfs": Filesystem(
        program=Program(name="mkfs.btrfs", package="btrfs-progs"),
        size_min_bytes=114_294_784,
        make=_btrfs,
    ),
}
"""By name in a study. The smallest sizes are those that the programs report: xfsprogs 6.1,
e2fsprogs 1.47 with a journal, jfsutils 1.1.15, btrfs-progs 6.2."""


def stripes_of(spec: LayoutSpec) -> Stripes:
    """Return the stripes below a file system: of the array, or of one leg with ``expose``."""
    legs = 1 if spec.expose == "legs" else spec.legs
    # Drives of a linear level follow each other: together they are not a stripe.
    inner = 1 if spec.level == "single" else int(spec.facts.data_members(spec.drives))
    if legs * inner < 2:
        return Stripes(unit_kib=0, count=1)
    # Legs without their own stripes (copies, bare drives) are striped by the layer above.
    return Stripes(unit_kib=spec.chunk_kib if inner > 1 else spec.stripe_kib, count=legs * inner)


def too_small(filesystem: str, size_bytes: int) -> str:
    """Return why a device is too small for a file system, as a sentence; empty if it is not."""
    kind = FILESYSTEMS.get(filesystem)
    if kind is None or size_bytes >= kind.size_min_bytes:
        return ""
    return (
        f"{kind.program.name} needs at least {format_size(kind.size_min_bytes)}, but the array has "
        f"{format_size(size_bytes)}"
    )


def make_step(spec: LayoutSpec, name: str, device: str, *, bare: bool, size_bytes: int = 0) -> Step:
    """Return the step that creates a variant's file system on a device.

    Args:
        spec: The variant.
        name: Name of the array.
        device: The array, one of its legs, or a drive.
        bare: Whether the device is a bare drive: then its signature is wiped when it is undone; on
            an array it is removed with the array, and only its used part is formatted.
        size_bytes: Size of the device; 0 where it is not built yet.
    """
    kind = FILESYSTEMS[spec.filesystem]
    label = shortened(name, LABEL_MAX[spec.filesystem])
    uuid = str(identity(name, device))
    blocks = (spec.member_bytes or 0) // BLOCK_BYTES if bare else 0
    stripes = stripes_of(spec)
    arguments = kind.make(stripes, label, uuid, blocks)
    if spec.filesystem == "xfs" and stripes.unit_kib and 0 < size_bytes < _XFS_FEW_GROUPS_BYTES:
        arguments += ["-d", f"agcount={_XFS_FEW_GROUPS}"]
    size = [str(blocks)] if blocks and kind.size_last else []
    return Step(
        command=(kind.program.name, *arguments, *spec.mkfs_options, device, *size),
        undo="signature" if bare else "",
        details={"device": device, "label": label} if bare else {},
        patience_s=_MKFS_PATIENCE_S,
    )


def mount_step(spec: LayoutSpec, device: str, folder: str) -> Step:
    """Return the step that mounts a file system in a folder."""
    options = ["-o", ",".join(spec.mount_options)] if spec.mount_options else []
    return Step(
        command=("mount", "-t", spec.filesystem, *options, device, folder),
        undo="mount",
        details={"point": folder, "source": device},
    )


def undo_signature(*, device: str, label: str) -> Result:
    """Wipe a file system's signature from a bare drive, if it has the label set by the run."""
    if not Path(device).exists():
        return gone("the drive is gone")
    probed = attempt(["blkid", "-p", "-o", "export", device])
    if probed.status == _BLKID_NOTHING:
        return gone("it has no signature")
    if probed.status != 0:
        return failed(f"it cannot be probed: {probed.error_output.strip() or 'ambivalent'}")
    found = dict(line.partition("=")[::2] for line in probed.output.splitlines())
    if found.get("LABEL", "") != label:
        return foreign("its file system does not have our label")
    run_checked(["wipefs", "--all", os.path.realpath(device)])
    return undone("its file system's signature was wiped")


FILESYSTEM_UNDOERS: Final = {
    "signature": Undoer(undo=undo_signature, subject="device", survives_reboot=True)
}
