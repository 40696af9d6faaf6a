"""Lines of the common and the combined log format, followed by the request's time.

The formats are those of Apache's mod_log_config and nginx's ngx_http_log_module: host, ident, user,
``[time]``, ``"request"``, status, bytes; in the combined one referrer and agent as well. The
request's time is in an additional column: nginx's ``$request_time`` (seconds with three decimals),
Apache's ``%D`` (microseconds), ``%T`` (whole seconds) or ``%{ms}T``, alone, quoted or as
``rt=0.012``.

A column with a name (``rt=0.012``) is preferred. Of those without, the time is the one with three
decimals or more, the usual format of seconds; of several such, the one that is never less than the
others, because a request takes at least as long as its parts (``$request_time`` and
``$upstream_response_time``). Two decimals are those of a ratio (``$gzip_ratio``). Integers may be
times (Apache's ``%D``), lengths (``$request_length``, ``%I``, ``%O``), ports or numbers of
connections: a single one is used; several are ambiguous unless one is the other in a larger unit
(``%D %T``).
"""

from __future__ import annotations

import datetime
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.access_log.pages import TOOK_S_MAX

QUOTED: Final = rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
NAMES: Final = (b"request_time", b"rt", b"duration", b"time_taken", b"response_time", b"took", b"d")
SHARE_MIN: Final = 0.9
DECIMALS_MIN: Final = 3
CONSTANT_FROM_LINES: Final = 10
"""A number that is the same in so many lines is a port or the like, not a time."""
LARGER_UNITS: Final = (1_000, 1_000_000)
_FIGURE: Final = re.compile(rb'"?(?:([A-Za-z_]+)[=:])?"?(\d+(?:\.\d+)?)"?')

Row = Sequence[bytes]
"""The columns after the bytes of one line."""


class Line(msgspec.Struct, frozen=True):
    """One line, as needed to find the time.

    Attributes:
        status: Status of the request.
        row: The columns after the bytes.
    """

    status: bytes
    row: Row


def time_index(lines: Sequence[Line], column: int | None) -> int | None:
    """Return the index of the column after the bytes that is the time; None if there is none.

    It must be a number in nine lines of ten; requests not sent to the application have a dash.

    Args:
        lines: Some lines of a log.
        column: The column, from 1, if specified by the user.

    Raises:
        UsageError: when several may be it, or the user's column has no numbers.
    """
    rows = [line.row for line in lines]
    usual = _usual(rows)
    if column is not None:
        if column - 1 not in usual:
            raise _no_figures(rows, column)
        return column - 1
    for name in NAMES:
        for index in usual:
            if any(_name(row, index) == name for row in rows):
                return index
    plain = [index for index in usual if not any(_name(row, index) for row in rows)]
    columns = {index: [figure(row, index) for row in rows] for index in plain}
    decimal = [index for index in plain if _has_decimals_of_time(columns[index])]
    if decimal:
        whole = [index for index in decimal if _is_the_whole(columns, index, decimal)]
        return _only(whole[:1] or decimal, rows)
    others = [index for index in plain if _may_be_time(lines, columns[index])]
    if len(others) == 1 and b"." in b"".join(filter(None, columns[others[0]])):
        raise _ratio(rows, others[0])
    finest = [index for index in others if _is_finest(columns, index, others)]
    return _only(finest or others, rows)


def figure(row: Row, index: int) -> bytes | None:
    """Return the number in a column, without its name and quotes; None if it has none."""
    matched = _FIGURE.fullmatch(row[index]) if len(row) > index else None
    return matched[2] if matched else None


def name_of(rows: Sequence[Row], index: int) -> str:
    """Return the name that a column gives its numbers; empty for none."""
    return next((name.decode() for row in rows if (name := _name(row, index))), "")


def _usual(rows: Sequence[Row]) -> list[int]:
    return [
        index
        for index in range(max(map(len, rows), default=0))
        if sum(figure(row, index) is not None for row in rows) >= SHARE_MIN * len(rows) / 2
        and sum(figure(row, index) is not None or _is_dash(row, index) for row in rows)
        >= SHARE_MIN * len(rows)
    ]


def _name(row: Row, index: int) -> bytes:
    matched = _FIGURE.fullmatch(row[index]) if len(row) > index else None
    return (matched[1] or b"").lower() if matched else b""


