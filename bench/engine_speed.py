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

from command import leave_published_page, parser_of, run_bench
from contenders import CommandError, Place, fio_version
from engine_page import BenchResult, section
from footprint import command_line_overhead_ms, hour_memory, starts_ms
from places import PLACES, PlaceUnavailableError
from results_page import ROOT, machine_lines
from rounds import Sample, costs_by_place, measure_round

from seatrial.errors import SeatrialError

FILE_BYTES: Final = 512 << 20
QUICK_FILE_BYTES: Final = 32 << 20
QUICK_SECONDS: Final = 0.2
QUICK_PLACES: Final = ("null", "cached")


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = parser_of(
        __doc__,
        rounds=12,
        rounds_help="how often everybody reads",
        quick_help="one round of short samples on small files",
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a sample")
    parser.add_argument(
        "--places",
        nargs="+",
        choices=PLACES,
        default=["null", "cached", "block", "direct"],
        help="where to read; block is a zram device, else a loop device",
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be above 0")
    if options.quick:
        leave_published_page(options)
        options.seconds, options.places = QUICK_SECONDS, list(QUICK_PLACES)
    return options


def main(arguments: Sequence[str]) -> int:
    """Run the bench; 0 when it ran, whatever it found."""
    return run_bench(
        "bench/engine_speed.py",
        "engine",
        options_of(arguments),
        lambda options: section(measure(options)),
        (CommandError, SeatrialError),
    )


def measure(options: argparse.Namespace) -> BenchResult:
    """Make the places, run the rounds, put the places away.

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
        places, skipped = _make_places(stack, options.places, folder, file_bytes)
        starts_ms()  # fills the page cache and the byte-code caches
        for number in range(1, options.rounds + 1):
            samples += measure_round(places, options.seconds, rng)
            for name, took_ms in starts_ms().items():
                starts.setdefault(name, []).append(took_ms)
            loads.append(os.getloadavg()[0])
            print(f"round {number} of {options.rounds}", file=sys.stderr)
    return BenchResult(
        places=places,
        skipped=skipped,
        conditions=conditions,
        costs=costs_by_place(places, samples),
        starts_ms=starts,
        command_line_ms=None if options.quick else command_line_overhead_ms(),
        hour=None if options.quick else hour_memory(),
        rounds=options.rounds,
        seconds=options.seconds,
        seed=options.seed,
        fio=fio_version(),
        loads=loads,
    )


def _make_places(
    stack: contextlib.ExitStack, names: Sequence[str], folder: Path, size_bytes: int
) -> tuple[list[Place], dict[str, str]]:
    """Make what can be made; of the rest, say why not."""
    places, skipped = [], {}
    for name in names:
        try:
            places.append(stack.enter_context(PLACES[name](folder, size_bytes)))
        except PlaceUnavailableError as error:
            skipped[name] = str(error)
            print(f"{name}: skipped, {error}", file=sys.stderr)
    return places, skipped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
