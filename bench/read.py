"""How fast logs are read: by itself, and as `seatrial sql read` does, on one core and on all.

    bench/read.py                  the figures of bench/RESULTS.md: 10 rounds, a few minutes
    bench/read.py --large          one log of 2 GB as well, for memory
    bench/read.py --quick          one round of small logs, printed and not written: does it run?

The three logs have the same statements (bench/server_log.py). In each round every reader reads
once, in a new random order. Reading by itself is crates/ingest/examples/read_log.rs, which writes
nothing; otherwise Python calls the native module as the command does, from log to trace. The time
to start and end is measured in the same round on a log of a few lines, and subtracted. MB/s of one
core are bytes over processor time; the gain of two cores is the ratio of real times, paired inside
each round. pgreplay, where it is installed, parses the same csv in the same
rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from command import at_least, parsed_options, run_bench
from example import build_example
from paired import Bar, median_estimate, paired_ratio, reported
from results_page import ROOT, machine_lines, table
from server_log import PREFIX, WRITERS, write_log

from seatrial.stats.wording import format_plural, format_size
from seatrial.units import MB, MIB

SECTION: Final = "read"
READ: Final = """
import sys
from seatrial import _core
reading = _core.start_sql_read(sys.argv[1])
reading.wait(1e6)
reading.result()
"""
ALONE, ONE, ALL = "reading alone", "log to trace on one core", "log to trace on all cores"
PGREPLAY, ATTEMPT = "pgreplay", "again"
ON_ONE_CORE: Final = (ALONE, ONE, ATTEMPT)
EXAMPLE: Final = "read_log"
MB_PER_S_LEAST: Final = 250.0
MEMORY_MIB_MOST: Final = 256.0
TRACE_SHARE_MOST: Final = 1 / 8
TINY_STATEMENTS: Final = 7
LARGE_BYTES: Final = 2 * 10**9


@dataclass(frozen=True, kw_only=True)
class ResourceUse:
    """Time and memory of one command.

    Attributes:
        cpu_s: Processor time, of all its threads.
        real_s: Real time.
        peak_bytes: The most memory that it held.
    """

    cpu_s: float
    real_s: float
    peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        conditions: The machine and the versions, as Markdown items.
        log_bytes: Size of the log by format.
        trace_bytes: Size of the trace by format.
        spent: By format and reader, one value per round, without the start.
        large: Size of the large log, and time and memory to read it; None unless requested.
        statements: Of each log.
        seed: Of the order.
        loads: Load averages, one per round.
    """

    conditions: Sequence[str]
    log_bytes: dict[str, int]
    trace_bytes: dict[str, int]
    spent: dict[tuple[str, str], list[ResourceUse]]
    large: tuple[int, ResourceUse] | None
    statements: int
    seed: int
    loads: list[float]


class Bench:
    """The logs of a run and the commands that read them."""

    def __init__(self, folder: Path, reader: Path, statements: int) -> None:
        self._folder = folder
        self._reader = reader
        self.logs = {form: folder / f"log.{form}" for form in WRITERS}
        for form, log in self.logs.items():
            write_log(log, form, statements)
            write_log(self._tiny(form), form, TINY_STATEMENTS)

    def readers(self) -> list[tuple[str, str]]:
        """Return the pairs of format and reader."""
        pairs = [(form, reader) for form in WRITERS for reader in (ALONE, ONE, ALL, ATTEMPT)]
        return pairs + ([("csv", PGREPLAY)] if shutil.which(PGREPLAY) else [])

    def read(self, form: str, reader: str) -> ResourceUse:
        """Let a reader read the log of a format; return time and memory without the start."""
        tiny = self._run(form, reader, self._tiny(form))
        full = self._run(form, reader, self.logs[form])
        return ResourceUse(
            cpu_s=full.cpu_s - tiny.cpu_s,
            real_s=full.real_s - tiny.real_s,
            peak_bytes=full.peak_bytes,
        )

    def trace_bytes(self, form: str) -> int:
        """Return the size of the trace of a format's log."""
        self._run(form, ALL, self.logs[form])
        return self._trace.stat().st_size

    def large(self) -> tuple[int, ResourceUse]:
        """Write a csv of 2 GB and read it on all cores; return its size, time and memory."""
        per_statement = self.logs["csv"].stat().st_size / _lines(self.logs["csv"])
        log = self._folder / "large.csv"
        write_log(log, "csv", int(LARGE_BYTES / per_statement))
        spent = self._run("csv", ALL, log)
        size_bytes = log.stat().st_size
        log.unlink()
        return size_bytes, spent

    @property
    def _trace(self) -> Path:
        return self._folder / "log.trace"

    def _tiny(self, form: str) -> Path:
        return self._folder / f"tiny.{form}"

    def _run(self, form: str, reader: str, log: Path) -> ResourceUse:
        prefix = PREFIX if form == "stderr" else None
        if reader == PGREPLAY:
            command = [PGREPLAY, "-f", "-c", "-o", str(self._trace), str(log)]
        elif reader == ALONE:
            command = [str(self._reader), "1", form, str(log), *([prefix] if prefix else [])]
        else:
            spec = {
                "logs": [str(log)],
                "output": str(self._trace),
                "format": form,
                "prefix": prefix,
                "workers": 1 if reader in ON_ONE_CORE else None,
            }
            command = [sys.executable, "-c", READ, json.dumps(spec)]
        cores = os.sched_getaffinity(0)
        return run(command, {min(cores)} if reader in ON_ONE_CORE else cores)


