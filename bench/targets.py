"""Targets of the engine bench: null, a cached file, a block device, a file with direct I/O.

They are created for the bench and removed after it. Existing devices are never used: a new zram
device is requested, or a loop device on a file of our own.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from contenders import BenchTarget

from seatrial.machine.fingerprint.machine import meminfo_bytes
from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.machine.loop import attach
from seatrial.machine.undo_journal import UndoJournal

CHUNK_BYTES: Final = 1 << 20
ZRAM_BYTES: Final = 1 << 30
ZRAM_CONTROL: Final = Path("/sys/class/zram-control")
REMOVE_ATTEMPTS_MAX: Final = 50
REMOVE_PAUSE_S: Final = 0.1


class TargetUnavailableError(Exception):
    """A target is not available on this machine; the message says why."""


@contextmanager
def null_target(_folder: Path, size_bytes: int) -> Iterator[BenchTarget]:
    """Give the engine alone: io_uring NOP, no storage under it."""
    yield BenchTarget(
        name="null", what="io_uring NOP", path=None, size_bytes=size_bytes, direct=False
    )


@contextmanager
def cached_target(folder: Path, size_bytes: int) -> Iterator[BenchTarget]:
    """Give a file that lies wholly in the page cache, read through it.

    Raises:
        TargetUnavailableError: When memory is too short to keep it there.
    """
    available_bytes = meminfo_bytes(SystemTree()).get("MemAvailable", 0)
    if available_bytes < 3 * size_bytes:
        raise TargetUnavailableError(
            f"{size_bytes >> 20} MiB would not stay in the page cache: only "
            f"{available_bytes >> 20} MiB of memory are available"
        )
    with _random_file(folder / "cached.dat", size_bytes) as path:
        warm(path)
        what = f"buffered file of {size_bytes >> 20} MiB, all in the page cache"
        yield BenchTarget(name="cached", what=what, path=path, size_bytes=size_bytes, direct=False)


def warm(path: Path) -> None:
    """Read a file once, so that the page cache holds it."""
    with path.open("rb", buffering=0) as file:
        while file.read(CHUNK_BYTES):
            pass


@contextmanager
def direct_target(folder: Path, size_bytes: int) -> Iterator[BenchTarget]:
    """Give a prefilled file that is read with O_DIRECT, none of it in the page cache.

    Raises:
        TargetUnavailableError: When its file system has no O_DIRECT.
    """
    with _random_file(folder / "direct.dat", size_bytes) as path:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        except OSError as error:
            raise TargetUnavailableError(f"{folder} takes no O_DIRECT: {error}") from error
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        what = f"file of {size_bytes >> 20} MiB on the checkout's disk, O_DIRECT"
        yield BenchTarget(name="direct", what=what, path=path, size_bytes=size_bytes, direct=True)


@contextmanager
def zram_target(_folder: Path, _size_bytes: int) -> Iterator[BenchTarget]:
    """Give a fresh zram device that was never written, read with O_DIRECT (root).

    Raises:
        TargetUnavailableError: When the kernel has no zram or gives none.
    """
    try:
        number = int((ZRAM_CONTROL / "hot_add").read_text())
    except OSError as error:
        raise TargetUnavailableError(f"no zram device can be added: {error}") from error
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text(str(ZRAM_BYTES))
        yield BenchTarget(
            name="zram",
            what=f"zram device of {ZRAM_BYTES >> 20} MiB, never written, O_DIRECT",
            path=Path(f"/dev/zram{number}"),
            size_bytes=ZRAM_BYTES,
            direct=True,
        )
    finally:
        _remove_zram(number)


def _remove_zram(number: int) -> None:
    """Remove a zram device of ours; udev may hold it open for a moment."""
    for attempt in range(REMOVE_ATTEMPTS_MAX):
        try:
            (ZRAM_CONTROL / "hot_remove").write_text(str(number))
        except OSError:
            if attempt == REMOVE_ATTEMPTS_MAX - 1:
                raise
            time.sleep(REMOVE_PAUSE_S)
        else:
            return


@contextmanager
def loop_target(folder: Path, size_bytes: int) -> Iterator[BenchTarget]:
    """Give a loop device over a prefilled file of ours, read with O_DIRECT (root).

    The change is in the undo journal: `seatrial clean` detaches what a killed bench left.

    Raises:
        seatrial.errors.TargetError: When no loop device can be had.
    """
    with (
        _random_file(folder / "loop.dat", size_bytes) as path,
        UndoJournal(f"bench-engine-{os.getpid()}") as journal,
    ):
        loop = attach(path, journal, logical_block_bytes=4096)
        yield BenchTarget(
            name="loop",
            what=f"loop device over a cached file of {size_bytes >> 20} MiB, O_DIRECT",
            path=loop.path,
            size_bytes=size_bytes,
            direct=True,
        )


@contextmanager
def block_target(folder: Path, size_bytes: int) -> Iterator[BenchTarget]:
    """Give a zram device, else a loop device.

    Raises:
        TargetUnavailableError: When not root, or when the kernel gives neither.
    """
    if os.geteuid() != 0:
        raise TargetUnavailableError("a zram or loop device needs root")
    with contextlib.ExitStack() as stack:
        try:
            target = stack.enter_context(zram_target(folder, size_bytes))
        except TargetUnavailableError:
            target = stack.enter_context(loop_target(folder, size_bytes))
        yield target


@contextmanager
def _random_file(path: Path, size_bytes: int) -> Iterator[Path]:
    """Make a file of random bytes, on disk when it is given, and remove it after."""
    try:
        with path.open("wb") as file:
            for _ in range(size_bytes // CHUNK_BYTES):
                file.write(os.urandom(CHUNK_BYTES))
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


TARGETS: Final = {
    "null": null_target,
    "cached": cached_target,
    "block": block_target,
    "direct": direct_target,
    "zram": zram_target,
    "loop": loop_target,
}
"""Every target by its name in ``--places``: a context that creates and removes it."""
