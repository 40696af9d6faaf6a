"""Which column behind the bytes of a log line is the request's time.

A column with a name (``rt=0.012``) says it. Of those without, the time is the one with three
decimals or more, as nginx and most others print seconds; of several such, the one that is never
less than the others, for a request takes at least as long as its parts (``$request_time`` and
``$upstream_response_time``). Two decimals are those of a ratio (``$gzip_ratio``). Whole numbers
may be times (Apache's ``%D``), lengths (``$request_length``, ``%I``, ``%O``), ports or numbers of
connections: one alone is taken, several are not told apart unless one is the other in a larger
unit (``%D %T``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.access_log.pages import TOOK_S_MAX

QUOTED: Final = rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
NAMES: Final = (b"request_time", b"rt", b"duration", b"time_taken", b"response_time", b"took", b"d")
SHARE_MIN: Final = 0.9
DECIMALS_MIN: Final = 3
CONSTANT_FROM_LINES: Final = 10
"""A number that is the same in so many lines is a port or the like, and no time."""
LARGER_UNITS: Final = (1_000, 1_000_000)
_FIGURE: Final = re.compile(rb'"?(?:([A-Za-z_]+)[=:])?"?(\d+(?:\.\d+)?)"?')

Row = Sequence[bytes]
"""What stands behind the bytes of one line, column by column."""


class Line(msgspec.Struct, frozen=True):
    """One line, as far as the time is sought in it.

    Attributes:
        status: Of the request.
        row: What stands behind the bytes.
    """

    status: bytes
    row: Row


def place_of_time(lines: Sequence[Line], column: int | None) -> int | None:
    """Return which column behind the bytes is the time, from 0; None where none can be it.

    It has to be a figure in nine lines of ten; what was never sent to the application has a dash.

    Args:
        lines: Some lines of a log.
        column: The column, from 1, where the user told it.

    Raises:
        UsageError: when several may be it, or when that of the user holds no figures.
    """
    rows = [line.row for line in lines]
    usual = _usual(rows)
    if column is not None:
        if column - 1 not in usual:
            raise _no_figures(rows, column)
        return column - 1
    for name in NAMES:
        for place in usual:
            if any(_name(row, place) == name for row in rows):
                return place
    plain = [place for place in usual if not any(_name(row, place) for row in rows)]
    columns = {place: [figure(row, place) for row in rows] for place in plain}
    decimal = [place for place in plain if _has_decimals_of_time(columns[place])]
    if decimal:
        whole = [place for place in decimal if _is_the_whole(columns, place, decimal)]
        return _only(whole[:1] or decimal, rows)
    others = [place for place in plain if _may_be_time(lines, columns[place])]
    if len(others) == 1 and b"." in b"".join(filter(None, columns[others[0]])):
        raise _ratio(rows, others[0])
    finest = [place for place in others if _is_finest(columns, place, others)]
    return _only(finest or others, rows)


def figure(row: Row, place: int) -> bytes | None:
    """Return the figure of a column, without its name and quotes; None where it holds none."""
    matched = _FIGURE.fullmatch(row[place]) if len(row) > place else None
    return matched[2] if matched else None


def name_of(rows: Sequence[Row], place: int) -> str:
    """Return the name that a column gives its figures; empty where it gives none."""
    return next((name.decode() for row in rows if (name := _name(row, place))), "")


def _usual(rows: Sequence[Row]) -> list[int]:
    return [
        place
        for place in range(max(map(len, rows), default=0))
        if sum(figure(row, place) is not None for row in rows) >= SHARE_MIN * len(rows) / 2
        and sum(figure(row, place) is not None or _is_dash(row, place) for row in rows)
        >= SHARE_MIN * len(rows)
    ]


def _name(row: Row, place: int) -> bytes:
    matched = _FIGURE.fullmatch(row[place]) if len(row) > place else None
    return (matched[1] or b"").lower() if matched else b""


def _is_dash(row: Row, place: int) -> bool:
    return len(row) > place and row[place] in (b"-", b'"-"')


Figures = Sequence[bytes | None]


def _has_decimals_of_time(column: Figures) -> bool:
    """Tell whether most figures have the decimals of seconds, and none is a clock's."""
    reported = [each for each in column if each is not None]
    fine = [each for each in reported if len(each.partition(b".")[2]) >= DECIMALS_MIN]
    short = [each for each in reported if float(each) <= TOOK_S_MAX]
    return len(fine) >= len(reported) / 2 and len(short) >= SHARE_MIN * len(reported)


