"""Events during the observation of block requests: stalls, and markers set by a user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from seatrial.trials.watch.analysis.activity import Interval
    from seatrial.trials.watch.analysis.headroom import Headroom

DEVICE: Final = "device"
FILE_SYSTEM: Final = "filesystem"
UNKNOWN: Final = "unknown"
CAUSES: Final = (DEVICE, FILE_SYSTEM, UNKNOWN)
CAUSE_WORDS: Final = {DEVICE: "device", FILE_SYSTEM: "file system", UNKNOWN: "unknown cause"}


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which requests were outstanding and none completed.

    Attributes:
        number: Number of the stall, from 1.
        disk: Name of the disk in the kernel; empty where that is unknown.
        started_at: Unix time in seconds.
        length_s: Its duration so far.
        is_over: Whether it has ended.
        cause: ``device``, ``filesystem`` or ``unknown``.
        in_flight: Requests in flight on the disk at the last reading.
        blocked: Blocked tasks at the last reading.
        text: The observations; for an unknown cause, with what would identify it.
    """

    number: int
    disk: str
    started_at: float
    length_s: float
    is_over: bool
    cause: str
    in_flight: int
    blocked: int
    text: str


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A marker that a user set.

    Attributes:
        at: Unix time in seconds.
        text: The user's text.
    """

    at: float
    text: str


@dataclass(frozen=True)
class Frame:
    """An interval that has just ended, with its events and the headroom of the disks."""

    interval: Interval
    marks: Sequence[Mark] = ()
    stalls: Sequence[Stall] = ()
    headroom: Sequence[Headroom] = ()
