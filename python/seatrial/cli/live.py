"""``--live``: a page that shows a run while it is measured, and its report afterwards.

A topic names the program that shows runs (``Topic.observer``). It is a process of its own, so that
it shares neither the interpreter nor the processor time of the measurement. The first line of its
standard input describes the run; every event of the progress (docs/json.md) and the end of the run
follow. It answers on its standard output. Nothing is shared through files.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from seatrial import interrupts
from seatrial.cli.display_options import display_options
from seatrial.cli.progress_lines import JsonWatcher, ProgressDocument, as_line
from seatrial.errors import SeatrialError, UsageError
from seatrial.measure.progress import LiveReading, TimeLeft, Watcher
from seatrial.measure.run import RunRequest, storage_paths
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.topic import topics

IDLE_S: Final = 600.0
"""The report is served until nobody has requested it for this time."""
PENDING_BYTES_MAX: Final = 1 << 20
"""Buffer for a page that does not read; further events are dropped and counted."""
_ANSWER_S: Final = 30.0
_END_S: Final = 5.0


class ObservedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The first line that a page gets.

    Attributes:
        title: What is measured on what, for a heading.
        pid: Process of the load engine; what it starts belongs to the run.
        port: The TCP port to serve; 0 for a free one.
        places: Files, directories and devices of the targets, absolute.
        makes_devices: Whether the run itself makes the devices that it measures.
        servers: Addresses of database servers that are measured, without passwords.
        results: The results file.
    """

    title: str
    pid: int
    port: int
    places: list[str]
    makes_devices: bool
    servers: list[str]
    results: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a page: one when it is served, and one when the run has ended.

    Attributes:
        address: Where it is served; empty at the end.
        level: What it shows, and at which cost, as sentences; empty at the end.
        stays: At the end: whether somebody has opened it, so that the report is served.
        error: Why it cannot be served: seen, cause and next step; None if it can.
    """

    address: str = ""
    level: str = ""
    stays: bool = False
    error: tuple[str, str, str] | None = None


class FinishedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The last line that a page gets.

    Attributes:
        kind: Distinguishes it from the events before it.
        sentence: How the run ended.
        report: Its report, one HTML page; empty if there is none.
        dropped: Events of the progress that the page did not get.
    """

    kind: Literal["finished"] = "finished"
    sentence: str
    report: str = ""
    dropped: int = 0


@contextmanager
def observing(request: RunRequest, results: Path) -> Iterator[Observation]:
    """Show the run that is measured within the block on a page, where ``--live`` asks for it.

    At the end of the block, the page becomes the report that was passed to
    :meth:`Observation.take_report`, and is served until Ctrl-C or until nobody asks for it.

    Args:
        request: The run.
        results: The results file.

    Raises:
        UsageError: when no page can be served.
    """
    shown = display_options()
    if not shown.live:
        if shown.port is not None:
            raise UsageError(
                seen="--port is given without --live",
                cause="It is the port of the page of --live",
                next_step="Add --live, or leave --port out",
            )
        yield Observation(None)
        return
    with _page(_observed(request.plan, results, shown.port or 0)) as page:
        observation = Observation(page)
        try:
            yield observation
        except SeatrialError as error:
            observation.finish(f"The command has failed. {error.seen}")
            raise
        except BaseException:
            observation.finish("The run was interrupted.")
            raise
        observation.finish("The run was interrupted." if interrupts.is_stopping() else "")
        observation.wait_for_page()


def refuse_live(seen: str, cause: str) -> None:
    """Refuse ``--live`` where nothing can be shown.

    Raises:
        UsageError: when it is given.
    """
    if display_options().live:
        raise UsageError(seen=seen, cause=cause, next_step="Leave --live out")


