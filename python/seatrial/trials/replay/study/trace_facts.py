"""Facts of a trace for a plan: its size, contents and identity."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.trials.replay.trace import read_trace

FOOTER_BYTES: Final = 65_536
"""Length of the end of a trace, which has the offsets, sizes and bounds of all its columns."""
WIRE: Final = "wire"
"""Format of a trace of `seatrial sql capture` (crates/capture/src/origin.rs)."""
READING: Final = frozenset({"select", "transaction", "cursor", "prepared", "utility", "empty"})
"""Classes of statements that hardly ever write."""


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a trace.

    Attributes:
        identity: Identity of its content: its size, and a hash of its end.
        statements: Number of statements.
        executable: Statements that can be replayed.
        writing: Statements of classes that write.
        sessions: Number of sessions.
        open_max: Maximum of concurrent sessions.
        captured_s: From the first statement to the end of the last.
        has_clock: Whether it has clock times; those of a SQL file are made up.
        databases: Names of the capture's databases, most statements first.
        users: Names of the capture's users, likewise.
        is_masked: Whether literals and parameters are masked.
        system_identifier: System identifier of the server that wrote the log, as digits; None if
            unknown.
        files: The logs that it was read from.
        is_wire: Whether it was captured on the network, and has client times.
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
    """Return the facts of a trace; None if there is no such file.

    Results are cached until the file changes.

    Raises:
        UsageError: when it is not a trace, is damaged, or cannot be read.
    """
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return _read(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: str, size_bytes: int, _modified_ns: int) -> TraceFacts:
    trace = read_trace(Path(path), top=0)
    try:
        identity = _identity(Path(path), size_bytes)
    except OSError as error:
        raise UsageError(
            seen=f"The trace {path} cannot be read: {error.strerror}",
            cause="Its permissions do not allow it, or the device fails",
            next_step=f"See `ls -l {path}`",
        ) from None
    mix, origin = trace.mix, trace.origin
    known = mix.first_us is not None and mix.last_us is not None
    return TraceFacts(
        identity=identity,
        statements=mix.counts.statements,
        executable=mix.counts.executable,
        writing=sum(sums.calls for sums in mix.classes if sums.kind not in READING),
        sessions=mix.counts.sessions,
        open_max=mix.sessions.at_once_max,
        captured_s=((mix.last_us or 0) - (mix.first_us or 0)) / 1e6 if known else 0.0,
        has_clock=trace.has_clock,
        databases=[database.name for database in mix.names.databases if database.name],
        users=[user.name for user in mix.names.users if user.name],
        is_masked=origin.is_masked,
        system_identifier=str(origin.system_identifier) if origin.system_identifier else None,
        files=[file.path for file in origin.files],
        is_wire=any(file.format == WIRE for file in origin.files),
    )


def _identity(path: Path, size_bytes: int) -> str:
    with path.open("rb") as file:
        file.seek(max(0, size_bytes - FOOTER_BYTES))
        end = hashlib.sha256(file.read(FOOTER_BYTES)).hexdigest()
    return f"{size_bytes}-{end[:16]}"
