"""What happens while block requests are watched: stalls, and markers that a user sets."""

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
        number: Counts the stalls of a watch, from 1.
        disk: Its name in the kernel; empty where that is unknown.
        started_at: Unix time in seconds.
        length_s: How long it has lasted.
        is_over: Whether it has ended.
        cause: ``device``, ``filesystem`` or ``unknown``.
        in_flight: Requests that the disk had at the last look.
        blocked: Tasks that were blocked at the last look.
        text: What was seen; for an unknown cause, with what would settle it.
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
        text: What the user says of it.
    """

    at: float
    text: str


@dataclass(frozen=True)
class Frame:
    """An interval that ends now, what happened in it, and how far disks are from their limits."""

    interval: Interval
    marks: Sequence[Mark] = ()
    stalls: Sequence[Stall] = ()
    headroom: Sequence[Headroom] = ()
