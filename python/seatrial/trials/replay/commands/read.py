"""``seatrial sql read``: logs of servers into a trace."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import click
import msgspec

from seatrial import _core
from seatrial.cli.files import keeping_owner, writable_trace_path
from seatrial.errors import RefusedError, SeatrialError, UsageError, native_errors
from seatrial.machine.file import TrialFolder
from seatrial.machine.marker import new_run_id
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.remote import system_identifier_of
from seatrial.stats.wording import (
    format_plural,
)
from seatrial.trials.replay.reading import Reading

POLL_S: Final = 0.1
REPORT_EVERY_S: Final = 10.0
STANDARD_INPUT: Final = Path("-")


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Logs to read, and the trace to write.

    Attributes:
        logs: The files, in any order.
        output: The trace.
        prefix: The server's ``log_line_prefix``; None to guess it.
        log_format: ``stderr``, ``csv``, ``json``, ``raw``, or ``auto`` to detect it.
        sessions: Maximum number of streams that a log without sessions is split into; None for as
            many as its times and durations show, or else one.
        mask: Whether literals and parameters are replaced.
        force: Whether a trace of that name is replaced.
        system_identifier: The server's system identifier; None to find it where the logs
            are below its data directory.
        ray: Address of the cluster whose hosts read; None for this machine alone.
    """

    logs: tuple[Path, ...]
    output: Path
    prefix: str | None = None
    log_format: str = "auto"
    sessions: int | None = None
    mask: bool = False
    force: bool = False
    system_identifier: int | None = None
    ray: str | None = None

    def as_json(self) -> str:
        """Return it for the engine (crates/ingest/src/intake/spec.rs)."""
        spec = {
            "logs": [str(log) for log in self.logs],
            "output": str(self.output),
            "format": None if self.log_format == "auto" else self.log_format,
            "prefix": self.prefix,
            "sessions": self.sessions,
            "mask": self.mask,
            "system_identifier": self.system_identifier or self._system_identifier_of_logs(),
            "in_parts": True if self.ray is not None else None,
        }
        given = {name: value for name, value in spec.items() if value is not None}
        return msgspec.json.encode(given).decode()

    def _system_identifier_of_logs(self) -> int | None:
        """Return the server that wrote the logs; None if unknown, or if there are several."""
        logs = [log for log in self.logs if log != STANDARD_INPUT]
        digits = {system_identifier_of(log) for log in logs}
        only = digits.pop() if len(digits) == 1 else None
        return None if only is None else int(only)


def read_logs(request: ReadRequest, *, quiet: bool) -> Reading:
    """Read logs into a trace; an incomplete trace is removed.

    Args:
        request: The logs and the trace.
        quiet: Whether no progress is reported.

    Raises:
        ClusterError: when the cluster cannot be used, or loses a task for good.
        KeyboardInterrupt: when interrupted; nothing was written.
        RefusedError: when a file would be overwritten that is not a trace, or without --force.
        SeatrialError: when the accounting does not add up: a bug in Seatrial.
        SpaceError: when the disk is full.
        UsageError: when a file is not a log, or the trace cannot be written.
    """
    if request.prefix is not None and request.log_format not in ("auto", "stderr"):
        raise UsageError(
            seen=f"--prefix was given with --format {request.log_format}",
            cause="Only plain logs (stderr) have a prefix",
            next_step="Leave out one of the two",
        )
    request = msgspec.structs.replace(request, output=checked_output(request))
    with keeping_owner(request.output):
        return checked_reading(_read(request, quiet=quiet))


@contextmanager
def temporary_trace(paths: Sequence[Path], *, quiet: bool) -> Iterator[Path]:
    """Yield a temporary trace of a log, in one file or several.

    Raises:
        SeatrialError: when it is not a log.
    """
    run_id = new_run_id()
    temporary = Path(tempfile.gettempdir())
    with UndoJournal(run_id) as journal, TrialFolder(temporary, run_id, journal) as folder:
        trace = folder.open(0, direct=False).file("log.trace")
        read_logs(ReadRequest(logs=tuple(paths), output=trace), quiet=quiet)
        yield trace


