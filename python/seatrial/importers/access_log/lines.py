"""Lines of the common and the combined log format, with the request's time behind them.

The formats are those of Apache's mod_log_config and nginx's ngx_http_log_module: host, ident,
user, ``[time]``, ``"request"``, status, bytes; of the combined one referrer and agent as well. A
request's time is what whoever set up the log put behind that: nginx's ``$request_time`` (seconds
with three decimals), Apache's ``%D`` (microseconds), ``%T`` (whole seconds) or ``%{ms}T``, alone,
quoted or as ``rt=0.012``.
"""

from __future__ import annotations

import datetime
import re
import statistics
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from seatrial.importers.access_log.places import (
    QUOTED,
    SHARE_MIN,
    Line,
    Row,
    figure,
    name_of,
    place_of_time,
)

HEAD: Final = (
    rb'^[^\[\n]++\[([^\]\n]{20,32})\] "([A-Z]{3,10}) ([^ "\n]++)[^"\n]*+" (\d{3}) (?:\d++|-)'
)
"""Up to the bytes: time, method, target, status."""
LINES_GUESSED: Final = 1_000
MICROSECONDS_FROM: Final = 1_000
_TOKEN: Final = re.compile(rb" (" + QUOTED + rb"|[^ \n]+)")
_HEAD: Final = re.compile(HEAD)
_UNITS_S: Final = {1.0: "s", 1e-3: "ms", 1e-6: "µs", 1e-9: "ns"}
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}


class TimeColumn(msgspec.Struct, frozen=True):
    """Where the time of a request stands in a line.

    Attributes:
        pattern: Of a whole line: time, method, target, status, the request's time.
        scale: What makes seconds of it; 0 where that cannot be told.
        time_source: As a phrase, for the user.
    """

    pattern: bytes
    scale: float
    time_source: str


def is_line(line: bytes) -> bool:
    """Tell whether a line is one of these formats, with or without a request's time."""
    return _HEAD.match(line) is not None


def find_time(
    lines: Iterable[bytes], unit_s: float | None, column: int | None = None
) -> TimeColumn | None:
    """Return where the request's time stands, judged by some lines; None where there is none.

    Args:
        lines: The first ones of a log.
        unit_s: The time's unit, where the user told it; else it is told by the word behind the
            figures, or by the figures: decimals are seconds; whole numbers are microseconds if
            half of them are 1,000 and more.
        column: The column behind the bytes, from 1, where the user told it.

    Raises:
        UsageError: when several columns may be the time, or that of the user holds no figures.
    """
    found = [
        Line(matched[4], _TOKEN.findall(line, matched.end()))
        for line in lines
        if (matched := _HEAD.match(line)) is not None
    ]
    rows = [each.row for each in found]
    place = place_of_time(found, column) if found else None
    if place is None:
        return None
    figures = [reported for row in rows if (reported := figure(row, place)) is not None]
    name = name_of(rows, place)
    scale, unit = _scale(figures, unit_s or _unit_behind(rows, place))
    time_source = f"{name}= in " if name else f"column {place + 1} behind the bytes, in "
    skipped = (rb" (?:" + QUOTED + rb"|[^ \n]++)") * place
    pattern = HEAD + skipped + rb' "?(?:[A-Za-z_]+[=:])?"?(\d+(?:\.\d+)?|-)'
    return TimeColumn(pattern=pattern, scale=scale, time_source=time_source + unit)


def _unit_behind(rows: Sequence[Row], place: int) -> float | None:
    """Return the unit that stands behind the figures as a word, as in ``12.345 ms``."""
    for scale, word in ((1.0, b"s"), (1e-3, b"ms"), (1e-6, b"us")):
        count = sum(len(row) > place + 1 and row[place + 1] == word for row in rows)
        if count >= SHARE_MIN * len(rows):
            return scale
    return None


def _scale(figures: Sequence[bytes], unit_s: float | None) -> tuple[float, str]:
    """Return what makes seconds of a figure, and its unit in words."""
    if unit_s is not None:
        return unit_s, _UNITS_S[unit_s]
    if any(b"." in each for each in figures):
        return 1.0, "s"
    if statistics.median(map(int, figures)) >= MICROSECONDS_FROM:
        return 1e-6, "µs"
    return 0.0, "a unit that its figures do not tell"


def clock_s(text: bytes) -> float:
    """Return ``10/Oct/2000:13:55:36 -0700`` as Unix time in s; raises ValueError for others."""
    day, month, rest = text.decode("ascii", "replace").split("/", 2)
    year, hour, minute, tail = rest.split(":", 3)
    second, _, zone = tail.partition(" ")
    sign = -1 if zone.startswith("-") else 1
    offset = datetime.timedelta(hours=int(zone[1:3] or 0), minutes=int(zone[3:5] or 0)) * sign
    return datetime.datetime(
        int(year),
        _MONTHS[month],
        int(day),
        int(hour),
        int(minute),
        int(float(second)),
        tzinfo=datetime.timezone(offset),
    ).timestamp()
