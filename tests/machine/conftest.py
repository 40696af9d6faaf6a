"""Loop devices, images and children that the tests of the targets room make and clear away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from machine.loops import loops_over
from seatrial.units import MIB


def need_command(name: str, package: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}: apt-get install {package}")


@pytest.fixture(autouse=True)
def state_dir(tmp_path_factory, monkeypatch):
    """An empty folder for undo journals, so that no test meets the journals of the machine."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def image(tmp_path):
    """Make sparse image files by name and size."""

    def make(name: str = "disk.img", size_bytes: int = 64 * MIB) -> Path:
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(size_bytes)
        return path

    return make


@pytest.fixture
def loops():
    """Attach loop devices by hand, apart from the room under test; all are detached again."""
    attached: list[str] = []

    def attach(path: Path, *options: str) -> Path:
        device = run("losetup", "--find", "--show", *options, str(path)).strip()
        attached.append(device)
        return Path(device)

    yield attach
    for device in reversed(attached):
        subprocess.run(["losetup", "-d", device], check=False, capture_output=True)


@pytest.fixture
def mounts(tmp_path):
    """Mount file systems on fresh folders; all are unmounted again, before loops are detached."""
    mounted: list[Path] = []

    def mount(source: Path | str, *options: str, name: str = "mnt") -> Path:
        point = tmp_path / name
        point.mkdir()
        run("mount", *options, str(source), str(point))
        mounted.append(point)
        return point

    yield mount
    for point in reversed(mounted):
        subprocess.run(["umount", str(point)], check=False, capture_output=True)


@pytest.fixture(autouse=True)
def _swept(tmp_path):
    """Unmount and detach what a failed test left in its folder, before pytest removes that."""
    yield
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in reversed(mounted):
        if Path(point).is_relative_to(tmp_path):
            subprocess.run(["umount", point], check=False, capture_output=True)
    for device in loops_over(tmp_path):
        subprocess.run(["losetup", "-d", device], check=False, capture_output=True)


@pytest.fixture
def child():
    """Start Python children that import the room; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def put(path: Path, offset_bytes: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset_bytes)
        file.write(data)
