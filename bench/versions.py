"""The cost of a change: two built checkouts do the same work in turn.

    bench/versions.py OTHER              this checkout against the one in OTHER, 12 rounds
    bench/versions.py OTHER --quick      one round, printed and not written: does it run?

OTHER is the folder of another checkout with its environment (`make setup` there). Three things are
done by each in every round, in a new random order: the engine makes requests of the null target
for a second, a log of SQL is read into a trace, and that trace is played to a server that answers
at once. Each runs in a process of its own checkout; what is compared is the processor time for a
request or statement, which a busy machine disturbs least, taken by the kernel's account. The ratio
of the elapsed times is reported, too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from command import at_least, parsed_options, run_bench
from paired import Bar, median_estimate, paired_ratio, reported
from results_page import ROOT, machine_lines, table
from server_log import write_log

from seatrial.errors import SeatrialError

SECTION: Final = "versions"
WORKS: Final = ("engine", "reading", "replay")
SIDES: Final = ("this", "other", "again")
"""Of one work; the last is the other once more."""
RATIO_MAX: Final = 1.05
"""Above it a change is a loss."""

# Runs in the interpreter of either checkout: its own core, nothing of this file's.
WORK: Final = """
# Runs in the interpreter of either checkout: its own core, nothing of this file's.
import json, os, resource, sys, time
from seatrial import _core

def engine(folder, count):
    access = {"operation": "read", "sizes": [{"bytes": 4096, "weight": 1}], "align_bytes": 4096,
              "address": {"kind": "random"}}
    spec = {"seed": 1, "target": {"kind": "null", "size_bytes": 1 << 30},
            "range": {"start_bytes": 0, "length_bytes": 1 << 30}, "accesses": [access],
            "threads": 1, "depth": 1, "limit": {"operations": count, "duration_s": 60.0}}
    running = _core.start(json.dumps(spec))
    running.wait(1e6)
    return running.result()["outcome"]["completed"]

def kept(folder, count, name="statements"):
    output = f"{folder}/{name}.trace"
    spec = {"logs": [f"{folder}/statements.csv"], "output": output, "format": "csv"}
    running = _core.start_sql_read(json.dumps(spec))
    running.wait(1e6)
    return json.loads(running.result())["accounting"]["executable"]

def reading(folder, count):
    done = kept(folder, count, str(os.getpid()))
    os.unlink(f"{folder}/{os.getpid()}.trace")
    return done

def replay(folder, count):
    server = _core.NullServer()
    address = {"host": server.host, "port": server.port, "user": "bench", "database": "bench"}
    spec = {"trace": f"{folder}/statements.trace", "server": address, "speed": None,
            "order": "session", "slice_ms": 100, "stall_threshold_ms": 50}
    running = _core.start_sql_playback(json.dumps(spec))
    running.wait(1e6)
    result = running.result()  # a mapping, in versions before 2026-11-24
    record = result["record"] if isinstance(result, dict) else result.record_json
    classes = json.loads(record)["classes"].values()
    return sum(each["ok"] + each["failed"] for each in classes)

