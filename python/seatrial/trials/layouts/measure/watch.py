"""Observes an array under load: rebuild progress, missing drives, events.

It does not change the array. Times are of the monotonic clock, in s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from seatrial.errors import SeatrialError
from seatrial.results.model import ArrayEvent, Series
from seatrial.trials.layouts.build.backend import ArrayState

SERIES_PERIOD_S: Final = 0.2
REBUILD: Final = "rebuild"
SCRUB: Final = "scrub"
REBUILD_SHARE: Final = "rebuild_share"
MISSING: Final = "missing_members"

ReadState = Callable[[int], ArrayState]
"""Returns the current state of a leg (from 1).

Raises:
    SeatrialError: when it is unknown.
"""


@dataclass(frozen=True, kw_only=True)
class ArrayReading:
    """One reading of all legs: time, missing drives, and rebuild progress, if any."""

    at_s: float
    missing: int
    rebuild_share: float | None


@dataclass(frozen=True, kw_only=True)
class TimedEvent:
    """An event at a time of the monotonic clock."""

    at_s: float
    what: str
    leg: int = 0
    member: str = ""
    detail: str = ""
    missing: int | None = None


@dataclass
class ArrayWatch:
    """The observations of an array so far; used by one thread at a time.

    Attributes:
        legs: Number of legs.
        read_state: Returns the state of a leg.
        states: Last known state of each.
        readings: All readings, in order.
        timed_events: All events, in order.
        errors: Distinct errors of readings.
    """

    legs: int
    read_state: ReadState
    states: dict[int, ArrayState] = field(default_factory=dict)
    readings: list[ArrayReading] = field(default_factory=list)
    timed_events: list[TimedEvent] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def read(self) -> None:
        """Read the state of every leg, and note changes since the last time."""
        now: dict[int, ArrayState] = {}
        for leg in range(1, self.legs + 1):
            try:
                now[leg] = self.read_state(leg)
            except (SeatrialError, OSError) as error:
                self._note_error(str(error))
                return
        at_s = time.monotonic()
        for leg, state in now.items():
            self._note_changes(at_s, leg, self.states.get(leg, ArrayState()), state)
        self.states = now
        shares = [state.share or 0.0 for state in now.values() if state.operation == REBUILD]
        missing = sum(state.missing for state in now.values())
        rebuild_share = min(shares) if shares else None
        self.readings.append(ArrayReading(at_s=at_s, missing=missing, rebuild_share=rebuild_share))

    def note(self, what: str, leg: int = 0, member: str = "", detail: str = "") -> None:
        """Note an event that happens now."""
        self.timed_events.append(
            TimedEvent(at_s=time.monotonic(), what=what, leg=leg, member=member, detail=detail)
        )

    @property
    def is_working(self) -> bool:
        """Whether any leg is rebuilding, synchronising or scrubbing."""
        return any(state.operation for state in self.states.values())

    @property
    def has_failed(self) -> bool:
        """Whether more drives of a leg have failed than it survives."""
        return any(state.has_failed for state in self.states.values())

    @property
    def missing(self) -> int:
        """Number of drives not in service."""
        return sum(state.missing for state in self.states.values())

    @property
    def share(self) -> float | None:
        """Progress of the current operation, 0 to 1; None without one or if unknown."""
        shares = [each.share for each in self.states.values() if each.operation]
        return min((share for share in shares if share is not None), default=None)

    def events(self, start_s: float) -> list[ArrayEvent]:
        """Return the events, in order of time, relative to a start (monotonic, s)."""
        return [
            ArrayEvent(
                # A fault at the beginning of the load may precede its first request.
                at_s=max(0.0, each.at_s - start_s),
                what=each.what,
                leg=each.leg,
                member=each.member,
                detail=each.detail,
                missing=each.missing,
            )
            for each in sorted(self.timed_events, key=lambda each: each.at_s)
        ]

    def _note_changes(self, at_s: float, leg: int, before: ArrayState, now: ArrayState) -> None:
        if now.missing > before.missing:
            self._note_excluded(at_s, leg)
        changes = (
            (now.has_failed and not before.has_failed, "array_failed"),
            (before.operation != SCRUB and now.operation == SCRUB, "scrub_started"),
            (before.operation == SCRUB and now.operation != SCRUB, "scrub_ended"),
            (_has_rebuilt(before, now), "rebuild_ended"),
            (_has_started_rebuild(before, now), "rebuild_started"),
        )
        for has_changed, what in changes:
            if has_changed:
                event = TimedEvent(at_s=at_s, what=what, leg=leg, missing=now.missing)
                self.timed_events.append(event)

    def _note_excluded(self, at_s: float, leg: int) -> None:
        """Note that a leg has excluded a faltering drive."""
        own = [each for each in self.timed_events if each.leg == leg]
        gone = {each.member for each in own if each.what == "failed"}
        faltering = (each.member for each in own if each.what == "faltering")
        member = next((each for each in faltering if each not in gone), None)
        if member is not None:
            self.timed_events.append(
                TimedEvent(
                    at_s=at_s,
                    what="failed",
                    leg=leg,
                    member=member,
                    detail="excluded by the array itself",
                )
            )

    def _note_error(self, words: str) -> None:
        if words not in self.errors:
            self.errors.append(words)


def _has_rebuilt(before: ArrayState, now: ArrayState) -> bool:
    """Return whether a rebuild has ended, even if it began and ended between two readings.

    One that stops because another drive failed has not: drives are still missing.
    """
    stopped = before.operation == REBUILD != now.operation
    return now.missing < before.missing or (stopped and now.missing == 0)


def _has_started_rebuild(before: ArrayState, now: ArrayState) -> bool:
    """Return whether a rebuild has begun: the first one, or that of the next missing drive."""
    return now.operation == REBUILD and (
        before.operation != REBUILD or now.missing < before.missing
    )


def series_of(readings: Sequence[ArrayReading], start_s: float, duration_s: float) -> Series:
    """Return the readings over a sample as a series."""
    entries = round(duration_s / SERIES_PERIOD_S)
    return Series(
        period_s=SERIES_PERIOD_S, columns=_columns(readings, start_s, SERIES_PERIOD_S, entries)
    )


def joined(series: Series, readings: Sequence[ArrayReading], start_s: float) -> Series:
    """Return a database sample's series with the array's readings added."""
    entries = max((len(column) for column in series.columns.values()), default=0)
    columns = _columns(readings, start_s, series.period_s, entries)
    return Series(period_s=series.period_s, columns={**series.columns, **columns})


def _columns(
    readings: Sequence[ArrayReading], start_s: float, period_s: float, entries: int
) -> dict[str, list[float | None]]:
    """Return the last reading in each period, or else the one before."""
    found: list[ArrayReading | None] = []
    at = -1
    for entry in range(entries):
        end_s = start_s + (entry + 1) * period_s
        while at + 1 < len(readings) and readings[at + 1].at_s <= end_s:
            at += 1
        is_recent = at >= 0 and readings[at].at_s > end_s - period_s - _PATIENCE_S
        found.append(readings[at] if is_recent else None)
    return {
        REBUILD_SHARE: [reading.rebuild_share if reading else None for reading in found],
        MISSING: [float(reading.missing) if reading else None for reading in found],
    }


_PATIENCE_S: Final = 1.0
"""Maximum age of a reading that is still used: a loaded machine is slow."""
