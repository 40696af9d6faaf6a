"""An access log read once, in chunks: which format, where the time stands, then all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.access_log import json_lines, lines
from seatrial.importers.access_log.model import AccessLog
from seatrial.importers.access_log.packed import open_unpacked, reporting_damage
from seatrial.importers.access_log.pages import TOOK_S_MAX, Pages

CHUNK_BYTES: Final = 1 << 20
HEAD_BYTES: Final = 1 << 18
LINE_BYTES_MAX: Final = 1 << 20
UNREAD_SHARE_MAX: Final = 0.5
_CLOCKS_HELD_MAX: Final = 4_096


def is_access_log(path: Path) -> bool:
    """Tell whether a file begins as an access log does, in one of the formats that are read.

    Raises:
        UsageError: when it cannot be read or unpacked.
    """
    with reporting_damage(path):
        head = _first_lines(path)
    return any(map(lines.is_line, head)) or bool(_requests(head))


def read_access_log(
    paths: Sequence[Path], *, unit_s: float | None = None, column: int | None = None
) -> AccessLog:
    """Read an access log; several files are one log in pieces.

    Args:
        paths: The files, packed by gzip or zstd or not.
        unit_s: Unit of the request's time in s; None to tell it by its name or its figures.
        column: Column of the request's time behind the bytes, from 1; None to tell it by the
            figures.

    Raises:
        UsageError: when a file cannot be read, is no access log, has no request's time, or
            several columns that may be it.
    """
    reading = _Reading(unit_s, column)
    for path in paths:
        with reporting_damage(path):
            reading.take(path)
    return reading.finished()


class _Reading:
    """The sums of an access log while it is read."""

    def __init__(self, unit_s: float | None, column: int | None) -> None:
        self._unit_s = unit_s
        self._column = column
        self._pages = Pages()
        self._lines = self._unread = self._untimed = 0
        self._begin_s: float | None = None
        self._end_s: float | None = None
        self._time_source = ""

    def take(self, path: Path) -> None:
        """Read one file to its end."""
        head = _first_lines(path)
        lines_before, unread_before = self._lines, self._unread
        if any(map(lines.is_line, head)):
            found = lines.find_time(head, self._unit_s, self._column)
            self._take_lines(path, _time_of(found, path))
        elif rows := _requests(head):
            if self._column is not None:
                raise _no_columns(path)
            keys = json_lines.find_keys(rows, self._unit_s)
            self._take_json(path, _keys_of(keys, path))
        else:
            raise UsageError(
                seen=f"{path} is no access log that can be read",
                cause="It is neither the common nor the combined format, nor JSON lines with a "
                "path and a status",
                next_step="See docs/sql.md, Pages, for what is read",
            )
        if self._unread - unread_before > UNREAD_SHARE_MAX * (self._lines - lines_before):
            raise UsageError(
                seen=f"{self._unread - unread_before:,} of {self._lines - lines_before:,} lines "
                f"of {path} are no request with a time",
                cause="The format changes within the file, or is another than at its beginning",
                next_step="Split the file where the format changes",
            )

    def finished(self) -> AccessLog:
        """Return the sums."""
        pages, held = self._pages.finished(), self._pages
        known = held.first is not None and held.last is not None
        return AccessLog(
            pages=pages,
            begin_s=self._begin_s,
            end_s=self._end_s,
            slice_s=float(held.slice_s) if known else 0.0,
            slices=(held.last or 0) - (held.first or 0) + 1 if known else 0,
            lines=self._lines,
            unread=self._unread,
            untimed=self._untimed,
            only_errors=held.only_errors(),
            static=held.static,
            others=held.others,
            others_s=held.others_s,
            time_source=self._time_source,
        )

    def _take_lines(self, path: Path, found: lines.TimeColumn) -> None:
        self._time_source = found.time_source
        pattern = re.compile(found.pattern, re.MULTILINE)
        take, scale = self._pages.take, found.scale
        clocks: dict[bytes, float] = {}
        for chunk in _chunks(path):
            requests = pattern.findall(chunk)
            count = _line_count(chunk)
            self._lines += count
            self._unread += count - len(requests)
            for when, method, target, status, took in requests:
                at_s = clocks.get(when)
                if at_s is None:
                    at_s = self._clock(when, clocks)
                took_s = -1.0 if took == b"-" else float(took) * scale
                if not 0 <= took_s <= TOOK_S_MAX:
                    self._untimed += 1
                    continue
                take(
                    method.decode("ascii"),
                    target.decode("utf-8", "replace"),
                    int(status),
                    took_s,
                    at_s,
                )

    def _clock(self, when: bytes, clocks: dict[bytes, float]) -> float | None:
        """Return the time of a line, kept for the next lines; for none at all the last one."""
        try:
            at_s = lines.clock_s(when)
        except (ValueError, KeyError, OverflowError, IndexError):
            return self._end_s
        if len(clocks) >= _CLOCKS_HELD_MAX:
            clocks.clear()
        clocks[when] = at_s
        self._seen(at_s)
        return at_s

    def _take_json(self, path: Path, keys: json_lines.JsonKeys) -> None:
        self._time_source = f"{keys.time}, in units of {keys.unit_s:g} s"
        decode = msgspec.json.Decoder().decode
        for chunk in _chunks(path):
            for line in chunk.splitlines():
                if not line:
                    continue
                self._lines += 1
                try:
                    row = decode(line)
                except msgspec.DecodeError:
                    row = None
                if not isinstance(row, dict) or not self._take_row(row, keys):
                    self._unread += 1

    def _take_row(self, row: dict[str, Any], keys: json_lines.JsonKeys) -> bool:
        """Add one object; tell whether it is a request."""
        request = json_lines.request_of(row)
        if request is None:
            return False
        took_s = json_lines.took_s(row, keys)
        if took_s is None or not 0 <= took_s <= TOOK_S_MAX:
            self._untimed += 1
            return True
        method, target, status, when = request
        at_s = json_lines.clock_s(when)
        if at_s is None:
            at_s = self._end_s
        else:
            self._seen(at_s)
        self._pages.take(method, target, status, took_s, at_s)
        return True

    def _seen(self, at_s: float) -> None:
        self._begin_s = at_s if self._begin_s is None else min(self._begin_s, at_s)
        self._end_s = at_s if self._end_s is None else max(self._end_s, at_s)


def _time_of(found: lines.TimeColumn | None, path: Path) -> lines.TimeColumn:
    if found is None:
        raise _no_time(path)
    if not found.scale:
        raise _no_unit(path, found.time_source.partition(",")[0])
    return found


def _keys_of(keys: json_lines.JsonKeys | None, path: Path) -> json_lines.JsonKeys:
    if keys is None:
        raise _no_time(path)
    if not keys.unit_s:
        raise _no_unit(path, keys.time)
    return keys


def _no_time(path: Path) -> UsageError:
    return UsageError(
        seen=f"{path} does not tell how long a request took",
        cause="The common and the combined format have no such column",
        next_step="Add $request_time to nginx's log_format, or %D to Apache's LogFormat, at the "
        "end of the line, and log anew",
    )


def _no_columns(path: Path) -> UsageError:
    return UsageError(
        seen=f"--time-column is given, and {path} holds JSON lines",
        cause="Their figures have names, and no columns",
        next_step="Leave --time-column out",
    )


def _no_unit(path: Path, where: str) -> UsageError:
    return UsageError(
        seen=f"The unit of the times in {path} cannot be told ({where})",
        cause="Small whole numbers may be seconds, milliseconds or microseconds, and some names "
        "are used for several units",
        next_step="Say it with --time-unit s, ms, us or ns",
    )


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield a file in chunks of whole lines; a line beyond 1 MiB is cut into pieces."""
    rest = b""
    with open_unpacked(path) as file:
        while block := file.read(CHUNK_BYTES):
            block = rest + block
            end = block.rfind(b"\n") + 1
            if not end and len(block) < LINE_BYTES_MAX:
                rest = block
                continue
            end = end or len(block)
            yield block[:end]
            rest = block[end:]
    if rest:
        yield rest


def _line_count(chunk: bytes) -> int:
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


def _first_lines(path: Path) -> list[bytes]:
    with open_unpacked(path) as file:
        head = file.read(HEAD_BYTES)
    whole = head.splitlines()
    if len(head) == HEAD_BYTES and len(whole) > 1:
        whole.pop()
    return whole[: lines.LINES_GUESSED]


def _requests(head: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the objects among the first lines that are requests."""
    found = []
    for line in head:
        try:
            row = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(row, dict) and _is_reported(row) and json_lines.request_of(row):
            found.append(row)
    return found


def _is_reported(row: dict[str, Any]) -> bool:
    """Tell whether an object has the status of a request: PostgreSQL's logs have none."""
    return any(name in row for name in json_lines.STATUSES)
