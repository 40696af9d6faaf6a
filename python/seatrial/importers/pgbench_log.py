"""pgbench's per-transaction logs (``pgbench --log``).

Each thread of a pgbench writes a file: ``PREFIX.PID``, ``PREFIX.PID.1`` and so on. One of them is
enough to name its process. Processes that ran at the same time are one sample; earlier or later
ones are other rounds. ``_core.read_pgbench_logs`` reads the lines in bounded memory.
"""

from __future__ import annotations

import hashlib
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import UsageError, native_errors
from seatrial.importers.document import SLICE_NS, Document, Draft, Imported, imported
from seatrial.results.model import ErrorSample, OperationResult, Origin, Stall, Timeline
from seatrial.study.sampled import DATABASE_STALL_THRESHOLD_MS

UNKNOWN: Final = "unknown"
OPERATION: Final = "transaction"
SCRIPTS_MAX: Final = 128
"""pgbench runs at most this many scripts; a log does not name them."""
HEAD_BYTES: Final = 64 << 10
LINES_MIN: Final = 5
LAG_US_MIN: Final = 100
"""No transaction is retried more often; a schedule lag soon exceeds it."""
_SEVEN: Final = 7
_LINE: Final = re.compile(
    r"\d+ \d+ (?:\d+|skipped|failed|serialization|deadlock) \d+ \d{9,10} \d{1,6}(?: \d+){0,2}"
)
_THREAD: Final = re.compile(r"(?P<process>.+\.\d+)\.\d+")


class Form(msgspec.Struct, frozen=True):
    """The columns of the lines, in addition to the six that all have.

    Attributes:
        has_lag: The schedule lag.
        has_retries: Number of retries of a transaction.
        is_guessed: Whether there is only one of them, inferred from its values.
    """

    has_lag: bool
    has_retries: bool
    is_guessed: bool = False


class Process(msgspec.Struct, frozen=True):
    """The logs of one pgbench.

    Attributes:
        files: One for each thread, empty ones included.
        first_us: Unix time of its first line.
        last_us: Unix time of its last line.
    """

    files: list[Path]
    first_us: int
    last_us: int


def is_log(path: Path) -> bool:
    """Return whether a file is a pgbench log, by its first lines."""
    return _is_of_pgbench(_head(path))


def read(paths: Sequence[Path]) -> Imported:
    """Return the run of some logs, each with those of the other threads next to it.

    Args:
        paths: At least one.

    Raises:
        UsageError: One cannot be read or is not a pgbench log, the logs have different columns or
            lack transactions, or a line is invalid.
    """
    processes = [_process(files) for files in _by_process(paths)]
    for process in processes:
        _require_every_transaction(process.files)
    form = _form(processes)
    parts = [_read(group, form) for group in _at_the_same_time(processes)]
    drafts = [_draft(paths[0], each, form) for each in parts]
    document = _document(paths[0], [file for process in processes for file in process.files])
    origin = Origin(
        format="pgbench-log",
        file=document.name,
        tool="pgbench --log",
        notes=[*_notes(form), *_remarks(parts)],
    )
    return imported(document, origin, drafts, started_at=drafts[0].started_at)


def _head(path: Path) -> list[str]:
    """Return the first whole lines of a file; none if it is not a regular file."""
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            text = file.read(HEAD_BYTES)
    except OSError:
        return []
    whole = text if len(text) < HEAD_BYTES else text[: text.rfind(b"\n") + 1]
    lines = whole.decode("ascii", "replace").splitlines()
    # The last line of a killed pgbench may be truncated.
    return lines if whole.endswith(b"\n") else lines[:-1]


def _is_of_pgbench(lines: Sequence[str]) -> bool:
    return bool(lines) and all(_LINE.fullmatch(line) for line in lines[:LINES_MIN])


def _by_process(paths: Iterable[Path]) -> list[list[Path]]:
    """Return the files of each process that has one among these, in their order."""
    found: dict[Path, list[Path]] = {}
    for path in paths:
        files = _threads(path)
        found.setdefault(files[0].resolve(), files)
    return list(found.values())


