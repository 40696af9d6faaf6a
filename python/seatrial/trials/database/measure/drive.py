"""Runs a cell's load on its databases, by the driver of its kind."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import TargetError
from seatrial.measure.progress import Watcher
from seatrial.results.model import ErrorSample, OperationResult, Outcome, Slice, Timeline
from seatrial.trials.database.measure import pgbench, telemetry
from seatrial.trials.database.measure.client_processes import Process, ProcessGroup, ProcessResult
from seatrial.trials.database.measure.driver_result import (
    Completions,
    DriverOptions,
    DriverResult,
    Endpoints,
)
from seatrial.trials.database.measure.pgbench import (
    PgbenchLogs,
    PgbenchRun,
    ProcessLog,
    Scripts,
    read_logs,
    run_pgbench,
)
from seatrial.trials.database.study.workloads import DatabaseSpec
from seatrial.trials.replay.measure.replay import run_replay
from seatrial.units import NS_PER_MS, NS_PER_S

OPERATION: Final = "batch"
OUTPUT_LINES_MAX: Final = 5
GRACE_S: Final = 5.0
"""Time for a batch that exceeds its limit to end by itself."""


def command_of(file: str, endpoints: Endpoints) -> list[str]:
    """Return the command line of a batch: psql for SQL, else the file itself.

    Raises:
        TargetError: when it is neither SQL nor executable.
    """
    path = Path(file)
    if path.suffix.lower() == ".sql":
        psql = str(endpoints.binaries.program("psql"))
        return [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(path.resolve())]
    if not os.access(path, os.X_OK):
        raise _unusable(
            path, "cannot be run", "it is neither a .sql file nor executable", f"chmod +x {path}"
        )
    return [str(path.resolve())]


def run_batch(spec: DatabaseSpec, endpoints: Endpoints, options: DriverOptions) -> DriverResult:
    """Run the batch once on each database, in parallel.

    One that fails or times out is a failed operation with its last messages.

    Raises:
        KeyboardInterrupt: when the user ended it: an unfinished batch is not measured.
        TargetError: when the file cannot be run.
    """
    command = command_of(spec.script, endpoints)
    started_unix_s = time.time()
    deadline = _Deadline(options.duration_s)
    with ProcessGroup() as processes:
        deadline.processes = processes
        for environment in endpoints.environments():
            processes.start(partial(_started, command, environment))
        ended = processes.wait(deadline.check)
    return DriverResult(
        completions=_completions(ended, options, deadline, started_unix_s),
        interrupted=False,
        cpu_user_s=sum(process.user_s for process in ended),
        cpu_system_s=sum(process.system_s for process in ended),
        client_cpu_share=max(
            ((each.user_s + each.system_s) / max(each.real_s, 1e-9) for each in ended),
        ),
        batch_s={
            "real": max(process.real_s for process in ended),
            "user": sum(process.user_s for process in ended),
            "sys": sum(process.system_s for process in ended),
        },
        notes=[
            f"The batch failed: {_failure_text(process, deadline)}."
            for process in ended
            if process.status != 0
        ],
    )


class _Deadline:
    """Ends the batch when its time is over."""

    def __init__(self, duration_s: float) -> None:
        self.processes = ProcessGroup()
        self.duration_s = duration_s
        self.is_over = False
        self._began_s = time.monotonic()

    def check(self) -> None:
        elapsed_s = time.monotonic() - self._began_s
        if elapsed_s > self.duration_s + GRACE_S:
            self.processes.signal(signal.SIGKILL)
        elif elapsed_s > self.duration_s and not self.is_over:
            self.is_over = True
            # On an interrupt, psql cancels its statement on the server, too.
            self.processes.signal(signal.SIGINT)


def _started(command: Sequence[str], environment: dict[str, str]) -> Process:
    try:
        return Process(command, environment, lambda _line: None)
    except OSError as error:
        raise _unusable(
            Path(command[0]),
            f"cannot be started: {error.strerror}",
            "its first line names an interpreter that does not exist here",
            f"head -1 {command[0]}",
        ) from None


def _completions(
    ended: Sequence[ProcessResult],
    options: DriverOptions,
    deadline: _Deadline,
    started_unix_s: float,
) -> Completions:
    """Return the batches as operations, with their real time as response."""
    good_ns = [round(process.real_s * NS_PER_S) for process in ended if process.status == 0]
    failed = [process for process in ended if process.status != 0]
    slice_ns = options.slice_ms * NS_PER_MS
    slices = [
        Slice(
            index=index,
            operation=OPERATION,
            completed=len(same_ns),
            transferred_bytes=0,
            response=_core.Histogram.of(same_ns).encode(),
        )
        for index, same in itertools.groupby(sorted(good_ns), lambda real_ns: real_ns // slice_ns)
        for same_ns in [list(same)]
    ]
    return Completions(
        started_at=started_unix_s,
        duration_s=max(process.real_s for process in ended),
        outcome=Outcome(
            offered=len(ended),
            completed=len(good_ns),
            failed=len(failed),
            late_skipped=0,
            in_flight_at_end=0,
        ),
        operations={
            OPERATION: OperationResult(
                completed=len(good_ns),
                failed=len(failed),
                transferred_bytes=0,
                response=_core.Histogram.of(good_ns).encode(),
            )
        },
        timeline=Timeline(slice_ns=slice_ns, slices=slices),
        errors_count=len(failed),
        errors=[_error(process, deadline) for process in failed],
    )


def _error(process: ProcessResult, deadline: _Deadline) -> ErrorSample:
    return ErrorSample(
        operation=OPERATION,
        offset_bytes=0,
        length_bytes=0,
        errno=max(process.status, 0),
        name=_failure_text(process, deadline),
        at_s=process.real_s,
    )


def _failure_text(process: ProcessResult, deadline: _Deadline) -> str:
    """Return how a batch failed, with its last lines on stderr."""
    how = f"exit code {process.status}" if process.status > 0 else f"signal {-process.status}"
    if deadline.is_over:
        how = f"stopped after {deadline.duration_s:g} s"
    words = " / ".join(line.strip() for line in process.lines[-OUTPUT_LINES_MAX:] if line.strip())
    return f"{how}{': ' if words else ''}{words}"


def _unusable(path: Path, problem: str, cause: str, command: str) -> TargetError:
    return TargetError(
        seen=f"The batch {path} {problem}",
        cause=f"Probably {cause}",
        next_step=f"Check it with `{command}`",
    )


SPREAD_S_MAX: Final = 0.1
"""Processes whose first transactions are further apart did not start together."""


def drive(
    kind: str, spec: DatabaseSpec, endpoints: Endpoints, options: DriverOptions, watcher: Watcher
) -> DriverResult:
    """Run a cell's load on its databases and return the result.

    Args:
        kind: Kind of the cell: ``pgbench``, ``telemetry``, ``batch`` or ``replay``.
        spec: Specification of the cell.
        endpoints: The databases.
        options: Options of the driver.
        watcher: Receives the progress.

    Raises:
        KeyboardInterrupt: when the user ended it before any result.
        TargetError: when the driver fails; with its message.
    """
    if options.load is not None:
        return options.load(kind, spec, endpoints, options, watcher)
    if kind == "batch":
        return run_batch(spec, endpoints, options)
    if kind == "replay":
        return run_replay(spec, endpoints, options, watcher)
    scripts = scripts_of(kind, spec)
    result = _with_logs(
        run_pgbench(spec, scripts, endpoints, options, watcher), spec, scripts, options
    )
    if kind != "telemetry":
        return result
    ingested = _completed_count(result, telemetry.INGEST) * spec.batch_rows
    return msgspec.structs.replace(result, counters={"ingested_rows": float(ingested)})


def scripts_of(kind: str, spec: DatabaseSpec) -> Scripts:
    """Return the scripts of pgbench's clients in a cell of a kind."""
    return telemetry.scripts_of(spec) if kind == "telemetry" else pgbench.scripts_of(spec)


