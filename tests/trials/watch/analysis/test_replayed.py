"""How far a replay was behind."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.results.model import Slice, Timeline
from seatrial.trials.watch.analysis.replayed import lag_curve
from stats.builders import sample_of

SLICE_NS = 100_000_000


def sample_with(counts):
    """A sample whose slices of 0.1 s have so many completions."""
    sample = sample_of()
    slices = [
        Slice(index=i, operation="read", completed=n, transferred_bytes=0, response=b"")
        for i, n in enumerate(counts)
        if n
    ]
    timeline = Timeline(slice_ns=SLICE_NS, slices=slices)
    duration_s = len(counts) * SLICE_NS / 1e9
    return msgspec.structs.replace(sample, timeline=timeline, duration_s=duration_s)


def lags(counts, due_counts):
    return [each.lag_s for each in lag_curve(sample_with(counts), 0.1, due_counts)]


def test_a_replay_that_keeps_up_has_no_lag():
    assert lags([10, 10, 10, 10], [10, 20, 30, 40]) == [0, 0, 0, 0]


def test_a_gap_in_the_recording_is_no_lag():
    assert lags([10, 0, 0, 0, 10], [10, 10, 10, 10, 20]) == [0, 0, 0, 0, 0]


def test_a_stall_is_a_lag_that_is_made_up_for():
    due = [10, 20, 30, 40, 50, 60]
    assert lags([10, 0, 0, 0, 40, 10], due) == pytest.approx([0, 0, 0.1, 0.2, 0, 0])


def test_a_slow_target_falls_behind_until_the_end():
    due = [10, 20, 30, 40]
    found = lags([5, 5, 5, 5, 5, 5, 5, 5], due)
    assert found == pytest.approx([0, 0, 0.1, 0.1, 0.2, 0.2, 0.3, 0])


def test_without_times_there_is_no_curve():
    assert lag_curve(sample_with([1]), 0.0, []) == []
