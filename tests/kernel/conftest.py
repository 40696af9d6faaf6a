"""File systems on loop devices in memory, made for these tests and put away after them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernel.injections import Group, thaw

IMAGE_BYTES = 400 << 20  # mkfs.xfs wants 300 MiB at least; the image is sparse
MKFS = {
    "xfs": ("mkfs.xfs", "-q"),
    "ext4": ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0"),
    "btrfs": ("mkfs.btrfs", "-q"),
}


@dataclass(frozen=True)
class Place:
    """A mounted file system on a loop device of its own."""

    folder: Path
    device: str
    """``major:minor`` of the loop device."""


@pytest.fixture(autouse=True)
def _root_or_a_reason(request: pytest.FixtureRequest) -> None:
    """Skip what needs root, and say what is missing."""
    if request.node.get_closest_marker("root") is None:
        return
    if os.geteuid() != 0:
        pytest.skip("needs root, to freeze a real device, file system or process")
    if not Path("/dev/loop-control").exists():
        pytest.skip("needs the kernel's loop devices")


@pytest.fixture(scope="session")
def file_system(tmp_path_factory) -> Iterator[Callable[..., Place]]:
    """Give the place of a file system of a kind; one is made of each kind, and more by number."""
    places: dict[tuple[str, int], Place] = {}

    def place(kind: str, number: int = 0) -> Place:
        if (kind, number) not in places:
            if shutil.which(MKFS[kind][0]) is None:
                pytest.skip(f"needs {MKFS[kind][0]}: apt-get install {kind_package(kind)}")
            places[kind, number] = make(kind, tmp_path_factory.mktemp(kind))
        return places[kind, number]

    yield place
    for made in places.values():
        put_away(made)


@pytest.fixture
def group() -> Iterator[Group]:
    """A control group whose limits a test sets."""
    with Group() as made:
        yield made


@pytest.fixture
def memory(tmp_path) -> Iterator[Path]:
    """A file system without any device or kernel thread below it, which could be frozen as well."""
    folder = tmp_path / "memory"
    folder.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={IMAGE_BYTES}", "seatrial-test", str(folder))
    yield folder
    unmount(folder)


def kind_package(kind: str) -> str:
    return {"xfs": "xfsprogs", "ext4": "e2fsprogs", "btrfs": "btrfs-progs"}[kind]


def make(kind: str, base: Path) -> Place:
    """Memory below it, so that no neighbour on the machine's disk adds stalls of its own."""
    memory, folder = base / "memory", base / "mnt"
    memory.mkdir()
    folder.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={IMAGE_BYTES}", "seatrial-test", str(memory))
    try:
        image = memory / "disk.img"
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        loop = run("losetup", "--find", "--show", str(image)).strip()
        try:
            # It keeps that of the file that it stood for before: no two would be alike.
            Path(f"/sys/block/{Path(loop).name}/queue/read_ahead_kb").write_text("128")
            run(*MKFS[kind], loop)
            run("mount", loop, str(folder))
        except BaseException:
            run("losetup", "-d", loop)
            raise
    except BaseException:
        run("umount", str(memory))
        raise
    return Place(folder, Path(f"/sys/block/{Path(loop).name}/dev").read_text().strip())


def put_away(place: Place) -> None:
    """Whatever a failed test left: a frozen file system can be neither used nor unmounted."""
    with suppress(OSError):
        thaw(place.folder)
    unmount(place.folder)
    run("losetup", "-d", f"/dev/{Path(f'/sys/dev/block/{place.device}').resolve().name}")
    unmount(place.folder.with_name("memory"))


def unmount(folder: Path) -> None:
    """The kernel takes an io_uring apart, and lets go of its files, after its process has ended."""
    give_up_s = time.monotonic() + 60
    while subprocess.run(["umount", folder], check=False, capture_output=True).returncode != 0:
        assert time.monotonic() < give_up_s, f"{folder} stays in use"
        time.sleep(0.05)


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
