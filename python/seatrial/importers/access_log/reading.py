"""Reads an access log once, in chunks: detects its format and time column, then sums it."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.access_log import lines
from seatrial.importers.access_log.pages import TOOK_S_MAX, AccessLog, Pages
from seatrial.importers.document import unreadable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@dataclass(frozen=True)
class _Packer:
    """A compression format: its magic number and its reader."""

    program: str
    magic: bytes
    unpack: Callable[[BinaryIO], Any]


_PACKERS: Final = (
    _Packer("gzip", b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    _Packer("zstd", b"\x28\xb5\x2f\xfd", zstd.ZstdFile),
)
_MAGIC_BYTES: Final = max(len(each.magic) for each in _PACKERS)
_DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError)


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file, decompressing gzip and zstd, recognised by their first bytes.

    Raises:
        UsageError: when it cannot be opened.
    """
    try:
        file = path.open("rb")
        packer = _packer(file.read(_MAGIC_BYTES))
        file.seek(0)
    except OSError as error:
        raise unreadable(path, error) from None
    return packer.unpack(file) if packer else file


@contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Turn decompression errors into a usage error.

    Raises:
        UsageError: when it is damaged.
    """
    try:
        yield
    except _DAMAGED as error:
        with path.open("rb") as file:
            packer = _packer(file.read(_MAGIC_BYTES))
        program = packer.program if packer else "file"
        raise UsageError(
            seen=f"{path} cannot be decompressed: {error}",
            cause="The file is truncated or damaged",
            next_step=f"Check `{program} -t {path}`, and copy the file again",
        ) from None


def _packer(head: bytes) -> _Packer | None:
    return next((each for each in _PACKERS if head.startswith(each.magic)), None)


CHUNK_BYTES: Final = 1 << 20
HEAD_BYTES: Final = 1 << 18
LINE_BYTES_MAX: Final = 1 << 20
UNREAD_SHARE_MAX: Final = 0.5
_CLOCKS_HELD_MAX: Final = 4_096


def is_access_log(path: Path) -> bool:
    """Return whether a file begins like an access log in a supported format.

    Raises:
        UsageError: when it cannot be read or decompressed.
    """
    with reporting_damage(path):
        head = _first_lines(path)
    return any(map(lines.is_line, head)) or bool(_requests(head))


def read_access_log(
    paths: Sequence[Path], *, unit_s: float | None = None, column: int | None = None
) -> AccessLog:
    """Read an access log of one or more files.

    Args:
        paths: The files, compressed by gzip or zstd or not.
        unit_s: Unit of the request's time in s; None to infer it from its name or values.
        column: Column of the request's time after the bytes, from 1; None to infer it.

    Raises:
        UsageError: when a file cannot be read, is not an access log, or has no column, or several,
            that may be the request's time.
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
            keys = lines.find_keys(rows, self._unit_s)
            self._take_json(path, _keys_of(keys, path))
        else:
            raise UsageError(
                seen=f"{path} is not a readable access log",
                cause="Supported are the common and the combined format, and JSON lines with a "
                "path and a status",
                next_step="docs/sql.md, Pages, describes the supported formats",
            )
        if self._unread - unread_before > UNREAD_SHARE_MAX * (self._lines - lines_before):
            raise UsageError(
                seen=f"{self._unread - unread_before:,} of {self._lines - lines_before:,} lines "
                f"of {path} are not requests with a time",
                cause="The format changes within the file, or differs from its beginning",
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
        """Return the clock time of a line, cached; the last one if it has none."""
        try:
            at_s = lines.clock_s(when)
        except (ValueError, KeyError, OverflowError, IndexError):
            return self._end_s
        if len(clocks) >= _CLOCKS_HELD_MAX:
            clocks.clear()
        clocks[when] = at_s
        self._seen(at_s)
        return at_s

    def _take_json(self, path: Path, keys: lines.JsonKeys) -> None:
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

    def _take_row(self, row: dict[str, object], keys: lines.JsonKeys) -> bool:
        """Add one object; return whether it is a request."""
        request = lines.request_of(row)
        if request is None:
            return False
        took_s = lines.took_s(row, keys)
        if took_s is None or not 0 <= took_s <= TOOK_S_MAX:
            self._untimed += 1
            return True
        method, target, status, when = request
        at_s = lines.json_clock_s(when)
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


def _keys_of(keys: lines.JsonKeys | None, path: Path) -> lines.JsonKeys:
    if keys is None:
        raise _no_time(path)
    if not keys.unit_s:
        raise _no_unit(path, keys.time)
    return keys


def _no_time(path: Path) -> UsageError:
    return UsageError(
        seen=f"{path} contains no request times",
        cause="The common and the combined format have no such column",
        next_step="Add $request_time to nginx's log_format, or %D to Apache's LogFormat, at the "
        "end of the line, and record a new log",
    )


def _no_columns(path: Path) -> UsageError:
    return UsageError(
        seen=f"--time-column is set, but {path} contains JSON lines",
        cause="JSON fields have names, not columns",
        next_step="Omit --time-column",
    )


def _no_unit(path: Path, where: str) -> UsageError:
    return UsageError(
        seen=f"The unit of the times in {path} is ambiguous ({where})",
        cause="Small integers may be seconds, milliseconds or microseconds, and some field "
        "names are used with several units",
        next_step="Specify it with --time-unit s, ms, us or ns",
    )


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield a file in chunks of whole lines; a line longer than 1 MiB is divided."""
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


def _requests(head: Sequence[bytes]) -> list[dict[str, object]]:
    """Return the objects among the first lines that are requests."""
    found = []
    for line in head:
        try:
            row = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(row, dict) and _is_reported(row) and lines.request_of(row):
            found.append(row)
    return found


def _is_reported(row: dict[str, object]) -> bool:
    """Return whether an object has a request's status, unlike PostgreSQL's logs."""
    return any(name in row for name in lines.STATUSES)
