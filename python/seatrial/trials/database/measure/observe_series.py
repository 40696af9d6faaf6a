"""Converts absolute readings to a series of derived values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from seatrial.units import NS_PER_MS, NS_PER_S


class Interval(NamedTuple):
    """Two readings of one source and the time between them.

    Attributes:
        before: The earlier reading, by name.
        after: The later reading.
        elapsed_s: Time between them.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    elapsed_s: float

    def increase(self, name: str) -> float | None:
        """Return the increase of a counter; None when unknown, or after a reset."""
        if name not in self.before or name not in self.after:
            return None
        growth = self.after[name] - self.before[name]
        return growth if growth >= 0 else None


Derive = Callable[[Interval], float | None]
"""Computes an entry of a column from a change; None where unknown."""


def count(counter: str) -> Derive:
    """Return a function for the increase of a counter."""
    return lambda interval: interval.increase(counter)


def per_s(counter: str) -> Derive:
    """Return a function for the increase of a counter per second."""
    return lambda interval: _quotient(interval.increase(counter), interval.elapsed_s)


def share_of_time(time_ns: str, among: str = "") -> Derive:
    """Return a function for the increase of a nanosecond counter as a share of time.

    Args:
        time_ns: Name of the counter.
        among: Name of a gauge with the number of devices summed up; one if empty.
    """

    def derive(interval: Interval) -> float | None:
        number = interval.after.get(among, 1.0) if among else 1.0
        return _quotient(interval.increase(time_ns), interval.elapsed_s * NS_PER_S * number)

    return derive


def cores(time_ns: str) -> Derive:
    """Return a function for the number of processors that CPU time corresponds to."""
    return share_of_time(time_ns)


def rest_of(whole_ns: Iterable[str], parts_ns: Iterable[str]) -> Derive:
    """Return a function for the CPU time in some counters that is not in others, in processors.

    None where any of them is unknown; never below 0, as the accounting of processes and of the
    machine differs by some ticks.
    """
    wholes, parts = tuple(whole_ns), tuple(parts_ns)

    def derive(interval: Interval) -> float | None:
        increase = {name: interval.increase(name) for name in (*wholes, *parts)}
        known = {name: value for name, value in increase.items() if value is not None}
        if len(known) < len(increase):
            return None
        left_ns = sum(known[name] for name in wholes) - sum(known[name] for name in parts)
        return _quotient(max(0.0, left_ns), interval.elapsed_s * NS_PER_S)

    return derive


def share_among(part_ns: str, parts_ns: Iterable[str]) -> Derive:
    """Return a function for the share of one counter in the increase of several.

    A decrease counts as 0: CPU time in iowait occasionally decreases (proc_stat(5)).
    """
    names = tuple(parts_ns)

    def derive(interval: Interval) -> float | None:
        if part_ns not in interval.after or part_ns not in interval.before:
            return None
        whole = sum(interval.increase(name) or 0.0 for name in names)
        return _quotient(interval.increase(part_ns) or 0.0, whole)

    return derive


def mean_ms(time_ns: str, counter: str) -> Derive:
    """Return a function for the mean time of each counted event; None without any."""

    def derive(interval: Interval) -> float | None:
        mean_ns = _quotient(interval.increase(time_ns), interval.increase(counter))
        return None if mean_ns is None else mean_ns / NS_PER_MS

    return derive


def now(gauge: str) -> Derive:
    """Return a function for a gauge's value at the end."""
    return lambda interval: interval.after.get(gauge)


class Readings:
    """The readings of one source over a trial, one for each boundary between two entries.

    A reading belongs to the nearest boundary. Where a reading is missing at a boundary, the entries
    on both sides are unknown: the increase is not distributed over them.

    Args:
        period_s: Interval between boundaries.

    Attributes:
        last_s: Time of the last reading, after the start; None without any.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._at_boundary: dict[int, tuple[float, Mapping[str, float]]] = {}
        self._first: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self.last_s: float | None = None

    def add(self, at_s: float, values: Mapping[str, float]) -> None:
        """Record a reading taken at ``at_s`` after the start."""
        self._at_boundary.setdefault(int(at_s / self._period_s + 0.5), (at_s, values))
        self._first = {**values, **self._first}
        self._last.update(values)
        self.last_s = at_s

    def totals(self) -> dict[str, float]:
        """Return the increase of each counter from its first to its last known value."""
        interval = Interval(self._first, self._last, self.last_s or 0.0)
        increase = {name: interval.increase(name) for name in self._first}
        return {name: growth for name, growth in increase.items() if growth is not None}

    def columns(self, entries: int, derive: Mapping[str, Derive]) -> dict[str, list[float | None]]:
        """Return a column of ``entries`` values for each name with any known value."""
        changes = [self._change(entry) for entry in range(entries)]
        made = {
            name: [None if interval is None else make(interval) for interval in changes]
            for name, make in derive.items()
        }
        return {
            name: column
            for name, column in made.items()
            if any(value is not None for value in column)
        }

    def _change(self, entry: int) -> Interval | None:
        before, after = self._at_boundary.get(entry), self._at_boundary.get(entry + 1)
        if before is None or after is None:
            return None
        return Interval(before[1], after[1], after[0] - before[0])


def _quotient(above: float | None, below: float | None) -> float | None:
    """Return a quotient; None when a part is unknown or the divisor is 0."""
    return None if above is None or not below else above / below
