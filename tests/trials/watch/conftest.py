"""Disks of our own, whose every request is known."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZE_BYTES = 64 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A loop device that nobody else uses."""
    backing = tmp_path / "disk.img"
    backing.write_bytes(b"\1" * SIZE_BYTES)
    made = ["losetup", "--find", "--show", str(backing)]
    device = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
    yield Path(device)
    subprocess.run(["losetup", "-d", device], check=True)