def _is_dash(row: Row, index: int) -> bool:
    return len(row) > index and row[index] in (b"-", b'"-"')


Figures = Sequence[bytes | None]


def _has_decimals_of_time(column: Figures) -> bool:
    """Return whether most numbers have the decimals of seconds, and none is a clock time."""
    values = [each for each in column if each is not None]
    fine = [each for each in values if len(each.partition(b".")[2]) >= DECIMALS_MIN]
    short = [each for each in values if float(each) <= TOOK_S_MAX]
    return len(fine) >= len(values) / 2 and len(short) >= SHARE_MIN * len(values)


def _is_the_whole(columns: Mapping[int, Figures], index: int, others: Sequence[int]) -> bool:
    """Return whether a column is at least as large as the others, in nine lines of ten of each."""
    return all(
        _share(columns[index], columns[other], lambda own, part: own >= part) >= SHARE_MIN
        for other in others
        if other != index
    )


def _share(one: Figures, other: Figures, is_so: Callable[[float, float], bool]) -> float:
    """Return the share of lines with both numbers that satisfy a condition; 1 without any."""
    pairs = [
        (float(a), float(b))
        for a, b in zip(one, other, strict=True)
        if a is not None and b is not None
    ]
    return sum(is_so(a, b) for a, b in pairs) / len(pairs) if pairs else 1.0


def _may_be_time(lines: Sequence[Line], column: Figures) -> bool:
    """Return whether numbers may be times: neither constant, nor the status, nor clock times.

    All zeros are allowed, as with whole seconds.
    """
    values = {each for each in column if each is not None}
    if any(b"." in each and float(each) > TOOK_S_MAX for each in values):
        return False
    is_constant = len(values) == 1 and values != {b"0"} and len(lines) >= CONSTANT_FROM_LINES
    statuses = sum(each == line.status for line, each in zip(lines, column, strict=True))
    return not is_constant and statuses < SHARE_MIN * len(lines)


def _is_finest(columns: Mapping[int, Figures], index: int, others: Sequence[int]) -> bool:
    """Return whether every other column is this one in a larger unit, as some line shows."""
    return len(others) > 1 and all(
        any(_is_larger_unit(columns[index], columns[other], unit) for unit in LARGER_UNITS)
        for other in others
        if other != index
    )


