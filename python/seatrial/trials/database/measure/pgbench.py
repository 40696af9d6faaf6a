"""PostgreSQL's own pgbench as the driver: started, monitored, stopped, its output parsed.

Sources: PostgreSQL's documentation of pgbench, and ``printResults`` and ``printProgressReport`` of
src/bin/pgbench/pgbench.c, versions 13 to 18.
"""

from __future__ import annotations

import math
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import TargetError, UsageError, native_errors
from seatrial.measure.progress import LiveReading, Watcher
from seatrial.postgres.connection import connect
from seatrial.trials.database.measure.client_processes import Process, ProcessGroup, ProcessResult
from seatrial.trials.database.measure.driver_result import Completions, DriverOptions, Endpoints
from seatrial.trials.database.study.workloads import BUILTIN_SCRIPTS, DatabaseSpec


class ProcessLog(msgspec.Struct, frozen=True, kw_only=True):
    """What the log of one pgbench contains.

    Attributes:
        transactions: Completed transactions.
        failed: Transactions that were given up.
        skipped: Transactions that were too late to be started.
        first_start_unix_us: Earliest intended start; None without a line.
    """

    transactions: int
    failed: int
    skipped: int
    first_start_unix_us: int | None


class PgbenchLogs(msgspec.Struct, frozen=True, kw_only=True):
    """What the logs of a sample contain.

    Attributes:
        completions: How its transactions ended.
        processes: The same of each pgbench.
        disordered_lines: Lines that are earlier than the one before them.
    """

    completions: Completions
    processes: list[ProcessLog]
    disordered_lines: int


def read_logs(
    logs: Sequence[Sequence[Path]],
    operations: Sequence[str],
    options: DriverOptions,
    *,
    has_lag: bool,
) -> PgbenchLogs:
    """Return what the logs of a sample contain (docs/engine.md, "pgbench's logs").

    Args:
        logs: The files of each process: one for each of its threads.
        operations: The operation kind of each script, in pgbench's order.
        options: Lengths of slices and stalls.
        has_lag: Whether pgbench has a rate limit.

    Raises:
        TargetError: when a log cannot be read, or has an invalid line.
    """
    spec = {
        "processes": [[str(path) for path in paths] for paths in logs],
        "scripts": list(operations),
        "has_lag": has_lag,
        "slice_ms": options.slice_ms,
        "stall_threshold_ms": options.stall_threshold_ms,
        "start_unix_ns": options.start_unix_ns,
    }
    try:
        with native_errors():
            parts = _core.read_pgbench_logs(msgspec.json.encode(spec).decode())
    except UsageError as error:
        raise TargetError(
            seen=error.seen,
            cause=f"The file system of pgbench's log ({options.folder}) is full or failing",
            next_step=f"Check it with `df {options.folder}`, then try again",
        ) from None
    return PgbenchLogs(
        completions=Completions.of(parts),
        processes=msgspec.convert(parts["processes"], list[ProcessLog]),
        disordered_lines=parts["disordered_lines"],
    )


_NUMBER: Final = r"([\d.]+)"
_TOTALS: Final = {
    "transactions": r"^number of transactions actually processed: (\d+)",
    "failed": r"^number of failed transactions: (\d+)",
    "skipped": r"^number of transactions skipped: (\d+)",
    "late": r"^number of transactions above the .* latency limit: (\d+)",
    "latency_ms_mean": rf"^latency average = {_NUMBER} ms",
    "latency_ms_stddev": rf"^latency stddev = {_NUMBER} ms",
    "lag_ms_mean": rf"^rate limit schedule lag: avg {_NUMBER} ",
    "lag_ms_max": rf"^rate limit schedule lag: .*\(max {_NUMBER}\) ms",
    "connect_ms": rf"^initial connection time = {_NUMBER} ms",
    "tps": rf"^tps = {_NUMBER} \((?:without initial|excluding) connection",
}
_PROGRESS: Final = re.compile(
    rf"^progress: {_NUMBER} s, {_NUMBER} tps, lat (?:{_NUMBER}|NaN) ms stddev", re.ASCII
)
_IGNORED_PREFIXES: Final = (
    *("pgbench: setting random seed", "starting vacuum", "end.", "LINE ", "pgbench: hint:"),
    "pgbench: error: Run was aborted",
)
_ERROR: Final = re.compile(r"\b(ERROR|FATAL|PANIC|aborted|error):? ")
_CLIENT: Final = re.compile(r"\bclient \d+")
_LINES_KEPT: Final = 8


