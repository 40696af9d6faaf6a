"""The browser, and a disk of our own with a file system."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from report.conftest import browser


@pytest.fixture
def mounted(disk: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "mounted"
    folder.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", str(disk)], check=True)
    subprocess.run(["mount", str(disk), str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
