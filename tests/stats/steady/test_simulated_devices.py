"""States and findings on devices of which everything is known, measured by the real engine."""

import pytest

from seatrial.cli.study_command import plan_of
from seatrial.findings.summary import summarise
from seatrial.measure.progress import SilentWatcher
from seatrial.measure.rounds import interleaved
from seatrial.measure.run import RunRequest, execute
from seatrial.results.store import ResultsFile
from seatrial.stats.cell_estimates import settled

STUDY = """
name = "known"
rounds = {{ min = {rounds}, max = {rounds}, remeasure = 0 }}

[[target]]
label = "device"
kind = "simulated"
size = "1GiB"

[target.model]
channels = 16
noise_share = 0.05
read = {{ base_us = 200.0 }}
write = {{ base_us = 250.0 }}
{model}

[[workload]]
kind = "matrix"
seconds = {seconds}
limit_bytes = "64GiB"
block_sizes = ["4KiB", "8KiB"]
threads = [8]
operations = {operations}
"""


def measured(folder, model="", *, seconds=6, rounds=2, operations='["read", "write"]'):
    """The summary of a study on a simulated device."""
    path = folder / "study.toml"
    path.write_text(
        STUDY.format(model=model, seconds=seconds, rounds=rounds, operations=operations)
    )
    request = RunRequest(plan=plan_of(str(path)), command="seatrial study")
    with ResultsFile.open(folder / "results.seatrial", create=True) as store:
        run, _ = execute(request, store, watcher=SilentWatcher(), strategy=interleaved(settled))
        return summarise(run, store.samples(run.id))


def kinds_of(summary):
    return {finding.kind for finding in summary.findings}


OWN_KINDS = {"not_steady", "left_steady_state", "burst_credit", "start_up_phase"}
BURST = "burst = { credit_operations = 60000.0, refill_per_s = 3000.0 }"
CACHE = "write_cache = {{ size_bytes = {size}, hit_us = 60.0, drain_bytes_per_s = 40000000 }}"


def test_an_honest_device_raises_nothing_and_is_steady(tmp_path):
    summary = measured(tmp_path)
    assert not kinds_of(summary) & OWN_KINDS
    assert len(summary.steady) == 8  # four cells in two rounds
    assert {phase.state for state in summary.steady for phase in state.phases} == {"steady"}


@pytest.mark.parametrize("lasting", ["", "lasting = true"])
def test_burst_credit_is_found_with_its_base_rate_and_size(tmp_path, lasting):
    summary = measured(tmp_path, f"{BURST}\n{lasting}")
    (finding,) = (f for f in summary.findings if f.kind == "burst_credit")
    assert finding.severity == "critical"
    assert finding.evidence["base_per_s"] == pytest.approx(3000, rel=0.05)
    assert finding.evidence["credit_operations"] == pytest.approx(60_000, rel=0.15)
    assert finding.evidence["base_unit"] == "IOPS"
    assert finding.evidence["recovers"] is not bool(lasting)


def test_the_rate_of_a_burst_device_is_its_base_rate(tmp_path):
    summary = measured(tmp_path, BURST)
    for cell in summary.cells:
        assert cell.running_from_s > 1
        assert cell.iops.value == pytest.approx(3000, rel=0.05)


def test_a_small_write_cache_is_a_start_up_phase_and_no_credit(tmp_path):
    summary = measured(tmp_path, CACHE.format(size=256 << 20), seconds=10)
    assert kinds_of(summary) & OWN_KINDS == {"start_up_phase"}
    by_key = {cell.cell.key: cell for cell in summary.cells}
    drained = by_key["matrix/write/8192B/8t/1d"].iops
    assert drained.value == pytest.approx(40e6 / 8192, rel=0.03)


def test_a_cache_that_fills_late_is_a_steady_level_left(tmp_path):
    summary = measured(
        tmp_path, CACHE.format(size=2 << 30), seconds=6, operations='["write"]', rounds=1
    )
    (finding,) = (f for f in summary.findings if f.kind == "left_steady_state")
    assert finding.evidence["likely"] == "cache_full"
    assert finding.evidence["cache_bytes"] == pytest.approx(2 << 30, rel=0.1)
    assert finding.evidence["drain_bytes_per_s"] == pytest.approx(40e6, rel=0.05)


def test_a_freeze_is_a_stall_and_no_state(tmp_path):
    summary = measured(tmp_path, "freezes = [{ start_s = 2.0, length_s = 1.0 }]")
    assert kinds_of(summary) & (OWN_KINDS | {"stall"}) == {"stall"}
    for cell in summary.cells:
        assert cell.iops.value < 0.9 * 8 / 200e-6  # the frozen second counts
