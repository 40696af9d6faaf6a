"""Rounds of a study with several targets: all targets of a cell go on together."""

from __future__ import annotations

from collections import defaultdict

from measure.simulated import run_study
from seatrial.measure.rounds import interleaved

STUDY = """
name = "targets"
[rounds]
min = 2
max = 5
[[target]]
label = "steady"
kind = "simulated"
size = "1MiB"
[[target]]
label = "noisy"
kind = "simulated"
size = "1MiB"
[[workload]]
kind = "io"
threads = [1, 2]
seconds = 0.01
"""


def test_a_cell_goes_on_as_long_as_it_is_unsettled_on_any_target(tmp_path):
    """Of the noisy target the cell with one thread takes four rounds, its other one two."""

    def settled(samples, _precision_share):
        cell = samples[0].cell
        wanted = 4 if (cell.target, cell.threads) == ("noisy", 1) else 2
        return len(samples) >= wanted

    _, end, samples = run_study(tmp_path, STUDY, interleaved(settled))
    rounds = defaultdict(list)
    for sample in samples:
        rounds[sample.cell.target, sample.cell.threads].append(sample.round)
    assert sorted(rounds["noisy", 1]) == sorted(rounds["steady", 1]) == [0, 1, 2, 3]
    assert sorted(rounds["noisy", 2]) == sorted(rounds["steady", 2]) == [0, 1]
    assert "after 4 rounds" in end.reason
