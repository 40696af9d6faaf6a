"""Progress as JSON lines: on standard error for ``--progress json``, to the page of ``--live``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Literal

import click
import msgspec

from seatrial.cli.terminal import live_text
from seatrial.findings.context import has_stall_watch
from seatrial.measure.progress import LiveReading, TimeLeft
from seatrial.published import Amount, Count, one_of, publish
from seatrial.report.exports.json_document import Document
from seatrial.results.model import Sample
from seatrial.stats.wording import format_cell, is_on_database
from seatrial.study.cell import Cell

READING_EVERY_S = 1.0


class ProgressDocument(Document, frozen=True, kw_only=True):
    """Progress of a measurement, one line per event on standard error.

    ``--progress json`` of every measuring command.

    Attributes:
        at: Unix time in seconds.
        event: ``step`` before tests begin; ``started``, ``reading`` (once a second) and ``ended``
            of a test.
        step: What is prepared; empty for tests.
        cell: Key of the test; empty for a step.
        test: The test in words; empty for a step.
        round: Number of the round, from 1; 0 for a step.
        left_s_max: The most seconds that the run may still take; null where that is unknown.
        reading: The last second of the test; null for other events.
        text: The reading in words; empty for other events.
        stalls: Stalls of the test so far; null at its end if they were not watched for.
        completed_per_s: Requests per second of the whole sample; null before its end.
    """

    kind: Literal["progress"] = "progress"
    at: float
    event: Annotated[str, one_of("step", "started", "reading", "ended")]
    step: str = ""
    cell: str = ""
    test: str = ""
    round: Count = 0
    left_s_max: Amount | None = None
    reading: LiveReading | None = None
    text: str = ""
    stalls: Count | None = 0
    completed_per_s: Amount | None = None


def as_line(document: ProgressDocument) -> str:
    """Return an event as one line, without its end."""
    return msgspec.json.encode(publish(document)).decode()


def _print(document: ProgressDocument) -> None:
    click.echo(as_line(document), err=True)


class JsonWatcher:
    """A line of JSON per event; a reading once a second."""

    def __init__(self, send: Callable[[ProgressDocument], None] = _print) -> None:
        """Store the receiver of events; it must return quickly."""
        self._send = send
        self._cell = self._test = ""
        self._round = 0
        self._on_database = False
        self._left: TimeLeft | None = None
        self._since_s = self._reading_s = 0.0

    def step(self, sentence: str) -> None:
        """Print the step."""
        self._send(ProgressDocument(at=time.time(), event="step", step=sentence))

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """Print the test."""
        self._cell, self._test = cell.key, format_cell(cell)
        self._round, self._left = round_number + 1, time_left
        self._on_database = is_on_database(cell.identity())
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
        is_watched = has_stall_watch([sample])
        self._event(
            "ended",
            stalls=len(sample.stalls) + sample.stalls_dropped if is_watched else None,
            completed_per_s=sample.completed_per_s,
        )

    def _event(
        self,
        event: str,
        *,
        reading: LiveReading | None = None,
        stalls: int | None = 0,
        completed_per_s: float | None = None,
    ) -> None:
        left_s = self._left.after_s(time.monotonic() - self._since_s) if self._left else None
        self._send(
            ProgressDocument(
                at=time.time(),
                event=event,
                cell=self._cell,
                test=self._test,
                round=self._round,
                left_s_max=None if left_s is None else max(0.0, left_s),
                reading=reading,
                text=live_text(reading, 0, on_database=self._on_database) if reading else "",
                stalls=stalls,
                completed_per_s=completed_per_s,
            )
        )
