"""Small runs and samples for the tests of the results room, and a child that adds without end."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import msgspec

from seatrial._core import Histogram
from seatrial.fingerprint import Fingerprint, Machine
from seatrial.results.model import (
    DatabaseRecord,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Series,
    Slice,
    Timeline,
)
from seatrial.results.store import ResultsFile
from seatrial.study.cell import Cell

SLICE_NS = 100_000_000


def make_run(run_id: str = "20261121-074500-3fa2", **changes) -> Run:
    values = {
        "id": run_id,
        "command": "seatrial run /mnt/ssd",
        "study_name": "quick",
        "study": {"name": "quick", "rounds": 3},
        "plan_hash": "plan-a",
        "seed": 7,
        "status": "running",
        "started_at": 1_795_247_100.0,
        "fingerprint_before": Fingerprint(machine=Machine(cpus_online=2)),
        "seatrial_version": "0.1.0",
    }
    return Run(**values | changes)


def make_cell(operation: str = "read", block_size_bytes: int = 4096, threads: int = 1) -> Cell:
    return Cell(
        key=f"matrix/{operation}/{block_size_bytes}B/{threads}t/1d",
        target="ssd",
        workload="matrix",
        kind="matrix",
        operation=operation,
        block_size_bytes=block_size_bytes,
        threads=threads,
        factors={"pattern": "random"},
        spec={"threads": threads, "target": {"path": "/mnt/ssd/trial.dat"}},
    )


def make_timeline(slices: int, latencies_ns: list[int], operation: str = "read") -> Timeline:
    response = Histogram.of(latencies_ns).encode()
    count = len(latencies_ns)
    return Timeline(
        slice_ns=SLICE_NS,
        slices=[
            Slice(
                index=index,
                operation=operation,
                completed=count,
                transferred_bytes=count * 4096,
                response=response,
            )
            for index in range(slices)
        ],
    )


def make_sample(cell: Cell | None = None, index: int = 0, slices: int = 5) -> Sample:
    cell = cell or make_cell()
    latencies_ns = [90_000, 95_000, 120_000, 2_000_000]
    timeline = make_timeline(slices, latencies_ns, cell.operation)
    count = slices * len(latencies_ns)
    return Sample(
        cell=cell,
        round=index,
        position=0,
        started_at=1_795_247_101.0 + index,
        duration_s=slices * SLICE_NS / 1e9,
        engine="psync",
        outcome=Outcome(
            offered=count, completed=count, failed=0, late_skipped=0, in_flight_at_end=0
        ),
        operations={
            cell.operation: OperationResult(
                completed=count,
                failed=0,
                transferred_bytes=count * 4096,
                response=Histogram.of(latencies_ns * slices).encode(),
            )
        },
        timeline=timeline,
    )


def make_series(seconds: int = 5) -> Series:
    """Readings of a database's surroundings, of which one could not be read for a second."""
    columns: dict[str, list[float | None]] = {
        "cpu_user_share": [0.1 * second for second in range(seconds)],
        "wal_bytes_per_s": [1e6] * seconds,
        "device_flush_per_s": [None, *[120.0] * (seconds - 1)],
    }
    return Series(period_s=1.0, columns=columns)


def make_record(**changes) -> DatabaseRecord:
    values = {
        "server": "PostgreSQL 15.20",
        "binaries": "installed",
        "settings": {"shared_buffers": "512MB"},
        "start_state": "cold",
        "cached_bytes": 0,
        "database_bytes": 164_625_767,
        "loaded_s": 2.75,
        "loaded_rows": 1_000_110,
        "cloned": "copy",
        "cloned_s": 0.5,
        "waits": {"IO:WALSync": 40, "CPU": 3},
        "reported": {"transactions": 2805.0, "tps": 931.907929},
        "client_cpu_share": 0.07,
        "ceiling_per_s": 6444.9,
        "notes": ["The start is not cold."],
    }
    return DatabaseRecord(**values | changes)


def make_database_sample(index: int = 0) -> Sample:
    """A sample as a database gives it, with its series and its record."""
    cell = msgspec.structs.replace(
        make_cell("transaction", 0, 10), key="pgbench/transaction/10c/scale=10", kind="pgbench"
    )
    sample = make_sample(cell, index)
    return msgspec.structs.replace(
        sample, engine="pgbench", series=make_series(), database=make_record()
    )


def add_without_end(path: Path) -> None:
    """Add samples until killed, and say the round of each once the file has taken it."""
    with ResultsFile.open(path, create=True) as file:
        file.start_run(make_run())
        for index in itertools.count():
            file.add_sample("20261121-074500-3fa2", make_sample(index=index, slices=40))
            sys.stdout.write(f"{index}\n")
            sys.stdout.flush()


def open_and_close(path: Path, name: str, runs: int) -> None:
    """Open the file anew for each of several runs, as separate commands would."""
    for index in range(runs):
        with ResultsFile.open(path, create=True) as file:
            file.start_run(make_run(f"{name}-{index}"))
            file.add_sample(f"{name}-{index}", make_sample())
        with ResultsFile.open(path, read_only=True) as file:
            assert len(file.samples(f"{name}-{index}")) == 1


if __name__ == "__main__":
    place, *more = sys.argv[1:]
    if more:
        open_and_close(Path(place), more[0], int(more[1]))
    else:
        add_without_end(Path(place))
