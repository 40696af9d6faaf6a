"""A file to measure, and the shim that looks over the engine's shoulder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.units import MIB

from .cells import HERE, require


@pytest.fixture(scope="session")
def trial_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 16 MiB of random bytes on the disk of temporary files, page-cached."""
    path = tmp_path_factory.mktemp("engine") / "trial.dat"
    path.write_bytes(os.urandom(16 * MIB))
    return path


@pytest.fixture
def memory_file(tmp_path: Path) -> Iterator[Path]:
    """A file of 16 MiB that no device is below, so that no device can be blamed."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        pytest.skip("/dev/shm cannot be written: no file system without a device below it")
    path = shared / f"seatrial-{os.getpid()}-{tmp_path.name}.dat"
    path.write_bytes(os.urandom(16 * MIB))
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """shim.c, compiled."""
    compiler = require("cc")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command = [compiler, *flags, "-o", str(library), str(HERE / "shim.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library
