"""What a further sample is expected to take: of a batch, what it took so far."""

from __future__ import annotations

import itertools
import time

import msgspec
import pytest

from measure.fake_recorder import FakeRecorder
from seatrial.measure.rounds import interleaved, remeasuring
from seatrial.results.fleet import FleetRecord
from seatrial.stats.cell_estimates import settled
from seatrial.study.cost import cell_time_s
from seatrial.study.layouts import cost as layout_cost
from seatrial.trials.loadline.measure import load_lines
from seatrial.trials.loadline.study import RateStep

BATCH_S = 0.4
"""How long the batch takes, far below the hour after which it would be ended."""


class QuickBatches(FakeRecorder):
    """Tells of batches that end by themselves, and notes how long the run is said to go on."""

    def __init__(self, study) -> None:
        super().__init__(study, lambda _cell, _now_s: 1.0)
        self.left_s: list[float] = []

    def measure(self, cell, round_number, position, *, time_left, notes=None):
        self.left_s.append(time_left.most_s)
        return super().measure(cell, round_number, position, time_left=time_left, notes=notes)

    def _sample(self, cell, round_number, position, counters):
        sample = super()._sample(cell, round_number, position, counters)
        return msgspec.structs.replace(sample, duration_s=BATCH_S)


@pytest.fixture
def recorder(tmp_path):
    """Three rounds of a batch, and a budget of a minute."""
    (tmp_path / "nightly.sql").write_text("SELECT 1;\n")
    return QuickBatches(
        {
            "name": "nightly",
            "rounds": {"min": 3, "max": 3},
            "budget": {"time_s": 60.0},
            "target": [{"label": "here", "path": str(tmp_path)}],
            "workload": [{"kind": "batch", "file": str(tmp_path / "nightly.sql"), "scale": 1}],
        }
    )


def test_a_batch_that_was_quick_goes_on_within_the_budget(recorder):
    end = interleaved(settled)(recorder)
    assert end.reason == "All 3 rounds were measured."
    assert len(recorder.samples) == 3


def test_rounds_and_the_load_line_after_them_share_the_time(monkeypatch):
    """Rounds end where the load line has its time, and both together keep to the budget."""
    recorder = FakeRecorder(
        {
            "name": "both",
            "rounds": {"min": 50, "max": 50},
            "budget": {"time_s": 60.0},
            "target": [{"size": "1GiB"}],
            "workload": [
                {"kind": "io", "seconds": 1.0},
                {"kind": "loadline", "limit": "5ms", "budget_seconds": 40.0},
            ],
        },
        lambda _cell, _now_s: 1_000.0,
    )
    monkeypatch.setattr(time, "monotonic", lambda: recorder.now_s)
    again = RateStep(rate_per_s=500.0, sample_s=2.0, rest_s=0.0)
    end = load_lines(lambda _workload, _seed: lambda _samples: again, interleaved(settled))(
        recorder
    )
    in_rounds = [each for each in recorder.samples if each.cell.kind == "io"]
    assert len(in_rounds) == 19
    assert "less 40 s for load lines" in end.reason
    assert recorder.now_s == pytest.approx(59.0)
    assert all(left.most_s <= 60.0 for left in recorder.left)


def test_what_is_measured_again_leaves_no_time_to_load_lines_that_nobody_measures(monkeypatch):
    recorder = FakeRecorder(
        {
            "name": "again",
            "rounds": {"min": 1, "max": 1},
            "budget": {"time_s": 30.0},
            "target": [{"size": "1GiB"}],
            "workload": [
                {"kind": "io", "seconds": 1.0},
                {"kind": "loadline", "limit": "5ms", "budget_seconds": 40.0},
            ],
        },
        lambda _cell, _now_s: 1_000.0,
    )
    monkeypatch.setattr(time, "monotonic", lambda: recorder.now_s)
    (odd,) = (cell.key for cell in recorder.plan.cells if cell.kind == "io")
    end = remeasuring(lambda _run, _samples: [odd])(recorder)
    assert len(recorder.samples) == 2
    assert end.reason.endswith("2 further rounds.")


def test_what_is_left_is_reported_by_what_it_took(recorder):
    interleaved(settled)(recorder)
    first_s, second_s, third_s = recorder.left_s
    assert first_s > 3600, "the first round is measured whatever the budget"
    assert 2 * BATCH_S < second_s < 10
    assert BATCH_S < third_s < second_s


