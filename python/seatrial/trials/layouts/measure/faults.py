"""Injects faults into an array: failed and replaced drives, bad sectors, silent corruption.

A thread does it alongside the driver of the sample. It never outlives the sample; its errors are
reported with the sample.

Corruption is injected only where there is data, so that it can be detected. The drives have passed
the guard, and contain only the run's own data.
"""

from __future__ import annotations

import mmap
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, Self

from seatrial.descriptor import closing
from seatrial.errors import SeatrialError, TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.stats.wording import format_plural
from seatrial.study.layouts.layout import Failure
from seatrial.trials.layouts.build.backend import Backend, Built
from seatrial.trials.layouts.build.wrapping import make_bad, make_flaky, mark_bad
from seatrial.trials.layouts.measure.watch import ArrayWatch, TimedEvent

POLL_S: Final = 0.2
REPAIR_S_MAX: Final = 900.0
"""Maximum wait for a rebuild after the load; longer ones should be measured under load."""
NO_PROGRESS_S_MAX: Final = 60.0
IDLE_S: Final = 3.0
"""A degraded array has no spare to rebuild on after this time without activity."""
JOIN_S_MAX: Final = 60.0


class FaultInjector(Protocol):
    """The faults of an array. Each method raises SeatrialError or OSError on failure."""

    def prepare(self, failures: Sequence[Failure]) -> None:
        """Collect, before the load, information that faults need."""

    def do(self, failure: Failure, watch: ArrayWatch) -> None:
        """Inject a fault, and note it."""


class FaultInjection:
    """Injects faults into an array and watches it; a context that ends its thread.

    The array is read once more after the thread has ended.

    Args:
        failures: The faults, in order of time.
        faults: Injects them.
        watch: Watches the array.
    """

    def __init__(
        self, failures: Sequence[Failure], faults: FaultInjector, watch: ArrayWatch
    ) -> None:
        self.watch = watch
        self.notes: list[str] = []
        self._failures = list(failures)
        self._faults = faults
        self._began_s = 0.0
        self._load_over = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="injection", daemon=True)

    def begin(self) -> None:
        """Start the clock, right before the load.

        An array without faults is not watched: reading its state may run commands.
        """
        self._began_s = time.monotonic()
        if self._failures:
            self._thread.start()

    def load_ended(self) -> None:
        """Inject no more faults, as the load has ended; watching continues."""
        self._load_over.set()

    def __enter__(self) -> Self:
        self._faults.prepare(self._failures)
        self.watch.read()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._load_over.set()
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S_MAX)
        if self._thread.is_alive():
            self.notes.append(
                f"A command on the array did not end within {JOIN_S_MAX:g} s: a drive may hang."
            )
        elif kind is None:
            self.watch.read()
        self.notes += [
            f"{failure.fault} after {failure.after_s:g} s was not injected: the load had ended."
            for failure in self._failures
        ]
        self._failures = []

    def settle(self, report: Callable[[str], None]) -> None:
        """Wait, without load, until the array has become idle, for a bounded time.

        Args:
            report: Called with the progress, about once a second.
        """
        give_up_s = time.monotonic() + REPAIR_S_MAX
        changed_s, last, reported_s = time.monotonic(), self._state(), 0.0
        while self._thread.is_alive():
            now_s, state = time.monotonic(), self._state()
            if state != last:
                changed_s, last = now_s, state
            if self._is_over(now_s - changed_s):
                return
            if now_s > give_up_s or now_s - changed_s > NO_PROGRESS_S_MAX:
                self._give_up(now_s)
                return
            if self.watch.is_working and now_s - reported_s >= 1.0:
                reported_s = now_s
                report(_share(self.watch))
            time.sleep(POLL_S)

    def _state(self) -> tuple[int, bool, float | None, int]:
        """Return a state that changes as long as there is progress."""
        watch = self.watch
        return watch.missing, watch.is_working, watch.share, len(watch.timed_events)

    def _is_over(self, unchanged_s: float) -> bool:
        watch = self.watch
        if watch.is_working:
            return False
        # The effect of the last fault may not be visible yet.
        patience_s = IDLE_S if watch.missing and not watch.has_failed else 2 * POLL_S
        return unchanged_s >= patience_s

    def _give_up(self, now_s: float) -> None:
        load_s = now_s - self._began_s
        self.notes.append(
            f"The array's background activity was {_share(self.watch)} complete when the wait for "
            f"it ended, {load_s:.0f} s after the sample began."
        )

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._inject_due()
                self.watch.read()
                self._ending.wait(self._pause_s())
        except Exception as error:
            self.notes.append(
                f"The observation of the array ended with {type(error).__name__}: {error}"
            )

    def _inject_due(self) -> None:
        while self._failures and not self._load_over.is_set():
            failure = self._failures[0]
            if time.monotonic() < self._began_s + failure.after_s:
                return
            self._failures.pop(0)
            try:
                self._faults.do(failure, self.watch)
            except (SeatrialError, OSError) as error:
                self.watch.note("fault_failed", failure.leg, detail=f"{failure.fault}: {error}")
                self.notes.append(f"{failure.fault} after {failure.after_s:g} s failed: {error}")

    def _pause_s(self) -> float:
        if not self._failures or self._load_over.is_set():
            return POLL_S
        due_s = self._began_s + self._failures[0].after_s - time.monotonic()
        return min(POLL_S, max(0.0, due_s))


