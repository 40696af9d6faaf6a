"""How long a run is said to go on: it counts down, and rounds that are added move nothing back."""

from __future__ import annotations

import time

import msgspec
import pytest

from measure.fake_recorder import FakeRecorder
from seatrial.measure.progress import TimeLeft
from seatrial.measure.rounds import interleaved
from seatrial.stats.cell_estimates import settled
from seatrial.trials.audit.analysis.guide import guide, outlier_keys
from seatrial.trials.audit.measure import adaptive
from seatrial.trials.io.measure.precondition import Conditioning
from seatrial.trials.loadline.analysis.decider import decider
from seatrial.trials.loadline.measure import load_lines

WHOLE = {"kind": "matrix", "operations": "read", "seconds": 2.0}
MATRIX = WHOLE | {"block_sizes": ["4KiB", "64KiB"], "threads": [1, 4]}
FILL = {"kind": "fill", "once": True}
LINE = {"kind": "loadline", "limit": "5ms", "budget_seconds": 60}
SLACK_S = 1e-6


class Clocked(FakeRecorder):
    """Notes with what is said how long each cell really took, by a clock that the run goes by."""

    def __init__(self, study, *, monkeypatch, noise_share=0.2, slower=1.0) -> None:
        super().__init__(study, lambda _cell, _now_s: 1000.0, noise_share=noise_share)
        self.took_s: list[float] = []
        self._slower = slower
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def measure(self, cell, round_number, position, *, time_left, notes=None):
        began_s = self.now_s
        sample = super().measure(cell, round_number, position, time_left=time_left, notes=notes)
        self.now_s += (self._slower - 1) * (self.now_s - began_s)
        self.took_s.append(self.now_s - began_s)
        return sample

    def discard(self, _label) -> int:
        return 0


def study(*workloads, budget=None, rounds=None):
    return {
        "name": "watched",
        "rounds": rounds or {"min": 2, "max": 6, "precision": 0.1},
        "target": [{"size": "1GiB"}],
        "workload": list(workloads),
        **({"budget": {"time_s": budget}} if budget else {}),
    }


def assert_counts_down(recorder):
    said = recorder.left
    assert len(said) > 2
    for left, took_s, following in zip(said, recorder.took_s, said[1:], strict=False):
        assert following.most_s <= left.after_s(took_s) + SLACK_S
    assert said[-1].most_s >= 0


@pytest.mark.parametrize("slower", [0.9, 1.0, 1.5])
@pytest.mark.parametrize("budget", [None, 20.0, 40.0])
@pytest.mark.parametrize("workloads", [[MATRIX], [MATRIX, LINE]])
def test_rounds_that_are_added_move_nothing_back(workloads, budget, slower, monkeypatch):
    if budget and LINE in workloads:
        budget += LINE["budget_seconds"]  # which rounds leave to the line
    recorder = Clocked(study(*workloads, budget=budget), monkeypatch=monkeypatch, slower=slower)
    interleaved(settled, outlier_keys)(recorder)
    assert len({sample.round for sample in recorder.samples}) > 1
    assert_counts_down(recorder)


def test_outlier_cells_that_are_measured_again_move_nothing_back(monkeypatch):
    one = study(MATRIX | {"threads": [1, 4, 16]}, rounds={"min": 1, "max": 1, "remeasure": 2})
    recorder = Clocked(one, monkeypatch=monkeypatch)
    keys = [cell.key for cell in recorder.plan.cells[:3]]
    interleaved(settled, lambda _run, _samples: keys)(recorder)
    assert len(recorder.samples) == len(recorder.plan.cells) + 6
    assert_counts_down(recorder)


@pytest.mark.parametrize("budget", [None, 100.0])
def test_reporting_cells_that_are_added_move_nothing_back(budget, monkeypatch):
    whole = study(WHOLE | {"adaptive": True}, budget=budget)
    recorder = Clocked(whole, monkeypatch=monkeypatch, noise_share=0.02)
    adaptive(settled, guide, outlier_keys)(recorder)
    assert_counts_down(recorder)


def test_a_load_line_behind_rounds_moves_nothing_back(monkeypatch):
    two = study(MATRIX, LINE, LINE | {"name": "another"})
    recorder = Clocked(two, monkeypatch=monkeypatch)
    load_lines(decider, before=interleaved(settled))(recorder)
    assert {sample.cell.workload for sample in recorder.samples} > {"loadline", "another"}
    assert_counts_down(recorder)


def test_a_proof_that_takes_more_rounds_moves_nothing_back(monkeypatch):
    class NotYet(msgspec.Struct):
        met: bool
        sentence: str = "Not yet."

    proof = study(FILL, MATRIX, rounds={"min": 7, "max": 25})
    recorder = Clocked(proof, monkeypatch=monkeypatch)
    monkeypatch.setattr(
        "seatrial.trials.io.measure.precondition._require_complete", lambda *_: None
    )
    Conditioning(lambda rates: NotYet(len(rates) >= 9), discards=False)(recorder)
    assert len(recorder.samples) > 9
    assert_counts_down(recorder)


def test_what_may_be_left_out_is_said_to_be_at_most(monkeypatch):
    """Rounds without a choice are said as they are, and so is the last round of any."""
    fixed = Clocked(study(MATRIX, rounds={"min": 3, "max": 3}), monkeypatch=monkeypatch)
    interleaved(settled)(fixed)
    assert not any(left.may_end_sooner for left in fixed.left)
    open_ended = Clocked(study(MATRIX), monkeypatch=monkeypatch)
    interleaved(lambda _samples, _precision: False)(open_ended)
    cells = len(open_ended.plan.cells)
    reported = [left.may_end_sooner for left in open_ended.left]
    assert reported == [True] * (5 * cells) + [False] * cells


def test_a_cell_that_takes_longer_takes_no_time_from_the_others():
    left = TimeLeft(most_s=10.0, cell_s=2.0, may_end_sooner=False)
    assert [left.after_s(each) for each in (0.0, 0.5, 2.0, 9.0)] == [10.0, 9.5, 8.0, 8.0]
