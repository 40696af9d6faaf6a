"""The events of the last hour, which the page may request again, with bounded memory."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

HISTORY_S: Final = 3600.0
"""Older events are dropped."""

HISTORY_BYTES_MAX: Final = 64 << 20
"""Maximum size of all events kept."""


class Event(NamedTuple):
    """One event of the live page.

    Attributes:
        number: Number of the event, from 1.
        kind: ``interval``, ``stall``, ``mark`` or ``run``.
        at_s: When it was added, by the clock of the history.
        data: JSON.
    """

    number: int
    kind: str
    at_s: float
    data: bytes


class History:
    """Events in order; the oldest are dropped. Thread-safe.

    Args:
        seconds_max: Maximum age of an event.
        bytes_max: Maximum size of all events.
        clock: Returns the time (s).
    """

    def __init__(
        self,
        seconds_max: float = HISTORY_S,
        bytes_max: int = HISTORY_BYTES_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session = secrets.token_hex(4)
        self._seconds_max = seconds_max
        self._bytes_max = bytes_max
        self._clock = clock
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._last = 0
        self._lock = threading.Lock()

    @property
    def last(self) -> int:
        """Number of the last event; 0 before the first."""
        return self._last

    @property
    def kept_bytes(self) -> int:
        """Total size of the kept events."""
        return self._bytes

    def add(self, kind: str, data: bytes) -> None:
        """Append an event, and drop old ones that exceed a bound."""
        with self._lock:
            now_s = self._clock()
            self._last += 1
            self._events.append(Event(self._last, kind, now_s, data))
            self._bytes += len(data)
            while self._bytes > self._bytes_max or (
                self._events and self._events[0].at_s < now_s - self._seconds_max
            ):
                self._bytes -= len(self._events.popleft().data)

    def after(self, number: int) -> list[Event]:
        """Return the kept events after a number; all for 0."""
        with self._lock:
            if not self._events or number >= self._last:
                return []
            skipped = max(0, number + 1 - self._events[0].number)
            return [*self._events][skipped:]
