"""Disks for the benches: loop devices over files of ours, one of them throttled as a disk is.

A throttle has no seeks: it shows ratios, not the speed of any drive.
It needs root, and the control group blkio of version 1.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

GROUP: Final = Path("/sys/fs/cgroup/blkio")


def obstacle() -> str:
    """Return why no disk can be throttled here; empty if one can."""
    if os.geteuid() != 0:
        return "root is needed for loop devices and control groups"
    return "" if GROUP.is_dir() else "the control group blkio of version 1 is needed"


@contextmanager
def mounted(folder: Path, name: str, size_bytes: int) -> Iterator[Path]:
    """Yield a folder on a file system of its own, on a loop device over a sparse file.

    It is XFS, which shares the blocks of copies.
    """
    backing, point = folder / f"{name}.img", folder / name
    with backing.open("wb") as file:
        file.truncate(size_bytes)
    point.mkdir()
    _system("mkfs.xfs", "-q", backing)
    _system("mount", "-o", "loop", backing, point)
    try:
        yield point
    finally:
        _system("umount", point)
        backing.unlink()


@contextmanager
def throttled(
    point: Path, *, requests_per_s: int, bytes_per_s: int, writes_per_s: int | None = None
) -> Iterator[None]:
    """Limit reads and writes of the device below a folder within the block, for all processes.

    Writes may have another limit than reads.

    Source: Documentation/admin-guide/cgroup-v1/blkio-controller.rst.
    """
    device = point.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    limits = {"iops": requests_per_s, "bps": bytes_per_s}
    files = {
        GROUP / f"blkio.throttle.{way}_{unit}_device": writes_per_s
        if (way, unit) == ("write", "iops") and writes_per_s
        else limit
        for way in ("read", "write")
        for unit, limit in limits.items()
    }
    try:
        for file, limit in files.items():
            file.write_text(f"{number} {limit}")
        yield
    finally:
        for file in files:
            file.write_text(f"{number} 0")


def _system(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True)