def _share(watch: ArrayWatch) -> str:
    return "an unknown share" if watch.share is None else f"{watch.share:.0%}"


BLOCK_BYTES: Final = 4096
"""Physical block size of current drives; dm-dust's block size, too."""
SEARCH_S_MAX: Final = 5.0
MAGIC: Final = b"SEATRIAL"
"""Magic number of every sector of verifiable data (crates/load/src/verify/sector.rs)."""
WIPED_BYTES: Final = 1 << 20
ENDS_SHARE: Final = 0.02
"""Share of a drive at each end that is reserved for an array's metadata."""


def choose_blocks(drive: str, count: int, draw: random.Random, *, verifiable: bool) -> list[int]:
    """Return offsets of blocks on a drive that contain data of the trial, in bytes, ascending.

    Args:
        drive: The drive.
        count: How many; fewer are returned where no more are found within 5 s.
        draw: Random number generator.
        verifiable: Whether the trial's data has the magic number; otherwise any block with nonzero
            data is chosen.

    Raises:
        TargetError: when the drive cannot be read.
    """

    def is_data(block: bytes) -> bool:
        return block.startswith(MAGIC) if verifiable else any(block)

    found: set[int] = set()
    give_up_s = time.monotonic() + SEARCH_S_MAX
    with _opened(drive, os.O_RDONLY) as descriptor, mmap.mmap(-1, BLOCK_BYTES) as buffer:
        blocks = os.lseek(descriptor, 0, os.SEEK_END) // BLOCK_BYTES
        first = int(blocks * ENDS_SHARE)
        while len(found) < count and time.monotonic() < give_up_s:
            at_bytes = draw.randrange(first, blocks - first) * BLOCK_BYTES
            os.preadv(descriptor, [buffer], at_bytes)
            if is_data(buffer[:]):
                found.add(at_bytes)
    return sorted(found)


def rot(drive: str, blocks_bytes: list[int]) -> None:
    """Invert every bit of some blocks of a drive, bypassing its array.

    Raises:
        TargetError: when the drive cannot be read or written.
    """
    with _opened(drive, os.O_RDWR) as descriptor, mmap.mmap(-1, BLOCK_BYTES) as buffer:
        for at_bytes in blocks_bytes:
            os.preadv(descriptor, [buffer], at_bytes)
            buffer[:] = bytes(byte ^ 0xFF for byte in buffer[:])
            os.pwritev(descriptor, [buffer], at_bytes)
        os.fsync(descriptor)


