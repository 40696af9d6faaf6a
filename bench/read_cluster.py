"""How fast a log is read by the nodes of a Ray cluster, against one process; with one killed.

    bench/read_cluster.py                 rounds of a small log, then 2 GB with a node killed
    bench/read_cluster.py --log FILE      of a real log instead of a made-up one
    bench/read_cluster.py --quick         one round of a small log: does it run?

Three nodes of one processor each are on this machine, so they cannot be faster: the overhead of
splitting is measured. Each round reads the log once by `seatrial sql read` on all
processors and once with --ray, in a new random order; the traces must be the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
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
from paired import median_estimate, paired_ratio, reported
from ray_nodes import Nodes
from results_page import machine_lines, table
from server_log import write_log

from seatrial.stats.wording import format_plural, format_size

SECTION: Final = "read-cluster"
NODES: Final = 3
HERE, THERE = "one process", "three nodes"
LARGE_BYTES: Final = 2 * 10**9
KILL_SHARE: Final = 0.1
"""Share of the trace at which a node is killed."""
POLL_S: Final = 0.02


class DifferentError(Exception):
    """Two readings of one log made different traces, or could not be compared."""


@dataclass(frozen=True)
class TraceDigest:
    """Hash and size of a trace."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        conditions: The machine and the versions, as Markdown items.
        log_bytes: Size of the log of the rounds.
        real_s: Real time by reader, one value per round.
        large: Size of the large log, and the time of each reader; None in a quick run.
        sha256: Of the traces of the large log.
        seed: Of the order.
        loads: Load averages, one per round.
    """

    conditions: Sequence[str]
    log_bytes: int
    real_s: dict[str, list[float]]
    large: tuple[int, dict[str, float]] | None
    sha256: str
    seed: int
    loads: list[float]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=10,
        rounds_help="how often each reads",
        quick={"statements": 60_000},
        own={
            "--log": {"type": Path, "help": "a real log, repeated to 2 GB for the large one"},
            "--statements": {"type": at_least(1), "default": 300_000, "help": "of a made-up log"},
        },
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Run the rounds, then the large log; remove all logs.

    Raises:
        CalledProcessError: When a reader fails.
        DifferentError: When two traces of one log differ.
    """
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, Nodes(NODES) as nodes:
        folder = Path(name)
        log = options.log or folder / "small.log"
        if options.log is None:
            write_log(log, "csv", options.statements)
        real_s: dict[str, list[float]] = {HERE: [], THERE: []}
        loads = []
        for number in range(1, options.rounds + 1):
            found: dict[str, TraceDigest] = {}
            for reader in rng.sample([HERE, THERE], 2):
                took_s, found[reader] = read(log, folder, nodes if reader == THERE else None)
                real_s[reader].append(took_s)
            require_same(found)
            loads.append(os.getloadavg()[0])
            print(f"round {number} of {options.rounds}", file=sys.stderr)
        large, digest = None, ""
        if not options.quick:
            large_log = folder / "large.log"
            size_bytes = repeat(log, large_log)
            here_s, whole = read(large_log, folder, None)
            kill_at_bytes = round(whole.size_bytes * KILL_SHARE)
            there_s, there = read(large_log, folder, nodes, kill_at_bytes)
            require_same({HERE: whole, THERE: there})
            digest = whole.sha256
            large = (size_bytes, {HERE: here_s, THERE: there_s})
        return BenchResult(
            conditions=machine_lines(),
            log_bytes=log.stat().st_size,
            real_s=real_s,
            large=large,
            sha256=digest,
            seed=options.seed,
            loads=loads,
        )


def read(
    log: Path, folder: Path, nodes: Nodes | None, kill_at_bytes: int | None = None
) -> tuple[float, TraceDigest]:
    """Read a log by the command; return the real time (s) and what it made.

    Args:
        log: The log.
        folder: Where the trace is for a moment.
        nodes: The cluster that reads; None for all processors of one process.
        kill_at_bytes: One of its nodes is killed when so much of the trace is written.

    Raises:
        CalledProcessError: When it fails.
        DifferentError: When all was read before a node could be killed.
    """
    trace = folder / "of.trace"
    command = [sys.executable, "-m", "seatrial", "sql", "read", str(log), "-o", str(trace)]
    command += ["--force", "--json", *(["--ray", nodes.address] if nodes else [])]
    began_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    is_killed = kill_at_bytes is None
    while process.poll() is None:
        if not is_killed and nodes is not None and written_bytes(trace) >= (kill_at_bytes or 0):
            nodes.kill()
            is_killed = process.poll() is None
        time.sleep(POLL_S)
    took_s = time.perf_counter() - began_s
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    if not is_killed:
        raise DifferentError("all was read before a node could be killed")
    made = TraceDigest(hashlib.sha256(trace.read_bytes()).hexdigest(), trace.stat().st_size)
    trace.unlink()
    return took_s, made


def written_bytes(trace: Path) -> int:
    """Return how much of a trace is written that is not complete."""
    part = trace.with_name(f"{trace.name}.part")
    return part.stat().st_size if part.exists() else 0


def require_same(digests: dict[str, TraceDigest]) -> None:
    """Raise DifferentError unless all traces are the same bytes."""
    if len(set(digests.values())) != 1:
        raise DifferentError(f"the traces differ: {digests}")


def repeat(log: Path, large: Path) -> int:
    """Write a log again and again until it is large; return its size."""
    content = log.read_bytes()
    with large.open("wb") as file:
        while file.tell() < LARGE_BYTES:
            file.write(content)
        return file.tell()


def section(measured: BenchResult) -> str:
    """Return the bench's section as Markdown."""
    rounds = len(measured.loads)
    here, there = measured.real_s[HERE], measured.real_s[THERE]
    rows = [
        [f"{format_size(measured.log_bytes)}, {name}, s", reported(median_estimate(own, "s"), 1)]
        for name, own in measured.real_s.items()
    ]
    rows.append(["three nodes / one process, real time", reported(paired_ratio(there, here), 2)])
    killed = ""
    if measured.large is not None:
        size_bytes, taken = measured.large
        rows += [
            [f"{format_size(size_bytes)}, {name}, s, once", f"{own_s:.0f}"]
            for name, own_s in taken.items()
        ]
        killed = (
            "\n\nOf the large log, one of the three nodes was killed when a tenth of the trace was "
            f"written. Both traces have the SHA-256 {measured.sha256}."
        )
    return "\n\n".join(
        [
            "## Reading a log on a cluster",
            f"Written by `bench/read_cluster.py` on {datetime.now(UTC):%Y-%m-%d} (UTC), "
            f"{format_plural(rounds, 'round')}, order from seed {measured.seed}. The three nodes "
            "are on this machine and share its processors with the one process, so the ratio is "
            "what the parts cost, the start of the workers too. In each round, both traces were "
            "the same bytes.",
            "\n".join(
                [
                    *measured.conditions,
                    "- load average during the rounds: "
                    + reported(median_estimate(measured.loads, "load"), 1),
                ]
            ),
            table(["figure", "measured"], rows) + killed,
        ]
    )


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (subprocess.CalledProcessError, DifferentError),
    )
