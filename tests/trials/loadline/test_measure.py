"""Load lines on simulated devices through the real engine: what is known must come out."""

from __future__ import annotations

import pytest

from measure.sought import US, exponential, sought, sustained_in_theory
from seatrial.measure import recorder
from seatrial.trials.loadline.analysis.measured_steps import offered_per_s

PLAIN = {
    "channels": 8,
    "read": {"base_us": 80, "per_kib_us": 0},
    "write": {"base_us": 80, "per_kib_us": 0},
    "noise_share": 0.2,
}


@pytest.fixture(autouse=True)
def journal(tmp_path, monkeypatch):
    """Journals of what must be undone stay in the test's own folder."""
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("channels", "percentile", "limit"),
    [(8, "p99", "1ms"), (4, "p99", "600us"), (1, "p99", "2ms"), (8, "p90", "500us")],
)
def test_the_sustained_rate_is_that_of_queueing_theory(tmp_path, channels, percentile, limit):
    line = sought(tmp_path, exponential(channels), percentile=percentile, limit=limit).line
    limit_s = line.limit_ns / 1e9
    share = {"p99": 0.01, "p90": 0.1}[percentile]
    truth = sustained_in_theory(channels, 100 * US, limit_s, share)
    assert line.sustained is not None
    assert line.sustained.low * 0.99 <= truth <= line.sustained.high * 1.01
    assert line.sustained.value == pytest.approx(truth, rel=0.05)
    assert line.sustained.high / line.sustained.low < 1.5
    assert line.breaks == "knee"


def test_the_closed_loop_gives_the_scale(tmp_path):
    line = sought(tmp_path, exponential(8), limit="1ms").line
    assert line.closed_loop is not None
    assert line.closed_loop.value == pytest.approx(80_000, rel=0.02)
    assert "% of the closed-loop rate (80k IOPS)" in line.sentence


@pytest.mark.parametrize("seconds", [2, 4])
def test_samples_that_end_after_the_files_bytes_were_written_lower_no_rate(tmp_path, seconds):
    """A writing sample ends early: 131,072 requests of 8 KiB, which this device does in 1.6 s."""
    line = sought(tmp_path, PLAIN, operations="mixed", read_share=0.7, seconds=seconds).line
    assert line.sustained is not None
    assert line.sustained.value == pytest.approx(8 / 96e-6, rel=0.05)
    assert line.sustained.low > 65_000