class ProgressLine(msgspec.Struct, frozen=True, kw_only=True):
    """The last second of one process of pgbench.

    Attributes:
        at_s: Time since it began.
        per_s: Transactions per second.
        latency_ms: Their mean latency; 0 where there were none.
    """

    at_s: float
    per_s: float
    latency_ms: float


def totals(text: str) -> dict[str, float]:
    """Return pgbench's final output by our names; missing values are absent."""
    found = {name: re.search(rule, text, re.MULTILINE) for name, rule in _TOTALS.items()}
    return {name: float(match[1]) for name, match in found.items() if match}


def progress(line: str) -> ProgressLine | None:
    """Return the progress in a line; None for another line."""
    match = _PROGRESS.match(line)
    if match is None:
        return None
    return ProgressLine(
        at_s=float(match[1]), per_s=float(match[2]), latency_ms=float(match[3] or 0.0)
    )


def error_text(lines: Sequence[str]) -> str:
    """Return pgbench's error in one sentence, from its output on stderr."""
    informative = [
        line
        for line in lines
        if line.strip(" ^") and progress(line) is None and not line.startswith(_IGNORED_PREFIXES)
    ]
    # Hundreds of harmless notices may precede it.
    errors = [line for line in informative if _ERROR.search(line)]
    # All clients report the same for a dead server or an invalid statement: the first is used.
    words = [
        line.removeprefix("pgbench: ").removeprefix("error: ").strip()
        for line in errors or informative
    ]
    distinct: dict[str, str] = {}
    for word in words:
        distinct.setdefault(_CLIENT.sub("", word), word)
    return "; ".join(list(distinct.values())[:_LINES_KEPT]) or "no reason given"


LOG_PREFIX: Final = "pgbench"


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A script of the clients.

    Attributes:
        name: One of pgbench's own, or the path of a file.
        weight: Its relative frequency among several.
        operation: The operation kind of its transactions.
    """

    name: str
    weight: int = 1
    operation: str = "transaction"

    def arguments(self) -> list[str]:
        """Return pgbench's options for it."""
        option = "--builtin" if self.name in BUILTIN_SCRIPTS else "--file"
        return [option, f"{self.name}@{self.weight}"]


class Scripts(msgspec.Struct, frozen=True, kw_only=True):
    """The scripts of the clients.

    Attributes:
        scripts: At least one.
        variables: Variables of the scripts, by name.
    """

    scripts: list[Script]
    variables: dict[str, int] = {}


class PgbenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the processes of pgbench.

    Attributes:
        ended: Each process, in the order of the databases.
        totals: The final output of each, by our names.
        logs: The log files of each: one for each of its threads.
        interrupted: Whether the user ended it.
    """

    ended: list[ProcessResult]
    totals: list[dict[str, float]]
    logs: list[list[Path]]
    interrupted: bool

    @property
    def reported(self) -> dict[str, float]:
        """The totals by name; with several processes the name is followed by a number."""
        if len(self.totals) == 1:
            return dict(self.totals[0])
        return {
            f"{name}_{number}": value
            for number, printed in enumerate(self.totals, start=1)
            for name, value in printed.items()
        }


def scripts_of(spec: DatabaseSpec) -> Scripts:
    """Return the script of a cell of pgbench's kind."""
    if spec.script in BUILTIN_SCRIPTS:
        return Scripts(scripts=[Script(name=spec.script)])
    return Scripts(scripts=[Script(name=spec.script)], variables={"scale": spec.load.scale})


def run_pgbench(
    spec: DatabaseSpec,
    scripts: Scripts,
    endpoints: Endpoints,
    options: DriverOptions,
    watcher: Watcher,
) -> PgbenchRun:
    """Run one pgbench for each database, all at the same time.

    An interrupt stops them so that they print their totals; a second one kills them, and so does
    a transaction that takes too long to end.

    Raises:
        KeyboardInterrupt: when the user ended it twice, before any result, or while a transaction
            was in progress that did not end in time.
        TargetError: when one cannot be started, fails, or hangs; with its message.
    """
    command = _command(spec, scripts, endpoints, options)
    live = _ProgressMonitor(watcher)
    with options.processes or ProcessGroup() as processes:
        for number, environment in enumerate(endpoints.environments()):
            arguments = [*command, *_own_arguments(options, number)]
            processes.start(partial(started, arguments, environment, live.listener(number)))
        ended = _ended_in_order(processes, live, _Deadline(endpoints, options.duration_s))
    return _results(ended, options, interrupted=live.interrupted)


