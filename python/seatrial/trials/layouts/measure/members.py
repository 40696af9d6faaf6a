"""What each drive of an array did while a load lasted, by the kernel's own counts.

Source: the kernel's Documentation/block/stat.rst, the fields of ``/sys/class/block/<drive>/stat``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from seatrial.machine.fingerprint.tree import LIVE
from seatrial.postgres.page_cache import sync_file_system

SECTOR_BYTES: Final = 512
NS_PER_MS: Final = 1_000_000
IDLE_S: Final = 0.3
"""Drives that ended no request for so long, and have none, are idle: writes that an array or a
file system puts off for seconds (md's bitmap, a journal) are not waited for."""
SETTLE_S_MAX: Final = 3.0
LOOK_EVERY_S: Final = 0.05

_FIELDS: Final = {
    "reads": (0, 1),
    "writes": (4, 1),
    "flushes": (15, 1),
    "read_bytes": (2, SECTOR_BYTES),
    "write_bytes": (6, SECTOR_BYTES),
    "busy_ns": (9, NS_PER_MS),
}
"""Place and unit of each count that is kept; older kernels have no flushes."""
_IN_FLIGHT: Final = 8

Counts = dict[str, float]
Reading = dict[str, Counts]


class Members:
    """Counts of the drives of an array, from one moment to another.

    Args:
        drives: Their paths, in any form.
        is_working: Tells whether the array works on its own account (a rebuild, a scrub): its
            drives do not come to rest then, and are not waited for.
        places: Folders or devices of the array that data are written to. What the page cache
            holds for them is written before the first reading, for it is of earlier samples.
        is_buffered: Whether the load writes through the page cache: then what it left there is
            written before the second reading, too, for it is the load's own.
    """

    def __init__(
        self,
        drives: Sequence[str],
        is_working: Callable[[], bool] = lambda: False,
        *,
        places: Sequence[str] = (),
        is_buffered: bool = False,
    ) -> None:
        self._names = {drive: Path(drive).resolve().name for drive in drives}
        self._is_working = is_working
        self._places = list(places)
        self._is_buffered = is_buffered
        self._before: Reading = {}
        self._grown: Reading = {}
        self.settled_s: float | None = None
        self.notes: list[str] = []

    @property
    def grown(self) -> dict[str, Counts]:
        """What each drive did, by its path, once ``end`` has come."""
        return self._grown

    def begin(self) -> None:
        """Take the first reading, right before the load: nothing waits to be written any more."""
        self._write_back()
        self._before = self._read()

    def end(self) -> None:
        """Take the second reading, right after the load: when the drives have come to rest."""
        began_s = time.monotonic()
        if self._is_buffered:
            self._write_back()
        is_working = self._is_working()
        is_idle = self._settle(time.monotonic() + SETTLE_S_MAX)
        after = self._read()
        self.settled_s = time.monotonic() - began_s
        self._grown = {
            drive: {name: value - self._before[drive].get(name, 0.0) for name, value in own.items()}
            for drive, own in after.items()
            if drive in self._before
        }
        gone = [drive for drive in self._names if drive not in self._grown]
        if gone:
            self.notes.append(f"What {', '.join(gone)} did is not known: the kernel lost it.")
        if is_working:
            self.notes.append(
                "The array was at work on its own account when the load ended: its drives' "
                "requests were counted at once, and are not those of the load alone."
            )
        elif not is_idle:
            self.notes.append(
                "The drives' requests were counted while some were still in flight: they did not "
                f"come to rest within {SETTLE_S_MAX:g} s of the load's end."
            )

    def _write_back(self) -> None:
        for place in self._places:
            try:
                write_back(Path(place))
            except OSError as error:
                self.notes.append(
                    f"What the page cache held for {place} could not be written "
                    f"({error.strerror}): drives' requests may be another sample's."
                )

    def _settle(self, give_up_s: float) -> bool:
        """Wait until no drive has had a request for a while; tell whether they came to rest."""
        quiet_since_s, last = time.monotonic(), self._marks()
        while not self._is_working():
            time.sleep(LOOK_EVERY_S)
            now_s, marks = time.monotonic(), self._marks()
            if marks != last or any(in_flight for _, in_flight in marks):
                quiet_since_s, last = now_s, marks
            elif now_s - quiet_since_s >= IDLE_S:
                return True
            if now_s >= give_up_s:
                return False
        return False

    def _marks(self) -> list[tuple[int, int]]:
        """Return of each drive how many requests have ended, and how many are in flight."""
        return [
            (fields[0] + fields[4], fields[_IN_FLIGHT])
            for fields in map(_fields, self._names.values())
            if fields
        ]

    def _read(self) -> Reading:
        found = {drive: _fields(name) for drive, name in self._names.items()}
        return {drive: _counts(fields) for drive, fields in found.items() if fields}


def write_back(place: Path) -> None:
    """Have all that the page cache holds for a file system or a block device written.

    Args:
        place: A folder of the file system, or the device.

    Raises:
        OSError: when something could not be written.
    """
    if place.is_dir():
        sync_file_system(place)
        return
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def roles(
    legs: Sequence[Sequence[str]],
    spares: Sequence[Sequence[str]],
    logs: Sequence[str],
    caches: Sequence[str],
) -> dict[str, str]:
    """Return what each drive is, by its path: ``leg 1``, ``spare of leg 1``, ``log``, ``cache``."""
    reported = {drive: f"leg {number}" for number, leg in enumerate(legs, 1) for drive in leg}
    reported |= {drive: f"spare of leg {n}" for n, own in enumerate(spares, 1) for drive in own}
    return reported | dict.fromkeys(logs, "log") | dict.fromkeys(caches, "cache")


def _fields(name: str) -> list[int]:
    """Return the fields of a drive or partition; none where the kernel does not know it."""
    return [int(word) for word in (LIVE.text(f"/sys/class/block/{name}/stat") or "").split()]


def _counts(fields: Sequence[int]) -> Counts:
    return {
        name: float(fields[place] * unit)
        for name, (place, unit) in _FIELDS.items()
        if place < len(fields)
    }
