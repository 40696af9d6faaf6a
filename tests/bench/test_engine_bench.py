"""The engine bench: its statistics on made-up figures, its reading of fio, and a short real run."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import contenders
import pytest
import rounds
from contenders import BenchTarget, CommandError, Reading
from paired import Bar, median_estimate, paired_ratio, pooled_ratio, reported
from results_page import HEADER, RESULTS, write_section
from rounds import Sample, cost_of, measure_round
from targets import TARGETS, TargetUnavailableError

ROOT = Path(__file__).resolve().parents[2]
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio: apt-get install fio")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for block devices")


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (12, 3, 10), (20, 6, 15)],
)
def test_the_interval_has_the_ranks_of_the_binomial_table(count, low, high):
    values = list(range(1, count + 1))
    random.Random(count).shuffle(values)
    estimate = median_estimate(values, "ratio")
    assert (estimate.low, estimate.high, estimate.rounds) == (low, high, count)
    assert estimate.value == statistics.median(values)


def test_five_rounds_have_no_interval():
    estimate = median_estimate([1.0, 2.0, 3.0, 4.0, 5.0], "ratio")
    assert (estimate.value, estimate.low, estimate.high) == (3.0, None, None)


def test_the_interval_holds_the_median_of_a_skewed_distribution_as_often_as_it_says():
    rng = random.Random(4)
    trials = 2_000
    held = 0
    for _ in range(trials):
        estimate = median_estimate([rng.lognormvariate(0, 1) for _ in range(10)], "ratio")
        held += estimate.low <= 1 <= estimate.high
    assert 0.965 < held / trials < 0.99  # 0.979 by the binomial


def test_a_drift_that_meets_both_leaves_their_ratio_alone():
    drift = [1.0, 5.0, 2.0, 9.0, 1.5, 3.0]
    ratio = paired_ratio([70 * factor for factor in drift], [100 * factor for factor in drift])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.7, 0.7, 0.7))


def test_rounds_that_do_not_pair_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])


def test_targets_are_pooled_by_their_geometric_mean():
    pooled = pooled_ratio([([1.0] * 6, [2.0] * 6), ([8.0] * 6, [4.0] * 6)])
    assert pooled.value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.5] * 10, "met"),
        ([0.9] * 10, "missed"),
        ([0.5] * 6 + [0.9] * 4, "met by the median; the interval reaches across"),
        ([0.5] * 4 + [0.9] * 6, "missed by the median; the interval reaches across"),
        ([0.5] * 3, "met (too few rounds for an interval)"),
        ([0.9], "missed"),
    ],
)
def test_a_bar_says_whether_the_whole_interval_is_below(values, verdict):
    bar = Bar(what="x", most=0.7, estimate=median_estimate(values, "ratio"))
    assert bar.verdict == verdict


def test_figures_are_reported_with_their_interval():
    assert reported(median_estimate([0.7] * 10, "ratio"), 2) == "0.70 (0.70 to 0.70)"
    assert reported(median_estimate([1234.4], "ns"), 0) == "1,234"


def sample(busy: Reading, idle: Reading) -> Sample:
    return Sample(target="x", contender="y", idle=idle, busy=busy, duration_s=2.0)


def test_start_up_is_subtracted_and_one_outlier_start_up_changes_nothing():
    idle = Reading(completed=100, user_s=0.1, system_s=0.2)
    outlier = Reading(completed=100, user_s=3.0, system_s=3.0)
    busy = Reading(completed=1_000_100, user_s=0.35, system_s=0.95)
    cost = cost_of([sample(busy, idle), sample(busy, outlier), sample(busy, idle)])
    assert cost.user_ns == pytest.approx([250.0] * 3)
    assert cost.system_ns == pytest.approx([750.0] * 3)
    assert cost.total_ns == pytest.approx([1000.0] * 3)
    assert cost.per_s == pytest.approx([500_050.0] * 3)


class FakeContender:
    """Notes when it was asked to read for how long."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def run(self, target, duration_s):
        self.calls.append((self.name, duration_s))
        return Reading(completed=round(duration_s * 1e6), user_s=0.0, system_s=duration_s)


def calls_of_rounds(monkeypatch, seed: int, count: int) -> list[list[tuple[str, float]]]:
    target = BenchTarget(name="p", what="", path=None, size_bytes=4096, direct=False)
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        calls = []
        fakes = [FakeContender(name, calls) for name in "abcd"]
        monkeypatch.setattr(rounds, "contenders_at", lambda _place, fakes=fakes: fakes)
        measure_round([target], 1.0, rng)
        found.append(calls)
    return found


