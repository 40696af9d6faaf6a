"""What ``seatrial sql read`` prints."""

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
from seatrial.machine.undo import UndoJournal
from seatrial.postgres.remote import system_identifier_of
from seatrial.stats.wording import (
    format_plural,
)
from seatrial.trials.replay.reading import Reading

POLL_S: Final = 0.1
REPORT_EVERY_S: Final = 10.0
STANDARD_INPUT: Final = Path("-")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be read, and into what.

    Attributes:
        logs: The files, in any order.
        output: The trace.
        prefix: The server's ``log_line_prefix``; None to guess it.
        log_format: ``stderr``, ``csv``, ``json``, ``raw``, or ``auto`` to tell it by the content.
        sessions: Streams that a log without sessions is split into, at most; None for as many as
            its times and durations show, or else one.
        mask: Whether literals and parameters are replaced.
        force: Whether a trace of that name is replaced.
        system_identifier: The server's own number for its data; None to find it where the logs
            lie below its data directory.
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
        """Return it as the reader takes it (crates/ingest/src/intake/spec.rs)."""
        spec = {
            "logs": [str(log) for log in self.logs],
            "output": str(self.output),
            "format": None if self.log_format == "auto" else self.log_format,
            "prefix": self.prefix,
            "sessions": self.sessions,
            "mask": self.mask,
            "system_identifier": self.system_identifier or self._found_server(),
            "in_parts": True if self.ray is not None else None,
        }
        given = {name: value for name, value in spec.items() if value is not None}
        return msgspec.json.encode(given).decode()

    def _found_server(self) -> int | None:
        """Return whose logs they are; None where nothing tells, or they are of several servers."""
        logs = [log for log in self.logs if log != STANDARD_INPUT]
        digits = {system_identifier_of(log) for log in logs}
        only = digits.pop() if len(digits) == 1 else None
        return None if only is None else int(only)


def read_logs(wanted: Wanted, *, quiet: bool) -> Reading:
    """Read logs into a trace; what is not complete is not left there.

    Args:
        wanted: What is to be read.
        quiet: Whether no progress is reported.

    Raises:
        ClusterError: when the cluster cannot be used, or loses a task for good.
        KeyboardInterrupt: when interrupted; nothing was written.
        RefusedError: when something would be lost that is not a trace, or not meant.
        SeatrialError: when records or statements were lost count of: a defect of ours.
        SpaceError: when the disk is full.
        UsageError: when a file is no log, or the trace cannot be written there.
    """
    if wanted.prefix is not None and wanted.log_format not in ("auto", "stderr"):
        raise UsageError(
            seen=f"--prefix was given with --format {wanted.log_format}",
            cause="Only plain logs (stderr) have a prefix",
            next_step="Leave out one of the two",
        )
    wanted = msgspec.structs.replace(wanted, output=require_free(wanted))
    with keeping_owner(wanted.output):
        return accounted(_read(wanted, quiet=quiet))


@contextmanager
def trace_of_logs(paths: Sequence[Path], *, quiet: bool) -> Iterator[Path]:
    """Yield a trace of a log, in one file or several, that goes away afterwards.

    Raises:
        SeatrialError: when it is no log.
    """
    run_id = new_run_id()
    place = Path(tempfile.gettempdir())
    with UndoJournal(run_id) as journal, TrialFolder(place, run_id, journal) as folder:
        trace = folder.open(0, direct=False).file("log.trace")
        read_logs(Wanted(logs=tuple(paths), output=trace), quiet=quiet)
        yield trace


def _read(wanted: Wanted, *, quiet: bool) -> str:
    if wanted.ray is not None:
        return _read_on_cluster(wanted, wanted.ray, quiet=quiet)
    return _read_here(wanted, _wait, quiet=quiet)