def wipe(drive: str) -> None:
    """Remove the metadata of arrays and file systems from a drive: zeros at both ends.

    Raises:
        TargetError: when the drive cannot be written.
    """
    with _opened(drive, os.O_RDWR) as descriptor, mmap.mmap(-1, WIPED_BYTES) as zeros:
        size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
        os.pwritev(descriptor, [zeros], 0)
        os.pwritev(descriptor, [zeros], (size_bytes - WIPED_BYTES) // BLOCK_BYTES * BLOCK_BYTES)
        os.fsync(descriptor)


@contextmanager
def _opened(drive: str, mode: int) -> Iterator[int]:
    try:
        with closing(os.open(drive, mode | os.O_DIRECT | os.O_CLOEXEC)) as descriptor:
            yield descriptor
    except OSError as error:
        raise TargetError(
            seen=f"{drive} cannot be corrupted: {error.strerror}",
            cause="The drive is missing, or this kernel does not allow writes to a drive in use",
            next_step="Check the end of `dmesg`; a layout with flaky = true supports corruption",
        ) from None


ON_SECTORS: Final = ("bad_sectors", "rot")


class ArrayFaults:
    """The faults of one array.

    Args:
        backend: Its backend.
        built: The array.
        draw: Random number generator for the sectors to corrupt.
        verifiable: Whether the trial's data has the magic number of verifiable data.
        journal: Records which drives are flaky.
    """

    def __init__(
        self,
        backend: Backend,
        built: Built,
        draw: random.Random,
        *,
        verifiable: bool,
        journal: UndoJournal,
    ) -> None:
        self.scrubbed: list[int] = []
        self.notes: list[str] = []
        self._backend = backend
        self._built = built
        self._draw = draw
        self._verifiable = verifiable
        self._journal = journal
        self._flaky: list[int] = []
        self._failed: dict[tuple[int, int], str] = {}
        self._blocks_bytes: dict[Failure, list[int]] = {}

    def prepare(self, failures: Sequence[Failure]) -> None:
        """Choose the blocks to corrupt before the load begins, as it takes reads and commands.

        All bad sectors of a drive appear with its first fault of that kind.
        """
        for failure in failures:
            if failure.fault not in ON_SECTORS:
                continue
            try:
                self._blocks_bytes[failure] = choose_blocks(
                    self._drive(failure),
                    failure.sectors,
                    self._draw,
                    verifiable=self._verifiable,
                )
                if failure.fault == "bad_sectors":
                    mark_bad(self._drive(failure), self._blocks_bytes[failure])
            except SeatrialError as error:
                self.notes.append(f"{failure.fault}: {error}")

    def do(self, failure: Failure, watch: ArrayWatch) -> None:
        """Inject a fault, and note when and where.

        Raises:
            SeatrialError: when it fails.
            OSError: when the system refuses.
        """
        at_s = time.monotonic()
        match failure.fault:
            case "fail":
                what, drive, detail = "failed", self._fail(failure), ""
            case "replace":
                what, (drive, detail) = "replaced", self._replace(failure)
            case "bad_sectors":
                what, (drive, detail) = "bad_sectors", self._make_bad(failure)
            case "rot":
                what, (drive, detail) = "rotten", self._rot(failure)
            case "falter":
                what, drive, detail = "faltering", self._drive(failure), ""
                self._flaky.append(make_flaky(drive, "falter", self._journal))
            case "drop_writes":
                what, drive, detail = "dropping_writes", self._drive(failure), ""
                self._flaky.append(make_flaky(drive, "drop_writes", self._journal))
            case "scrub":
                self._backend.start_scrub(self._built, failure.leg)
                self.scrubbed.append(failure.leg)
                return
        watch.timed_events.append(
            TimedEvent(at_s=at_s, what=what, leg=failure.leg, member=drive, detail=detail)
        )

    def end(self) -> None:
        """Make flaky drives work again, to read their data and remove them."""
        while self._flaky:
            self._journal.undo(self._flaky.pop())

    def mismatch_blocks(self) -> int | None:
        """Return the mismatches found by scrubs, in blocks of 512 bytes; None without any."""
        found = [
            self._backend.mismatch_blocks(self._built, leg) for leg in dict.fromkeys(self.scrubbed)
        ]
        known = [blocks for blocks in found if blocks is not None]
        return sum(known) if known else None

    def _drive(self, failure: Failure) -> str:
        return self._built.assigned.legs[failure.leg - 1][failure.member - 1]

    def _fail(self, failure: Failure) -> str:
        drive = self._backend.fail(self._built, failure.leg, failure.member)
        self._failed[failure.leg, failure.member] = drive
        return drive

    def _replace(self, failure: Failure) -> tuple[str, str]:
        """Give the array an unused drive, or else the failed one, wiped."""
        old = self._failed.get((failure.leg, failure.member)) or self._drive(failure)
        unused = list(self._built.assigned.unused)
        new, detail = (unused[0], f"in place of {old}") if unused else (old, "wiped, as a new one")
        if not unused:
            wipe(old)
        self._backend.replace(self._built, failure.leg, failure.member, new)
        return new, detail

    def _make_bad(self, failure: Failure) -> tuple[str, str]:
        drive, blocks_bytes = self._drive(failure), self._chosen(failure)
        make_bad(drive)
        return drive, _blocks_text(blocks_bytes)

    def _rot(self, failure: Failure) -> tuple[str, str]:
        drive, blocks_bytes = self._drive(failure), self._chosen(failure)
        rot(drive, blocks_bytes)
        return drive, _blocks_text(blocks_bytes)

    def _chosen(self, failure: Failure) -> list[int]:
        blocks_bytes = self._blocks_bytes.get(failure, [])
        if not blocks_bytes:
            raise TargetError(
                seen=f"No data of the trial file were found on {self._drive(failure)}",
                cause="The trial file occupies a small part of the drive, or has no data on it",
                next_step="Use a larger size in the layout, or smaller drives",
            )
        return blocks_bytes


def _blocks_text(blocks_bytes: Sequence[int]) -> str:
    count = format_plural(len(blocks_bytes), "block")
    return f"{count} of 4 KiB, the first at byte {blocks_bytes[0]}"
