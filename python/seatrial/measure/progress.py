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


class Watcher(Protocol):
    """Told what happens, in order; must return quickly."""

    def stage(self, sentence: str) -> None:
        """Preparation has come to a new step, such as filling a file."""

    def cell_started(self, cell: Cell, round_number: int, time_left_s: float) -> None:
        """A cell begins; the whole run is expected to take ``time_left_s`` more."""

    def live(self, reading: LiveReading) -> None:
        """About ten times a second while a cell runs."""

    def cell_ended(self, sample: Sample) -> None:
        """A sample is stored."""


class Silent:
    """A watcher that does nothing."""

    def stage(self, sentence: str) -> None:
        """Do nothing."""

    def cell_started(self, cell: Cell, round_number: int, time_left_s: float) -> None:
        """Do nothing."""

    def live(self, reading: LiveReading) -> None:
        """Do nothing."""

    def cell_ended(self, sample: Sample) -> None:
        """Do nothing."""
