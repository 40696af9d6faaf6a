"""The compared commands, which read at random, and the processor time of each.

Processor time is user plus system time of the whole process, the processes that it waited for and
its io_uring kernel workers, which are its threads (wait4(2)). Kernel threads outside of the
process, such as a loop device's worker, are not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

BLOCK_BYTES: Final = 4096
DEPTH: Final = 128
SEED: Final = 7

ONE_CELL: Final = """
import json, sys
from seatrial._core import start
running = start(sys.argv[1])
while not running.wait(60):
    pass
print(json.dumps({key: part for key, part in running.result().items()
                  if key in ("engine", "outcome", "counters", "errors_count")}))
"""
"""The smallest process that measures a cell: the engine without the command line around it."""

FIO_REGISTERED: Final = ("--fixedbufs=1", "--registerfiles=1", "--nonvectored=1")
SEATRIAL_BATCH: Final = 13
"""The number of completions of 128 that Seatrial waits for, so that it adds at most 5 % of latency
(``batch_max`` in crates/load/src/engine.rs)."""


class CommandError(Exception):
    """A command of the bench failed; the message ends with its output."""


@dataclass(frozen=True, kw_only=True)
class BenchTarget:
    """What is read.

    Attributes:
        name: Its short name.
        what: What it is, for a reader.
        path: The file or device; None for the engine alone.
        size_bytes: How much of it is read.
        direct: Whether the page cache is bypassed.
    """

    name: str
    what: str
    path: Path | None
    size_bytes: int
    direct: bool


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Processor time and output of a command.

    Attributes:
        user_s: Processor time in user space.
        system_s: Processor time in the kernel.
        output: What it printed.
    """

    user_s: float
    system_s: float
    output: str

    @property
    def total_s(self) -> float:
        """Total processor time."""
        return self.user_s + self.system_s


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One run of a contender.

    Attributes:
        completed: Requests that succeeded.
        user_s: Processor time in user space.
        system_s: Processor time in the kernel.
    """

    completed: int
    user_s: float
    system_s: float


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A compared program.

    Attributes:
        name: Its short name.
        command: Returns its command for a target and a time in s.
        completed: Parses from its output how many requests succeeded.
    """

    name: str
    command: Callable[[BenchTarget, float], list[str]]
    completed: Callable[[str], int]

    def run(self, target: BenchTarget, duration_s: float) -> Reading:
        """Read from a target for some time.

        Raises:
            CommandError: When the command or a request fails.
        """
        usage = usage_of(self.command(target, duration_s))
        return Reading(
            completed=self.completed(usage.output), user_s=usage.user_s, system_s=usage.system_s
        )


def usage_of(command: list[str]) -> Usage:
    """Run a command to its end and return its processor time and output.

    Raises:
        CommandError: When it cannot be run or fails.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors_text:
        try:
            process = subprocess.Popen(command, stdout=output, stderr=errors_text)
        except OSError as error:
            raise CommandError(f"{command[0]} cannot be run: {error}") from error
        _, status, taken = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise CommandError(
                f"{' '.join(command)} ended with {process.returncode}: {_text(errors_text)}"
            )
        return Usage(user_s=taken.ru_utime, system_s=taken.ru_stime, output=_text(output))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def seatrial(name: str, engine: str, depth: int) -> Contender:
    """Return Seatrial with one thread: every latency and the timeline are recorded."""

    def command(target: BenchTarget, duration_s: float) -> list[str]:
        cell = json.dumps(cell_of(target, engine, depth, duration_s))
        return [sys.executable, "-c", ONE_CELL, cell]

    return Contender(name=name, command=command, completed=seatrial_completed)


def cell_of(target: BenchTarget, engine: str, depth: int, duration_s: float) -> dict[str, Any]:
    """Return the engine's specification (docs/engine.md) of 4 KiB random reads."""
    target_spec: dict[str, Any] = {"kind": "null"}
    if target.path is not None:
        target_spec = {"kind": "file", "path": str(target.path), "direct": target.direct}
    access = {
        "operation": "read",
        "sizes": [{"bytes": BLOCK_BYTES}],
        "align_bytes": BLOCK_BYTES,
        "address": {"kind": "random"},
    }
    return {
        "seed": SEED,
        "target": target_spec | {"size_bytes": target.size_bytes},
        "range": {"start_bytes": 0, "length_bytes": target.size_bytes},
        "accesses": [access],
        "threads": 1,
        "depth": depth,
        "engine": engine,
        "limit": {"duration_s": duration_s},
    }