def _is_larger_unit(fine: Figures, coarse: Figures, unit: int) -> bool:
    is_so = _share(fine, coarse, lambda own, other: own // unit == other) == 1.0
    return is_so and len({each for each in coarse if each is not None}) > 1


def _only(indexes: Sequence[int], rows: Sequence[Row]) -> int | None:
    if len(indexes) > 1:
        raise _several(indexes, rows)
    return indexes[0] if indexes else None


def _example(rows: Sequence[Row], index: int) -> str:
    found = next((row[index] for row in rows if figure(row, index) is not None), b"")
    return found.decode("utf-8", "replace")


def _several(indexes: Sequence[int], rows: Sequence[Row]) -> UsageError:
    texts = [f"{index + 1} (such as {_example(rows, index)})" for index in indexes]
    return UsageError(
        seen=f"Several columns after the bytes may contain the request time: {', '.join(texts)}",
        cause="Lengths, ports and times are all numbers; without decimals they cannot be "
        "distinguished",
        next_step="Specify the column with --time-column, counted after the bytes, where a "
        f"quoted string is one column, such as --time-column {indexes[-1] + 1}; and its unit "
        "with --time-unit",
    )


def _ratio(rows: Sequence[Row], index: int) -> UsageError:
    return UsageError(
        seen=f"Column {index + 1} after the bytes (such as {_example(rows, index)}) has "
        "decimals, but fewer than a time in seconds",
        cause="It may be a ratio, such as nginx's $gzip_ratio",
        next_step=f"If it is the request time, use --time-column {index + 1}; otherwise also log "
        "$request_time",
    )


def _no_figures(rows: Sequence[Row], column: int) -> UsageError:
    found = next((row[column - 1] for row in rows if len(row) >= column), b"")
    text = f", but text such as {found.decode('utf-8', 'replace')}" if found else ""
    return UsageError(
        seen=f"Column {column} after the bytes contains no times{text}",
        cause="Columns are counted from 1, after status and bytes; a quoted string is one column",
        next_step="Check a line of the log, and set --time-column to the column of the time",
    )


HEAD: Final = (
    rb'^[^\[\n]++\[([^\]\n]{20,32})\] "([A-Z]{3,10}) ([^ "\n]++)[^"\n]*+" (\d{3}) (?:\d++|-)'
)
"""A line up to the bytes: time, method, target, status."""
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
    """Position and unit of the request's time in a line.

    Attributes:
        pattern: Pattern of a whole line: time, method, target, status, the request's time.
        scale: Factor that converts it to seconds; 0 if unknown.
        time_source: A phrase for the user.
    """

    pattern: bytes
    scale: float
    time_source: str


def is_line(line: bytes) -> bool:
    """Return whether a line is one of these formats, with or without a request's time."""
    return _HEAD.match(line) is not None


def find_time(
    lines: Iterable[bytes], unit_s: float | None, column: int | None = None
) -> TimeColumn | None:
    """Return the position of the request's time, by some lines; None if absent.

    Args:
        lines: The first lines of a log.
        unit_s: The time's unit, if specified by the user; otherwise it is inferred from the word
            after the numbers, or from the numbers: decimals are seconds; integers are microseconds
            if half of them are 1,000 and more.
        column: The column after the bytes, from 1, if specified by the user.

    Raises:
        UsageError: when several columns may be the time, or the user's column has no numbers.
    """
    found = [
        Line(matched[4], _TOKEN.findall(line, matched.end()))
        for line in lines
        if (matched := _HEAD.match(line)) is not None
    ]
    rows = [each.row for each in found]
    index = time_index(found, column) if found else None
    if index is None:
        return None
    figures = [reported for row in rows if (reported := figure(row, index)) is not None]
    name = name_of(rows, index)
    scale, unit = _scale(figures, unit_s or _unit_behind(rows, index))
    time_source = f"{name}= in " if name else f"column {index + 1} after the bytes, in "
    skipped = (rb" (?:" + QUOTED + rb"|[^ \n]++)") * index
    pattern = HEAD + skipped + rb' "?(?:[A-Za-z_]+[=:])?"?(\d+(?:\.\d+)?|-)'
    return TimeColumn(pattern=pattern, scale=scale, time_source=time_source + unit)


def _unit_behind(rows: Sequence[Row], index: int) -> float | None:
    """Return the unit after the numbers, as in ``12.345 ms``."""
    for scale, word in ((1.0, b"s"), (1e-3, b"ms"), (1e-6, b"us")):
        count = sum(len(row) > index + 1 and row[index + 1] == word for row in rows)
        if count >= SHARE_MIN * len(rows):
            return scale
    return None


def _scale(figures: Sequence[bytes], unit_s: float | None) -> tuple[float, str]:
    """Return the factor that converts a number to seconds, and its unit in words."""
    if unit_s is not None:
        return unit_s, _UNITS_S[unit_s]
    if any(b"." in each for each in figures):
        return 1.0, "s"
    if statistics.median(map(int, figures)) >= MICROSECONDS_FROM:
        return 1e-6, "µs"
    return 0.0, "an unknown unit"


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


TIMES: Final = {
    "request_time": 1.0,
    "requestTime": 1.0,
    "upstream_response_time": 1.0,
    "time_taken": 1.0,
    "response_time": 0.0,
    "responseTime": 0.0,
    "duration": 0.0,
    "Duration": 1e-9,
    "latency": 0.0,
    "elapsed": 0.0,
    "took": 0.0,
}
"""Names of a request's time with their unit in s, in order of preference; 0 where the unit is not
fixed: Caddy's ``duration`` is in seconds, others' in milliseconds. Traefik's ``Duration`` is in
nanoseconds."""
FIGURE_MAX: Final = 1e18
CLOCK_S_MAX: Final = 1e10
"""The year 2286."""
UNITS_S: Final = {
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "millis": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "micros": 1e-6,
    "ns": 1e-9,
    "nanos": 1e-9,
}
TARGETS: Final = ("request_uri", "uri", "url", "path", "RequestPath", "http_path", "target")
METHODS: Final = ("request_method", "method", "RequestMethod", "http_method", "verb")
STATUSES: Final = ("status", "status_code", "DownstreamStatus", "response_code", "http_status")
CLOCKS: Final = (
    "time_iso8601",
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "msec",
    "StartUTC",
    "start_time",
    "time_local",
    "date",
)
_SPOKEN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµ]+)?")
_BY_SUFFIX: Final = re.compile(
    r"(?:request|response|req|total)?_?(?:time|duration|latency|elapsed|took)_(s|sec|seconds|ms|"
    r"msec|millis|us|micros|ns|nanos)"
)


