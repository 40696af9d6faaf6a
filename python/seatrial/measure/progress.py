"""What a measurement tells whoever watches it. The watcher prints; nothing here does."""

from __future__ import annotations

from typing import Protocol

import msgspec

from seatrial.results.model import Sample
from seatrial.study.cell import Cell


class LiveReading(msgspec.Struct, frozen=True, kw_only=True):
    """The last second of the cell now running.

    Attributes:
        elapsed_s: Since the cell began.
        iops: Completed requests per second.
        bytes_per_s: Bytes moved per second.
        p99_ns: 99th percentile of the response times; 0 where it is not known yet.
        stalls: Stalls of this cell so far, one that still lasts included.
        oldest_in_flight_ns: Age of the oldest outstanding request.
        mean_ns: Mean response time, where only that is known; else 0.
        done: Of a replay, statements that were answered or skipped.
        planned: Of a replay, statements of its trace; else 0.
        lag_ns: Of a replay, how late the last statement was sent after it was due.
    """

    elapsed_s: float
    iops: float
    bytes_per_s: float
    p99_ns: int
    stalls: int
    oldest_in_flight_ns: int
    mean_ns: int = 0
    done: int = 0
    planned: int = 0
    lag_ns: int = 0


class TimeLeft(msgspec.Struct, frozen=True, kw_only=True):
    """How long a run will still take, as it is known when a cell begins.

    Which rounds are needed is decided on the way, so what is told is what it takes at most: that
    never grows as rounds are added, and falls where cells are known well enough before.

    Attributes:
        most_s: With every round that may be measured, or until the budget ends.
        cell_s: What of it the cell takes that begins.
        may_end_sooner: Whether rounds or cells may be left out.
    """

    most_s: float
    cell_s: float
    may_end_sooner: bool

    def after_s(self, elapsed_s: float) -> float:
        """Return what is left so long after the cell began.

        A cell that takes longer than it was expected to takes no time from those that follow.
        """
        return self.most_s - min(elapsed_s, self.cell_s)


class Watcher(Protocol):
    """Told what happens, in order; must return quickly."""

    def stage(self, sentence: str) -> None:
        """Preparation has come to a new step, such as filling a file."""

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """A cell begins."""

    def live(self, reading: LiveReading) -> None:
        """About ten times a second while a cell runs."""

    def cell_ended(self, sample: Sample) -> None:
        """A sample is stored."""


class Silent:
    """A watcher that does nothing."""

    def stage(self, sentence: str) -> None:
        """Do nothing."""

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """Do nothing."""

    def live(self, reading: LiveReading) -> None:
        """Do nothing."""

    def cell_ended(self, sample: Sample) -> None:
        """Do nothing."""
