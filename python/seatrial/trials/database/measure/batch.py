"""A batch: a file of SQL or a program, timed from start to end as a shell's ``time`` does."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from seatrial import _core
from seatrial.errors import TargetError
from seatrial.trials.database.measure.driver_result import DriverOptions, DriverResult, Endpoints
from seatrial.trials.database.measure.processes import Crowd, Ended, Process
from seatrial.trials.database.study.workloads import DatabaseSpec

OPERATION: Final = "batch"
LAST_WORDS: Final = 5
LAST_WORDS_S: Final = 5.0
"""So long a batch that is over its time may take to end by itself."""
_NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000


def command_of(file: str, endpoints: Endpoints) -> list[str]:
    """Return the command line of a batch: psql for SQL, else the file itself.

    Raises:
        TargetError: when it is neither SQL nor a program.
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
    """Run the batch once on each database, at the same time.

    One that fails, or is over its time, is a failed operation with its last words.

    Raises:
        KeyboardInterrupt: when the user ended it: what did not end was not measured.
        TargetError: when the file cannot be run.
    """
    command = command_of(spec.script, endpoints)
    started_unix_s = time.time()
    deadline = _Deadline(options.duration_s)
    with Crowd() as crowd:
        deadline.crowd = crowd
        for environment in endpoints.environments():
            crowd.start(partial(_started, command, environment))
        ended = crowd.listen(deadline.look)
    return DriverResult(
        parts={"started_at": started_unix_s, **_parts(ended, options, deadline)},
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
            f"The batch failed: {_last_words(process, deadline)}."
            for process in ended
            if process.status != 0
        ],
    )


class _Deadline:
    """Ends the batch when its time is over."""

    def __init__(self, duration_s: float) -> None:
        self.crowd = Crowd()
        self.duration_s = duration_s
        self.is_over = False
        self._began_s = time.monotonic()

    def look(self) -> None:
        elapsed_s = time.monotonic() - self._began_s
        if elapsed_s > self.duration_s + LAST_WORDS_S:
            self.crowd.signal(signal.SIGKILL)
        elif elapsed_s > self.duration_s and not self.is_over:
            self.is_over = True
            # psql cancels its statement on an interrupt, so that the server ends it, too.
            self.crowd.signal(signal.SIGINT)


def _started(command: Sequence[str], environment: dict[str, str]) -> Process:
    try:
        return Process(command, environment, lambda _line: None)
    except OSError as error:
        raise _unusable(
            Path(command[0]),
            f"cannot be started: {error.strerror}",
            "its first line names no interpreter of this machine",
            f"head -1 {command[0]}",
        ) from None


def _parts(ended: Sequence[Ended], options: DriverOptions, deadline: _Deadline) -> dict[str, Any]:
    """Return the sample's parts: each batch is one operation, its real time the response."""
    good_ns = [round(each.real_s * _NS_PER_S) for each in ended if each.status == 0]
    failed = [each for each in ended if each.status != 0]
    slice_ns = options.slice_ms * _NS_PER_MS
    slices = [
        (index, OPERATION, len(same_ns), 0, _core.Histogram.of(same_ns).encode())
        for index, same in itertools.groupby(sorted(good_ns), lambda real_ns: real_ns // slice_ns)
        for same_ns in [list(same)]
    ]
    return {
        "duration_s": max(each.real_s for each in ended),
        "outcome": {
            "offered": len(ended),
            "completed": len(good_ns),
            "failed": len(failed),
            "late_skipped": 0,
            "in_flight_at_end": 0,
        },
        "operations": {
            OPERATION: {
                "completed": len(good_ns),
                "failed": len(failed),
                "transferred_bytes": 0,
                "response": _core.Histogram.of(good_ns).encode(),
            }
        },
        "timeline": {"slice_ns": slice_ns, "slices": slices},
        "errors_count": len(failed),
        "errors": [_error(each, deadline) for each in failed],
    }


def _error(process: Ended, deadline: _Deadline) -> dict[str, Any]:
    return {
        "operation": OPERATION,
        "offset_bytes": 0,
        "length_bytes": 0,
        "errno": max(process.status, 0),
        "name": _last_words(process, deadline),
        "at_s": process.real_s,
    }


def _last_words(process: Ended, deadline: _Deadline) -> str:
    """Return how a batch failed, with the last that it wrote to stderr."""
    how = f"exit code {process.status}" if process.status > 0 else f"signal {-process.status}"
    if deadline.is_over:
        how = f"ended after {deadline.duration_s:g} s"
    words = " / ".join(line.strip() for line in process.lines[-LAST_WORDS:] if line.strip())
    return f"{how}{': ' if words else ''}{words}"


def _unusable(path: Path, what: str, cause: str, command: str) -> TargetError:
    return TargetError(
        seen=f"The batch {path} {what}",
        cause=f"Probably {cause}",
        next_step=f"Look at it with `{command}`",
    )