def _threads(path: Path) -> list[Path]:
    """Return the files of all threads of a log's process: with numbers after the first's name."""
    named = _THREAD.fullmatch(path.name)
    first = path.with_name(named["process"]) if named else path
    for candidate in (first, path):
        files = list(_with_numbers(candidate))
        if path in files and _is_of_pgbench(_head(candidate)):
            return files
    return [path]


def _with_numbers(first: Path) -> Iterator[Path]:
    file, number = first, 0
    while file.is_file():
        yield file
        number += 1
        file = first.with_name(f"{first.name}.{number}")


def _process(files: list[Path]) -> Process:
    """Return a process with the times of its first and last line.

    Raises:
        UsageError: The named file is not a pgbench log.
    """
    ends_us = [end_us for file in files for end_us in _ends_us(file)]
    if not ends_us:
        raise UsageError(
            seen=f"{files[0]} is not a pgbench log",
            cause="It contains no line of a transaction; pgbench writes them with --log, but "
            "with --aggregate-interval it writes sums",
            next_step="Specify the files that pgbench wrote with --log alone",
        )
    return Process(files=files, first_us=min(ends_us), last_us=max(ends_us))


def _require_every_transaction(files: Iterable[Path]) -> None:
    """Raise UsageError where a log lacks transactions: its rate would be too low.

    pgbench numbers the transactions of each client, skipped and failed ones included.
    """
    for file in files:
        before: dict[str, int] = {}
        for line in filter(_LINE.fullmatch, _head(file)):
            client, number = line.split()[:2]
            if client in before and int(number) > before[client] + 1:
                raise UsageError(
                    seen=f"{file} lacks transactions: after number {before[client]} of client "
                    f"{client} follows {number}",
                    cause="pgbench wrote a sample of them (--sampling-rate), or lines were removed",
                    next_step="Specify the log of a run without --sampling-rate",
                )
            before[client] = int(number)


