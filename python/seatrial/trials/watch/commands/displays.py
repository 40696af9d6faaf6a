"""The display of a watch on this terminal: a screen, lines, or one JSON object per interval."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from seatrial.report.terminal import wrapped
from seatrial.trials.watch.analysis.headroom import share_phrase
from seatrial.trials.watch.documents import watch_document
from seatrial.trials.watch.report import terminal

if TYPE_CHECKING:
    from rich.live import Live

    from seatrial.trials.watch.analysis.activity import Interval
    from seatrial.trials.watch.analysis.events import Frame
    from seatrial.trials.watch.analysis.headroom import Headroom
    from seatrial.trials.watch.measure.watching import Watcher
    from seatrial.trials.watch.report.screen import Screen


class Display(Protocol):
    """Shows intervals as they end."""

    def frame(self, frame: Frame) -> None:
        """Show an interval that ends now, and its events."""

    def end(self, total: Interval | None, headroom: Sequence[Headroom] = ()) -> None:
        """Show all intervals as one."""


class LineDisplay:
    """A line per interval, and tables at the end."""

    def __init__(self, *, has_disks: bool) -> None:
        self._has_disks = has_disks
        self._open: set[int] = set()

    def frame(self, frame: Frame) -> None:
        """Print the interval, after the markers and the stalls that began or ended in it."""
        stalls = frame.stalls
        changed = [each for each in stalls if each.is_over or each.number not in self._open]
        self._open |= {each.number for each in stalls}
        self._open -= {each.number for each in stalls if each.is_over}
        for line in terminal.event_lines(frame.marks, changed):
            click.echo(line)
        interval = frame.interval
        parts = [
            terminal.interval_line(interval),
            terminal.waiting_line(interval),
            share_phrase(frame.headroom),
        ]
        click.echo(f"{time.strftime('%H:%M:%S')}  {'; '.join(filter(None, parts))}")

    def end(self, total: Interval | None, headroom: Sequence[Headroom] = ()) -> None:
        """Print the tables."""
        if total is not None and self._has_disks:
            click.echo(f"\n{terminal.headline(total)}")
            for each in headroom:
                click.echo(wrapped(each.text))
            click.echo(f"\n{terminal.summary_text(total)}")


class JsonDisplay:
    """A JSON object per interval."""

    def frame(self, frame: Frame) -> None:
        """Print the interval."""
        click.echo(watch_document(frame))

    def end(self, total: Interval | None, headroom: Sequence[Headroom] = ()) -> None:
        """Print nothing more."""


class ScreenDisplay(LineDisplay):
    """A screen that is redrawn with each interval, and tables at the end."""

    def __init__(self, live: Live, screen: Screen, *, has_disks: bool) -> None:
        super().__init__(has_disks=has_disks)
        self._live = live
        self._screen = screen

    def frame(self, frame: Frame) -> None:
        """Draw the screen."""
        self._screen.add(frame)
        height_rows = self._live.console.size.height
        self._live.update(self._screen.render(frame.interval, height_rows), refresh=True)


@contextmanager
def display_for(watcher: Watcher, name: str, *, as_json: bool) -> Iterator[Display]:
    """Yield the display for the options and the terminal."""
    has_disks = bool(watcher.disks())
    if as_json:
        yield JsonDisplay()
    elif not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield LineDisplay(has_disks=has_disks)
    else:
        from rich.live import Live  # noqa: PLC0415 - loaded on a terminal only

        from seatrial.trials.watch.report.screen import Screen  # noqa: PLC0415 - likewise

        with Live(auto_refresh=False, transient=True) as live:
            screen = Screen(name, watcher.level.number)
            yield ScreenDisplay(live, screen, has_disks=has_disks)