def _command(
    spec: DatabaseSpec, scripts: Scripts, endpoints: Endpoints, options: DriverOptions
) -> list[str]:
    """Return the command line that all processes share; it contains no secrets."""
    command = [
        str(endpoints.binaries.program("pgbench")),
        *("--no-vacuum", "--log", "--progress", "1"),
        *("--client", str(spec.clients)),
        *("--jobs", str(jobs(spec))),
        *("--time", str(whole_seconds(options.duration_s))),
    ]
    if spec.rate_per_s is not None:
        command += ["--rate", f"{spec.rate_per_s:g}"]
    if spec.latency_limit_ms is not None:
        command += ["--latency-limit", f"{spec.latency_limit_ms:g}"]
    return [*command, *script_arguments(spec, scripts)]


def script_arguments(spec: DatabaseSpec, scripts: Scripts) -> list[str]:
    """Return pgbench's options for scripts and protocol."""
    arguments = ["--protocol", spec.protocol]
    for name, value in scripts.variables.items():
        arguments += ["--define", f"{name}={value}"]
    for script in scripts.scripts:
        arguments += script.arguments()
    return arguments


def whole_seconds(duration_s: float) -> int:
    """Return pgbench's duration: it supports whole seconds only."""
    return max(1, math.ceil(duration_s))


def jobs(spec: DatabaseSpec) -> int:
    """Return the threads of each process: one per core, at most one for each client."""
    cores = len(os.sched_getaffinity(0)) // spec.processes
    return min(spec.jobs or max(1, cores), spec.clients)


def _own_arguments(options: DriverOptions, number: int) -> list[str]:
    """Return the options that differ between processes: seed and log prefix."""
    return [
        f"--random-seed={options.seed + number}",
        f"--log-prefix={options.folder / LOG_PREFIX}-{number}",
    ]


def started(
    arguments: Sequence[str], environment: Mapping[str, str], on_line: Callable[[str], None]
) -> Process:
    """Start pgbench.

    Args:
        arguments: The program and its arguments.
        environment: All of it.
        on_line: Called with each line of its errors.

    Raises:
        TargetError: when it cannot be started.
    """
    try:
        return Process(arguments, environment, on_line)
    except OSError as error:
        raise TargetError(
            seen=f"{arguments[0]} cannot be started: {error.strerror}",
            cause="The program is for another architecture, or a limit of this session is reached",
            next_step=f"Try `{arguments[0]} --version`",
        ) from None


def _ended_in_order(
    processes: ProcessGroup, live: _ProgressMonitor, deadline: _Deadline
) -> list[ProcessResult]:
    def poll() -> None:
        live.report()
        deadline.check()

    while True:
        try:
            return processes.wait(poll)
        except KeyboardInterrupt:
            if live.interrupted:
                raise
            live.interrupted = True
            deadline.stop()
            # With --time an alarm ends pgbench: here it is sent early.
            processes.signal(signal.SIGALRM)


STOPPED_S_MAX: Final = 10.0
"""After an interrupt, transactions in progress may last so long; longer ones are abandoned."""
CONNECT_S_MAX: Final = 30.0
OVERDUE_S_MAX: Final = 60.0
"""pgbench ends with the transactions that are in progress when its time is over."""
_WORKING: Final = ("CPU", "IO:", "Timeout:")
"""Waits of a long transaction that makes progress."""
_STANDBY: Final = "IPC:SyncRep"
_WAITS: Final = """
    SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU') FROM pg_stat_activity
    WHERE state = 'active' AND backend_type IN ('client backend', 'parallel worker')
        AND datname = ANY (%s) AND pid <> pg_backend_pid()
    GROUP BY 1 ORDER BY count(*) DESC
"""


