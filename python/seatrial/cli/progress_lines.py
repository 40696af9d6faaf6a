"""Progress as JSON lines on standard error, for ``--progress json``."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import click
import msgspec

from seatrial.measure.progress import LiveReading, TimeLeft
from seatrial.published import Amount, Count, one_of, publish
from seatrial.report.exports.json_document import Document
from seatrial.results.model import Sample
from seatrial.study.cell import Cell

READING_EVERY_S = 1.0


class ProgressDocument(Document, frozen=True, kw_only=True):
    """What a measurement does, one line per event on standard error.

    ``--progress json`` of every measuring command.

    Attributes:
        at: Unix time in seconds.
        event: ``stage`` before tests begin; ``started``, ``reading`` (once a second) and ``ended``
            of a test.
        stage: What is prepared; empty for tests.
        cell: Key of the test; empty for a stage.
        round: Number of the round, from 1; 0 for a stage.
        left_s_max: The most seconds that the run may still take; null where that is unknown.
        reading: The last second of the test; null for other events.
        stalls: Stalls of the test so far.
    """

    kind: Literal["progress"] = "progress"
    at: float
    event: Annotated[str, one_of("stage", "started", "reading", "ended")]
    stage: str = ""
    cell: str = ""
    round: Count = 0
    left_s_max: Amount | None = None
    reading: LiveReading | None = None
    stalls: Count = 0


class JsonWatcher:
    """A line of JSON per event; a reading once a second."""

    def __init__(self) -> None:
        self._cell = ""
        self._round = 0
        self._left: TimeLeft | None = None
        self._since_s = self._reading_s = 0.0

    def stage(self, sentence: str) -> None:
        """Print the step."""
        _print(ProgressDocument(at=time.time(), event="stage", stage=sentence))

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """Print the test."""
        self._cell, self._round, self._left = cell.key, round_number + 1, time_left
        self._since_s = self._reading_s = time.monotonic()
        self._event("started")

    def live(self, reading: LiveReading) -> None:
        """Print the last second, once a second."""
        now_s = time.monotonic()
        if now_s - self._reading_s >= READING_EVERY_S:
            self._reading_s = now_s
            self._event("reading", reading=reading, stalls=reading.stalls)

    def cell_ended(self, sample: Sample) -> None:
        """Print the end of the test."""
        self._event("ended", stalls=len(sample.stalls) + sample.stalls_dropped)

    def _event(self, event: str, *, reading: LiveReading | None = None, stalls: int = 0) -> None:
        left_s = self._left.after_s(time.monotonic() - self._since_s) if self._left else None
        _print(
            ProgressDocument(
                at=time.time(),
                event=event,
                cell=self._cell,
                round=self._round,
                left_s_max=None if left_s is None else max(0.0, left_s),
                reading=reading,
                stalls=stalls,
            )
        )


def _print(document: ProgressDocument) -> None:
    click.echo(msgspec.json.encode(publish(document)).decode(), err=True)
