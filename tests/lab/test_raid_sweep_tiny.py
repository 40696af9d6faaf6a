"""The shipped study of the lab, from end to end, as an ordinary user: what it counts is a law.

The counts are those of the kernel's md, as measured before on hardware-like devices: RAID5 of n
drives reads min(n - 2, 2) and writes 2 for a small write, RAID6 reads min(n - 3, 3) and writes 3;
a full stripe reads nothing and writes n / (n - parity) times its bytes. md's cache of stripes
saves a few reads.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from cli.command import SEATRIAL
from lab.conftest import REPOSITORY
from lab.unprivileged import folder_of_nobody, python_folders, unprivileged
from seatrial.lab.packages import cache_folder
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile

PATIENCE_S = 240
BAR_S = 60
RULES = {
    "count-raid5-3": (1, 2, 3 / 2),
    "count-raid5-4": (2, 2, 4 / 3),
    "count-raid6-4": (1, 3, 4 / 2),
    "count-raid6-5": (2, 3, 5 / 3),
}
"""Reads and writes of a small write, and the bytes of a full stripe written for each of its own."""


class Measured(NamedTuple):
    """The run in the host's results file, its samples, what was printed, and the file's owner."""

    run: Run
    samples: list[Sample]
    printed: str
    owner: int
    took_s: float


@pytest.fixture(scope="module")
def measured(machine, tmp_path_factory) -> Iterator[Measured]:
    """The study, measured once."""
    with folder_of_nobody() as folder:
        own = {"SEATRIAL_CACHE_DIR": str(cache_folder().parent), "HOME": str(folder)}
        needed = [REPOSITORY, cache_folder(), *python_folders()]
        results = folder / "results.seatrial"
        command = [SEATRIAL, "lab", "raid-sweep-tiny", "--results", str(results)]
        began_s = time.monotonic()
        ended = subprocess.run(
            unprivileged(command, needed, tmp_path_factory.mktemp("scratch")),
            cwd=folder,
            env=os.environ | own | {"SEATRIAL_STATE_DIR": str(folder / "state")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        took_s = time.monotonic() - began_s
        assert ended.returncode == 0, ended.stdout
        with ResultsFile.open(results, read_only=True) as store:
            run = store.run("last")
            samples = store.samples(run.id)
        assert sorted(each.name for each in folder.iterdir()) == [
            "results.seatrial",
            "seatrial-reports",
            "state",
        ]
        yield Measured(run, samples, ended.stdout, results.stat().st_uid, took_s)


def of(samples: list[Sample], target: str, workload: str) -> Sample:
    return next(
        sample
        for sample in samples
        if sample.cell.target == target and sample.cell.workload.startswith(workload)
    )


def total(sample: Sample, what: str) -> float:
    assert sample.layout is not None
    return sum(member[what] for member in sample.layout.members.values())


def test_it_takes_less_than_a_minute_whatever_else_the_machine_does(measured):
    assert measured.took_s < BAR_S


def test_the_run_is_an_ordinary_users_and_reported_as_the_labs(measured):
    run, printed = measured.run, measured.printed
    assert run.status == "complete"
    assert measured.owner != 0
    assert run.command.startswith("seatrial lab raid-sweep-tiny")
    assert (run.fingerprint_before.machine.lab or "").startswith("user-mode Linux ")
    assert "lab: ratios and counts are valid, absolute speed is not" in printed


@pytest.mark.parametrize("layout", RULES)
def test_a_small_write_costs_what_its_level_must(measured, layout):
    reads, writes, _factor = RULES[layout]
    sample = of(measured.samples, layout, "small-writes")
    assert sample.outcome.completed > 50
    assert 0.93 * reads < total(sample, "reads") / sample.outcome.completed <= reads
    assert total(sample, "writes") / sample.outcome.completed == pytest.approx(writes, rel=0.05)


@pytest.mark.parametrize("layout", RULES)
def test_a_full_stripe_reads_nothing(measured, layout):
    factor = RULES[layout][2]
    sample = of(measured.samples, layout, "full-stripes")
    assert sample.outcome.completed > 10
    assert total(sample, "reads") == 0
    written_bytes = sample.operations["write"].transferred_bytes
    assert total(sample, "write_bytes") / written_bytes == pytest.approx(factor, rel=0.01)


def test_a_stripe_over_two_legs_uses_the_drives_of_both(measured):
    samples = [each for each in measured.samples if each.cell.target == "raid05"]
    assert len(samples) == 4
    for sample in samples:
        assert sample.layout is not None
        busy = {
            sample.layout.roles[path]
            for path, member in sample.layout.members.items()
            if member["reads"] + member["writes"] > 0
        }
        assert busy == {"leg 1", "leg 2"}


def test_a_failure_is_rebuilt_on_the_spare_and_nothing_is_lost(measured):
    sample = of(measured.samples, "raid5", "through-a-failure")
    assert sample.layout is not None
    happened = [event.what for event in sample.layout.events]
    assert happened == ["failed", "rebuild_started", "rebuild_ended"]
    assert sample.outcome.failed == 0
    assert sample.verification is not None
    assert sample.verification.checked_blocks > 32  # whole MiB that are read in the end, and others
    assert sample.verification.corrupt_blocks == 0
    assert sample.layout.unreadable_bytes == 0
    assert sample.series is not None
    assert max(value or 0 for value in sample.series.columns["missing_members"]) == 1
