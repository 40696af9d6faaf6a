"""Bench of ``seatrial compare``: two runs of 10,000 samples each, through the real command.

    .venv/bin/python bench/compare.py            # measures and writes RESULTS.md
    .venv/bin/python bench/compare.py --keep F   # writes the results file F and stops
    .venv/bin/python bench/compare.py --of F     # measures with that file, writes JSON

The runs are synthetic but complete: cells and specifications are those of a planned study, each
sample has a histogram, slices of a timeline and counters, and the file is written by the store. The
runs follow one after the other, so that the slower, unpaired comparison is used.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from results_page import RESULTS, machine_lines, table, write_section

from seatrial._core import Histogram
from seatrial.fingerprint import Fingerprint, Machine
from seatrial.results.model import OperationResult, Outcome, Run, Sample, Slice, Timeline
from seatrial.results.store import ResultsFile
from seatrial.study.cell import Cell
from seatrial.study.load import parse_study, study_to_mapping
from seatrial.study.plan import make_plan

ROUNDS: Final = 4
LATENCIES: Final = 1600
LATENCY_NS: Final = 100_000
SLICES: Final = 8
SLICE_NS: Final = 100_000_000
LIMIT_S: Final = 5.0
LIMIT_MB: Final = 500.0
TRIES: Final = 5
SECTION: Final = "compare"

STUDY: Final = """
name = "large"
[[target]]
kind = "null"
size = "1GiB"
[[workload]]
kind = "matrix"
block_sizes = [{sizes}]
threads = [1, 2, 4, 8, 10, 16, 20, 32, 40, 64]
depths = [1, 2, 4, 8, 16]
"""
COUNTERS: Final = (
    "cpu_user_ns", "cpu_system_ns", "kernel_workers_max", "watchdog_lateness_ns_max",
    "null_limit_per_s", "steal_ns", "device_read_bytes", "device_write_bytes", "temperature_c",
    "run_queue_delay_ns", "memory_some_ns", "counters_elapsed_ns",
)  # fmt: skip


def cells() -> tuple[list[Cell], dict[str, object]]:
    """Return 2,500 planned cells and their study."""
    sizes = ", ".join(str(512 * step) for step in range(1, 26))
    study = parse_study(STUDY.format(sizes=sizes), "large.toml")
    return make_plan(study).cells, study_to_mapping(study)


def sample_of(
    random: np.random.Generator, cell: Cell, round_number: int, started_at: float, factor: float
) -> Sample:
    """Return a sample of 0.8 s with lognormal latencies and a scatter of the round of 5 %."""
    scale_ns = LATENCY_NS / factor * random.lognormal(0, 0.05)
    times_ns = (scale_ns * random.lognormal(0, 0.25, LATENCIES)).astype(int).tolist()
    each = LATENCIES // SLICES
    slices = [
        Slice(
            index=index,
            operation=cell.operation,
            completed=each,
            transferred_bytes=each * cell.block_size_bytes,
            response=Histogram.of(times_ns[index * each : (index + 1) * each]).encode(),
        )
        for index in range(SLICES)
    ]
    part = OperationResult(
        completed=LATENCIES,
        failed=0,
        transferred_bytes=LATENCIES * cell.block_size_bytes,
        response=Histogram.of(times_ns).encode(),
    )
    return Sample(
        cell=cell,
        round=round_number,
        position=0,
        started_at=started_at,
        duration_s=SLICES * SLICE_NS / 1e9 * scale_ns / LATENCY_NS,
        engine="psync",
        engine_reason="depth 1",
        outcome=Outcome(
            offered=LATENCIES, completed=LATENCIES, failed=0, late_skipped=0, in_flight_at_end=0
        ),
        operations={cell.operation: part},
        timeline=Timeline(slice_ns=SLICE_NS, slices=slices),
        counters=dict.fromkeys(COUNTERS, 1.0),
    )


def write_runs(path: Path) -> int:
    """Write the runs ``before`` and ``after`` to a new results file; return samples of each."""
    random = np.random.default_rng(20090220)
    planned, study = cells()
    with ResultsFile.open(path, create=True) as store:
        for number, (label, factor) in enumerate((("before", 1.0), ("after", 1.05))):
            started_at = 1_795_247_100.0 + 1e6 * number
            run = Run(
                id=f"20261121-07450{number}-3fa2",
                command="seatrial study large.toml",
                label=label,
                study_name="large",
                study=study,
                plan_hash="large",
                seed=1,
                status="running",
                started_at=started_at,
                fingerprint_before=Fingerprint(machine=Machine(kernel="6.1")),
                seatrial_version="0.1.0",
            )
            store.start_run(run)
            for round_number in range(ROUNDS):
                for position, cell in enumerate(planned):
                    at = started_at + 1e5 * round_number + position
                    store.add_sample(run.id, sample_of(random, cell, round_number, at, factor))
            store.finish_run(run.id, "complete", started_at + 9e5, {})
    return ROUNDS * len(planned)


class BenchResult(msgspec.Struct, frozen=True):
    """Time and memory of one command."""

    wall_s: float
    cpu_s: float
    resident_mb_max: float


def measure(command: list[str]) -> BenchResult:
    """Run a command to its end and return what it took.

    The kernel counts what this process holds when it starts the command (execve(2) keeps the
    maximum of the resident set), so a large process measures itself.

    Raises:
        RuntimeError: When it fails.
    """
    began_s = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return BenchResult(
        wall_s=time.monotonic() - began_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        resident_mb_max=usage.ru_maxrss / 1024,
    )


def command_of(path: Path) -> list[str]:
    """Return the command that compares the runs of a results file."""
    seatrial = str(Path(sys.executable).with_name("seatrial"))
    return [seatrial, "compare", "before", "after", "--results", str(path)]


def page(samples: int, size_mb: float, found: dict[str, list[BenchResult]]) -> str:
    """Return the section of RESULTS.md."""
    rows = []
    for name, tries in found.items():
        best = min(tries, key=lambda each: each.wall_s)
        slowest = max(each.wall_s for each in tries)
        resident_mb = max(each.resident_mb_max for each in tries)
        rows.append(
            [name, f"{best.wall_s:.1f} s", f"{slowest:.1f} s", f"{best.cpu_s:.1f} s",
             f"{resident_mb:.0f} MiB"]
        )  # fmt: skip
    head = ["command", "wall, best", "wall, worst", "CPU, best", "resident, most"]
    return "\n".join(
        [
            "## compare: two runs of 10,000 samples",
            "",
            f"Two runs of {samples:,} samples each (2,500 cells, {ROUNDS} rounds; a histogram and "
            f"{SLICES} slices a sample; {size_mb:.0f} MB of results file), {TRIES} tries, each a "
            f"process of its own. Allowed are {LIMIT_S:g} s and {LIMIT_MB:g} MB.",
            "",
            *machine_lines(),
            "",
            table(head, rows),
        ]
    )


def main() -> None:
    """Measure, print the section, and write it to RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="write the results file here and stop")
    parser.add_argument("--of", type=Path, help="compare the runs of this file; write JSON")
    arguments = parser.parse_args()
    if arguments.keep:
        write_runs(arguments.keep)
        return
    if arguments.of:
        # Other load can only add processor time: the least of three is the command's own.
        tries = [measure(command_of(arguments.of)) for _ in range(3)]
        print(msgspec.json.encode(min(tries, key=lambda each: each.cpu_s)).decode())
        return
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        path = Path(folder) / "large.seatrial"
        samples = write_runs(path)
        command = command_of(path)
        ways = {"text": command, "--json": [*command, "--json"]}
        found = {name: [measure(way) for _ in range(TRIES)] for name, way in ways.items()}
        text = page(samples, path.stat().st_size / 1e6, found)
    print(text)
    write_section(RESULTS, SECTION, text)


def memory_folder() -> str | None:
    """Return a folder in memory, where 20,000 commits take no time; None if there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    main()
