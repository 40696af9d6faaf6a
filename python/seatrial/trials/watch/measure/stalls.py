"""Stalls while they last: what a disk has in flight, which tasks are blocked, and the likely cause.

A stall is a time in which requests are outstanding and none completes for longer than a threshold
(docs/method.md). Here it is seen from outside: the disks' own counters are read ten times a second,
and blocked tasks are searched for twice a second, which limits how exact its edges are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from seatrial.stats.wording import format_first, format_plural
from seatrial.trials.watch.analysis.events import DEVICE, FILE_SYSTEM, UNKNOWN, Stall
from seatrial.trials.watch.measure.blocked import BlockedTask, blocked_tasks

THRESHOLD_S: Final = 0.25
"""Disks that are read at this interval cannot distinguish a shorter stall from a slow disk."""
POLL_S: Final = 0.1
SEARCH_EVERY_S: Final = 0.5
FORGET_EVERY_S: Final = 60.0
_NAMES_MAX: Final = 3
_WAITS_FOR_BLOCKS: Final = (
    *("__iomap_dio_rw", "iomap_dio", "__blkdev_direct_IO", "blkdev_direct_IO"),
    *("__blockdev_direct_IO", "submit_bio_wait", "bio_await", "blk_io_schedule", "io_schedule"),
    *("folio_wait", "wait_on_page", "wait_on_buffer", "__wait_on_buffer", "blk_mq_get_tag"),
    *("rq_qos_wait", "blkdev_issue_flush"),
)
"""Kernel functions that wait for the block layer, by their beginnings.

