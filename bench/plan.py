"""How long `seatrial plan` takes to judge more than 1,000 candidates in 10,000 worlds.

    bench/plan.py            ten rounds, through the real command
    bench/plan.py --quick    one round: does it run?

Each need is planned once in each round, in a new random order, by a process of its own. The
number of candidates is what the command says that it judged.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from command import parsed_options, run_bench
from paired import median_estimate, reported
from results_page import machine_lines, table

SECTION: Final = "plan"
LIMIT_S: Final = 10.0
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "reads and writes": ("reads=6000,writes=2000,size=8KiB", "--objective", "read.p99_ms=10"),
    "with growth": (
        *("reads=6000,writes=2000,size=8KiB", "--objective", "read.p99_ms=10"),
        *("--growth", "40%/y", "--years", "3"),
    ),
}


class _Counts(msgspec.Struct):
    candidates: int
    worlds: int


class _Document(msgspec.Struct):
    plan: _Counts


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """All that a run of the bench measured.

    Attributes:
        conditions: The machine and the versions, as Markdown items.
        counts: Candidates and worlds, by need.
        real_s: Real time by need, one value per round.
        cpu_s: Processor time likewise.
        seed: Of the order.
        loads: Load averages, one per round.
    """

    conditions: Sequence[str]
    counts: dict[str, tuple[int, int]]
    real_s: dict[str, list[float]]
    cpu_s: dict[str, list[float]]
    seed: int
    loads: list[float]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments, __doc__, rounds=10, rounds_help="how often each need is planned"
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Run the rounds.

    Raises:
        CalledProcessError: When the command fails.
    """
    rng = random.Random(options.seed)
    counts: dict[str, tuple[int, int]] = {}
    real_s: dict[str, list[float]] = {name: [] for name in NEEDS}
    cpu_s: dict[str, list[float]] = {name: [] for name in NEEDS}
    loads = []
    for number in range(1, options.rounds + 1):
        for name in rng.sample(list(NEEDS), len(NEEDS)):
            real, cpu, counts[name] = plan(NEEDS[name])
            real_s[name].append(real)
            cpu_s[name].append(cpu)
        loads.append(os.getloadavg()[0])
        print(f"round {number} of {options.rounds}", file=sys.stderr)
    return BenchResult(
        conditions=machine_lines(),
        counts=counts,
        real_s=real_s,
        cpu_s=cpu_s,
        seed=options.seed,
        loads=loads,
    )


def plan(need: Sequence[str]) -> tuple[float, float, tuple[int, int]]:
    """Plan a need; return real time (s), processor time (s), candidates and worlds.

    Raises:
        CalledProcessError: When the command fails.
    """
    seatrial = str(Path(sys.executable).with_name("seatrial"))
    command = [seatrial, "plan", *need, "--capacity", "500GiB", "--json"]
    began_s, began = time.perf_counter(), os.times()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    real_s, ended = time.perf_counter() - began_s, os.times()
    cpu_s = ended.children_user + ended.children_system
    cpu_s -= began.children_user + began.children_system
    counts = msgspec.json.decode(done.stdout, type=_Document).plan
    return real_s, cpu_s, (counts.candidates, counts.worlds)


def section(found: BenchResult) -> str:
    """Return the section of RESULTS.md."""
    rows = []
    for name, real_s in found.real_s.items():
        candidates, worlds = found.counts[name]
        verdict = "met" if max(real_s) <= LIMIT_S else "missed"
        cpu = reported(median_estimate(found.cpu_s[name], "s"), digits=1)
        real = reported(median_estimate(real_s, "s"), digits=1)
        rows.append(
            [name, f"{candidates:,}", f"{worlds:,}", real, f"{max(real_s):.1f}", cpu, verdict]
        )
    head = ["need", "candidates", "worlds", "real time, s", "worst, s", "processor time, s"]
    head.append(f"every round within {LIMIT_S:g} s")
    load = reported(median_estimate(found.loads, ""), digits=1)
    return "\n".join(
        [
            "## Planning",
            "",
            f"Written by `bench/plan.py`, {len(found.loads)} rounds, order from seed {found.seed}. "
            "Medians, with intervals of 95 %.",
            "",
            *found.conditions,
            f"- load average during the rounds: {load}",
            "",
            table(head, rows),
        ]
    )


if __name__ == "__main__":
    run_bench(
        SECTION,
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (subprocess.CalledProcessError,),
    )