class Observation:
    """A run that is shown on a page; without a page it does nothing.

    Attributes:
        dropped: Events of the progress that the page did not get.
    """

    def __init__(self, page: subprocess.Popen[bytes] | None) -> None:
        self._page = page
        self._pending = b""
        self.dropped = 0
        self._report = ""
        if page is not None:
            assert page.stdin  # noqa: S101 - a pipe
            os.set_blocking(page.stdin.fileno(), False)

    def with_page(self, watcher: Watcher) -> Watcher:
        """Return a watcher that shows the progress on the page and passes it on to another."""
        return watcher if self._page is None else _WatcherPair(watcher, JsonWatcher(self._send))

    def take_report(self, page: str) -> None:
        """Store the report of the run, an HTML page."""
        self._report = page

    def finish(self, sentence: str = "") -> None:
        """Show on the page how the run ended; by default, that it has a report or none."""
        if self._page is None:
            return
        usual = "The run has ended." if self._report else "The run has ended, without a report."
        end = FinishedEvent(
            sentence=sentence or usual,
            report="" if sentence else self._report,
            dropped=self.dropped,
        )
        self._pending += msgspec.json.encode(end) + b"\n"
        give_up_s = time.monotonic() + _ANSWER_S
        stdin = self._page.stdin
        while self._pending and (left_s := give_up_s - time.monotonic()) > 0:
            select.select([], [stdin.fileno()] if stdin else [], [], left_s)
            self._write()

    def wait_for_page(self) -> None:
        """Wait until the report is no longer served; an interrupt ends that."""
        if self._page is None or interrupts.is_stopping():
            return
        if not _answer(self._page).stays:
            return
        click.echo(
            "The live page shows the report: until Ctrl-C, or "
            f"{IDLE_S / 60:.0f} minutes after the last request.",
            err=True,
        )
        with interrupts.stopping_with("The page has ended."), suppress(KeyboardInterrupt):
            self._page.wait()

    def _send(self, event: ProgressDocument) -> None:
        if self._page is None:  # it has ended early
            return
        line = as_line(event).encode() + b"\n"
        if len(self._pending) + len(line) > PENDING_BYTES_MAX:
            self.dropped += 1
            return
        self._pending += line
        self._write()

    def _write(self) -> None:
        """Write what fits into the pipe; nothing more once the page has ended."""
        assert self._page  # noqa: S101 - only then
        assert self._page.stdin  # noqa: S101 - a pipe
        try:
            while self._pending:
                count = os.write(self._page.stdin.fileno(), self._pending)
                self._pending = self._pending[count:]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            click.echo("The live page ended early; the run continues.", err=True)
            self._page, self._pending = None, b""


class _WatcherPair:
    """Passes every event on to two watchers."""

    def __init__(self, first: Watcher, second: Watcher) -> None:
        self._watchers = (first, second)

    def step(self, sentence: str) -> None:
        """Pass it on."""
        for each in self._watchers:
            each.step(sentence)

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """Pass it on."""
        for each in self._watchers:
            each.cell_started(cell, round_number, time_left)

    def live(self, reading: LiveReading) -> None:
        """Pass it on."""
        for each in self._watchers:
            each.live(reading)

    def cell_ended(self, sample: Sample) -> None:
        """Pass it on."""
        for each in self._watchers:
            each.cell_ended(sample)


def _observed(plan: Plan, results: Path, port: int) -> ObservedRun:
    places = storage_paths(plan)
    servers = [target.url for target in plan.targets if target.url]
    on = [*map(str, places.values()), *servers] or [each.label for each in plan.targets]
    return ObservedRun(
        title=f"{plan.study.name} on {', '.join(on)}",
        pid=os.getpid(),
        port=port,
        places=[str(each.absolute()) for each in places.values()],
        makes_devices=bool(plan.study.layouts),
        servers=servers,
        results=str(results.absolute()),
    )


@contextmanager
def _page(run: ObservedRun) -> Iterator[subprocess.Popen[bytes]]:
    """Start the page, print its address, and end it after the block.

    Raises:
        UsageError: when it cannot be served.
    """
    program = next(filter(None, (topic.observer for topic in topics())))
    # Ctrl-C is for the run, which reports it to the page.
    with subprocess.Popen(
        [sys.executable, "-P", "-m", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("SEATRIAL_DEBUG") else subprocess.DEVNULL,
        start_new_session=True,
    ) as page:
        assert page.stdin  # noqa: S101 - a pipe
        try:
            with suppress(BrokenPipeError):
                page.stdin.write(msgspec.json.encode(run) + b"\n")
                page.stdin.flush()
            served = _answer(page)
            if served.error is not None:
                seen, cause, next_step = served.error
                raise UsageError(seen=seen, cause=cause, next_step=next_step)
            click.echo(f"Live page, on this machine only: {served.address}", err=True)
            click.echo(served.level, err=True)
            yield page
        finally:
            with suppress(OSError):
                page.stdin.close()
            try:
                page.wait(_END_S)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):  # the exit code is the run's
                page.kill()


def _answer(page: subprocess.Popen[bytes]) -> Answer:
    """Return the next answer of a page; an error if it has ended or hangs."""
    assert page.stdout  # noqa: S101 - a pipe
    line = b""
    if select.select([page.stdout], [], [], _ANSWER_S)[0]:
        line = page.stdout.readline()
    if line:
        return msgspec.json.decode(line, type=Answer)
    return Answer(
        error=(
            "The live page was not served.",
            "Its program has ended or does not answer.",
            "Run it again with SEATRIAL_DEBUG=1 in the environment to see why, or without --live",
        )
    )
