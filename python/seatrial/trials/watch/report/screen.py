"""The watch on a terminal: one screen that is redrawn with every interval.

Rates and latencies by disk and operation, the tables or processes with the most requests, and a
heat map of latencies over the last minute.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from seatrial.report.table import NO_FIGURE
from seatrial.report.terminal import bars
from seatrial.stats.wording import (
    format_duration_ns,
    format_iops,
    format_rate_bytes,
    format_share,
)
from seatrial.trials.watch.analysis.activity import Interval, RequestGroup, broken_down
from seatrial.trials.watch.analysis.events import CAUSE_WORDS, Frame, Stall
from seatrial.trials.watch.report.terminal import (
    UNKNOWN,
    event_lines,
    interval_line,
    loss_sentences,
    moment_of_day,
    waiting_line,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from seatrial.trials.watch.analysis.headroom import Headroom

COLUMNS_MAX: Final = 60
"""Intervals of the heat map and of a spark line."""
SPARKS: Final = 24
EVENTS: Final = 4
"""Stalls and markers that stay on the screen."""
ROWS_MAX: Final = 6
HEADROOMS_MAX: Final = 3
"""Disks whose load is shown on their load lines."""
_HEADROOM_ROWS: Final = 2
_SHADES: Final = " ░▒▓█"
_HALF_DECADES: Final = tuple(
    round(step * 10.0**power) for power in range(8, 3, -1) for step in (3.162, 1)
)
"""Lower bounds (ns) of the rows of the heat map: 316 ms down to 10 µs."""


class Screen:
    """The content of the screen."""

    def __init__(self, name: str, level: int) -> None:
        """Take the name of the watched disks or database, and the number of the level."""
        self._title = f"{name}, level {level} of 3"
        self._heat: deque[Counter[int]] = deque(maxlen=COLUMNS_MAX)
        self._rates: dict[tuple[str, str], deque[float]] = {}
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._open: dict[int, Stall] = {}
        self._headroom: Sequence[Headroom] = ()

    def add(self, frame: Frame) -> None:
        """Add an interval and its events."""
        interval, stalls = frame.interval, frame.stalls
        self._headroom = frame.headroom
        self._heat.append(heat_column(interval.groups))
        groups = broken_down(interval.groups, ["disk", "operation"])
        now = {(each.disk, each.operation): each.requests / interval.seconds for each in groups}
        for key in now.keys() | self._rates.keys():
            self._rates.setdefault(key, deque(maxlen=SPARKS)).append(now.get(key, 0.0))
        self._rates = {key: past for key, past in self._rates.items() if any(past)}
        for stall in stalls:
            self._open.pop(stall.number, None)
            if not stall.is_over:
                self._open[stall.number] = stall
        self._events += event_lines(frame.marks, [each for each in stalls if each.is_over])

    def render(self, interval: Interval, height_rows: int) -> RenderableType:
        """Return the screen, as far as it fits."""
        from rich.console import Group as Lines  # noqa: PLC0415 - loaded on a terminal only
        from rich.text import Text  # noqa: PLC0415 - likewise

        head = Text(f"{self._title}, {moment_of_day(interval.ended_at)}", style="bold")
        line = Text(interval_line(interval), overflow="ellipsis", no_wrap=True)
        waits = waiting_line(interval)
        waiting = [Text(waits, overflow="ellipsis", no_wrap=True)] if waits else []
        parts: list[RenderableType] = [head, line, *waiting, self._disks(interval)]
        headroom = self._headroom[:HEADROOMS_MAX]
        parts += [Text(each.text) for each in headroom]
        room_rows = height_rows - len(self._rates) - 7 - len(self._events) - len(self._open)
        room_rows -= len(waiting)
        room_rows -= _HEADROOM_ROWS * len(headroom)
        if any(self._heat) and room_rows > len(_HALF_DECADES):
            parts.append(Text("\n".join(self._heat_lines())))
            room_rows -= len(_HALF_DECADES) + 2
        if room_rows > 3 and (most := self._most(interval, min(ROWS_MAX, room_rows - 3))):
            parts.append(most)
        parts += [Text(each, style="bold red") for each in self._stalled()]
        parts += [Text(each, overflow="ellipsis", no_wrap=True) for each in self._events]
        parts += [Text(each, style="yellow") for each in loss_sentences(interval.lost)]
        return Lines(*parts)

    def _stalled(self) -> Iterator[str]:
        for each in self._open.values():
            length = format_duration_ns(each.length_s * 1e9)
            yield f"stalled for {length}, {CAUSE_WORDS[each.cause]}: {each.text}"

    def _disks(self, interval: Interval) -> Table:
        groups = broken_down(interval.groups, ["disk", "operation"])
        known = {(each.disk, each.operation): each for each in groups}
        headers = ["Disk", "Operation", "Per second", "Bytes/s", "p50", "p99", "Max", "Recently"]
        rows = []
        for key in sorted(self._rates):
            group = known.get(key)
            figures = _figures(group, interval) if group else [NO_FIGURE] * 5
            rows.append([*key, *figures, bars(self._rates[key])])
        return _table(headers, rows, labels=2)

    def _most(self, interval: Interval, rows_max: int) -> Table | None:
        """Return the tables or processes with the most requests; None where none is known."""
        by = "relation" if any(each.relation for each in interval.groups) else "process"
        total = sum(each.requests for each in interval.groups)
        groups = [each for each in broken_down(interval.groups, [by]) if getattr(each, by)]
        if not groups or not total:
            return None
        # Those without a name come last, but are not left out.
        groups.sort(key=lambda each: (getattr(each, by) in UNKNOWN, -each.requests))
        label = "Table or index" if by == "relation" else "Process"
        headers = [label, "Share", "Per second", "Bytes/s", "p50", "p99", "Max"]
        rows = [
            [getattr(each, by), format_share(each.requests / total), *_figures(each, interval)]
            for each in groups[:rows_max]
        ]
        return _table(headers, rows, labels=1)

    def _heat_lines(self) -> Iterator[str]:
        highest = max(max(each.values(), default=0) for each in self._heat)
        yield f"Latency over the last {len(self._heat)} intervals, darkest: {highest} requests"
        for row, low_ns in enumerate(_HALF_DECADES):
            label = format_duration_ns(low_ns) if row % 2 else ""
            shades = "".join(shade(each[row], highest) for each in self._heat)
            yield f"{label:>8} │{shades}"


def heat_column(groups: Iterable[RequestGroup]) -> Counter[int]:
    """Return how many requests are in each row of the heat map; row 0 is the slowest."""
    found: Counter[int] = Counter()
    for group in groups:
        if group.device is None:
            continue
        lowers, _, counts = group.device.buckets()
        for lower_ns, count in zip(lowers, counts, strict=True):
            row = next(
                (row for row, low_ns in enumerate(_HALF_DECADES) if lower_ns >= low_ns),
                len(_HALF_DECADES) - 1,
            )
            found[row] += count
    return found


def shade(count: int, highest: int) -> str:
    """Return the shade of a count: none for 0, else by its share of the digits of the highest."""
    if not count:
        return _SHADES[0]
    share = (len(bin(count)) - 2) / (len(bin(highest)) - 2)
    return _SHADES[min(len(_SHADES) - 1, 1 + int(share * (len(_SHADES) - 1.01)))]


def _figures(group: RequestGroup, interval: Interval) -> list[str]:
    rate = format_iops(group.requests / interval.seconds).removesuffix(" IOPS")
    rate_bytes = group.transferred_bytes / interval.seconds
    bytes_text = format_rate_bytes(rate_bytes) if rate_bytes else NO_FIGURE
    if group.device is None or not group.device.count:
        mean = format_duration_ns(group.device_ns_sum / max(1, group.requests))
        return [rate, bytes_text, f"mean {mean}", NO_FIGURE, NO_FIGURE]
    times = (group.device.percentile_ns(percent) for percent in (50.0, 99.0, 100.0))
    return [rate, bytes_text, *map(format_duration_ns, times)]


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> Table:
    from rich.table import Table  # noqa: PLC0415 - loaded on a terminal only
    from rich.text import Text  # noqa: PLC0415 - likewise

    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, header in enumerate(headers):
        is_left = index < labels or header == "Recently"
        table.add_column(header, justify="left" if is_left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(each) for each in row))
    return table