def run(command: Sequence[str], cores: set[int]) -> ResourceUse:
    """Run a command on some cores; return its time and memory.

    Raises:
        CalledProcessError: When it fails.
    """
    began_s = time.perf_counter()
    process = subprocess.Popen(
        ["taskset", "--cpu-list", ",".join(map(str, sorted(cores))), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    real_s = time.perf_counter() - began_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return ResourceUse(
        cpu_s=usage.ru_utime + usage.ru_stime, real_s=real_s, peak_bytes=usage.ru_maxrss * 1024
    )


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=10,
        rounds_help="how often each program reads",
        quick_help="one round of small logs",
        quick={"statements": 20_000},
        own={
            "--statements": {
                "type": at_least(TINY_STATEMENTS),
                "default": 1_000_000,
                "help": "of each log",
            },
            "--large": {"action": "store_true", "help": "a log of 2 GB as well, for memory"},
        },
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Write the logs, run the rounds, remove the logs.

    Raises:
        CalledProcessError: When a reader fails.
    """
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        bench = Bench(Path(folder), build_example("ingest", EXAMPLE), options.statements)
        readers = bench.readers()
        spent: dict[tuple[str, str], list[ResourceUse]] = {pair: [] for pair in readers}
        loads = []
        for number in range(1, options.rounds + 1):
            for pair in rng.sample(readers, len(readers)):
                spent[pair].append(bench.read(*pair))
            loads.append(os.getloadavg()[0])
            print(f"round {number} of {options.rounds}", file=sys.stderr)
        return BenchResult(
            conditions=machine_lines(),
            log_bytes={form: log.stat().st_size for form, log in bench.logs.items()},
            trace_bytes={form: bench.trace_bytes(form) for form in WRITERS},
            spent=spent,
            large=bench.large() if options.large else None,
            statements=options.statements,
            seed=options.seed,
            loads=loads,
        )


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    loads = median_estimate(measured.loads, "load")
    return "\n\n".join(
        [
            "## Reading logs",
            f"Written by `bench/read.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(len(measured.loads), 'round')} of logs of "
            f"{format_plural(measured.statements, 'statement')}, order from seed {measured.seed}. "
            "What a command takes to start and end is subtracted. Intervals are of at least 95 %, "
            "by order statistics over rounds.",
            "\n".join(
                [
                    *measured.conditions,
                    f"- load average during the rounds: {reported(loads, 1)}",
                    *(
                        f"- {form}: {format_size(size)}, trace {format_size(trace)}"
                        for form, size in measured.log_bytes.items()
                        for trace in [measured.trace_bytes[form]]
                    ),
                ]
            ),
            table(["figure", "bar", "measured", "verdict"], [*_rate_rows(measured)]),
            table(["ratio", "measured"], [*_ratio_rows(measured)]),
            table(["bound", "bar", "measured"], [*_bound_rows(measured)]),
        ]
    )


def rates_mb_per_s(measured: BenchResult, form: str, reader: str) -> list[float]:
    """Return MB (of 1,000,000 bytes) per second of processor time, one value per round."""
    return [measured.log_bytes[form] / MB / spent.cpu_s for spent in measured.spent[form, reader]]


def _rate_rows(measured: BenchResult) -> list[list[str]]:
    """Return the rows of reading speed; a bar is on the time per megabyte."""
    rows = []
    for form, reader in measured.spent:
        if reader == ATTEMPT:
            continue
        by_round = rates_mb_per_s(measured, form, reader)
        rate = reported(median_estimate(by_round, "MB/s"), 0)
        bar = Bar(
            what=f"{form}, {reader}, MB per second of processor time",
            most=1 / MB_PER_S_LEAST,
            estimate=median_estimate([1 / each for each in by_round], "s"),
        )
        least, verdict = (f"{MB_PER_S_LEAST:g}", bar.verdict) if reader == ALONE else ("", "")
        rows.append([bar.what, least, rate, verdict])
    return rows


def _ratio_rows(measured: BenchResult) -> list[list[str]]:
    rows = []
    for form in WRITERS:
        one, both = (
            [spent.real_s for spent in measured.spent[form, reader]] for reader in (ONE, ALL)
        )
        rows.append(
            [
                f"{form}, log to trace, real time on one core / on all",
                reported(paired_ratio(one, both), 2),
            ]
        )
        first, again = (rates_mb_per_s(measured, form, reader) for reader in (ONE, ATTEMPT))
        noise = reported(paired_ratio(first, again), 3)
        rows.append([f"{form}, log to trace on one core / again (the noise)", noise])
    if ("csv", PGREPLAY) in measured.spent:
        theirs = rates_mb_per_s(measured, "csv", PGREPLAY)
        for reader in (ALONE, ONE):
            ratio = reported(paired_ratio(rates_mb_per_s(measured, "csv", reader), theirs), 1)
            rows.append([f"csv, {reader} / pgreplay, MB per second of processor time", ratio])
    return rows


def _bound_rows(measured: BenchResult) -> list[list[str]]:
    peaks = [
        spent.peak_bytes
        for (_, reader), taken in measured.spent.items()
        if reader not in (PGREPLAY, ALONE)
        for spent in taken
    ]
    peak_mib = max(peaks) / MIB
    share = measured.trace_bytes["csv"] / measured.log_bytes["csv"]
    rows = [
        ["most memory, MiB", f"{MEMORY_MIB_MOST:g}", f"{peak_mib:.0f}"],
        ["trace / csv", f"{TRACE_SHARE_MOST:g}", f"{share:.3f}"],
    ]
    if measured.large is not None:
        size_bytes, spent = measured.large
        rows.append(
            [
                f"most memory for a csv of {format_size(size_bytes)}, MiB",
                f"{MEMORY_MIB_MOST:g}",
                f"{spent.peak_bytes / MIB:.0f} ({size_bytes / MB / spent.real_s:.0f} MB/s, once)",
            ]
        )
    return rows


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (subprocess.CalledProcessError,),
    )
