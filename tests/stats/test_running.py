"""The start-up phase: cut by its fixed rule, and by nothing else."""

import msgspec
import numpy as np
import pytest

from seatrial._core import Histogram
from seatrial.findings.context import Context
from seatrial.findings.rules.start_up_phase import start_up_phase
from seatrial.findings.summary import summarise_cell
from seatrial.stats.cell_estimates import latency_estimates, rate_estimate
from seatrial.stats.running import (
    phases_alike,
    response_histogram,
    running,
    running_from,
    running_per_s,
)

from .builders import MS_NS, cell_of, run_of
from .timed import noisy_counts, timed_sample


def counts_with(start, ratio, values=50, **rest):
    """A level of 100 whose first slices are so many times as fast."""
    counts = noisy_counts(values, **rest)
    counts[:start] = np.rint(counts[:start] * ratio)
    return counts


@pytest.mark.parametrize("ratio", [4.0, 1.5, 0.5])
def test_a_start_that_differs_is_cut_where_it_ends(ratio):
    phase = running(timed_sample(counts_with(10, ratio)))
    assert phase.from_s == pytest.approx(1.0)
    assert phase.start_up_ratio == pytest.approx(ratio, rel=0.1)
    assert phase.completed_per_s == pytest.approx(1000, rel=0.05)


def test_a_ratio_below_one_point_two_is_left_in():
    sample = timed_sample(counts_with(20, 1.15, spread=0.01))
    assert running(sample).from_s == 0
    assert running_per_s(sample) == sample.completed_per_s


def test_a_ratio_of_one_point_two_five_is_cut():
    assert running(timed_sample(counts_with(20, 1.25, spread=0.01))).from_s == pytest.approx(2.0)


def test_more_than_half_is_never_cut():
    assert running(timed_sample(counts_with(24, 3.0))).from_s == pytest.approx(2.4)
    assert running(timed_sample(counts_with(30, 3.0))).from_s == 0


def test_nineteen_slices_are_too_few():
    assert running(timed_sample(counts_with(8, 4.0, values=19))).from_s == 0
    assert running(timed_sample(counts_with(8, 4.0, values=20))).from_s == pytest.approx(0.8)


def test_a_rate_that_keeps_falling_has_no_running_phase():
    counts = np.rint(noisy_counts(100) * np.linspace(3, 1, 100))
    assert running(timed_sample(counts)).from_s == 0