class _Deadline:
    """Ends a wait for clients that hang, as for a standby that does not answer."""

    def __init__(self, endpoints: Endpoints, duration_s: float) -> None:
        self._endpoints = endpoints
        self._at_s = time.monotonic() + duration_s + CONNECT_S_MAX + OVERDUE_S_MAX
        self._stopped_at_s = math.inf

    def stop(self) -> None:
        """Begin the time that is left after an interrupt."""
        self._stopped_at_s = time.monotonic() + STOPPED_S_MAX

    def check(self) -> None:
        """Raise KeyboardInterrupt if that time is over, and TargetError if the clients hang."""
        if time.monotonic() >= self._stopped_at_s:
            raise KeyboardInterrupt
        if time.monotonic() < self._at_s:
            return
        waits = _waits(self._endpoints)
        # Others may wait for the one that works.
        if not any(wait.startswith(_WORKING) for wait in waits):
            raise _hangs(waits)
        self._at_s = time.monotonic() + OVERDUE_S_MAX


def _waits(endpoints: Endpoints) -> list[str]:
    """Return what active clients wait for, as ``class:event``, the most frequent first."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    names = [address.dbname for address in endpoints.addresses]
    try:
        with connect(endpoints.addresses[0], secret=endpoints.secret) as connection:
            return [str(wait) for (wait,) in connection.execute(_WAITS, (names,))]
    except (psycopg.Error, TargetError):
        return []


def _hangs(waits: Sequence[str]) -> TargetError:
    over = f"pgbench did not end within {OVERDUE_S_MAX:g} s after its time was over"
    if _STANDBY in waits:
        return TargetError(
            seen=f"{over}: its commits wait for a standby ({_STANDBY})",
            cause="No synchronous standby answers",
            next_step="See pg_stat_replication, or leave synchronous_standby_names empty",
        )
    return TargetError(
        seen=f"{over}: its sessions wait for {', '.join(waits)}"
        if waits
        else f"{over}: no session is active",
        cause="The server or the network hangs",
        next_step="See pg_stat_activity and the server's log",
    )


def _results(
    ended: Sequence[ProcessResult], options: DriverOptions, *, interrupted: bool
) -> PgbenchRun:
    for number, process in enumerate(ended):
        if process.status != 0:
            if interrupted:
                # It ended before the clients were connected: there is no result.
                raise KeyboardInterrupt
            raise _pgbench_failed(process, number, len(ended))
    return PgbenchRun(
        ended=list(ended),
        totals=[totals(process.output) for process in ended],
        logs=[_logs(options, number) for number in range(len(ended))],
        interrupted=interrupted,
    )


def _logs(options: DriverOptions, number: int) -> list[Path]:
    return sorted(options.folder.glob(f"{LOG_PREFIX}-{number}.*"))


def _pgbench_failed(process: ProcessResult, number: int, count: int) -> TargetError:
    which = "pgbench" if count == 1 else f"pgbench number {number + 1}"
    how = f"exit code {process.status}" if process.status > 0 else f"signal {-process.status}"
    return TargetError(
        seen=f"{which} failed with {how}: {error_text(process.lines)}",
        cause="A statement failed, the server refused or closed connections (see "
        "max_connections), or the script is not a valid pgbench script",
        next_step="Run the script by hand with `pgbench`, and check the server's log",
    )


class _ProgressMonitor:
    """Combines the progress of all processes for the watcher."""

    def __init__(self, watcher: Watcher) -> None:
        self.interrupted = False
        self._watcher = watcher
        self._began_s = time.monotonic()
        self._latest: dict[int, ProgressLine] = {}
        self._completed_s = self._began_s

    def listener(self, number: int) -> Callable[[str], None]:
        """Return a function that processes the lines of a process."""
        return lambda line: self._add(number, line)

    def _add(self, number: int, line: str) -> None:
        reading = progress(line)
        if reading is None:
            return
        self._latest[number] = reading
        if reading.per_s > 0:
            self._completed_s = time.monotonic()

    def report(self) -> None:
        """Report the last second to the watcher; pgbench has means only, no percentiles."""
        now_s = time.monotonic()
        per_s = sum(line.per_s for line in self._latest.values())
        weighted = sum(line.per_s * line.latency_ms for line in self._latest.values())
        quiet_s = now_s - self._completed_s
        self._watcher.live(
            LiveReading(
                elapsed_s=now_s - self._began_s,
                iops=per_s,
                bytes_per_s=0.0,
                p99_ns=0,
                mean_ns=int(weighted / per_s * 1e6) if per_s > 0 else 0,
                stalls=0,
                oldest_in_flight_ns=int(quiet_s * 1e9) if self._latest and per_s == 0 else 0,
            )
        )
