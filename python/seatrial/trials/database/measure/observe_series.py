"""From absolute readings to a series: what grew between two readings, and what that means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

NS_PER_S = 1e9
NS_PER_MS = 1e6


class Change(NamedTuple):
    """Two readings of one source and the time between them.

    Attributes:
        before: The earlier reading, by name.
        after: The later reading.
        elapsed_s: Between the two.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    elapsed_s: float

    def grown(self, name: str) -> float | None:
        """Return what a counter grew by; None when it is not known, or fell as after a reset."""
        if name not in self.before or name not in self.after:
            return None
        growth = self.after[name] - self.before[name]
        return growth if growth >= 0 else None


Derive = Callable[[Change], float | None]
"""Makes an entry of a column of a change; None where it cannot be known."""


def count(counter: str) -> Derive:
    """Return how to tell by how much a counter grew."""
    return lambda change: change.grown(counter)


def per_s(counter: str) -> Derive:
    """Return how to tell by how much a counter grew each second."""
    return lambda change: _quotient(change.grown(counter), change.elapsed_s)


def share_of_time(time_ns: str, among: str = "") -> Derive:
    """Return how to tell for what share of the time a counter of nanoseconds grew.

    Args:
        time_ns: Name of the counter.
        among: Name of a gauge that says over how many devices it is summed up; one if empty.
    """

    def derive(change: Change) -> float | None:
        number = change.after.get(among, 1.0) if among else 1.0
        return _quotient(change.grown(time_ns), change.elapsed_s * NS_PER_S * number)

    return derive


def cores(time_ns: str) -> Derive:
    """Return how to tell how many processors a counter of processor time kept busy."""
    return share_of_time(time_ns)


def rest_of(whole_ns: Iterable[str], parts_ns: Iterable[str]) -> Derive:
    """Return how to tell how many processors some counters leave over of what others grew by.

    None where any of them is not known; never below 0, as clocks of processes and of the machine
    differ by some ticks.
    """
    wholes, parts = tuple(whole_ns), tuple(parts_ns)

    def derive(change: Change) -> float | None:
        grown = {name: change.grown(name) for name in (*wholes, *parts)}
        known = {name: value for name, value in grown.items() if value is not None}
        if len(known) < len(grown):
            return None
        left_ns = sum(known[name] for name in wholes) - sum(known[name] for name in parts)
        return _quotient(max(0.0, left_ns), change.elapsed_s * NS_PER_S)

    return derive


def share_among(part_ns: str, parts_ns: Iterable[str]) -> Derive:
    """Return how to tell the share of one counter in the growth of several.

    One that fell counts as 0: of processor time, iowait does so now and then (proc_stat(5)).
    """
    names = tuple(parts_ns)

    def derive(change: Change) -> float | None:
        if part_ns not in change.after or part_ns not in change.before:
            return None
        whole = sum(change.grown(name) or 0.0 for name in names)
        return _quotient(change.grown(part_ns) or 0.0, whole)

    return derive


def mean_ms(time_ns: str, counter: str) -> Derive:
    """Return how to tell the mean time of each of what was counted; None where nothing was."""

    def derive(change: Change) -> float | None:
        mean_ns = _quotient(change.grown(time_ns), change.grown(counter))
        return None if mean_ns is None else mean_ns / NS_PER_MS

    return derive


def now(gauge: str) -> Derive:
    """Return how to tell how things stood at the end."""
    return lambda change: change.after.get(gauge)


class Readings:
    """The readings of one source over a trial, one for each boundary between two entries.

    A reading belongs to the boundary that it is nearest to. Where the source was silent at a
    boundary, the entries on both sides are not known: what happened meanwhile is not spread over
    them as if it were.

    Args:
        period_s: Distance of the boundaries.

    Attributes:
        last_s: When the last reading was taken, after the start; None while there is none.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._at_boundary: dict[int, tuple[float, Mapping[str, float]]] = {}
        self._first: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self.last_s: float | None = None

    def add(self, at_s: float, values: Mapping[str, float]) -> None:
        """Keep a reading taken at ``at_s`` after the start."""
        self._at_boundary.setdefault(int(at_s / self._period_s + 0.5), (at_s, values))
        self._first = {**values, **self._first}
        self._last.update(values)
        self.last_s = at_s

    def totals(self) -> dict[str, float]:
        """Return what each counter grew by from when it was first known to when it was last."""
        change = Change(self._first, self._last, self.last_s or 0.0)
        grown = {name: change.grown(name) for name in self._first}
        return {name: growth for name, growth in grown.items() if growth is not None}

    def columns(self, entries: int, derive: Mapping[str, Derive]) -> dict[str, list[float | None]]:
        """Return a column of ``entries`` values for each name of which anything is known."""
        changes = [self._change(entry) for entry in range(entries)]
        made = {
            name: [None if change is None else make(change) for change in changes]
            for name, make in derive.items()
        }
        return {
            name: column
            for name, column in made.items()
            if any(value is not None for value in column)
        }

    def _change(self, entry: int) -> Change | None:
        before, after = self._at_boundary.get(entry), self._at_boundary.get(entry + 1)
        if before is None or after is None:
            return None
        return Change(before[1], after[1], after[0] - before[0])


def _quotient(above: float | None, below: float | None) -> float | None:
    """Return a quotient; None when a part is not known or nothing is below."""
    return None if above is None or not below else above / below