def test_the_same_seed_seeks_the_same_rates(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (sought(tmp_path / name, PLAIN) for name in ("one", "two"))
    assert [s.cell.key for s in one.samples] == [s.cell.key for s in two.samples]
    assert one.line == two.line


def test_cells_are_named_as_the_planner_names_them(tmp_path):
    found = sought(tmp_path, PLAIN)
    first, *others = found.samples
    assert first.cell.key == "loadline/read/8192B/4t/32d"
    assert all(
        sample.cell.key == f"{first.cell.key}/arrival=poisson/rate={sample.cell.factors['rate']:g}"
        for sample in others
    )
    assert found.line.cell == first.cell.key
    by_cell = [(sample.cell.key, sample.round) for sample in found.samples]
    assert len(set(by_cell)) == len(by_cell)
    assert max(number for _, number in by_cell) >= 2, "the boundary is measured in rounds"


def test_a_freeze_that_the_closed_loop_hides_breaks_the_line(tmp_path):
    """Coordinated omission: while it stands still, a closed loop asks for nothing."""
    frozen = PLAIN | {"freezes": [{"start_s": 0.6, "length_s": 1.0}]}
    found = sought(tmp_path, frozen, seconds=4)
    closed = next(sample for sample in found.samples if offered_per_s(sample) is None)
    assert closed.operations["read"].response_histogram().percentile_ns(99) < 5_000_000
    lowest = found.line.steps[0]
    assert lowest.offered_per_s < 200
    assert lowest.response["p99"].value > 100_000_000
    busy = next(step for step in found.line.steps if step.offered_per_s > 5_000)
    assert busy.response["p99"].value > 900_000_000
    assert busy.service["p99"].value < 5_000_000, "from their actual start only few were slow"
    assert (found.line.breaks, found.line.sustained) == ("stalls", None)
    assert "even at 86.7 IOPS" in found.line.sentence
    assert "the longest 1.0 s" in found.line.cause
    assert found.line.generator == ""


def test_short_freezes_of_the_target_are_not_the_generators(tmp_path):
    """Few requests are in flight in a freeze, and all others that are due in it start late."""
    freezes = [{"start_s": start_s, "length_s": 0.04} for start_s in (0.3, 0.95, 1.6)]
    line = sought(tmp_path, PLAIN | {"freezes": freezes}, threads=[1], depths=[2]).line
    worst = line.steps[-1]
    assert worst.response["p99"].value > 25_000_000
    assert worst.service["p99"].value < 1_000_000
    assert sum(step.stalls for step in line.steps) == 0
    assert line.generator == ""


def test_a_pause_of_the_generator_is_not_the_targets(tmp_path):
    paused = PLAIN | {"generator_pauses": [{"start_s": 0.5, "length_s": 0.3}]}
    line = sought(tmp_path, paused).line
    assert line.breaks == "stalls"
    assert "caused by the measuring machine" in line.generator
    assert (line.sustained.value, line.sustained.high) == (line.sustained.low, None)
    assert "at least" in line.sentence


def test_a_rate_limit_is_a_cliff(tmp_path):
    limited = PLAIN | {"burst": {"credit_operations": 1000, "refill_per_s": 20_000}}
    line = sought(tmp_path, limited).line
    assert line.breaks == "cliff"
    # The credit of 1,000 lets 2 s go 500 per s faster, which is not a rate that is sustained.
    assert 17_000 < line.sustained.low <= 20_000 < line.sustained.high < 21_500
    assert line.sustained.value <= 20_100
    assert "is exceeded abruptly" in line.cause


def test_a_write_cache_that_fills_is_a_cliff(tmp_path):
    cached = PLAIN | {
        "write_cache": {"size_bytes": 64 << 20, "hit_us": 20, "drain_bytes_per_s": 100e6}
    }
    line = sought(tmp_path, cached, operations="write").line
    assert line.breaks == "cliff"
    filled_in_2_s = (100e6 * 2 + (64 << 20)) / 2 / 8192
    assert 100e6 / 8192 < line.sustained.value < filled_in_2_s, "no cache fills for ever"
    assert line.sustained.low <= line.sustained.value < line.sustained.high


def test_a_limit_below_one_request_is_reported_as_such(tmp_path):
    line = sought(tmp_path, PLAIN, limit="50us").line
    assert (line.breaks, line.sustained) == ("service", None)
    assert line.sentence == (
        "No measured rate meets p99 <= 50 µs: even at 86.7 IOPS p99 is 160 µs."
    )
    assert "A single request takes longer" in line.cause


def test_a_wide_limit_does_not_let_a_growing_backlog_pass(tmp_path):
    """At 5 % above capacity 2 s end with 100 ms of backlog: within 500 ms, but not for long."""
    line = sought(tmp_path, PLAIN, limit="500ms").line
    capacity_per_s = 8 / (80 * US * 1.2)
    assert line.sustained.high < 1.06 * capacity_per_s
    assert all(step.holds is False for step in line.steps if step.offered_per_s > 85_500)


def test_mixed_requests_are_judged_together(tmp_path):
    slow_writes = PLAIN | {"write": {"base_us": 4_000, "per_kib_us": 0}, "noise_share": 0.0}
    line = sought(tmp_path, slow_writes, operations="mixed", read_share=0.7, limit="3ms").line
    assert line.sustained is None, "three in ten take 4 ms"
    assert line.steps[0].above.value == pytest.approx(0.3, abs=0.05)


def test_a_device_that_fails_every_request_sustains_nothing(tmp_path):
    found = sought(tmp_path, PLAIN | {"error_share": 1.0})
    assert "No request completed in the closed loop" in found.end.reason
    assert found.line.sustained is None
    assert found.line.sentence == "The sustained rate is unknown: no rate was measured."


def test_failed_requests_are_no_good_answers(tmp_path):
    line = sought(tmp_path, PLAIN | {"error_share": 0.02}).line
    assert line.sustained is None
    assert all(step.holds is not True for step in line.steps)


def test_the_budget_of_the_study_ends_the_search(tmp_path):
    found = sought(tmp_path, PLAIN, study={"budget": {"time_s": 0.2}})
    assert found.end.status == "complete"
    assert "was used up after" in found.end.reason
    assert 1 <= len(found.samples) < 15
    assert found.line.steps == sorted(found.line.steps, key=lambda step: step.offered_per_s)


class FakeDevice:
    """Counters of a device that is busy until a moment, and a clock that only sleeping moves."""

    def __init__(self, busy_until_s, monkeypatch):
        self.now_s = 0.0
        self.busy_until_s = busy_until_s
        monkeypatch.setattr(recorder.time, "sleep", self.sleep)
        monkeypatch.setattr(recorder.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(recorder, "counters", self.counters)

    def sleep(self, length_s):
        self.now_s += length_s

    def counters(self, _path):
        return {"device_busy_ns": min(self.now_s, self.busy_until_s) * 1e9}


@pytest.mark.parametrize(
    ("busy_until_s", "least_s", "rested_s"),
    [(0, 1.0, 1.1), (1.5, 1.0, 1.7), (100, 1.0, 3.0), (100, 0.0, 0.0)],
)
def test_a_target_rests_until_it_is_quiet(busy_until_s, least_s, rested_s, tmp_path, monkeypatch):
    device = FakeDevice(busy_until_s, monkeypatch)
    recorder.rest(tmp_path, least_s)
    assert device.now_s == pytest.approx(rested_s, abs=0.11)


def test_where_there_is_no_device_only_the_least_time_passes(monkeypatch):
    device = FakeDevice(100, monkeypatch)
    recorder.rest(None, 0.5)
    assert device.now_s == 0.5