def test_everybody_reads_once_a_round_in_an_order_drawn_afresh(monkeypatch):
    found = calls_of_rounds(monkeypatch, seed=1, count=8)
    for calls in found:
        assert sorted(calls) == sorted((name, s) for name in "abcd" for s in (0.001, 1.0))
        assert all(one[0] == two[0] for one, two in zip(calls[::2], calls[1::2], strict=True))
    assert len({tuple(calls) for calls in found}) > 4
    assert calls_of_rounds(monkeypatch, seed=1, count=8) == found


@pytest.fixture
def small_place(tmp_path) -> BenchTarget:
    path = tmp_path / "small.dat"
    path.write_bytes(os.urandom(1 << 20))
    return BenchTarget(name="small", what="", path=path, size_bytes=1 << 20, direct=False)


@needs_fio
def test_fio_is_read_exactly(small_place):
    """64 reads are asked for, so 64 must be read from its JSON, whatever fio notes before it."""
    exactly = contenders.fio("fio", "psync", "--time_based=0", "--io_size=256k", "--iodepth=8")
    reading = exactly.run(small_place, 1.0)
    assert reading.completed == 64
    assert reading.user_s + reading.system_s > 0


@needs_fio
def test_a_fio_that_fails_is_an_error_with_its_words(small_place):
    with pytest.raises(CommandError, match="no-such-engine"):
        contenders.fio("fio", "no-such-engine").run(small_place, 0.1)


def test_notes_before_the_json_are_passed_over_and_job_errors_are_not():
    job = {"error": 0, "read": {"total_ios": 3}}
    both = json.dumps({"jobs": [job, job]}, indent=1)
    assert contenders.fio_completed(f"note: {{curly}} words\n{both}") == 6
    assert contenders.fio_completed(both) == 6
    failed = json.dumps({"jobs": [job | {"error": 5}]})
    with pytest.raises(CommandError, match="5"):
        contenders.fio_completed(failed)
    with pytest.raises(CommandError, match="no JSON"):
        contenders.fio_completed("fio: cannot open")


def test_seatrial_counts_what_it_completed(small_place):
    reading = contenders.seatrial("seatrial", "psync", 1).run(small_place, 0.05)
    assert reading.completed > 0


def test_a_cell_that_did_not_complete_all_is_no_measurement():
    outcome = {"offered": 3, "completed": 2, "failed": 1}
    with pytest.raises(CommandError, match="did not complete"):
        contenders.seatrial_completed(json.dumps({"outcome": outcome}))


def test_a_bench_overwrites_its_own_section_only(tmp_path):
    page = tmp_path / "RESULTS.md"
    write_section(page, "engine", "first")
    page.write_text(page.read_text() + "\nBy hand.\n")
    write_section(page, "sql", "other")
    write_section(page, "engine", "second")
    text = page.read_text()
    assert text.startswith(HEADER)
    assert "first" not in text
    assert [text.count(part) for part in ("second", "other", "By hand.")] == [1, 1, 1]
    assert text.index("second") < text.index("By hand.") < text.index("other")


def test_a_torn_section_is_left_alone(tmp_path):
    page = tmp_path / "RESULTS.md"
    page.write_text("<!-- engine: begin -->\nkept")
    with pytest.raises(ValueError, match="markers of engine"):
        write_section(page, "engine", "new")
    assert page.read_text() == "<!-- engine: begin -->\nkept"


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("name", ["zram", "loop"])
def test_a_block_device_is_made_and_put_away(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path))
    before = sorted(Path("/sys/block").iterdir())
    try:
        with TARGETS[name](tmp_path, 8 << 20) as target:
            device = Path("/sys/class/block") / target.path.name
            size_bytes = int((device / "size").read_text()) * 512
            assert size_bytes == target.size_bytes
            assert contenders.seatrial("x", "psync", 1).run(target, 0.05).completed > 0
    except TargetUnavailableError as error:
        pytest.skip(str(error))
    if name == "zram":
        assert sorted(Path("/sys/block").iterdir()) == before
    else:
        backing = device / "loop/backing_file"  # perhaps of the next test already
        assert not backing.exists() or str(tmp_path) not in backing.read_text()
    assert not list(tmp_path.glob("*.dat"))


@pytest.mark.slow
@needs_fio
def test_a_quick_bench_runs_and_leaves_the_published_page_alone(tmp_path):
    published = RESULTS.read_bytes() if RESULTS.exists() else None
    page = tmp_path / "R.md"
    command = [sys.executable, "bench/engine_speed.py", "--quick", "--results", str(page)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    text = page.read_text()
    assert "| seatrial / fio tuned, cached | 0.7 |" in text
    assert "| user ns per NOP | 50 |" in text
    assert "fio-" in text
    assert (RESULTS.read_bytes() if RESULTS.exists() else None) == published
