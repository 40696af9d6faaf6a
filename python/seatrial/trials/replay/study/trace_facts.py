"""What a plan has to know of a trace: how much there is, of what, and that it is the same one."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import UsageError, native_errors

FOOTER_BYTES: Final = 65_536
"""Of the end of a trace, which holds the places, sizes and bounds of all its columns."""
WIRE: Final = "wire"
"""Format of what `seatrial sql capture` wrote (crates/capture/src/origin.rs)."""
READING: Final = frozenset({"select", "transaction", "cursor", "prepared", "utility", "empty"})
"""Classes of statements that hardly ever write."""


class _Counts(msgspec.Struct, frozen=True):
    statements: int
    executable: int
    sessions: int


class _Sessions(msgspec.Struct, frozen=True):
    at_once_max: int


class _Class(msgspec.Struct, frozen=True):
    kind: str = msgspec.field(name="class")
    calls: int


class _Name(msgspec.Struct, frozen=True):
    name: str
    statements: int


class _Names(msgspec.Struct, frozen=True):
    databases: list[_Name]
    users: list[_Name]


class _Mix(msgspec.Struct, frozen=True):
    counts: _Counts
    first_us: int | None
    last_us: int | None
    classes: list[_Class]
    sessions: _Sessions
    names: _Names


class _File(msgspec.Struct, frozen=True):
    path: str
    format: str = ""


class _Origin(msgspec.Struct, frozen=True):
    is_masked: bool
    files: list[_File]
    started_at: float | None = None
    system_identifier: int | None = None


class _Shown(msgspec.Struct, frozen=True):
    """As much as is needed here of what ``_core.show_trace`` tells."""

    origin: _Origin
    mix: _Mix


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace holds.

    Attributes:
        identity: Of its content: its size, and a hash of its end.
        statements: In it.
        executable: Of these, those that can be sent again.
        writing: Of these, those of classes that write.
        sessions: In it.
        open_max: Sessions that were open at once, at most.
        captured_s: From the first statement to the end of the last.
        has_clock: Whether its times are those of a clock, and not given to a file of SQL.
        databases: Names of the capture's databases, most statements first; those without a name
            left out.
        users: Names of the capture's users, likewise.
        is_masked: Whether literals and parameters are stand-ins.
        system_identifier: Of the server whose log it was, as digits; None where not known.
        files: The logs that it was read from.
        is_wire: Whether it was captured between clients and server, and has the clients' times.
    """

    identity: str
    statements: int
    executable: int
    writing: int
    sessions: int
    open_max: int
    captured_s: float
    has_clock: bool
    databases: list[str]
    users: list[str]
    is_masked: bool
    system_identifier: str | None
    files: list[str]
    is_wire: bool = False


def trace_facts(path: str | Path) -> TraceFacts | None:
    """Return what a trace holds; None where there is no such file.

    A trace is read through once, and again only when it has changed.

    Raises:
        UsageError: when it is no trace, is damaged, or cannot be read.
    """
    try:
        about = Path(path).stat()
    except OSError:
        return None
    return _read(str(path), about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: str, size_bytes: int, _modified_ns: int) -> TraceFacts:
    with native_errors():
        reported = _core.show_trace(path, 0)
    try:
        identity = _identity(Path(path), size_bytes)
    except OSError as error:
        raise UsageError(
            seen=f"The trace {path} cannot be read: {error.strerror}",
            cause="Its permissions do not allow it, or the device fails",
            next_step=f"See `ls -l {path}`",
        ) from None
    shown = msgspec.json.decode(reported, type=_Shown)
    mix, origin = shown.mix, shown.origin
    known = mix.first_us is not None and mix.last_us is not None
    return TraceFacts(
        identity=identity,
        statements=mix.counts.statements,
        executable=mix.counts.executable,
        writing=sum(each.calls for each in mix.classes if each.kind not in READING),
        sessions=mix.counts.sessions,
        open_max=mix.sessions.at_once_max,
        captured_s=((mix.last_us or 0) - (mix.first_us or 0)) / 1e6 if known else 0.0,
        has_clock=origin.started_at is not None,
        databases=[each.name for each in mix.names.databases if each.name],
        users=[each.name for each in mix.names.users if each.name],
        is_masked=origin.is_masked,
        system_identifier=_digits(origin.system_identifier),
        files=[each.path for each in origin.files],
        is_wire=any(each.format == WIRE for each in origin.files),
    )


def _digits(identifier: int | None) -> str | None:
    return None if identifier is None else str(identifier)


def _identity(path: Path, size_bytes: int) -> str:
    with path.open("rb") as file:
        file.seek(max(0, size_bytes - FOOTER_BYTES))
        end = hashlib.sha256(file.read(FOOTER_BYTES)).hexdigest()
    return f"{size_bytes}-{end[:16]}"