class JsonKeys(msgspec.Struct, frozen=True):
    """The keys of each object.

    Attributes:
        time: Name of the request's time.
        unit_s: Its unit in s; 0 if unknown.
    """

    time: str
    unit_s: float


def find_keys(rows: Iterable[Mapping[str, Any]], unit_s: float | None) -> JsonKeys | None:
    """Return the name and the unit of the request's time, by some objects; None without.

    Args:
        rows: The first objects.
        unit_s: The unit, if specified by the user.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if matched := _BY_SUFFIX.fullmatch(name.lower()):
            return JsonKeys(name, unit_s or UNITS_S[matched[1]])
    for name, usual_s in TIMES.items():
        if name in names:
            return JsonKeys(name, unit_s or usual_s or _by_phrase(rows, name))
    return None


def _by_phrase(rows: Iterable[Mapping[str, Any]], name: str) -> float:
    """Return 1 if the values include their unit, such as ``12.5ms``; else 0."""
    values = [row[name] for row in rows if name in row]
    spoken = [_SPOKEN.fullmatch(each) for each in values if isinstance(each, str)]
    return 1.0 if spoken and all(each and each[2] in UNITS_S for each in spoken) else 0.0


def took_s(row: Mapping[str, Any], keys: JsonKeys) -> float | None:
    """Return the time of a request in s; None if it has none."""
    value = row.get(keys.time)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) * keys.unit_s if abs(value) < FIGURE_MAX else None
    if isinstance(value, str) and (matched := _SPOKEN.fullmatch(value.strip())):
        return float(matched[1]) * (UNITS_S.get(matched[2] or "") or keys.unit_s)
    return None


def request_of(row: Mapping[str, Any]) -> tuple[str, str, int, Any] | None:
    """Return method, target, status and clock time; None for other objects."""
    inner = row.get("request")
    if isinstance(inner, Mapping):  # Caddy's
        row = {**inner, **{name: value for name, value in row.items() if name != "request"}}
        inner = None
    method, target = _first(row, METHODS), _first(row, TARGETS)
    if target is None and isinstance(inner, str):
        method, _, rest = inner.partition(" ")
        target = rest.partition(" ")[0]
    status = _first(row, STATUSES)
    try:
        code = int(status) if status is not None else 200
    except (TypeError, ValueError, OverflowError):
        return None
    if not isinstance(target, str) or not target:
        return None
    return str(method or "GET"), target, code, _first(row, CLOCKS)


def json_clock_s(reported: Any) -> float | None:  # noqa: ANN401 - whatever JSON holds
    """Return a clock time as Unix time in s; None if it is invalid."""
    if isinstance(reported, int | float) and not isinstance(reported, bool):
        scale = (
            1 if reported < 1e11 else 1e3 if reported < 1e14 else 1e6 if reported < 1e17 else 1e9
        )
        return reported / scale if 0 < reported < CLOCK_S_MAX * scale else None
    if not isinstance(reported, str):
        return None
    try:
        parsed = datetime.datetime.fromisoformat(reported)
    except ValueError:
        return _seconds(reported) or _of_lines(reported)
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.UTC)
    seconds = parsed.timestamp()
    return seconds if 0 < seconds < CLOCK_S_MAX else None


def _seconds(reported: str) -> float | None:
    """Return a decimal number, such as nginx's ``$msec``; None for anything else."""
    try:
        number = float(reported)
    except ValueError:
        return None
    return number if 0 < number < CLOCK_S_MAX else None


def _of_lines(reported: str) -> float | None:
    """Return a time in the format of the common log format, such as nginx's $time_local."""
    try:
        seconds = clock_s(reported.encode())
    except (ValueError, KeyError, OverflowError, IndexError):
        return None
    return seconds if 0 < seconds < CLOCK_S_MAX else None


def _first(row: Mapping[str, Any], names: Iterable[str]) -> Any:  # noqa: ANN401
    for name in names:
        value = row.get(name)
        if value is not None and value != "":
            return value
    return None
