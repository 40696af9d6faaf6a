"""The recovery check before a cell waits for a target that became slow, and reports it."""

from __future__ import annotations

import pytest

from measure.fake_recorder import FakeRecorder
from seatrial.measure.budget import RunBudget
from seatrial.measure.progress import TimeLeft
from seatrial.measure.recovery import CHECK_NS, IDLE_NS, PROBE_RATIO, RESTS_S, RecoveryCheck

NOTHING_LEFT = TimeLeft(most_s=0.0, cell_s=0.0, may_end_sooner=False)
STUDY = {
    "name": "checked",
    "target": [{"kind": "simulated", "size": "1GiB"}],
    "workload": [{"kind": "matrix", "block_sizes": ["8KiB", "64KiB"], "threads": [1, 4]}],
}


def checked(truth):
    recorder = FakeRecorder(STUDY, truth)
    cells = recorder.plan.cells
    return recorder, RecoveryCheck(RunBudget(recorder), cells), cells


def cell_of(cells, operation):
    return next(cell for cell in cells if cell.operation == operation)


def measure(recorder, check, cell, number=0):
    notes = check.before(cell)
    check.after(recorder.measure(cell, number, 0, time_left=NOTHING_LEFT, notes=notes))
    return notes


def test_a_steady_target_is_hardly_waited_for():
    recorder, check, cells = checked(lambda _cell, _now: 1000.0)
    read = cell_of(cells, "read")
    first = measure(recorder, check, read)
    assert first[PROBE_RATIO] == pytest.approx(1.0)
    assert first[IDLE_NS] == pytest.approx(RESTS_S[0] * 1e9)  # does the level still rise?
    again = measure(recorder, check, read, 1)
    assert (again[IDLE_NS], again[PROBE_RATIO]) == (0.0, pytest.approx(1.0))
    assert again[CHECK_NS] == pytest.approx(0.1e9)  # one probe: a tenth of a second's cell


def test_after_writes_the_target_is_left_alone_for_a_moment():
    recorder, check, cells = checked(lambda _cell, _now: 1000.0)
    read, write = cell_of(cells, "read"), cell_of(cells, "write")
    measure(recorder, check, read)
    measure(recorder, check, write)
    assert measure(recorder, check, read, 1)[IDLE_NS] > 0
    assert measure(recorder, check, read, 2)[IDLE_NS] == 0


def test_the_level_is_found_once_it_no_longer_rises():
    """What filled the file still drains for 2 s, as before the first cell of the article."""
    recorder, check, cells = checked(lambda _cell, now: 1000.0 if now > 2 else 300.0 * (1 + now))
    notes = measure(recorder, check, cell_of(cells, "read"))
    assert notes[IDLE_NS] > 1.5e9
    assert recorder.samples[0].completed_per_s == 1000


def test_a_fallen_target_is_waited_for():
    recorder, check, cells = checked(lambda _cell, now: 400.0 if 5 < now < 8 else 1000.0)
    read = cell_of(cells, "read")
    measure(recorder, check, read)
    recorder.now_s = 5.1
    notes = measure(recorder, check, read, 1)
    assert notes[PROBE_RATIO] == pytest.approx(1.0)
    assert 2.5e9 < notes[IDLE_NS] < 4.5e9
    assert recorder.samples[1].completed_per_s == 1000


def test_a_lasting_fall_is_waited_for_twice_and_then_taken_as_the_level():
    recorder, check, cells = checked(lambda _cell, now: 1000.0 if now < 5 else 400.0)
    read = cell_of(cells, "read")
    measure(recorder, check, read)
    recorder.now_s = 5.1
    rests = [measure(recorder, check, read, number)[IDLE_NS] for number in range(1, 5)]
    assert rests[:2] == [pytest.approx(sum(RESTS_S) * 1e9)] * 2
    assert rests[2:] == [0.0, 0.0]
    ratios = [sample.counters[PROBE_RATIO] for sample in recorder.samples[1:]]
    assert ratios == [pytest.approx(0.4)] * 4, "compared with the first level, to the end"


def test_a_spent_credit_is_waited_for_until_the_probe_is_back():
    """A credit of requests above a base rate, spent by cells, coming back at rest."""

    class Credit:
        tokens, free_since_s = 3000.0, 0.0

        def rate(self, cell, now_s):
            duration_s = cell.spec["limit"]["duration_s"]
            rested_s = now_s - self.free_since_s
            self.tokens = min(3000.0, self.tokens + 1000.0 * rested_s)
            spent = min(1000.0 * duration_s, self.tokens)
            self.tokens -= spent
            self.free_since_s = now_s + duration_s
            return 1000.0 + spent / duration_s

    recorder, check, cells = checked(Credit().rate)
    read = cell_of(cells, "read")
    for number in range(6):
        measure(recorder, check, read, number)
    assert all(sample.counters[PROBE_RATIO] >= 0.8 for sample in recorder.samples)
    rests = [sample.counters[IDLE_NS] for sample in recorder.samples]
    assert rests[1:3] == [0.0, 0.0], "the credit lasts for three cells"
    assert min(rests[4:]) > 0


def test_probes_are_short_and_write_little():
    recorder, check, cells = checked(lambda _cell, _now: 1000.0)
    seen = []
    recorder.probe = lambda cell, number: (
        seen.append(cell) or FakeRecorder.probe(recorder, cell, number)
    )
    measure(recorder, check, cell_of(cells, "write"))
    assert seen
    for probe in seen:
        assert probe.spec["limit"]["duration_s"] == pytest.approx(0.1)
        assert probe.spec["limit"]["bytes"] == 4 << 20


def test_a_dead_target_is_no_reason_to_wait_for_ever():
    recorder, check, cells = checked(lambda _cell, _now: 0.0)
    notes = measure(recorder, check, cell_of(cells, "read"))
    assert notes[PROBE_RATIO] == 1.0
    assert notes[IDLE_NS] < 1e9
