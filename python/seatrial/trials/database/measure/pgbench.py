"""PostgreSQL's own pgbench as the driver: started, followed, ended in order, its totals kept.

Source of options and of the log: PostgreSQL's documentation of pgbench, versions 13 to 18.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import TargetError
from seatrial.measure.progress import LiveReading, Watcher
from seatrial.trials.database.measure.driver_result import DriverOptions, Endpoints
from seatrial.trials.database.measure.printed import Progress, complaint, progress, totals
from seatrial.trials.database.measure.processes import Crowd, Ended, Process
from seatrial.trials.database.study.workloads import BUILTIN_SCRIPTS, DatabaseSpec

LOG_PREFIX: Final = "pgbench"


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A script that the clients run.

    Attributes:
        name: One of pgbench's own, or the path of a file.
        weight: How often it is chosen among several.
        operation: The operation kind that its transactions are.
    """

    name: str
    weight: int = 1
    operation: str = "transaction"

    def arguments(self) -> list[str]:
        """Return how pgbench is told of it."""
        option = "--builtin" if self.name in BUILTIN_SCRIPTS else "--file"
        return [option, f"{self.name}@{self.weight}"]


class Scripts(msgspec.Struct, frozen=True, kw_only=True):
    """What the clients run.

    Attributes:
        scripts: At least one.
        variables: That the scripts use, by name.
    """

    scripts: list[Script]
    variables: dict[str, int] = {}


class PgbenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes of pgbench left behind.

    Attributes:
        ended: Each process, in the order of the databases.
        totals: What each printed at its end, by our names.
        logs: The log files of each: one for each of its threads.
        interrupted: Whether the user asked for the end.
    """

    ended: list[Ended]
    totals: list[dict[str, float]]
    logs: list[list[Path]]
    interrupted: bool

    @property
    def told(self) -> dict[str, float]:
        """The totals by name; with several processes their number follows the name."""
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

    An interrupt ends them in order, so that they print their totals; a second one kills them.

    Raises:
        KeyboardInterrupt: when the user ended it twice, or before there was anything to keep.
        TargetError: when one cannot be started, or gave up; with its own words.
    """
    command = _command(spec, scripts, endpoints, options)
    live = _Live(watcher)
    with Crowd() as crowd:
        for number, environment in enumerate(endpoints.environments()):
            arguments = [*command, *_own_arguments(options, number)]
            crowd.start(partial(_started, arguments, environment, live.hearing(number)))
        ended = _ended_in_order(crowd, live)
    return _left_behind(ended, options, interrupted=live.interrupted)


def _command(
    spec: DatabaseSpec, scripts: Scripts, endpoints: Endpoints, options: DriverOptions
) -> list[str]:
    """Return the command line that all processes share; there is nothing secret in it."""
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
    """Return how pgbench is told what to run, and by which protocol."""
    arguments = ["--protocol", spec.protocol]
    for name, value in scripts.variables.items():
        arguments += ["--define", f"{name}={value}"]
    for script in scripts.scripts:
        arguments += script.arguments()
    return arguments


def whole_seconds(duration_s: float) -> int:
    """Return how long pgbench runs: it knows whole seconds only."""
    return max(1, math.ceil(duration_s))


def jobs(spec: DatabaseSpec) -> int:
    """Return the threads of each process: as many as have a core, at most one for each client."""
    cores = len(os.sched_getaffinity(0)) // spec.processes
    return min(spec.jobs or max(1, cores), spec.clients)


def _own_arguments(options: DriverOptions, number: int) -> list[str]:
    """Return what the processes differ in: their seeds, and where they log."""
    return [
        f"--random-seed={options.seed + number}",
        f"--log-prefix={options.folder / LOG_PREFIX}-{number}",
    ]


def _started(
    arguments: Sequence[str], environment: Mapping[str, str], hear: Callable[[str], None]
) -> Process:
    try:
        return Process(arguments, environment, hear)
    except OSError as error:
        raise TargetError(
            seen=f"{arguments[0]} cannot be started: {error.strerror}",
            cause="The program is not one for this machine, or a limit of this session is reached",
            next_step=f"Try `{arguments[0]} --version`",
        ) from None


def _ended_in_order(crowd: Crowd, live: _Live) -> list[Ended]:
    while True:
        try:
            return crowd.listen(live.tell)
        except KeyboardInterrupt:
            if live.interrupted:
                raise
            live.interrupted = True
            # With --time the alarm is what ends pgbench: here it comes early.
            crowd.signal(signal.SIGALRM)


def _left_behind(
    ended: Sequence[Ended], options: DriverOptions, *, interrupted: bool
) -> PgbenchRun:
    for number, process in enumerate(ended):
        if process.status != 0:
            if interrupted:
                # It came before the clients were connected: there is nothing to keep.
                raise KeyboardInterrupt
            raise _gave_up(process, number, len(ended))
    return PgbenchRun(
        ended=list(ended),
        totals=[totals(process.output) for process in ended],
        logs=[_logs(options, number) for number in range(len(ended))],
        interrupted=interrupted,
    )


def _logs(options: DriverOptions, number: int) -> list[Path]:
    return sorted(options.folder.glob(f"{LOG_PREFIX}-{number}.*"))


def _gave_up(process: Ended, number: int, count: int) -> TargetError:
    which = "pgbench" if count == 1 else f"pgbench number {number + 1}"
    how = f"exit code {process.status}" if process.status > 0 else f"signal {-process.status}"
    return TargetError(
        seen=f"{which} gave up with {how}: {complaint(process.lines)}",
        cause="A statement failed, the server refused or lost its connections (it takes so many "
        "at once as max_connections says), or the script is not one of pgbench's",
        next_step="Try the script by hand with `pgbench`, and look at the server's log",
    )


class _Live:
    """Puts the progress of all processes together for whoever watches."""

    def __init__(self, watcher: Watcher) -> None:
        self.interrupted = False
        self._watcher = watcher
        self._began_s = time.monotonic()
        self._latest: dict[int, Progress] = {}
        self._completed_s = self._began_s

    def hearing(self, number: int) -> Callable[[str], None]:
        """Return what takes in the lines of a process."""
        return lambda line: self._take_in(number, line)

    def _take_in(self, number: int, line: str) -> None:
        heard = progress(line)
        if heard is None:
            return
        self._latest[number] = heard
        if heard.per_s > 0:
            self._completed_s = time.monotonic()

    def tell(self) -> None:
        """Tell how the last second went; pgbench tells means only, no percentiles."""
        now_s = time.monotonic()
        per_s = sum(each.per_s for each in self._latest.values())
        weighted = sum(each.per_s * each.latency_ms for each in self._latest.values())
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
