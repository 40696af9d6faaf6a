"""A small study on a real directory: a dozen cells in three rounds, a few seconds in all."""

from __future__ import annotations

import time
from pathlib import Path

from seatrial.cli.study_command import plan_of
from seatrial.errors import ResultsFileError
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.study.plan import order

RESULTS = "results.seatrial"
ROUNDS = 3
CELLS = 12
FILE_BYTES = 16 << 20


def write_study(folder: Path, place: Path, seconds: float = 0.05) -> Path:
    """A study file in ``folder`` on the directory ``place``."""
    path = folder / "study.toml"
    path.write_text(
        f"""
        name = "dozen"
        rounds = {{ min = {ROUNDS}, max = {ROUNDS} }}

        [[target]]
        path = "{place}"
        size = {FILE_BYTES}

        [[workload]]
        kind = "matrix"
        seconds = {seconds}
        limit_bytes = "1GiB"
        block_sizes = ["4KiB", "16KiB", "64KiB"]
        threads = [1, 2]
        direct = false
        """
    )
    return path


def planned(study: Path) -> list[tuple[int, str]]:
    """Round and key of every sample of the study in the order in which they are due."""
    plan = plan_of(str(study))
    keys = [cell.key for cell in plan.cells]
    assert len(keys) == CELLS
    return [(number, cell.key) for number in range(ROUNDS) for cell in order(plan, number, keys)]


def stored(folder: Path) -> tuple[Run, list[Sample]]:
    """The only run of the results file in ``folder``, and its samples as they were measured."""
    with ResultsFile.open(folder / RESULTS, read_only=True) as file:
        (run,) = file.runs()
        return run, file.samples(run.id)


def measured(folder: Path) -> list[tuple[int, str]]:
    """Round and key of every stored sample in the order in which they were stored."""
    return [(sample.round, sample.cell.key) for sample in stored(folder)[1]]


def samples_count(folder: Path) -> int:
    """How many samples are stored now; 0 while the file is not made yet or not whole."""
    try:
        with ResultsFile.open(folder / RESULTS, read_only=True) as file:
            return sum(len(file.done(run.id)) for run in file.runs())
    except ResultsFileError:
        return 0


def wait_for_samples(folder: Path, count: int, timeout_s: float = 60.0) -> None:
    """Wait until so many samples are stored."""
    wait_until(lambda: samples_count(folder) >= count, f"{count} samples", timeout_s)


def wait_until(condition, what: str, timeout_s: float = 60.0) -> None:
    give_up_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_s, f"waited in vain for {what}"
        time.sleep(0.005)