def _is_the_whole(columns: Mapping[int, Figures], place: int, others: Sequence[int]) -> bool:
    """Tell whether a column is at least as much as the others, in nine lines of ten of each."""
    return all(
        _share(columns[place], columns[other], lambda own, part: own >= part) >= SHARE_MIN
        for other in others
        if other != place
    )


def _share(one: Figures, other: Figures, is_so: Callable[[float, float], bool]) -> float:
    """Return in how many of the lines that have both something is so; 1 where none has both."""
    pairs = [
        (float(a), float(b))
        for a, b in zip(one, other, strict=True)
        if a is not None and b is not None
    ]
    return sum(is_so(a, b) for a, b in pairs) / len(pairs) if pairs else 1.0


def _may_be_time(lines: Sequence[Line], column: Figures) -> bool:
    """Tell whether numbers may be times: neither one throughout, nor the status, nor a clock's.

    That all are 0 is no sign: so it is with whole seconds.
    """
    reported = {each for each in column if each is not None}
    if any(b"." in each and float(each) > TOOK_S_MAX for each in reported):
        return False
    is_constant = len(reported) == 1 and reported != {b"0"} and len(lines) >= CONSTANT_FROM_LINES
    statuses = sum(each == line.status for line, each in zip(lines, column, strict=True))
    return not is_constant and statuses < SHARE_MIN * len(lines)


def _is_finest(columns: Mapping[int, Figures], place: int, others: Sequence[int]) -> bool:
    """Tell whether every other column is this one in a larger unit, and some line shows it."""
    return len(others) > 1 and all(
        any(_is_larger_unit(columns[place], columns[other], unit) for unit in LARGER_UNITS)
        for other in others
        if other != place
    )


def _is_larger_unit(fine: Figures, coarse: Figures, unit: int) -> bool:
    is_so = _share(fine, coarse, lambda own, other: own // unit == other) == 1.0
    return is_so and len({each for each in coarse if each is not None}) > 1


def _only(places: Sequence[int], rows: Sequence[Row]) -> int | None:
    if len(places) > 1:
        raise _several(places, rows)
    return places[0] if places else None


def _example(rows: Sequence[Row], place: int) -> str:
    found = next((row[place] for row in rows if figure(row, place) is not None), b"")
    return found.decode("utf-8", "replace")


def _several(places: Sequence[int], rows: Sequence[Row]) -> UsageError:
    reported = [f"{place + 1} (such as {_example(rows, place)})" for place in places]
    return UsageError(
        seen=f"Several columns behind the bytes may be the request's time: {', '.join(reported)}",
        cause="Lengths, ports and times are all numbers; where none has decimals, as seconds have, "
        "they are not distinguished",
        next_step="Say which it is with --time-column, counted behind the bytes and a quoted text "
        f"being one, such as --time-column {places[-1] + 1}; its unit with --time-unit",
    )


def _ratio(rows: Sequence[Row], place: int) -> UsageError:
    return UsageError(
        seen=f"Column {place + 1} behind the bytes (such as {_example(rows, place)}) has decimals, "
        "but fewer than a time in seconds has",
        cause="It may be a ratio, as nginx's $gzip_ratio is",
        next_step=f"If it is the request's time, say so with --time-column {place + 1}; else log "
        "$request_time too",
    )


def _no_figures(rows: Sequence[Row], column: int) -> UsageError:
    found = next((row[column - 1] for row in rows if len(row) >= column), b"")
    reported = f", but texts such as {found.decode('utf-8', 'replace')}" if found else ""
    return UsageError(
        seen=f"Column {column} behind the bytes holds no times{reported}",
        cause="Columns are counted from 1, behind status and bytes, and a quoted text is one",
        next_step="Look at a line of the log, and give --time-column the column of the time",
    )