See ``crates/load/src/procfs.rs``.
"""
_FROZEN: Final = "percpu_rwsem_wait"
"""Where writers to a frozen file system wait, whatever its disk does meanwhile."""


class DiskReading(NamedTuple):
    """The counters of a disk at one moment.

    Attributes:
        completed: Requests that have completed since the disk is there.
        in_flight: Requests that have not.
    """

    completed: int
    in_flight: int


class _Disk:
    """The readings of one disk since its last completion."""

    def __init__(self, reading: DiskReading, now_s: float) -> None:
        self.reading = reading
        self.since_s: float | None = None
        self.completed_s = now_s
        self.open: Stall | None = None
        self.readings = self.busy = self.blocked = 0

    def begin(self) -> None:
        self.since_s, self.open = None, None
        self.readings = self.busy = self.blocked = 0


class StallFinder:
    """Finds stalls in readings of disks; uses neither a clock nor the kernel."""

    def __init__(self, unix_offset_s: float = 0.0) -> None:
        """Take the difference between Unix time and the time of the readings (s)."""
        self._offset_s = unix_offset_s
        self._disks: dict[str, _Disk] = {}
        self._seen = 0

    def step(
        self, now_s: float, readings: Mapping[str, DiskReading], tasks: Iterable[BlockedTask]
    ) -> list[Stall]:
        """Return the stalls that have begun, grown or ended with this reading.

        Args:
            now_s: When it was.
            readings: The disks by name; ``""`` stands for those that are unknown.
            tasks: All tasks that are blocked for at least the threshold.
        """
        by_disk: dict[str, list[BlockedTask]] = {}
        for task in tasks:
            if not task.disk or task.disk in readings:
                by_disk.setdefault(task.disk, []).append(task)
        found = []
        for name, reading in {**readings, "": DiskReading(0, 0)}.items():
            disk = self._disks.setdefault(name, _Disk(reading, now_s))
            found += self._step(name, disk, reading, now_s, by_disk.get(name, []))
        for name in self._disks.keys() - readings.keys() - {""}:  # the disk is gone
            disk = self._disks.pop(name)
            found += [self._ended(disk.open, now_s)] if disk.open else []
        return found

    def _step(
        self,
        name: str,
        disk: _Disk,
        reading: DiskReading,
        now_s: float,
        tasks: Sequence[BlockedTask],
    ) -> list[Stall]:
        has_completed = reading.completed != disk.reading.completed
        disk.reading = reading
        if has_completed:
            disk.completed_s = now_s
        # Whatever the disk completes meanwhile, a writer to a frozen file system waits.
        waiting_tasks = [task for task in tasks if not has_completed or task.wait == _FROZEN]
        if not waiting_tasks and (has_completed or not reading.in_flight):
            ended = [self._ended(disk.open, now_s)] if disk.open else []
            disk.begin()
            return ended
        disk.readings += 1
        disk.busy += bool(reading.in_flight) and not has_completed
        disk.blocked += any(not task.wait.startswith(_WAITS_FOR_BLOCKS) for task in waiting_tasks)
        if disk.since_s is None:
            known = [
                task.since_s if task.wait == _FROZEN else max(task.since_s, disk.completed_s)
                for task in waiting_tasks
            ]
            disk.since_s = min([now_s, *known])
        length_s = now_s - disk.since_s
        if length_s < THRESHOLD_S:
            return []
        if disk.open is None:
            self._seen += 1
        number = disk.open.number if disk.open else self._seen
        cause = _cause(disk, name)
        disk.open = Stall(
            number=number,
            disk=name,
            started_at=disk.since_s + self._offset_s,
            length_s=round(length_s, 3),
            is_over=False,
            cause=cause,
            in_flight=reading.in_flight,
            blocked=len(waiting_tasks),
            text=_text(name, cause, reading, waiting_tasks),
        )
        return [disk.open]

    def _ended(self, stall: Stall, now_s: float) -> Stall:
        length_s = round(now_s + self._offset_s - stall.started_at, 3)
        return msgspec.structs.replace(stall, length_s=length_s, is_over=True)


def _cause(disk: _Disk, name: str) -> str:
    """Return the cause that at least half of the readings show (as crates/gauge/src/stall.rs)."""
    if not name:
        return UNKNOWN
    if 2 * disk.busy >= disk.readings:
        return DEVICE
    return FILE_SYSTEM if 2 * disk.blocked >= disk.readings else UNKNOWN


def _text(name: str, cause: str, reading: DiskReading, tasks: Sequence[BlockedTask]) -> str:
    waits = _waits(tasks)
    if cause == DEVICE:
        seen = f"{format_plural(reading.in_flight, 'request')} in flight and none completes"
        return f"{name}: {seen}{f'; {waits}' if waits else ''}"
    if cause == FILE_SYSTEM:
        frozen = any(task.wait == _FROZEN for task in tasks)
        why = "the file system is frozen or locked" if frozen else "a lock or the journal"
        return f"{name}: {waits}, and the disk has no request of them: {why}"
    if name:
        return (
            f"{name}: {waits or 'tasks wait'}, but the disk has no request in flight. A limit of a "
            "control group (io.max, blkio.throttle.*_device) or another disk below would explain "
            "it; io.stat or blkio.throttle.io_serviced of the group and a watch of all disks "
            "settle it"
        )
    return (
        f"{waits}; on which disk is not known. /proc/PID/stack and the files that the task has "
        "open settle it, as root"
    )


def _waits(tasks: Sequence[BlockedTask]) -> str:
    """Return ``fio (pid 3) is blocked in percpu_rwsem_wait``; empty without tasks."""
    if not tasks:
        return ""
    who = format_first([f"{task.command} (pid {task.pid})" for task in tasks], _NAMES_MAX)
    where = next((task.wait for task in tasks if task.wait), "")
    verb = "are" if len(tasks) > 1 else "is"
    return f"{who} {verb} blocked{f' in {where}' if where else ''}"


def read_disks(names: Iterable[str]) -> dict[str, DiskReading]:
    """Return what disks have completed and have in flight (the kernel's block/stat.rst)."""
    found = {}
    for name in names:
        try:
            text = Path(f"/sys/block/{name}/stat").read_text(encoding="ascii")
        except OSError:  # removed meanwhile
            continue
        fields = [int(each) for each in text.split()]
        completed = sum(fields[index] for index in (0, 4, 11, 15) if index < len(fields))
        found[name] = DiskReading(completed, fields[8])
    return found


class StallWatch:
    """Looks for stalls from a thread of its own until it is stopped."""

    def __init__(self, disks: Callable[[], Sequence[str]], report: Callable[[Stall], None]) -> None:
        """Start it.

        Args:
            disks: Returns the names of the disks to read; called once a second.
            report: Called from the thread when a stall begins and ends, and once a second while
                it lasts.
        """
        self._disks = disks
        self._report = report
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._in_flight: dict[str, list[int]] = {}
        self._thread = threading.Thread(target=self._run, name="stalls", daemon=True)
        self._thread.start()

    def take_in_flight(self) -> dict[str, float]:
        """Return the mean of the requests in flight since the last call, by disk."""
        with self._lock:
            taken, self._in_flight = self._in_flight, {}
        return {name: sum(seen) / len(seen) for name, seen in taken.items()}

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        finder = StallFinder(time.time() - time.monotonic())
        search = _TaskSearch()
        names: Sequence[str] = []
        listed_s = -1.0
        reported: dict[int, float] = {}
        while not self._ended.wait(POLL_S):
            now_s = time.monotonic()
            if now_s - listed_s >= 1.0:
                names, listed_s = self._disks(), now_s
            readings = read_disks(names)
            with self._lock:
                for name, reading in readings.items():
                    self._in_flight.setdefault(name, []).append(reading.in_flight)
            tasks = search.at(now_s) if names else []
            for stall in finder.step(now_s, readings, tasks):
                last_s = reported.get(stall.number)
                if stall.is_over or last_s is None or now_s - last_s >= 1.0:
                    reported[stall.number] = now_s
                    self._report(stall)
                if stall.is_over:
                    reported.pop(stall.number, None)


class _TaskSearch:
    """The blocked tasks, searched for twice a second, and twice as often while there are some."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self._known: dict[int, BlockedTask] = {}
        self._kernel_pids: set[int] = set()
        self._forgotten_s = 0.0

    def at(self, now_s: float) -> list[BlockedTask]:
        """Return the tasks that two searches found, at least the threshold apart."""
        every_s = SEARCH_EVERY_S / 2 if self._known else SEARCH_EVERY_S
        if now_s - self._at_s >= every_s:
            self._at_s = now_s
            if now_s - self._forgotten_s >= FORGET_EVERY_S:  # their numbers may be reused
                self._forgotten_s = now_s
                self._kernel_pids.clear()
            tasks = blocked_tasks(now_s, self._known, self._kernel_pids)
            self._known = {each.tid: each for each in tasks}
        return [each for each in self._known.values() if self._at_s - each.since_s >= THRESHOLD_S]
