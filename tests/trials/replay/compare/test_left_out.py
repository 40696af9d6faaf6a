"""Broken rounds, queries that some round lacks, failures, and plans that differ between rounds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from seatrial.trials.replay.compare.model import BeforeAfter, CallFigures, MeasuredSide, Table, Unit
from seatrial.trials.replay.compare.report.terminal import before_after_text
from seatrial.trials.replay.compare.table import compared
from seatrial.trials.replay.compare.verdict import change_phrase, table_sentences

from .sides import keys_of, turns

ROUNDS = 10


def pair(slower: float = 1.5, rounds: int = ROUNDS) -> tuple[MeasuredSide, MeasuredSide]:
    return turns(np.random.default_rng(1), rounds=rounds, queries=6, slower=slower)


def changed(
    side: MeasuredSide, number: int, measured: Mapping[str, CallFigures | None]
) -> MeasuredSide:
    """Return a side with other sums in one round; None for a query that it lacks."""
    units = []
    for unit in side.units:
        own = {**unit.measured, **measured} if unit.number == number else unit.measured
        known = {key: each for key, each in own.items() if each is not None}
        units.append(msgspec.structs.replace(unit, measured=known))
    return msgspec.structs.replace(side, units=units)


def saved_is_what_the_whole_saves(table: Table) -> bool:
    saved_s = sum(change.saved_s for change in table.changes if change.in_average)
    whole_s = table.overall.before_s - table.overall.after_s
    return saved_s == pytest.approx(whole_s)


def test_a_round_in_which_the_server_took_no_connection_leaves_the_average_there():
    before, after = pair()
    after = changed(after, 3, dict.fromkeys(keys_of(6)))
    table = compared(before, after)
    assert table.overall.answer == "slower"
    assert (table.before.units, table.after.units) == (ROUNDS - 1, ROUNDS - 1)
    assert (table.before.left_out, table.after.left_out) == (1, 1)
    assert all(change.in_average for change in table.changes)
    reported = [warning for warning in table.warnings if "left out" in warning]
    assert reported == [
        "Round 4 of after is left out on both sides: queries with 100 % of the time were missing "
        "in it or failed."
    ]
    assert "9 rounds, 1 left out" in before_after_text(BeforeAfter(queries=table), top=3)


def test_a_round_in_which_everything_failed_is_none_either():
    before, after = pair()
    failed = {
        key: CallFigures(calls=each.calls, total_s=each.calls * 1e-5, errors=each.calls)
        for key, each in after.units[2].measured.items()
    }
    table = compared(before, changed(after, 2, failed))
    assert table.overall.answer == "slower"
    assert table.after.left_out == 1
    assert not any(change.failing for change in table.changes)


def test_the_speed_up_and_the_sums_are_of_the_same_queries():
    before, after = pair()
    key = min(keys_of(6), key=lambda each: before.units[0].measured[each].total_s)
    table = compared(before, changed(after, 3, {key: None}))
    assert table.after.left_out == 0
    (left,) = [change for change in table.changes if not change.in_average]
    assert left.key == key
    assert left.answer == "slower"
    assert saved_is_what_the_whole_saves(table)
    assert table.overall.before_s == pytest.approx(
        sum(each.before.total_s for each in table.changes) - left.before.total_s
    )
    assert any("did not run in every round and are not in the average" in w for w in table.warnings)


def test_a_query_without_time_in_a_round_stays_in_the_table():
    before, after = pair()
    key = min(keys_of(6), key=lambda each: before.units[0].measured[each].total_s)
    table = compared(before, changed(after, 3, {key: CallFigures(calls=5.0, total_s=0.0)}))
    assert {change.key for change in table.changes} == set(keys_of(6))
    assert not table.only_after
    assert not table.only_before


def test_no_average_is_not_nothing():
    before, after = pair(rounds=2)
    first, second, *_ = keys_of(6)
    before = changed(before, 0, dict.fromkeys(keys_of(6)[1:]))
    before = changed(before, 1, {first: None})
    reported = list(table_sentences(compared(before, after)))
    assert not any("Nothing can be compared" in each for each in reported)
    assert second != first


def failing(side: MeasuredSide, key: str, mean_s: float) -> MeasuredSide:
    units = []
    for unit in side.units:
        calls = unit.measured[key].calls
        failed = CallFigures(calls=calls, total_s=calls * mean_s, errors=calls)
        own = {**unit.measured, key: failed}
        units.append(msgspec.structs.replace(unit, measured=own))
    return msgspec.structs.replace(side, units=units)


def test_what_fails_at_once_is_not_faster(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    before, after = pair(slower=1.0)
    key = max(keys_of(6), key=lambda each: before.units[0].measured[each].total_s)
    mean_s = before.units[0].measured[key].mean_s
    table = compared(before, failing(after, key, mean_s / 500))
    (change,) = [each for each in table.changes if each.key == key]
    assert change.speed_up.value > 100
    assert (change.answer, change.failing, change.in_average) == ("undecided", "after", False)
    assert change_phrase(change, once="").endswith("?, more timed failures after")
    assert table.overall.answer != "faster"
    assert table.overall.faster == 0
    assert saved_is_what_the_whole_saves(table)
    assert any(
        "had more failures among the timed calls on after" in warning for warning in table.warnings
    )
    text = before_after_text(BeforeAfter(queries=table), top=10)
    (heads,) = [line for line in text.splitlines() if line.startswith("Query")]
    assert "Failed" in heads


def test_what_fails_late_is_slower():
    before, after = pair(slower=1.0)
    key = keys_of(6)[0]
    mean_s = before.units[0].measured[key].mean_s
    table = compared(before, failing(after, key, mean_s * 500))
    (change,) = [each for each in table.changes if each.key == key]
    assert (change.answer, change.failing) == ("slower", "after")


@pytest.mark.parametrize(
    ("of_before", "of_after", "is_changed", "varies"),
    [
        ("A", "A", False, False),
        ("A", "B", True, False),
        ("A", "AB", False, True),
        ("AB", "AB", False, True),
        ("AB", "CD", True, True),
        ("A", "", None, False),
    ],
)
def test_a_plan_is_another_where_no_round_had_one_of_before(
    of_before, of_after, is_changed, varies
):
    before, after = pair()
    key = keys_of(6)[0]
    before, after = (
        msgspec.structs.replace(side, plans={key: {name: f"Scan {name}" for name in plans}})
        for side, plans in ((before, of_before), (after, of_after))
    )
    table = compared(before, after)
    (change,) = [each for each in table.changes if each.key == key]
    assert (change.plan_changed, change.plan_varies) == (is_changed, varies)
    if of_after == "AB":
        assert change.plan_after == "Scan A or Scan B"


def test_a_broken_round_of_a_pair_of_the_same_is_no_noise():
    before, after = pair()
    control = turns(np.random.default_rng(1), rounds=ROUNDS, queries=6)[1]
    calm = compared(before, after, control=control).floor
    failed = {
        key: CallFigures(calls=each.calls, total_s=each.calls * 1e-7, errors=each.calls)
        for key, each in control.units[2].measured.items()
    }
    broken = compared(before, after, control=changed(control, 2, failed)).floor
    assert broken.overall == pytest.approx(calm.overall, rel=0.02)


def test_units_without_numbers_in_common_are_compared_all_the_same():
    before, after = pair(rounds=4)
    units = [Unit(number=unit.number + 9, measured=unit.measured) for unit in after.units]
    table = compared(before, msgspec.structs.replace(after, units=units))
    assert table.overall is not None
    assert table.after.left_out == 0
