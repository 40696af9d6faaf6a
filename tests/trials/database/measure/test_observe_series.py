"""From absolute readings to columns and totals."""

import pytest

from seatrial.trials.database.measure.observe_series import (
    Readings,
    count,
    mean_ms,
    now,
    per_s,
    share_among,
    share_of_time,
)
from seatrial.trials.database.measure.observe_server import (
    MACHINE_COLUMNS,
    MOMENT_COLUMNS,
    REPORT_COLUMNS,
)


def column(derive, *readings, entries=None, period_s=1.0):
    kept = Readings(period_s)
    for at_s, values in readings:
        kept.add(at_s, values)
    last_s = readings[-1][0]
    found = kept.columns(entries or int(last_s / period_s + 0.5), {"x": derive})
    return found.get("x")


def test_a_rate_is_taken_over_the_time_that_really_passed():
    found = column(per_s("n"), (0.0, {"n": 5}), (1.02, {"n": 107}), (2.0, {"n": 156}))
    assert found == pytest.approx([100.0, 50.0])


def test_a_count_is_not_divided():
    assert column(count("n"), (0.0, {"n": 5}), (1.0, {"n": 8})) == [3]


def test_what_was_not_read_is_a_gap_on_both_sides():
    found = column(
        per_s("n"), (0.0, {"n": 0}), (1.0, {"n": 10}), (3.1, {"n": 30}), (4.0, {"n": 39})
    )
    assert found == [10.0, None, None, pytest.approx(10.0)]


def test_a_reading_belongs_to_the_nearest_boundary():
    assert column(per_s("n"), (0.0, {"n": 0}), (0.6, {"n": 6})) == pytest.approx([10.0])
    assert column(per_s("n"), (0.0, {"n": 0}), (1.4, {"n": 14}), entries=1) == pytest.approx([10])


def test_the_first_reading_at_a_boundary_stays_and_later_ones_count_in_the_totals():
    readings = Readings(1.0)
    for at_s, value in ((0.0, 0), (1.0, 10), (1.3, 100)):
        readings.add(at_s, {"n": value})
    assert readings.columns(1, {"n": count("n")}) == {"n": [10]}
    assert readings.totals() == {"n": 100}
    assert readings.last_s == 1.3


def test_a_counter_that_fell_is_unknown_and_so_is_one_that_is_not_there():
    assert column(per_s("n"), (0.0, {"n": 5}), (1.0, {"n": 2}), (2.0, {"n": 3})) == [None, 1.0]
    assert column(per_s("n"), (0.0, {}), (1.0, {})) is None


def test_totals_run_from_when_a_counter_was_first_known_to_when_it_was_last():
    readings = Readings(1.0)
    readings.add(0.0, {"n": 1, "gone": 1})
    readings.add(1.0, {"n": 5, "gone": 7, "late": 2})
    readings.add(2.0, {"n": 9, "late": 3})
    assert readings.totals() == {"n": 8, "gone": 6, "late": 1}


def test_shares_of_time_and_among_parts():
    assert column(share_of_time("t"), (0.0, {"t": 0}), (1.0, {"t": 25e7})) == [0.25]
    two = ({"t": 0, "k": 2}, {"t": 1e9, "k": 2})
    assert column(share_of_time("t", among="k"), (0.0, two[0]), (1.0, two[1])) == [0.5]
    parts = ({"a": 0, "b": 10, "c": 5}, {"a": 3, "b": 11, "c": 4})
    for name, share in (("a", 0.75), ("b", 0.25), ("c", 0.0)):
        derive = share_among(name, ("a", "b", "c"))
        assert column(derive, (0.0, parts[0]), (1.0, parts[1])) == [share]


def test_a_mean_of_nothing_is_unknown():
    readings = ((0.0, {"t": 0, "n": 0}), (1.0, {"t": 6e6, "n": 3}), (2.0, {"t": 6e6, "n": 3}))
    assert column(mean_ms("t", "n"), *readings) == [2.0, None]


def test_a_gauge_is_reported_as_it_stood_at_the_end():
    assert column(now("g"), (0.0, {"g": 3}), (1.0, {"g": 7})) == [7]


def test_names_of_columns_end_in_a_unit_and_are_used_once():
    names = [*MACHINE_COLUMNS, *MOMENT_COLUMNS, *REPORT_COLUMNS]
    assert len(set(names)) == len(names)
    units = ("_share", "_per_s", "_ms", "_cores", "_mean", "_in_flight")
    plain = {"checkpoints_timed", "checkpoints_requested", "deadlocks"}
    assert {name for name in names if not name.endswith(units)} == plain