def _read_on_cluster(wanted: Wanted, address: str, *, quiet: bool) -> str:
    """Let the hosts of a cluster read parts, and join them here; raises as read_logs."""
    from seatrial.fleet.cluster import connect  # noqa: PLC0415 - Ray is optional
    from seatrial.trials.replay.measure.log_parts import (  # noqa: PLC0415 - likewise
        PART_BYTES,
        pieces_of,
    )

    with native_errors():
        parts = _core.sql_log_parts(wanted.as_json(), PART_BYTES)
    with connect(address) as cluster:

        def join(reading: _core.SqlReading, *, quiet: bool) -> None:
            with _teller(quiet=quiet) as report:

                def tell(done: int) -> None:
                    parts_done = f"{done} of {format_plural(len(parts), 'part')}"
                    report(f"{format_plural(reading.statements, 'statement')}, {parts_done}")

                for piece in pieces_of(cluster, parts, tell):
                    with native_errors():
                        if not reading.give(piece):
                            break
                with native_errors():
                    reading.give_end()
            _wait(reading, quiet=quiet)

        return _read_here(wanted, join, quiet=quiet)


class _Follow(Protocol):
    """Follows a reading until all is read."""

    def __call__(self, reading: _core.SqlReading, *, quiet: bool) -> None:
        """Follow it."""


def _read_here(wanted: Wanted, follow: _Follow, *, quiet: bool) -> str:
    with native_errors():
        reading = _core.start_sql_read(wanted.as_json())
    try:
        follow(reading, quiet=quiet)
    except (KeyboardInterrupt, SeatrialError):
        reading.stop()
        while not reading.wait(POLL_S):
            pass
        raise
    with native_errors():
        return reading.result()


def accounted(result: str) -> Reading:
    """Return what the engine tells of a reading or a capture.

    Raises:
        SeatrialError: When something of it is nowhere.
    """
    reported = msgspec.json.decode(result, type=Reading)
    if faults := reported.accounting.faults():
        raise SeatrialError(
            seen=f"The accounting does not add up: {'; '.join(faults)}",
            cause="This is a bug in Seatrial, not a problem of the logs",
            next_step="Please report it, with the logs if possible",
        )
    return reported


def require_free(wanted: Wanted) -> Path:
    """Return where the trace can be written without a loss.

    Raises:
        RefusedError: when it is one of the logs, or there is something that must not be replaced.
        UsageError: when its folder is missing or closed to this user.
    """
    output = wanted.output
    if any(_is_same(log, output) for log in wanted.logs):
        raise RefusedError(
            seen=f"{output} is one of the logs",
            cause="The trace would replace it",
            next_step="Use another file with -o, such as prod.trace",
        )
    return writable_trace_path(output, force=wanted.force)


def _is_same(log: Path, output: Path) -> bool:
    return log != STANDARD_INPUT and log.exists() and output.exists() and log.samefile(output)


def _wait(reading: _core.SqlReading, *, quiet: bool) -> None:
    """Wait until all is read; tell how far it has come where that takes its time."""
    with _teller(quiet=quiet) as report:
        while not reading.wait(POLL_S):
            report(f"{format_plural(reading.statements, 'statement')} so far")


@contextmanager
def _teller(*, quiet: bool) -> Iterator[Callable[[str], object]]:
    """Yield what tells a line to standard error: in place on a terminal, else now and then."""
    if quiet:
        yield lambda _line: None
    elif sys.stderr.isatty():
        from rich.console import Console  # noqa: PLC0415 - loaded on a terminal only

        with Console(stderr=True).status("Reading") as status:
            yield status.update
    else:
        yield _Plain().tell


class _Plain:
    """Tells a line every ten seconds."""

    def __init__(self) -> None:
        self._reported_s = time.monotonic()

    def tell(self, line: str) -> None:
        """Report it, unless one was reported a moment ago."""
        now_s = time.monotonic()
        if now_s - self._reported_s >= REPORT_EVERY_S:
            self._reported_s = now_s
            click.echo(line, err=True)