def _completed_count(result: DriverResult, operation: str) -> int:
    found = result.completions.operations.get(operation)
    return found.completed if found else 0


def _with_logs(
    run: PgbenchRun, spec: DatabaseSpec, scripts: Scripts, options: DriverOptions
) -> DriverResult:
    """Combine pgbench's output with its logs.

    Raises:
        TargetError: when they disagree, or the logs cannot be read.
    """
    operations = [script.operation for script in scripts.scripts]
    logs = read_logs(run.logs, operations, options, has_lag=spec.rate_per_s is not None)
    for printed, logged in zip(run.totals, logs.processes, strict=True):
        _require_agreement(printed, logged, options)
    transactions = sum(printed["transactions"] for printed in run.totals)
    # Without transactions pgbench prints no rate.
    per_s = sum(printed.get("tps", 0.0) for printed in run.totals)
    shares = [each.thread_cpu_share for each in run.ended if each.thread_cpu_share is not None]
    return DriverResult(
        # So that our rate equals pgbench's own exactly.
        completions=msgspec.structs.replace(
            logs.completions,
            duration_s=transactions / per_s if per_s > 0 else _unlogged_s(run),
        ),
        interrupted=run.interrupted,
        reported=run.reported,
        cpu_user_s=sum(each.user_s for each in run.ended),
        cpu_system_s=sum(each.system_s for each in run.ended),
        client_cpu_share=max(shares, default=None),
        notes=_notes(logs),
        first_start_unix_us=max(_starts_us(logs), default=None),
    )


def _unlogged_s(run: PgbenchRun) -> float:
    """Return how long pgbench ran (s), if no transaction ended and its logs are empty."""
    return max(each.real_s for each in run.ended)


def _require_agreement(
    printed: dict[str, float], logged: ProcessLog, options: DriverOptions
) -> None:
    """Check that a log contains every transaction that pgbench counted.

    Raises:
        TargetError: when it does not.
    """
    for name in ("transactions", "failed", "skipped"):
        count = getattr(logged, name)
        if name in printed and printed[name] != count:
            raise TargetError(
                seen=f"pgbench reported {printed[name]:.0f} {name}, but its log has {count}",
                cause=f"The log in {options.folder} is incomplete; its file system may be full",
                next_step=f"Check the space with `df {options.folder}`, then try again",
            )


def _starts_us(logs: PgbenchLogs) -> list[int]:
    starts_us = (process.first_start_unix_us for process in logs.processes)
    return [each for each in starts_us if each is not None]


def _notes(logs: PgbenchLogs) -> list[str]:
    """Return anomalies of the logs, as sentences."""
    notes = []
    starts_us = _starts_us(logs)
    spread_s = (max(starts_us) - min(starts_us)) / 1e6 if starts_us else 0.0
    if spread_s > SPREAD_S_MAX:
        notes.append(f"The client processes started within {spread_s:.2f} s of each other.")
    if logs.disordered_lines:
        notes.append(
            f"{logs.disordered_lines} lines of pgbench's log are out of order; the system "
            "clock may have been changed."
        )
    return notes
