"""Events of an array between two observations, and its series over a sample."""

from __future__ import annotations

import pytest

from seatrial.errors import TargetError
from seatrial.results.model import Series
from seatrial.trials.layouts.build.backend import ArrayState
from seatrial.trials.layouts.measure.watch import ArrayReading, ArrayWatch, joined, series_of

WHOLE = ArrayState()
DEGRADED = ArrayState(missing=1)
SCRUB = ArrayState(operation="scrub", share=0.5)
LOST = ArrayState(missing=2, has_failed=True)


def rebuilding(share: float | None, missing: int = 1) -> ArrayState:
    return ArrayState(missing=missing, operation="rebuild", share=share)


def reported(*states: ArrayState) -> list[str]:
    """What happened to an array of one leg that was seen in these states."""
    seen = iter(states)
    watch = ArrayWatch(1, lambda _leg: next(seen))
    for _ in states:
        watch.read()
    assert [each.leg for each in watch.timed_events] == [1] * len(watch.timed_events)
    return [each.what for each in watch.timed_events]


@pytest.mark.parametrize(
    ("states", "events"),
    [
        ([WHOLE, WHOLE], []),
        ([WHOLE, DEGRADED, DEGRADED], []),
        ([WHOLE, rebuilding(0.1), rebuilding(0.9), WHOLE], ["rebuild_started", "rebuild_ended"]),
        # It came and went between two readings.
        ([WHOLE, DEGRADED, WHOLE], ["rebuild_ended"]),
        # The next drive's rebuild follows at once.
        (
            [rebuilding(0.9, missing=2), rebuilding(0.0, missing=1), WHOLE],
            ["rebuild_started", "rebuild_ended", "rebuild_started", "rebuild_ended"],
        ),
        # It stops, for another drive has failed: nothing is whole again.
        ([rebuilding(0.4), LOST], ["rebuild_started", "array_failed"]),
        ([WHOLE, SCRUB, WHOLE], ["scrub_started", "scrub_ended"]),
    ],
)
def test_what_changes_between_two_looks_is_reported_once(states, events):
    assert reported(*states) == events


def test_a_drive_that_falters_and_is_then_missing_was_left_out():
    states = iter([ArrayState(), ArrayState(missing=1), ArrayState(missing=2)])
    watch = ArrayWatch(1, lambda _leg: next(states))
    watch.read()
    watch.note("faltering", 1, "/dev/dm-1")
    watch.read()
    watch.read()  # The second one has no drive that falters to account for it.
    reported = [(each.what, each.member) for each in watch.timed_events]
    assert reported == [("faltering", "/dev/dm-1"), ("failed", "/dev/dm-1")]


def test_legs_are_looked_at_together_and_distinguished():
    states = {1: WHOLE, 2: rebuilding(0.25)}
    watch = ArrayWatch(2, states.__getitem__)
    watch.read()
    assert [(each.what, each.leg) for each in watch.timed_events] == [("rebuild_started", 2)]
    assert (watch.missing, watch.is_working, watch.share) == (1, True, 0.25)
    assert (watch.readings[0].missing, watch.readings[0].rebuild_share) == (1, 0.25)


def test_an_array_that_cannot_be_looked_at_is_reported_of_once_and_keeps_its_state():
    answers = [DEGRADED, None, None, WHOLE]

    def state(_leg: int) -> ArrayState:
        found = answers.pop(0)
        if found is None:
            raise TargetError(seen="It hangs.", cause="A drive.", next_step="Wait.")
        return found

    watch = ArrayWatch(1, state)
    for _ in range(4):
        watch.read()
    assert len(watch.errors) == 1
    assert len(watch.readings) == 2
    assert [each.what for each in watch.timed_events] == ["rebuild_ended"]


LOOKS = [
    ArrayReading(at_s=100.05, missing=0, rebuild_share=None),
    ArrayReading(at_s=100.30, missing=1, rebuild_share=None),
    ArrayReading(at_s=100.55, missing=1, rebuild_share=0.5),
]


def test_a_series_has_the_last_look_of_each_period_and_nothing_that_is_too_old():
    series = series_of(LOOKS, start_s=100.0, duration_s=2.0)
    assert series.period_s == 0.2
    assert series.columns["missing_members"] == [0.0, 1.0, 1.0, 1, 1, 1, 1, 1, None, None]
    assert series.columns["rebuild_share"][:4] == [None, None, 0.5, 0.5]


def test_the_series_of_a_database_keeps_its_own_period():
    own = Series(period_s=1.0, columns={"cpu_user_share": [0.1, 0.2]})
    series = joined(own, LOOKS, start_s=100.0)
    assert series.period_s == 1.0
    assert series.columns["cpu_user_share"] == [0.1, 0.2]
    assert series.columns["missing_members"] == [1.0, 1.0]
    assert series.columns["rebuild_share"] == [0.5, 0.5]


def test_moments_of_events_count_from_the_start_of_the_sample():
    watch = ArrayWatch(1, lambda _leg: WHOLE)
    watch.note("fault_failed", 1, detail="why")
    (event,) = watch.events(watch.timed_events[0].at_s - 2.5)
    assert event.at_s == pytest.approx(2.5)
    assert (event.what, event.leg, event.detail) == ("fault_failed", 1, "why")
