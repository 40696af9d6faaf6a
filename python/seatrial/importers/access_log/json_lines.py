"""JSON lines: one object a request, under the names that nginx, Caddy, Traefik and others give."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from seatrial.importers.access_log import lines

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
"""Names of a request's time with their unit in s, in the order in which they are sought; 0 where
the name does not tell it: Caddy's ``duration`` is in seconds, others' in milliseconds. Traefik's
``Duration`` is in nanoseconds."""
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
    """Where things stand in each object.

    Attributes:
        time: Name of the request's time.
        unit_s: Its unit in s; 0 where that cannot be told.
    """

    time: str
    unit_s: float


def find_keys(rows: Iterable[Mapping[str, Any]], unit_s: float | None) -> JsonKeys | None:
    """Return the name and the unit of the request's time, judged by some objects; None without.

    Args:
        rows: The first ones.
        unit_s: The unit, where the user told it.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if matched := _BY_SUFFIX.fullmatch(name.lower()):
            return JsonKeys(name, unit_s or UNITS_S[matched[1]])
    for name, usual_s in TIMES.items():
        if name in names:
            return JsonKeys(name, unit_s or usual_s or _by_words(rows, name))
    return None


def _by_words(rows: Iterable[Mapping[str, Any]], name: str) -> float:
    """Return 1 where the figures themselves say their unit, such as ``12.5ms``; else 0."""
    reported = [row[name] for row in rows if name in row]
    spoken = [_SPOKEN.fullmatch(each) for each in reported if isinstance(each, str)]
    return 1.0 if spoken and all(each and each[2] in UNITS_S for each in spoken) else 0.0


def took_s(row: Mapping[str, Any], keys: JsonKeys) -> float | None:
    """Return the time of a request in s; None where it has none."""
    reported = row.get(keys.time)
    if isinstance(reported, int | float) and not isinstance(reported, bool):
        return float(reported) * keys.unit_s if abs(reported) < FIGURE_MAX else None
    if isinstance(reported, str) and (matched := _SPOKEN.fullmatch(reported.strip())):
        return float(matched[1]) * (UNITS_S.get(matched[2] or "") or keys.unit_s)
    return None


def request_of(row: Mapping[str, Any]) -> tuple[str, str, int, Any] | None:
    """Return method, target, status and time of the clock; None of what is no request."""
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


def clock_s(reported: Any) -> float | None:  # noqa: ANN401 - whatever JSON holds
    """Return a time of the clock as Unix time in s; None where it is none."""
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
    """Return a decimal number, such as nginx's ``$msec``, as it is; None for anything else."""
    try:
        number = float(reported)
    except ValueError:
        return None
    return number if 0 < number < CLOCK_S_MAX else None


def _of_lines(reported: str) -> float | None:
    """Return a time as the lines of the common format have it, such as nginx's $time_local."""
    try:
        seconds = lines.clock_s(reported.encode())
    except (ValueError, KeyError, OverflowError, IndexError):
        return None
    return seconds if 0 < seconds < CLOCK_S_MAX else None


def _first(row: Mapping[str, Any], names: Iterable[str]) -> Any:  # noqa: ANN401
    for name in names:
        reported = row.get(name)
        if reported is not None and reported != "":
            return reported
    return None
