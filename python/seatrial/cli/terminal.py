"""Progress while cells are measured: a progress bar on a terminal, else plain lines.

All of it goes to standard error, so that standard output holds the result and nothing else.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from seatrial import interrupts
from seatrial.cli.display_options import display_options
from seatrial.measure.progress import LiveReading, SilentWatcher, TimeLeft, Watcher
from seatrial.report.terminal import bars
from seatrial.results.model import Sample
from seatrial.stats.wording import (
    format_cell,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_plural,
    format_rate_bytes,
    is_on_database,
)
from seatrial.study.cell import Cell
from seatrial.study.units import format_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID
    from rich.text import Text

PLAIN_EVERY_S: Final = 10.0
HANG_NS: Final = 500_000_000
FIRST_READING_S: Final = 1.0
"""Before that the engine may have no complete slice to compute a rate from."""
SPARKS_MAX: Final = 24
SPARK_EVERY_S: Final = 0.25
STALLS_SHOWN_MAX: Final = 3
"""Of a sample; the report has all of them."""
STOPPING: Final = "Stopping: results are kept, and changes to the system are undone."


@contextmanager
def watcher(*, quiet: bool) -> Iterator[Watcher]:
    """Yield the watcher that suits standard error and ``--progress``; a silent one on request."""
    wanted = display_options().progress
    with interrupts.stopping_with(STOPPING):
        if wanted == "json":
            from seatrial.cli.progress_lines import JsonWatcher  # noqa: PLC0415 - rarely needed

            yield JsonWatcher()
        elif quiet or wanted == "none":
            yield SilentWatcher()
        elif wanted == "auto" and sys.stderr.isatty():
            countdown = Countdown()
            with _bar(countdown) as progress:
                yield BarWatcher(progress, countdown)
        else:
            yield PlainWatcher()


class Countdown:
    """The remaining time of a run, updated as it passes."""

    def __init__(self) -> None:
        self._left: TimeLeft | None = None
        self._since_s = 0.0

    def set(self, left: TimeLeft) -> None:
        """Count down from now on."""
        self._left, self._since_s = left, time.monotonic()

    @property
    def left_s(self) -> float:
        """The time left now (s); 0 while it is unknown."""
        elapsed_s = time.monotonic() - self._since_s
        return self._left.after_s(elapsed_s) if self._left else 0.0

    def text(self) -> str:
        """Return the time left now in words; empty while it is unknown."""
        if interrupts.is_stopping():
            return "stopping"
        return f"{left_text(self._left, self.left_s)} left" if self._left else ""


def left_text(left: TimeLeft, left_s: float) -> str:
    """Return the remaining time of a run in words; a maximum if it may end sooner."""
    text = format_seconds(math.ceil(left_s))
    return f"at most {text}" if left.may_end_sooner else f"about {text}"


def _bar(countdown: Countdown) -> Progress:
    from rich.console import Console  # noqa: PLC0415 - loaded on a terminal only
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class TimeLeftColumn(ProgressColumn):
        """Shows the remaining time, also between tests."""

        def render(self, task: Task) -> Text:
            """Return the words of the moment."""
            return Text(countdown.text())

    return Progress(
        BarColumn(bar_width=24),
        TimeLeftColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    )


def is_hanging(reading: LiveReading) -> bool:
    """Return whether nothing completed for a second while requests were in flight."""
    return reading.iops == 0 and reading.oldest_in_flight_ns > HANG_NS


def live_text(reading: LiveReading, stalls_before: int, *, on_database: bool = False) -> str:
    """Return the live line: rate, bandwidth, p99 and stalls so far, or how long nothing completed.

    Transactions of a database have no bandwidth; pgbench reports only their mean while it runs.
    """
    if is_hanging(reading):
        return f"0 completed, oldest in flight {format_duration_ns(reading.oldest_in_flight_ns)}"
    if reading.planned:
        return _replay_text(reading)
    stalls = format_plural(stalls_before + reading.stalls, "stall")
    # pgbench reports nothing in the first second after all of its clients are connected.
    is_unreported = on_database and not reading.oldest_in_flight_ns
    if reading.iops == 0 and (reading.elapsed_s < FIRST_READING_S or is_unreported):
        return f"just begun, {stalls}"
    rate = format_iops(reading.iops)
    time = f"p99 {format_duration_ns(reading.p99_ns)}"
    if reading.mean_ns and not reading.p99_ns:
        time = f"mean {format_duration_ns(reading.mean_ns)}"
    if on_database:
        return f"{rate} tps, {time}, {stalls}"
    return f"{rate} IOPS, {format_rate_bytes(reading.bytes_per_s)}, {time}, {stalls}"


def _replay_text(reading: LiveReading) -> str:
    """Return the progress of a replay, its rate, and its lag if statements have a due time."""
    done = f"{100 * reading.done / reading.planned:.0f} % of {reading.planned:,} statements"
    late = f", {format_duration_ns(reading.lag_ns)} late" if reading.lag_ns else ""
    return f"{done}, {format_iops(reading.iops)} statements/s{late}"


class BarWatcher:
    """A bar with the time left and the cell now running, and a live line below it."""

    def __init__(self, progress: Progress, countdown: Countdown) -> None:
        self._progress = progress
        self._countdown = countdown
        self._bar: TaskID = progress.add_task("Preparing", total=None)
        self._began_s = time.monotonic()
        self._stalls = 0
        self._title = "Preparing"
        self._on_database = False
        self._rates_per_s: deque[float] = deque(maxlen=SPARKS_MAX)
        self._spark_s = 0.0

    def step(self, sentence: str) -> None:
        """Show the step."""
        self._title = sentence
        self._progress.update(self._bar, description=sentence)

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """Show the cell and the time left."""
        self._countdown.set(time_left)
        self._on_database = is_on_database(cell.identity())
        spent_s = time.monotonic() - self._began_s
        self._title = f"Round {round_number + 1}: {format_cell(cell)}"
        self._rates_per_s.clear()
        self._progress.update(
            self._bar,
            total=max(spent_s + time_left.most_s, 1e-9),
            completed=spent_s,
            description=self._title,
        )

    def live(self, reading: LiveReading) -> None:
        """Show the last second."""
        spent_s = time.monotonic() - self._began_s
        line = live_text(reading, self._stalls, on_database=self._on_database)
        if spent_s - self._spark_s >= SPARK_EVERY_S:
            self._spark_s = spent_s
            self._rates_per_s.append(reading.iops)
        line = f"{bars(self._rates_per_s)} {line}".lstrip()
        self._progress.update(self._bar, completed=spent_s, description=f"{self._title}\n{line}")

    def cell_ended(self, sample: Sample) -> None:
        """Count its stalls."""
        self._stalls += len(sample.stalls)


class PlainWatcher:
    """Prints a line per round, one on the current test every ten seconds, and hangs at once."""

    def __init__(self) -> None:
        self._round = -1
        self._printed_s = time.monotonic()
        self._cell = ""
        self._stalls = 0
        self._was_hanging = False
        self._on_database = False

    def step(self, sentence: str) -> None:
        """Print the step."""
        self._cell = sentence
        click.echo(sentence, err=True)

    def cell_started(self, cell: Cell, round_number: int, time_left: TimeLeft) -> None:
        """Print that a round begins."""
        self._cell = format_cell(cell)
        self._on_database = is_on_database(cell.identity())
        if round_number != self._round:
            self._round = round_number
            left = left_text(time_left, time_left.most_s)
            click.echo(f"Round {round_number + 1}; {left} left", err=True)

    def live(self, reading: LiveReading) -> None:
        """Print the last second: at once when a hang begins, else every ten seconds."""
        now_s = time.monotonic()
        hangs_now = is_hanging(reading) and not self._was_hanging
        self._was_hanging = is_hanging(reading)
        if hangs_now or now_s - self._printed_s >= PLAIN_EVERY_S:
            self._printed_s = now_s
            line = live_text(reading, self._stalls, on_database=self._on_database)
            click.echo(f"  {self._cell}: {line}", err=True)

    def cell_ended(self, sample: Sample) -> None:
        """Print its stalls."""
        self._stalls += len(sample.stalls)
        longest = sorted(sample.stalls, key=lambda stall: -stall.length_s)[:STALLS_SHOWN_MAX]
        for stall in longest:
            length = format_duration_s(stall.length_s)
            click.echo(f"  {self._cell}: stall of {length} ({stall.cause})", err=True)
        more_count = len(sample.stalls) + sample.stalls_dropped - len(longest)
        if more_count:
            click.echo(f"  {self._cell}: and {more_count} more", err=True)
