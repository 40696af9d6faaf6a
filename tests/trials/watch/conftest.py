"""Disks of our own, whose every request is known."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZE_BYTES = 64 << 20


@pytest.fixture
def disk_bytes() -> int:
    """Size of the disk; a file of tests may have another."""
    return SIZE_BYTES


@pytest.fixture
def disk(tmp_path: Path, disk_bytes: int) -> Iterator[Path]:
    """A loop device that nobody else uses."""
    backing = tmp_path / "disk.img"
    backing.write_bytes(b"\1" * disk_bytes)
    made = ["losetup", "--find", "--show", str(backing)]
    device = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
    yield Path(device)
    subprocess.run(["losetup", "-d", device], check=True)