def _read(request: ReadRequest, *, quiet: bool) -> str:
    if request.ray is not None:
        return _read_on_cluster(request, request.ray, quiet=quiet)
    return _read_locally(request, _wait, quiet=quiet)


def _read_on_cluster(request: ReadRequest, address: str, *, quiet: bool) -> str:
    """Let the hosts of a cluster read parts, and join them here; raises like read_logs."""
    from seatrial.fleet.cluster import connect  # noqa: PLC0415 - Ray is optional
    from seatrial.trials.replay.measure.log_parts import (  # noqa: PLC0415 - likewise
        PART_BYTES,
        parts_read,
    )

    with native_errors():
        parts = _core.sql_log_parts(request.as_json(), PART_BYTES)
    with connect(address) as cluster:

        def join(reading: _core.SqlReading, *, quiet: bool) -> None:
            with _progress(quiet=quiet) as report:

                def report_parts(done: int) -> None:
                    parts_done = f"{done} of {format_plural(len(parts), 'part')}"
                    report(f"{format_plural(reading.statements, 'statement')}, {parts_done}")

                for piece in parts_read(cluster, parts, report_parts):
                    with native_errors():
                        if not reading.give(piece):
                            break
                with native_errors():
                    reading.give_end()
            _wait(reading, quiet=quiet)

        return _read_locally(request, join, quiet=quiet)


class _Wait(Protocol):
    """Waits until all is read."""

    def __call__(self, reading: _core.SqlReading, *, quiet: bool) -> None:
        """Wait until the end."""


def _read_locally(request: ReadRequest, wait: _Wait, *, quiet: bool) -> str:
    with native_errors():
        reading = _core.start_sql_read(request.as_json())
    try:
        wait(reading, quiet=quiet)
    except (KeyboardInterrupt, SeatrialError):
        reading.stop()
        while not reading.wait(POLL_S):
            pass
        raise
    with native_errors():
        return reading.result()


def checked_reading(result: str) -> Reading:
    """Return the engine's result of a reading or a capture, after a check of its accounting.

    Raises:
        SeatrialError: When it does not add up.
    """
    reading = msgspec.json.decode(result, type=Reading)
    if faults := reading.accounting.faults():
        raise SeatrialError(
            seen=f"The accounting does not add up: {'; '.join(faults)}",
            cause="This is a bug in Seatrial, not a problem of the logs",
            next_step="Please report it, with the logs if possible",
        )
    return reading


def checked_output(request: ReadRequest) -> Path:
    """Return the path of the trace, which must not overwrite anything else.

    Raises:
        RefusedError: when it is one of the logs, or another file that must not be replaced.
        UsageError: when its folder is missing or not writable.
    """
    output = request.output
    if any(_is_same(log, output) for log in request.logs):
        raise RefusedError(
            seen=f"{output} is one of the logs",
            cause="The trace would replace it",
            next_step="Use another file with -o, such as prod.trace",
        )
    return writable_trace_path(output, force=request.force)


def _is_same(log: Path, output: Path) -> bool:
    return log != STANDARD_INPUT and log.exists() and output.exists() and log.samefile(output)


def _wait(reading: _core.SqlReading, *, quiet: bool) -> None:
    """Wait until all is read, with progress."""
    with _progress(quiet=quiet) as report:
        while not reading.wait(POLL_S):
            report(f"{format_plural(reading.statements, 'statement')} so far")


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str], object]]:
    """Yield a function that prints progress: in place on a terminal, else every ten seconds."""
    if quiet:
        yield lambda _line: None
    elif sys.stderr.isatty():
        from rich.console import Console  # noqa: PLC0415 - loaded on a terminal only

        with Console(stderr=True).status("Reading") as status:
            yield status.update
    else:
        yield _PlainProgress().report


class _PlainProgress:
    """Prints a line every ten seconds."""

    def __init__(self) -> None:
        self._reported_s = time.monotonic()

    def report(self, line: str) -> None:
        """Print the line, unless one was printed less than ten seconds ago."""
        now_s = time.monotonic()
        if now_s - self._reported_s >= REPORT_EVERY_S:
            self._reported_s = now_s
            click.echo(line, err=True)
