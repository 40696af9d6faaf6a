"""Progress of a measurement, reported to a watcher. The watcher prints; nothing here does."""

from __future__ import annotations

from typing import Protocol

import msgspec

from seatrial.results.model import Sample
from seatrial.study.cell import Cell


class LiveReading(msgspec.Struct, frozen=True, kw_only=True):
    """The last second of the running cell.

    Attributes:
        elapsed_s: Time since the cell began.
        iops: Completed requests per second.
        bytes_per_s: Bytes transferred per second.
        p99_ns: 99th percentile of the response times; 0 where it is not known yet.
        stalls: Stalls of this cell so far, including a current one.
        oldest_in_flight_ns: Age of the oldest outstanding request.
        mean_ns: Mean response time, where only that is known; else 0.
        done: Replay only: statements answered or skipped.
        planned: Replay only: statements of the trace; else 0.
        lag_ns: Replay only: how long after its time the last statement was sent.
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
    """The remaining time of a run, as known when a cell begins.

    Which rounds are needed is decided as the run proceeds, so this is an upper bound: it never
    grows as rounds are added, and falls where cells reach their precision early.

    Attributes:
        most_s: Time with every round that may be measured, or until the budget ends.
        cell_s: The part of the beginning cell.
        may_end_sooner: Whether rounds or cells may be left out.
    """

    most_s: float
    cell_s: float
    may_end_sooner: bool

    def after_s(self, elapsed_s: float) -> float:
        """Return the remaining time at a moment after the cell began.

        A cell that takes longer than expected does not reduce the time of those that follow.
        """
        return self.most_s - min(elapsed_s, self.cell_s)


class Watcher(Protocol):
    """Receives events in order; must return quickly."""

    def step(self, sentence: str) -> None:
        """Preparation has reached a new step, such as filling a file."""

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """A cell begins."""

    def live(self, reading: LiveReading) -> None:
        """About ten times a second while a cell runs."""

    def cell_ended(self, sample: Sample) -> None:
        """A sample is stored."""


class SilentWatcher:
    """A watcher that does nothing."""

    def step(self, sentence: str) -> None:
        """Do nothing."""

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """Do nothing."""

    def live(self, reading: LiveReading) -> None:
        """Do nothing."""

    def cell_ended(self, sample: Sample) -> None:
        """Do nothing."""
