"""The bench of compare: its runs are what they claim, and the command keeps its limits."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import compare
import msgspec
import pytest

from seatrial.results.store import ResultsFile


@pytest.mark.slow
def test_two_runs_of_ten_thousand_samples_are_compared_within_the_limits():
    # A name of its own: what a killed run left in memory must not be opened here.
    folder = Path(tempfile.mkdtemp(prefix="seatrial-large-", dir=compare.memory_folder()))
    path = folder / "large.seatrial"
    try:
        assert compare.write_runs(path) == 10_000
        with ResultsFile.open(path, read_only=True) as store:
            samples = store.samples(store.run("before").id, slices_min=100)
        # In a process of its own: what this one holds would be counted as the command's.
        measured = subprocess.run(
            [sys.executable, compare.__file__, "--of", path], stdout=subprocess.PIPE, check=True
        )
        took = msgspec.json.decode(measured.stdout, type=compare.BenchResult)
    finally:
        shutil.rmtree(folder)
    assert len(samples) == 10_000
    assert len({sample.cell.key for sample in samples}) == 2_500
    buckets, _, _ = samples[0].operations["read"].response_histogram().buckets()
    assert len(buckets) > 80
    # The bench publishes whether the limit is met. Processors differ and slow down under others'
    # load (3.9 to 6.8 s were seen here for one commit), so this finds only growth with the square.
    assert took.cpu_s <= 2 * compare.LIMIT_S
    assert took.resident_mb_max <= compare.LIMIT_MB