@pytest.mark.parametrize("stretches", [4, 6])
def test_a_rate_that_goes_up_and_down_has_no_running_phase(stretches):
    """Its first stretch comes again: that is the device's pace, not its start."""
    length = 120 // stretches
    counts = noisy_counts(120, spread=0.03).astype(float)
    counts *= np.where(np.arange(120) // length % 2, 1.0, 1.4)
    assert running(timed_sample(np.rint(counts))).from_s == 0


@pytest.mark.parametrize(("ratio", "later"), [(0.5, 0.5), (0.5, 0.6), (2.0, 2.0)])
def test_a_first_stretch_that_recurs_is_no_start(ratio, later):
    counts = noisy_counts(300).astype(float)
    counts[:10] *= ratio
    assert running(timed_sample(np.rint(counts))).from_s == pytest.approx(1.0, abs=0.11)
    for start in (70, 140, 210, 280):
        counts[start : start + 10] *= later
    assert running(timed_sample(np.rint(counts))).from_s == 0


def test_a_short_dip_after_the_start_does_not_keep_it_in():
    counts = counts_with(10, 3.0, values=60)
    counts[30:33] = 60
    assert running(timed_sample(counts)).from_s == pytest.approx(1.0)


def test_from_a_moment_on_a_sample_counts_as_if_it_began_there():
    sample = timed_sample(noisy_counts(50))
    phase = running_from(sample, 1.95)
    assert phase.from_slice == 20
    assert phase.completed == sum(part.completed for part in sample.timeline.slices[20:])
    assert phase.duration_s == pytest.approx(3.0)
    assert response_histogram(sample, "read", phase).count == phase.completed


def test_from_a_moment_on_never_less_than_the_running_phase_nor_than_half():
    cut = timed_sample(counts_with(10, 4.0))
    assert running_from(cut, 0.5) == running(cut)
    whole = timed_sample(noisy_counts(50))
    assert running_from(whole, 2.6) == running(whole)
    scheduled = timed_sample(noisy_counts(50), cell_of(arrival={"kind": "fixed", "per_s": 1000}))
    assert running_from(scheduled, 1.0).from_s == 0


def test_compared_samples_all_begin_at_one_moment_or_none_is_cut():
    cut, alike = timed_sample(counts_with(10, 4.0)), timed_sample(noisy_counts(30))
    short = timed_sample(noisy_counts(19))

    def starts_s(*samples):
        return [each.from_s for each in phases_alike(samples, [running(s) for s in samples])]

    assert starts_s(cut, alike) == pytest.approx([1.0, 1.0])
    assert starts_s(cut, alike, short) == [0.0, 0.0, 0.0]
    assert starts_s(alike, short) == [0.0, 0.0]


def test_a_decay_is_cut_as_far_as_it_significantly_reaches():
    counts = noisy_counts(100).astype(float)
    counts[:30] *= np.linspace(4, 1, 30)
    assert 1.8 <= running(timed_sample(np.rint(counts))).from_s <= 3.2


@pytest.mark.parametrize(("start", "end"), [(20, 35), (5, 25), (40, 50)])
def test_a_freeze_in_the_middle_is_never_cut(start, end):
    counts = noisy_counts(50)
    counts[start:end] = 0
    sample = timed_sample(counts)
    assert running(sample).from_s == 0
    assert running_per_s(sample) == sample.completed_per_s


def test_a_freeze_at_the_beginning_is_never_cut():
    counts = noisy_counts(50)
    counts[:10] = 0
    assert running(timed_sample(counts)).from_s == 0


def test_a_fast_start_is_cut_although_most_of_the_rest_is_a_freeze():
    counts = counts_with(10, 4.0, values=100)
    counts[35:95] = 0
    assert running(timed_sample(counts)).from_s == pytest.approx(1.0)


def test_a_fast_start_is_cut_although_a_freeze_follows():
    counts = counts_with(10, 4.0)
    counts[10:13] = 0
    assert running(timed_sample(counts)).from_s == pytest.approx(1.0)


@pytest.mark.parametrize("arrival", [{"kind": "fixed", "rate_per_s": 10}, {"kind": "poisson"}])
def test_under_a_schedule_nothing_is_cut(arrival):
    sample = timed_sample(counts_with(10, 4.0), cell_of(arrival=arrival))
    assert running(sample).from_s == 0


def test_a_foreign_timeline_that_does_not_hold_every_request_cuts_nothing():
    import msgspec

    sample = timed_sample(counts_with(10, 4.0))
    outcome = msgspec.structs.replace(sample.outcome, completed=sample.outcome.completed + 1)
    assert running(msgspec.structs.replace(sample, outcome=outcome)).from_s == 0


def test_a_slow_device_is_judged_by_longer_steps():
    counts = [6] * 30 + [2] * 90  # 8 completions take 4 slices
    phase = running(timed_sample(counts))
    assert phase.from_s == pytest.approx(3.0, abs=0.4)


def test_client_processes_that_began_one_after_the_other_are_not_counted_too_fast():
    """Their joint log lasts for 5 s, each of them for 4.6 s, by which the whole is divided."""
    whole = timed_sample(counts_with(10, 4.0))
    sample = msgspec.structs.replace(whole, duration_s=4.6)
    assert running(sample).from_s == pytest.approx(1.0)
    assert running_per_s(sample) == pytest.approx(1000, rel=0.05)


def test_rate_and_percentiles_rest_on_the_running_phase():
    counts = counts_with(10, 4.0)
    times = [
        [MS_NS if index < 10 else 5 * MS_NS] * int(count) for index, count in enumerate(counts)
    ]
    times[3][0] = 900 * MS_NS  # the slowest of all is in the start-up phase
    sample = timed_sample(counts, latency_ns=times)
    assert rate_estimate([sample]).value == pytest.approx(1000, rel=0.05)
    figures = latency_estimates([sample])["read"]
    assert figures["p50"].value == pytest.approx(5 * MS_NS, rel=0.005)
    assert figures["max"].value == 900 * MS_NS


def test_what_was_cut_and_what_is_left_make_the_whole():
    sample = timed_sample(counts_with(10, 4.0), tail_s=0.03)
    phase = running(sample)
    before = [part for part in sample.timeline.slices if part.index < phase.from_slice]
    assert sum(part.completed for part in before) + phase.completed == sample.outcome.completed
    assert phase.from_s + phase.duration_s == pytest.approx(sample.duration_s)
    merged = response_histogram(sample, "read", phase)
    for part in before:
        merged = merged.merged(Histogram.decode(part.response))
    assert merged.encode() == sample.operations["read"].response


def test_the_finding_names_what_was_left_out():
    steady = cell_of(block_size_bytes=4096)
    cells = [
        summarise_cell([timed_sample(counts_with(10, 4.0, seed=n), round=n) for n in range(3)]),
        summarise_cell([timed_sample(noisy_counts(50), steady)]),
    ]
    (finding,) = start_up_phase(Context(run_of(), cells))
    assert finding.severity == "note"
    assert finding.cells == [cells[0].cell.identity()]
    assert "4" in finding.sentence
    assert "up to 1.0 s" in finding.sentence
    assert "faster" in finding.sentence
    assert finding.evidence["samples_cut_count"] == 3
    assert cells[0].running_from_s == pytest.approx(1.0)
    assert cells[1].running_from_s == 0


def test_no_finding_where_nothing_was_cut():
    cells = [summarise_cell([timed_sample(noisy_counts(50))])]
    assert start_up_phase(Context(run_of(), cells)) == []


def test_a_slow_start_says_so():
    cells = [summarise_cell([timed_sample(counts_with(10, 0.4))])]
    (finding,) = start_up_phase(Context(run_of(), cells))
    assert "slower" in finding.sentence
    assert "power-saving" in finding.cause


@pytest.mark.parametrize("spec", [{"sync_every": 1}, {"streams": [{"sync_every": 1}]}])
def test_rates_leave_out_the_syncs_that_follow_writes(spec):
    """Of a whole sample, of its running phase, and of an estimate with its interval."""
    writes = counts_with(10, 4.0)
    counts = {"write": writes, "sync": writes}
    synced = timed_sample(counts, cell_of(operation="write", **spec))
    alone = timed_sample(writes, cell_of(operation="write"))
    assert synced.completed_per_s == pytest.approx(alone.completed_per_s)
    assert running_per_s(synced) == pytest.approx(running_per_s(alone))
    assert running(synced).start_up_ratio == pytest.approx(running(alone).start_up_ratio)
    one, other = rate_estimate([synced]), rate_estimate([alone])
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_syncs_that_follow_no_write_are_requests():
    """Those of a recording, or of an operation of files of that name."""
    sample = timed_sample({"write": [100] * 30, "sync": [50] * 30}, cell_of(operation="write"))
    assert sample.completed_per_s == running_per_s(sample) == pytest.approx(1500)
