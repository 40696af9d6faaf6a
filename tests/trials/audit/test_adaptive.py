"""The adaptive matrix: few cells, the rest predicted; honest where that fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.command import seatrial
from measure.fake_recorder import FakeRecorder
from seatrial.cli.sources import load_source
from seatrial.errors import StudyError
from seatrial.findings.summary import summarise
from seatrial.measure import budget
from seatrial.measure.recorder import Interrupted
from seatrial.measure.recovery import CHECK_NS
from seatrial.stats.cell_estimates import settled
from seatrial.trials.audit.analysis.guide import guide, outlier_keys
from seatrial.trials.audit.analysis.model import audits_of
from seatrial.trials.audit.measure import adaptive

ROOT = Path(__file__).parents[3]
CONDUCTOR = adaptive(settled, guide, outlier_keys)
CELLS = 42
SECONDS = 10.0
ROUNDS = 3


def study_of(*, rounds=None, budget=None, more=(), **matrix):
    workload = {"kind": "matrix", "operations": "read", "adaptive": True, "seconds": SECONDS}
    return {
        "name": "telling",
        "rounds": rounds or {"min": ROUNDS, "max": ROUNDS},
        "target": [{"kind": "simulated", "size": "4GiB"}],
        "workload": [workload | matrix, *more],
        **({"budget": budget} if budget else {}),
    }


def audit_of(recorder):
    (audit,) = audits_of(summarise(recorder.run, recorder.samples))
    return audit


def article(configuration):
    """A printed read table with its gap cells replaced by what the model says of them."""
    source = load_source(
        f"{ROOT / 'reference' / 'bm-flash-2009.csv'}:{configuration}", ROOT / "none.seatrial"
    )
    audits = audits_of(summarise(source.run, source.samples))
    audit = next(each for each in audits if each.table.operation == "read")
    outlier = {key for gap in audit.gaps for key in gap.keys}
    rates = {
        (point.block_size_bytes, point.threads): audit.predictions[point.key].iops
        if point.key in outlier
        else point.iops.value
        for point in audit.table.points
    }
    return lambda cell, _now_s: rates[cell.block_size_bytes, cell.threads]


@pytest.mark.parametrize("configuration", ["raid0-12ssd-1controller", "raid5-4ssd-1controller"])
def test_a_quarter_of_the_time_predicts_the_articles_reads_within_five_percent(configuration):
    truth = article(configuration)
    shares, errors = [], []
    for seed, noise_share in enumerate([0.01, 0.01, 0.02, 0.02]):
        recorder = FakeRecorder(study_of(), truth, noise_share=noise_share, seed=seed)
        end = CONDUCTOR(recorder)
        assert f"of {CELLS} tests" in end.reason
        shares.append(recorder.now_s / (CELLS * ROUNDS * SECONDS))  # rests and probes included
        predictions = audit_of(recorder).predictions
        errors += [
            abs(predictions[cell.key].iops / truth(cell, 0) - 1)
            for cell in recorder.plan.cells
            if cell.key not in recorder.measured_keys
        ]
    assert max(shares) <= 0.25
    assert np.quantile(errors, 0.5) <= 0.02
    assert np.quantile(errors, 0.9) <= 0.05


def queue(cell, _now_s):
    """A device of four channels."""
    service_s = 80e-6 + cell.block_size_bytes / 1024 * 0.6e-6
    return min(cell.threads, 4) / service_s


def test_the_end_reports_what_was_saved_and_how_the_rest_is_known():
    recorder = FakeRecorder(study_of(), queue, noise_share=0.01)
    end = CONDUCTOR(recorder)
    measured = len(recorder.measured_keys)
    assert 7 <= measured <= 12
    assert end.reason.startswith(f"Measured {measured} of 42 tests: ")
    assert "instead of 21 min" in end.reason
    assert f"{CELLS - measured} are predicted within" in end.reason


def test_cells_that_nobody_measured_are_predicted_and_no_gaps():
    recorder = FakeRecorder(study_of(), queue, noise_share=0.01)
    CONDUCTOR(recorder)
    summary = summarise(recorder.run, recorder.samples)
    (audit,) = audits_of(summary)
    assert len(audit.table.points) == CELLS
    left_out = [point for point in audit.table.points if not point.measured]
    assert {p.key for p in audit.table.points if p.measured} == recorder.measured_keys
    assert all(point.iops is None for point in left_out)
    assert audit.gaps == []
    for cell in recorder.plan.cells:
        reported = audit.predictions[cell.key]
        assert reported.low <= queue(cell, 0) <= reported.high
    (finding,) = [each for each in summary.findings if each.kind == "predicted"]
    assert finding.severity == "note"
    assert len(finding.cells) == len(left_out)
    assert "A gap among the predicted ones is not detected" in finding.cause


def test_a_gap_is_followed_to_its_edges_and_never_predicted_over():
    def slow_at_one_size(cell, now_s):
        return queue(cell, now_s) / (4 if cell.block_size_bytes == 64 << 10 else 1)

    recorder = FakeRecorder(study_of(), slow_at_one_size, noise_share=0.01)
    CONDUCTOR(recorder)
    (gap,) = audit_of(recorder).gaps
    slow = {cell.key for cell in recorder.plan.cells if cell.block_size_bytes == 64 << 10}
    edges = {c.key for c in recorder.plan.cells if c.block_size_bytes in (32 << 10, 128 << 10)}
    assert set(gap.keys) == slow
    assert slow | edges <= recorder.measured_keys
    assert len(recorder.measured_keys) < CELLS


def test_every_chosen_cell_has_its_rounds_and_a_recovery_check():
    recorder = FakeRecorder(study_of(), queue)
    CONDUCTOR(recorder)
    for key in recorder.measured_keys:
        rounds = [s.round for s in recorder.samples if s.cell.key == key]
        assert len(rounds) == len(set(rounds)) == ROUNDS
    assert all(CHECK_NS in sample.counters for sample in recorder.samples)


def test_other_workloads_are_measured_as_ever():
    other = {"kind": "io", "block_sizes": ["8KiB", "16KiB"], "seconds": 1.0}
    recorder = FakeRecorder(study_of(more=[other]), queue)
    CONDUCTOR(recorder)
    io = [sample for sample in recorder.samples if sample.cell.workload == "io"]
    assert len(io) == 2 * ROUNDS


def test_where_no_model_holds_everything_is_measured():
    def unruly(cell, _now_s):
        return 100.0 + cell.block_size_bytes * 7919 * cell.threads % 49_999

    recorder = FakeRecorder(study_of(rounds={"min": 1, "max": 1, "remeasure": 0}), unruly)
    end = CONDUCTOR(recorder)
    assert end.reason == "All 42 tests of the matrix were measured."


def test_a_spent_budget_says_what_is_not_known(monkeypatch):
    recorder = FakeRecorder(study_of(budget={"time_s": 30.0}), queue)
    monkeypatch.setattr(budget.time, "monotonic", lambda: recorder.now_s)
    end = CONDUCTOR(recorder)
    assert len(recorder.measured_keys) == 8, "the first round is always finished"
    assert len(recorder.samples) == 8
    assert "The time budget of 30 s" in end.reason


def test_an_interrupt_is_resumed_with_the_same_cells():
    whole = FakeRecorder(study_of(), queue)
    CONDUCTOR(whole)
    recorder = FakeRecorder(study_of(), queue)
    plain = recorder.measure

    def interrupted(*arguments, **how):
        if len(recorder.samples) == 11:
            raise Interrupted
        return plain(*arguments, **how)

    recorder.measure = interrupted
    with pytest.raises(Interrupted):
        CONDUCTOR(recorder)
    recorder.measure = plain
    assert CONDUCTOR(recorder).status == "complete"
    assert recorder.measured_keys == whole.measured_keys
    assert len(recorder.samples) == len(whole.samples)


def test_a_study_on_the_real_engine(tmp_path):
    (tmp_path / "study.toml").write_text(
        """
        name = "telling"
        rounds = { min = 3, max = 3 }

        [[target]]
        kind = "simulated"
        size = "1GiB"

        [target.model]
        channels = 4
        lasting = true
        read = { base_us = 80, per_kib_us = 0.6 }
        noise_share = 0.05
        burst = { credit_operations = 40000, refill_per_s = 20000 }

        [[workload]]
        kind = "matrix"
        operations = "read"
        adaptive = true
        block_sizes = { from = "4KiB", to = "1MiB" }
        seconds = 0.2
        """
    )
    ended = seatrial("study", "study.toml", folder=tmp_path)
    assert ended.code == 0, ended
    assert "of 27 tests: " in ended.out
    assert "are predicted within" in ended.out
    document = seatrial("show", "last", "--json", folder=tmp_path).document
    assert any("recovery_probe_ratio" in sample["counters"] for sample in document["samples"])


@pytest.mark.parametrize(
    "matrix",
    [{"pattern": "sequential"}, {"operations": "mixed"}, {"arrival": "fixed", "rate": 100}],
)
def test_what_no_model_describes_cannot_be_adaptive(matrix):
    with pytest.raises(StudyError, match="Only random reads or writes in a closed loop"):
        FakeRecorder(study_of(**matrix), queue)


def test_a_precision_without_predictions_has_no_effect():
    with pytest.raises(StudyError, match="It belongs to adaptive = true"):
        FakeRecorder(study_of(adaptive=False, predicted_within=0.2), queue)


def test_the_plan_says_that_fewer_cells_may_be_measured():
    notes = FakeRecorder(study_of(predicted_within=0.2), queue).plan.notes
    assert any("adaptive: as few of its tests" in note and "within 20 %" in note for note in notes)