def _ends_us(file: Path) -> list[int]:
    """Return the times of a file's first and last line; empty without lines."""
    first = [line for line in _head(file)[:1] if _LINE.fullmatch(line)]
    last = [line for line in _tail(file) if _LINE.fullmatch(line)][-1:]
    words = [line.split() for line in first + last]
    return [1_000_000 * int(each[4]) + int(each[5]) for each in words]


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, 2)
            file.seek(max(0, size_bytes - HEAD_BYTES // 16))
            return file.read().decode("ascii", "replace").splitlines()
    except OSError as error:
        raise _unreadable(f"{path} cannot be read: {error.strerror}") from None


def _form(processes: Iterable[Process]) -> Form:
    """Return the columns of the lines.

    The seventh is the schedule lag or the retries, depending on its values. A lag is part of the
    transaction's time, and soon large; a failed transaction has none, and transactions are skipped
    only with a rate limit.

    Raises:
        UsageError: The logs have different columns.
    """
    files = [file for process in processes for file in process.files]
    rows = [line.split() for file in files for line in _head(file) if _LINE.fullmatch(line)]
    columns = {len(row) for row in rows}
    if len(columns) > 1:
        raise _different(files)
    if _SEVEN not in columns:
        both = columns == {_SEVEN + 1}
        return Form(has_lag=both, has_retries=both)
    is_lag = _seventh_is_lag(rows)
    return Form(has_lag=is_lag, has_retries=not is_lag, is_guessed=True)


def _seventh_is_lag(rows: Sequence[Sequence[str]]) -> bool:
    if any(row[2] == "skipped" for row in rows):
        return True
    done = [(int(row[2]), int(row[6])) for row in rows if row[2].isdigit()]
    failed = [int(row[6]) for row in rows if not row[2].isdigit()]
    if any(failed) or any(seventh > time_us for time_us, seventh in done):
        return False
    sevenths = [seventh for _, seventh in done] or [0]
    return max(sevenths) >= LAG_US_MIN or statistics.median(sevenths) > 1


def _at_the_same_time(processes: Sequence[Process]) -> list[list[Process]]:
    """Return groups of processes that overlap in time, in order of time."""
    groups: list[list[Process]] = []
    last_us = -1
    for process in sorted(processes, key=lambda each: each.first_us):
        if process.first_us > last_us:
            groups.append([])
        groups[-1].append(process)
        last_us = max(last_us, process.last_us)
    return groups


class _Client(msgspec.Struct, frozen=True, kw_only=True):
    """One process of pgbench.

    Attributes:
        clients: Number of clients with at least one line.
    """

    clients: int


class _Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of the log.

    Attributes:
        late_skipped: Number of skipped transactions.
    """

    late_skipped: int


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a sample (docs/engine.md) that are used here."""

    processes: list[_Client]
    started_unix_s: float
    duration_s: float
    operations: dict[str, OperationResult]
    errors_count: int
    outcome: _Skipped
    timeline: Timeline
    stalls: list[Stall]
    stalls_dropped: int
    errors: list[ErrorSample]
    truncated_lines: int
    disordered_lines: int


def _read(group: Sequence[Process], form: Form) -> _Parts:
    """Return the parts of a sample.

    Raises:
        UsageError: A file cannot be read, or a line is invalid.
    """
    spec = {
        "processes": [[str(file) for file in process.files] for process in group],
        "scripts": [OPERATION] * SCRIPTS_MAX,
        "has_lag": form.has_lag,
        "has_retries": form.has_retries,
        "slice_ms": SLICE_NS // 1_000_000,
        "stall_threshold_ms": DATABASE_STALL_THRESHOLD_MS,
    }
    with native_errors():
        parts = _core.read_pgbench_logs(msgspec.json.encode(spec).decode())
    return msgspec.convert(parts, _Parts)


def _draft(path: Path, parts: _Parts, form: Form) -> Draft:
    clients = max(each.clients for each in parts.processes)
    factors: dict[str, str | int | float | bool] = {"scale": UNKNOWN}
    if len(parts.processes) > 1:
        factors["processes"] = len(parts.processes)
    if form.has_lag:
        factors["rate"] = UNKNOWN
    described = "/".join(f"{name}={value}" for name, value in factors.items())
    return Draft(
        target=path.name.partition(".")[0] or path.name,
        workload="pgbench",
        kind="pgbench",
        operation=OPERATION,
        block_size_bytes=0,
        threads=clients,
        factors=factors,
        key=f"pgbench/{OPERATION}/{clients}c/{described}",
        started_at=parts.started_unix_s,
        # A log of transactions that took no time at all has no duration.
        duration_s=parts.duration_s or 1e-6,
        operations=parts.operations,
        errors_count=parts.errors_count,
        late_skipped=parts.outcome.late_skipped,
        parts={
            "timeline": parts.timeline,
            "stalls": parts.stalls,
            "stalls_dropped": parts.stalls_dropped,
            "errors": parts.errors,
        },
    )


def _document(path: Path, files: Sequence[Path]) -> Document:
    """Return the identification of the logs, without their lines."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    changed_at = path.stat().st_mtime
    return Document(path=path, text="", changed_at=changed_at, digest=digest.hexdigest())


def _notes(form: Form) -> Iterator[str]:
    yield (
        "The log contains no scale, script, protocol or server. Clients are those with at least "
        "one line; transactions in progress at the end are unknown."
    )
    if form.is_guessed:
        taken = "schedule lag (--rate)" if form.has_lag else "retries (--max-tries)"
        yield f"The seventh column is interpreted as {taken}, based on its values."


def _remarks(parts: Iterable[_Parts]) -> Iterator[str]:
    parts = list(parts)
    truncated = sum(each.truncated_lines for each in parts)
    disordered = sum(each.disordered_lines for each in parts)
    if truncated:
        yield f"The last line is truncated in {truncated} of the files: pgbench was killed."
    if disordered:
        yield f"{disordered} lines are earlier than the previous line, as after a clock change."


def _different(paths: Sequence[Path]) -> UsageError:
    return UsageError(
        seen=f"{', '.join(path.name for path in paths)} have different columns",
        cause="Some were written by pgbench with --rate or --max-tries, others without",
        next_step="Import them one by one",
    )


def _unreadable(seen: str) -> UsageError:
    return UsageError(
        seen=seen,
        cause="It does not exist, or is not readable by this user",
        next_step="Check `ls -l` of its directory",
    )
