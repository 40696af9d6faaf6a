"""The method's parts: adjustment, intervals, pairing, weights."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seatrial.trials.replay.compare.false_discovery import LEVEL, adjust_p_values
from seatrial.trials.replay.compare.floors import USUAL, usual_floor
from seatrial.trials.replay.compare.model import CallFigures, Unit
from seatrial.trials.replay.compare.table import are_interleaved, basis_of, compared

from .sides import capture, entrant, turns


@given(st.lists(st.floats(1e-9, 1), min_size=1, max_size=40))
def test_an_interval_leaves_out_1_exactly_where_a_discovery_is(p_values):
    judged = adjust_p_values(p_values)
    for p, adjusted in zip(p_values, judged.p_adjusted, strict=True):
        if abs(adjusted - LEVEL) > 1e-9:
            assert (p <= judged.alpha) == (adjusted <= LEVEL)


def unit(number: int, mean_s: float, begin_s: float | None = None, calls: float = 100.0) -> Unit:
    measured = {"q": CallFigures(calls=calls, total_s=calls * mean_s)}
    return Unit(number=number, measured=measured, begin_s=begin_s, covered_s=1.0)


def test_rounds_in_turns_are_paired_and_their_test_is_the_paired_t():
    rng = np.random.default_rng(1)
    before_s, after_s = rng.lognormal(-7, 0.3, 8), rng.lognormal(-7.1, 0.3, 8)
    before = entrant("a", [unit(n, s, 2.0 * n) for n, s in enumerate(before_s)])
    after = entrant("b", [unit(n, s, 2.0 * n + 1) for n, s in enumerate(after_s)])
    table = compared(before, after)
    expected = stats.ttest_rel(np.log(before_s), np.log(after_s))
    (change,) = table.changes
    assert table.basis == "interleaved"
    assert change.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert math.log(change.speed_up.low) == pytest.approx(interval.low)
    assert math.log(change.speed_up.high) == pytest.approx(interval.high)
    assert table.overall.speed_up.value == pytest.approx(change.speed_up.value)


def test_the_average_query_has_each_as_often_as_before():
    def side(name, fast_calls, slow_s):
        measured = {"fast": CallFigures(calls=fast_calls, total_s=fast_calls * 1.0),
                    "slow": CallFigures(calls=10.0, total_s=10 * slow_s)}  # fmt: skip
        return entrant(name, [Unit(number=0, measured=measured, covered_s=9.0)])

    overall = compared(side("a", 100.0, 90.0), side("b", 900.0, 10.0)).overall
    assert overall.before_s == pytest.approx(100 + 900)
    assert overall.after_s == pytest.approx(100 + 100)
    assert overall.speed_up.value == pytest.approx(5.0)
    assert overall.geometric.value == pytest.approx(3.0)


def test_what_queries_save_adds_up_to_what_the_whole_saves():
    table = compared(*turns(np.random.default_rng(2), rounds=6, slower=0.7))
    saved_s = sum(change.saved_s for change in table.changes)
    assert saved_s == pytest.approx(table.overall.before_s - table.overall.after_s)


def test_turns_are_reported_from_sequences_by_the_clock():
    rng = np.random.default_rng(3)
    assert are_interleaved(*turns(rng, rounds=4))
    assert not are_interleaved(*turns(rng, rounds=4, in_turns=False))
    before, after = turns(rng, rounds=4)
    undated = [msgspec.structs.replace(each, begin_s=None) for each in after.units]
    assert basis_of(before, msgspec.structs.replace(after, units=undated)) == "in_sequence"
    assert basis_of(before, msgspec.structs.replace(after, units=after.units[:1])) == "once"


def test_the_interval_within_a_capture_pays_for_autocorrelation():
    rng = np.random.default_rng(4)
    widths = []
    for correlation in (0.0, 0.9):
        sides = [
            capture(rng, means_s=np.full(3, 1e-3), slices=400, correlation=correlation)
            for _ in range(2)
        ]
        table = compared(*sides)
        widths.append(table.overall.speed_up.half_width_share)
    assert widths[1] > 2 * widths[0]


def test_intervals_within_captures_hold_what_was_put_in():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(100):
        a, b = (capture(rng, means_s=np.full(3, 1e-3), slices=300) for _ in range(2))
        speed_up = compared(a, b).overall.speed_up
        held += speed_up.low <= 1 <= speed_up.high
    assert held >= 90


def test_halves_that_differ_raise_the_floor():
    rng = np.random.default_rng(6)
    calm = capture(rng, means_s=np.full(3, 1e-3), slices=200, calls_per_slice=50)
    timeline = calm.units[0].timeline
    total_s = {
        key: {at: value * (4 if at >= 100 else 1) for at, value in own.items()}
        for key, own in timeline.total_s.items()
    }
    drifting = msgspec.structs.replace(
        calm,
        units=[
            msgspec.structs.replace(
                calm.units[0], timeline=msgspec.structs.replace(timeline, total_s=total_s)
            )
        ],
    )
    assert compared(calm, calm).floor.overall == pytest.approx(USUAL["once"])
    assert compared(calm, drifting).floor.overall > 3


def test_shorter_runs_differ_by_more():
    assert usual_floor("once", 6.0) == usual_floor("once", 3600.0) == pytest.approx(1.9)
    assert usual_floor("once", 0.6) > usual_floor("once", 3.0) > 1.9
    assert usual_floor("interleaved", 0.6) == 1.0


def test_two_captures_are_never_called_the_same():
    rng = np.random.default_rng(7)
    side = capture(rng, means_s=np.full(3, 1e-3), slices=600, calls_per_slice=50)
    table = compared(side, side)
    assert table.overall.answer == "undecided"
    assert {change.answer for change in table.changes} == {"undecided"}