def seatrial_completed(output: str) -> int:
    """Return how many requests of a cell succeeded.

    Raises:
        CommandError: When some failed.
    """
    sample = json.loads(output)
    outcome = sample["outcome"]
    if outcome["completed"] != outcome["offered"]:
        raise CommandError(f"seatrial did not complete all it offered: {outcome}")
    return int(outcome["completed"])


def fio(name: str, engine: str, *options: str) -> Contender:
    """Return fio with one job that records its latencies, as by default."""

    def command(target: BenchTarget, duration_s: float) -> list[str]:
        return [
            "fio",
            "--name=bench",
            f"--filename={target.path}",
            f"--size={target.size_bytes}",
            "--rw=randread",
            f"--bs={BLOCK_BYTES}",
            f"--direct={int(target.direct)}",
            "--invalidate=0",
            "--time_based",
            f"--runtime={round(duration_s * 1000)}ms",
            "--output-format=json",
            f"--ioengine={engine}",
            *options,
        ]

    return Contender(name=name, command=command, completed=fio_completed)


def fio_completed(output: str) -> int:
    """Return how many reads a run of fio completed, from its JSON.

    Notes that fio prints before the JSON are passed over.

    Raises:
        CommandError: When there is no JSON or a job reports an error.
    """
    begin = 0 if output.startswith("{") else output.find("\n{") + 1
    try:
        jobs = json.loads(output[begin:])["jobs"]
    except (ValueError, KeyError) as error:
        raise CommandError(f"fio printed no JSON but: {output[:400]}") from error
    if any(job["error"] for job in jobs):
        raise CommandError(f"fio reports errors {[job['error'] for job in jobs]}")
    return sum(int(job["read"]["total_ios"]) for job in jobs)


def fio_version() -> str:
    """Return fio's own name and version, such as ``fio-3.33``.

    Raises:
        CommandError: When fio cannot be run.
    """
    return usage_of(["fio", "--version"]).output.strip()


def fio_tuned(name: str, batch: int) -> Contender:
    """Return fio with registered buffers and file that submits and reaps so many at once."""
    batches = (
        f"--iodepth_batch_submit={batch}",
        f"--iodepth_batch_complete_min={batch}",
        f"--iodepth_batch_complete_max={batch}",
    )
    return fio(name, "io_uring", f"--iodepth={DEPTH}", *FIO_REGISTERED, *batches)


SEATRIAL: Final = "seatrial"
SEATRIAL_AGAIN: Final = "seatrial again"
SEATRIAL_PSYNC: Final = "seatrial psync"
FIO_DEFAULTS: Final = "fio defaults"
FIO_TUNED: Final = "fio tuned"
FIO_SAME_BATCH: Final = f"fio tuned, batches of {SEATRIAL_BATCH}"
FIO_PSYNC: Final = "fio psync"


def contenders_at(target: BenchTarget) -> list[Contender]:
    """Return the programs compared on a target; only Seatrial on the null target."""
    ours = [seatrial(SEATRIAL, "io_uring", DEPTH)]
    if target.path is None:
        return ours
    return [
        *ours,
        seatrial(SEATRIAL_AGAIN, "io_uring", DEPTH),
        seatrial(SEATRIAL_PSYNC, "psync", 1),
        fio(FIO_DEFAULTS, "io_uring", f"--iodepth={DEPTH}"),
        fio_tuned(FIO_TUNED, 32),
        fio_tuned(FIO_SAME_BATCH, SEATRIAL_BATCH),
        fio(FIO_PSYNC, "psync"),
    ]