begun_s = time.perf_counter()
done = globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
elapsed_s = time.perf_counter() - begun_s
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"done": done, "cpu_s": used.ru_utime + used.ru_stime, "elapsed_s": elapsed_s}))
"""


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=12,
        rounds_help="how often both work",
        quick_help="one round of little work",
        quick={"statements": 20_000, "requests": 200_000},
        own={
            "other": {"type": built_checkout, "help": "folder of the other checkout, built"},
            "--statements": {"type": at_least(1), "default": 300_000, "help": "of the log"},
            "--requests": {"type": at_least(1), "default": 5_000_000, "help": "of the engine"},
        },
    )


def built_checkout(path: str) -> Path:
    """Return a checkout as the type of an option; it must have an environment."""
    if not python_of(Path(path)).exists():
        raise argparse.ArgumentTypeError(f"{path} has no environment: run make setup there")
    return Path(path)


def python_of(checkout: Path) -> Path:
    """Return the interpreter of a checkout."""
    return checkout / ".venv" / "bin" / "python"


@dataclass(frozen=True)
class Spent:
    """The time for one request or statement."""

    cpu_ns: float
    elapsed_ns: float


class WorkError(Exception):
    """The work failed in a checkout."""


def section(options: argparse.Namespace) -> str:
    """Run the rounds; return the section of the page."""
    rng = random.Random(options.seed)
    sides = {"this": ROOT, "other": options.other.resolve()}
    spent: dict[tuple[str, str], list[Spent]] = defaultdict(list)
    loads = []
    with tempfile.TemporaryDirectory(prefix="versions-") as name:
        folder = Path(name)
        write_log(folder / "statements.csv", "csv", options.statements)
        # The trace that both play is in the format of the other, which is the older one.
        work_of(sides["other"], "kept", folder, options.requests)
        for number in range(1, options.rounds + 1):
            for work in rng.sample(WORKS, len(WORKS)):
                for side in rng.sample(SIDES, len(SIDES)):
                    checkout = sides.get(side, sides["other"])
                    spent[work, side].append(work_of(checkout, work, folder, options.requests))
            loads.append(os.getloadavg()[0])
            print(f"round {number} of {options.rounds}", file=sys.stderr)
    return page(options, spent, loads)


def work_of(checkout: Path, work: str, folder: Path, requests: int) -> Spent:
    """Let a checkout do a work; return its time for a request or statement.

    Raises:
        WorkError: When it did not do it.
    """
    done = subprocess.run(
        [python_of(checkout), "-c", WORK, work, folder, str(requests)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise WorkError(f"{work} in {checkout}: {done.stderr.strip()}")
    reported = json.loads(done.stdout)
    per_unit = 1e9 / reported["done"]
    return Spent(reported["cpu_s"] * per_unit, reported["elapsed_s"] * per_unit)


def page(
    options: argparse.Namespace,
    spent: dict[tuple[str, str], list[Spent]],
    loads: Sequence[float],
) -> str:
    """Return the section: the ratios of each work, and the noise of the other to itself."""
    rows = []
    for work in WORKS:
        cpu_ns = {side: [each.cpu_ns for each in spent[work, side]] for side in SIDES}
        elapsed_ns = {side: [each.elapsed_ns for each in spent[work, side]] for side in SIDES}
        this, other, again = (cpu_ns[side] for side in SIDES)
        bar = Bar(what=work, most=RATIO_MAX, estimate=paired_ratio(this, other))
        rows.append(
            [
                work,
                reported(median_estimate(this, "ns"), 0),
                reported(median_estimate(other, "ns"), 0),
                reported(bar.estimate, 3),
                f"{RATIO_MAX}",
                bar.verdict,
                reported(paired_ratio(again, other), 3),
                reported(paired_ratio(elapsed_ns["this"], elapsed_ns["other"]), 3),
            ]
        )
    head = [
        "work",
        "this, ns each",
        "the other, ns each",
        "this / other",
        "bar",
        "verdict",
        "other again / other",
        "elapsed, this / other",
    ]
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=options.other,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    load = median_estimate(loads, "load")
    lines = [
        "## This commit against another",
        f"Written by `bench/versions.py`: {options.rounds} rounds, order from seed {options.seed}; "
        f"the other is {revision}. Processor time of the whole process for a request of the null "
        "target, a statement read from a csv log, a statement played to a server that answers at "
        "once; ratios inside each round, intervals of at least 95 % by order statistics. The last "
        "column is of elapsed times: more threads take less time, and often more processor time.",
        "\n".join([*machine_lines(), f"- load average at the end of rounds: {reported(load, 1)}"]),
        table(head, rows),
    ]
    return "\n\n".join(lines)


if __name__ == "__main__":
    run_bench(SECTION, options_of(sys.argv[1:]), section, (SeatrialError, WorkError))
