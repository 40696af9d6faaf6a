"""All readings of a watch, which go to the display and the page, and its intervals."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import msgspec

from seatrial.trials.watch.analysis.events import Frame
from seatrial.trials.watch.analysis.headroom import DiskLoadLine, Headroom, headroom_of
from seatrial.trials.watch.measure.marks import Marks
from seatrial.trials.watch.measure.readings import Pressure, ServerWatch
from seatrial.trials.watch.measure.stalls import StallWatch

if TYPE_CHECKING:
    from seatrial.trials.watch.analysis.activity import Interval, Readings
    from seatrial.trials.watch.analysis.events import Stall
    from seatrial.trials.watch.commands.displays import Display
    from seatrial.trials.watch.commands.live import Feed
    from seatrial.trials.watch.measure.watching import Watcher


NO_READINGS: Readings = {}


class Observation:
    """Adds further readings to intervals, and passes them to the display and the page.

    Attributes:
        total: All intervals as one; None before the first.
    """

    def __init__(
        self,
        stack: ExitStack,
        watcher: Watcher,
        feed: Feed | None,
        lines: Sequence[DiskLoadLine] = (),
    ) -> None:
        """Start to search for stalls and markers; the stack ends that.

        Args:
            stack: Ends the search.
            watcher: The source of intervals.
            feed: The feed of the page; None without one.
            lines: Load lines of the disks.
        """
        self.total: Interval | None = None
        self._feed = feed
        self._lines = lines
        self._stalls: deque[Stall] = deque()
        self._marks: Marks | None = None
        with suppress(OSError):  # a home that nobody can write to: then without markers
            self._marks = Marks()
            stack.callback(self._marks.close)
        self._stall_watch = StallWatch(watcher.disks, self._stalled)
        stack.callback(self._stall_watch.stop)
        self._pressure = Pressure()
        self._server: ServerWatch | None = None
        self._group = watcher.group()

    def start_server_readings(self, stack: ExitStack, url: str, every_s: float) -> None:
        """Start to read a server's own statistics."""
        from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - only here

        self._server = ServerWatch(*parse_url(url), every_s)
        stack.callback(self._server.stop)

    def add(
        self, interval: Interval, display: Display | None = None, readings: Readings = NO_READINGS
    ) -> None:
        """Add an interval that ends now.

        Args:
            interval: The interval.
            display: The display, besides the page.
            readings: Further readings, which are added to those of this class.
        """
        server = self._server.take() if self._server else {}
        group = self._group.take() if self._group else {}
        readings = {**self._pressure.take(), **group, **server, **readings}
        interval = msgspec.structs.replace(interval, readings=readings)
        in_flight = self._stall_watch.take_in_flight()
        headroom = headroom_of(self._lines, interval)
        self.total = self.total.merged(interval) if self.total else interval
        stalls = {each.number: each for each in self._taken()}
        marks = self._marks.take() if self._marks else []
        if self._feed is not None:
            for mark in marks:
                self._feed.mark(mark)
            self._feed.interval(interval, self.total, in_flight, headroom)
        if display is not None:
            display.frame(Frame(interval, marks, [*stalls.values()], headroom))

    def headroom(self) -> list[Headroom]:
        """Return the headroom of all intervals as one; empty before the first."""
        return headroom_of(self._lines, self.total) if self.total else []

    def _stalled(self, stall: Stall) -> None:
        self._stalls.append(stall)
        if self._feed is not None:
            self._feed.stall(stall)

    def _taken(self) -> Iterator[Stall]:
        while self._stalls:
            yield self._stalls.popleft()


def intervals(
    watcher: Watcher, every_s: float, for_s: float | None, stop: threading.Event | None = None
) -> Iterator[Interval]:
    """Yield an interval each time that one is over; the last one may be shorter.

    Args:
        watcher: The source of intervals.
        every_s: Length of an interval.
        for_s: When to end; None for never.
        stop: Ends it as well.
    """
    ended = stop or threading.Event()
    begun_s = time.monotonic()
    end_s = begun_s + for_s if for_s is not None else None
    number = 0
    while not ended.is_set() and (end_s is None or time.monotonic() < end_s):
        number += 1
        next_s = begun_s + number * every_s
        wake_s = next_s if end_s is None else min(next_s, end_s)
        while (left_s := wake_s - time.monotonic()) > (watcher.poll_s or left_s):
            time.sleep(watcher.poll_s or left_s)
            watcher.poll()
        ended.wait(max(0.0, left_s))
        yield watcher.take()


def level_text(watcher: Watcher) -> str:
    """Return the level of a watch and its limits, in a line or two."""
    level = watcher.level
    reason = f"\nNo higher level: {level.reason}" if level.reason else ""
    return f"Level {level.number} of 3: {level.sees}; {level.lacks}.{reason}"
