"""The program behind ``--live``: the live page over a run that another process measures.

``seatrial.cli.live`` starts it and describes what they say to each other.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import msgspec

from seatrial.cli.live import IDLE_S, Answer, FinishedEvent, ObservedRun
from seatrial.errors import SeatrialError
from seatrial.postgres.connection import parse_url
from seatrial.trials.watch.analysis.activity import Readings
from seatrial.trials.watch.analysis.headroom import without_line
from seatrial.trials.watch.commands.live import Feed, LivePage, require_packages, served
from seatrial.trials.watch.commands.observation import Observation, intervals, level_text
from seatrial.trials.watch.commands.watch import EVERY_S, devices_of
from seatrial.trials.watch.measure.clients import Clients
from seatrial.trials.watch.measure.lines import lines_of
from seatrial.trials.watch.measure.volume import DeviceNumber
from seatrial.trials.watch.measure.watching import Watcher, WatchOptions

_READING_S_MAX: Final = 1.5 * EVERY_S
"""An older one is of a test that has ended."""
_LOCAL: Final[tuple[str, ...]] = ("localhost", "127.0.0.1", "::1")


class Progress:
    """Reads the progress of the run until it has ended, in a thread of its own.

    Attributes:
        has_ended: Set when the run has ended, or is gone.
        is_gone: Set when the run's process has closed its end.
    """

    def __init__(self, feed: Feed, page: LivePage, source: IO[bytes]) -> None:
        """Start to read."""
        self.has_ended = threading.Event()
        self.is_gone = threading.Event()
        self._end: FinishedEvent | None = None
        self._readings: Readings = {}
        self._read_s = 0.0
        self._feed = feed
        self._page = page
        self._source = source
        threading.Thread(target=self._run, name="progress", daemon=True).start()

    def readings(self) -> Readings:
        """Return the last second of the test that runs, by panel; empty where none does."""
        is_new = time.monotonic() - self._read_s < _READING_S_MAX
        return self._readings if is_new else {}

    def end(self) -> bool:
        """Notify the pages of the end of the run; return whether they have its report."""
        if self._end is None:
            self._page.end("The command has ended, and so has its run.")
            return False
        dropped = self._end.dropped
        lost = f" {dropped:,} events of its progress are not shown." if dropped else ""
        self._page.end(f"{self._end.sentence}{lost}", self._end.report)
        return bool(self._end.report)

    def _run(self) -> None:
        for line in self._source:
            event = json.loads(line)
            if event["kind"] == "finished":
                self._end = msgspec.convert(event, FinishedEvent)
                self.has_ended.set()
            else:
                if readings := _readings_of(event):
                    self._readings, self._read_s = readings, time.monotonic()
                self._feed.progress(line.strip())
        self.is_gone.set()
        self.has_ended.set()


def _readings_of(event: Mapping[str, Any]) -> Readings:
    """Return the figures of an event; of a test that is over, its rate."""
    reading = event["reading"] or {"iops": event["completed_per_s"], "p99_ns": 0}
    if reading["iops"] is None:
        return {}
    rate = {"run_rate": {"completed": reading["iops"]}}
    p99_ns = reading["p99_ns"]
    return {**rate, "run_p99": {"p99": p99_ns}} if p99_ns else rate


def observe(run: ObservedRun, source: IO[bytes], answers: IO[bytes]) -> None:
    """Show a run until its report is no longer wanted.

    Args:
        run: The run.
        source: Where its progress comes from.
        answers: Where answers go.

    Raises:
        SeatrialError: if the page cannot be served.
    """
    require_packages("--live")
    watcher = Watcher(_options(run))
    with ExitStack() as stack:
        stack.callback(watcher.stop)
        name = ", ".join(watcher.disks()) or "no disk"
        results = Path(run.results)
        lines = lines_of(watcher.disks(), results)
        feed, page = served(
            watcher,
            name,
            EVERY_S,
            run.port,
            run=run.title,
            without_line=without_line(watcher.disks(), lines, results.name),
            command="--live",
        )
        stack.callback(page.stop)
        level = f"{level_text(watcher)}\nWatching costs {watcher.level.cost}."
        _answer(answers, Answer(address=page.address, level=level))
        progress = Progress(feed, page, source)
        with ExitStack() as watching:
            observation = Observation(watching, watcher, feed, lines)
            for interval in intervals(watcher, EVERY_S, None, progress.has_ended):
                observation.add(interval, readings=progress.readings())
        watcher.stop()
        has_report = progress.end()
        stays = has_report and page.requested_s is not None
        _answer(answers, Answer(stays=stays))
        ended_s = time.monotonic()
        while stays and not progress.is_gone.wait(1.0):
            requested_s = max(ended_s, page.requested_s or 0.0)
            stays = time.monotonic() - requested_s < IDLE_S


def _options(run: ObservedRun) -> WatchOptions:
    """Return the disks of the targets; all disks where they are on no single ones."""
    clients = Clients(run.pid)
    has_local_server = any(_is_local(each) for each in run.servers)
    if not (run.places or run.makes_devices or has_local_server):
        return WatchOptions(sees_disks=False, clients=clients)
    disks: set[DeviceNumber] = set()
    if not (run.makes_devices or has_local_server):
        try:
            disks = {number for place in run.places for number in devices_of(place)}
        except SeatrialError:
            disks = set()
    return WatchOptions(devices=sorted(disks), clients=clients)


def _is_local(url: str) -> bool:
    address, _ = parse_url(url)
    return address.is_socket or address.host in _LOCAL


def _answer(answers: IO[bytes], answer: Answer) -> None:
    answers.write(msgspec.json.encode(answer) + b"\n")
    answers.flush()


def main() -> NoReturn:
    """Show the run of the first line of standard input."""
    # The run says when it has ended; its terminal's signals are the run's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        observe(msgspec.json.decode(source.readline(), type=ObservedRun), source, answers)
    except SeatrialError as error:
        _answer(answers, Answer(error=(error.seen, error.cause, error.next_step)))
    except BrokenPipeError:  # the run is gone
        pass
    sys.exit(0)


if __name__ == "__main__":
    main()