def test_what_is_left_counts_the_arrays_that_are_still_to_be_built():
    recorder = QuickBatches(
        {
            "name": "arrays",
            "rounds": {"min": 1, "max": 1},
            "layout": [{"name": "a", "drives": [1, 2, 3], "size": 64 << 20}],
            "workload": [{"kind": "io", "operations": ["read", "write"], "seconds": 1.0}],
        }
    )
    interleaved(settled)(recorder)
    sample_s = cell_time_s(recorder.plan.cells[0]) + layout_cost.RESTING_S
    build_s = layout_cost.build_s(recorder.plan, "a-1")
    assert build_s > layout_cost.BUILD_S
    # Two samples on each of three arrays; the first of each has it built before.
    due = [(6, 3), (5, 2), (4, 2), (3, 1), (2, 1), (1, 0)]
    assert recorder.left_s == pytest.approx([n * sample_s + k * build_s for n, k in due])


def test_what_building_arrays_writes_counts_against_the_budget():
    recorder = FakeRecorder(
        {
            "name": "arrays",
            "rounds": {"min": 1, "max": 5},
            "budget": {"write_bytes": 200 << 20},
            "layout": [{"name": "a", "drives": [1, 2], "size": 64 << 20}],
            "workload": [{"kind": "io", "operations": "read"}],
        },
        lambda _cell, _now_s: 1.0,
    )
    end = interleaved(lambda _samples, _precision: False)(recorder)
    # A file of 64 MiB whenever another array is built; the one of a round's end may stay there.
    turns = [target for target, _ in itertools.groupby(s.cell.target for s in recorder.samples)]
    assert len(turns) == 3
    assert "write budget" in end.reason


class FileWriter(FakeRecorder):
    """Makes 10 MiB of files before each sample, and writes 10 MiB; reads do not count."""

    def _sample(self, cell, round_number, position, counters):
        sample = super()._sample(cell, round_number, position, counters)
        (part,) = sample.operations.values()
        moved = msgspec.structs.replace(part, transferred_bytes=10 << 20)
        operations = {"deliver-append": moved, "answer-read": moved}
        made = {"files_made_bytes": 10.0 * (1 << 20)}
        return msgspec.structs.replace(sample, operations=operations, counters=made)


def test_what_file_workloads_write_counts_against_the_budget(tmp_path):
    recorder = FileWriter(
        {
            "name": "files",
            "rounds": {"min": 4, "max": 4},
            "budget": {"write_bytes": 60 << 20},
            "target": [{"label": "here", "path": str(tmp_path)}],
            "workload": [
                {"kind": "filebench", "personality": "varmail", "limit_bytes": 8 << 20}
                | {"set": {"nfiles": 100}, "seconds": 1}
            ],
        },
        lambda _cell, _now_s: 1.0,
    )
    end = interleaved(lambda _samples, _precision: False)(recorder)
    assert len(recorder.samples) == 3
    assert "write budget" in end.reason


class OnHosts(FakeRecorder):
    """Makes samples of hosts, with nothing in their common window."""

    def _sample(self, cell, round_number, position, counters):
        sample = super()._sample(cell, round_number, position, counters)
        fleet = FleetRecord(
            hosts=[],
            planned_hosts=2,
            on_loss="stop",
            skew_ns=0,
            skew_bound_ns=0,
            unaligned_ns_max=0,
            outside_completed=0,
        )
        return msgspec.structs.replace(sample, fleet=fleet)


def test_what_hosts_write_outside_of_their_window_counts_against_the_budget(tmp_path):
    recorder = OnHosts(
        {
            "name": "hosts",
            "hosts": {"counts": [2]},
            "rounds": {"min": 4, "max": 4},
            "budget": {"write_bytes": 350 << 20},
            "target": [{"label": "here", "path": str(tmp_path), "size": 64 << 20}],
            "workload": [{"kind": "io", "operations": "write"}],
        },
        lambda _cell, _now_s: 1.0,
    )
    end = interleaved(lambda _samples, _precision: False)(recorder)
    # 64 MiB to fill the file, and 128 MiB in each round.
    assert len(recorder.samples) == 2
    assert "write budget" in end.reason


def test_tests_that_are_measured_once_claim_no_precision():
    recorder = FakeRecorder(
        {
            "name": "once",
            "rounds": {"min": 2, "max": 5},
            "target": [{"label": "t", "kind": "simulated", "size": 64 << 20}],
            "workload": [{"kind": "fill", "once": True}],
        },
        lambda _cell, _now_s: 1.0,
    )
    end = interleaved(settled)(recorder)
    assert (len(recorder.samples), end.reason) == (1, "Every test is measured once only.")
