"""Processor time per request of Seatrial against fio, in shuffled rounds.

    bench/engine_speed.py          the figures of bench/RESULTS.md: 12 rounds, about ten minutes
    bench/engine_speed.py --quick  one short round, printed and not written: does it run?

How to read what it prints: only the ratios are claims. Each was taken inside a round, between two
commands that ran within seconds of each other; its median over the rounds stands with an interval
of at least 95 %. Below 1, Seatrial takes less. `seatrial again` is the same command a second time:
how far its ratio strays from 1 is how far any ratio here can be trusted. The absolute figures only
illustrate: they are of one machine, and of what else ran on it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from command import at_least, parsed_options, run_bench
from contenders import BenchTarget, CommandError, fio_version
from engine_page import BenchResult, section
from footprint import command_line_overhead_ms, hour_memory, starts_ms
from results_page import ROOT, machine_lines
from rounds import Sample, costs_by_target, measure_round
from targets import TARGETS, TargetUnavailableError

from seatrial.errors import SeatrialError

FILE_BYTES: Final = 512 << 20
QUICK_FILE_BYTES: Final = 32 << 20
QUICK_SECONDS: Final = 0.2
QUICK_TARGETS: Final = ("null", "cached")


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    return parsed_options(
        arguments,
        __doc__,
        rounds=12,
        rounds_help="how often each program reads",
        quick_help="one round of short samples on small files",
        quick={"seconds": QUICK_SECONDS, "targets": list(QUICK_TARGETS)},
        own={
            "--seconds": {"type": at_least(0.01), "default": 1.0, "help": "length of a sample"},
            "--places": {
                "dest": "targets",
                "nargs": "+",
                "choices": TARGETS,
                "default": ["null", "cached", "block", "direct"],
                "help": "where to read; block is a zram device, else a loop device",
            },
        },
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Make the targets, run the rounds, put the targets away.

    Raises:
        CommandError: When a command fails.
    """
    file_bytes = QUICK_FILE_BYTES if options.quick else FILE_BYTES
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    samples: list[Sample] = []
    starts: dict[str, list[float]] = {}
    loads = []
    rng = random.Random(options.seed)
    conditions = machine_lines()  # before the rounds: the tree may change while they run
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=cache)))
        targets, skipped = _make_targets(stack, options.targets, folder, file_bytes)
        starts_ms()  # fills the page cache and the byte-code caches
        for number in range(1, options.rounds + 1):
            samples += measure_round(targets, options.seconds, rng)
            for name, took_ms in starts_ms().items():
                starts.setdefault(name, []).append(took_ms)
            loads.append(os.getloadavg()[0])
            print(f"round {number} of {options.rounds}", file=sys.stderr)
    return BenchResult(
        targets=targets,
        skipped=skipped,
        conditions=conditions,
        costs=costs_by_target(targets, samples),
        starts_ms=starts,
        command_line_ms=None if options.quick else command_line_overhead_ms(),
        hour=None if options.quick else hour_memory(),
        rounds=options.rounds,
        seconds=options.seconds,
        seed=options.seed,
        fio=fio_version(),
        loads=loads,
    )


def _make_targets(
    stack: contextlib.ExitStack, names: Sequence[str], folder: Path, size_bytes: int
) -> tuple[list[BenchTarget], dict[str, str]]:
    """Make what can be made; of the rest, say why not."""
    targets, skipped = [], {}
    for name in names:
        try:
            targets.append(stack.enter_context(TARGETS[name](folder, size_bytes)))
        except TargetUnavailableError as error:
            skipped[name] = str(error)
            print(f"{name}: skipped, {error}", file=sys.stderr)
    return targets, skipped


if __name__ == "__main__":
    run_bench(
        "engine",
        options_of(sys.argv[1:]),
        lambda options: section(measure(options)),
        (CommandError, SeatrialError),
    )
