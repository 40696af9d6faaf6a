"""The sentences of the article, and those of doubt."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from seatrial.findings.registry import (
    find_in_before_after,
)
from seatrial.stats.estimate import Estimate
from seatrial.trials.replay.compare.batches import BatchRun, compare_batch
from seatrial.trials.replay.compare.model import BeforeAfter, CallFigures, MeasuredSide, Unit
from seatrial.trials.replay.compare.report.terminal import before_after_text
from seatrial.trials.replay.compare.table import compared
from seatrial.trials.replay.compare.verdict import (
    batch_phrase,
    perhaps_slower_by,
    slower_by,
    speed_phrase,
    verdict,
)

from .sides import capture, entrant, keys_of, turns


def sentences(before, after, **how) -> str:
    return " ".join(verdict(BeforeAfter(queries=compared(before, after, **how))))


def test_average_query_is_so_many_times_faster():
    reported = sentences(*turns(np.random.default_rng(1), rounds=10, slower=1 / 6.1))
    assert re.match(
        r"Average query 6\.\d+x faster \(\d\.\d+ to \d\.\d+\); geometric mean", reported
    )
    assert re.search(
        r"over queries: 6\.\d+x faster \(\d\.\d+ to \d\.\d+\)\. 20 queries: 20 faster", reported
    )
    assert "20 faster" in reported
    assert "once" not in reported


def test_pages_are_called_pages():
    rng = np.random.default_rng(2)
    before, after = (
        msgspec.structs.replace(
            capture(rng, means_s=np.full(4, 0.2 / factor), slices=100), kind="web"
        )
        for factor in (1, 3)
    )
    reported = " ".join(verdict(BeforeAfter(pages=compared(before, after))))
    assert re.match(
        r"Pages [23]\.\d+x faster \(.* within the captures; measured once each\)", reported
    )


def test_the_nightly_batch_is_reported_as_measured_once():
    before, after = BatchRun(real_s=20886.451), BatchRun(real_s=1834.747)
    batch = compare_batch("nightly batch", [before], [after],
                          margin_share=0.05)  # fmt: skip
    assert batch.answer == "faster"
    assert batch_phrase(batch) == "Nightly batch 11.4x faster (measured once each)"


def test_a_batch_of_many_nights_has_an_interval():
    rng = np.random.default_rng(3)
    nights = [[BatchRun(real_s=float(s)) for s in mean * np.exp(rng.normal(0, 0.05, 7))]
              for mean in (600, 60)]  # fmt: skip
    batch = compare_batch("load", *nights, margin_share=0.05)
    assert batch.answer == "faster"
    assert batch.speed_up.low < 10 < batch.speed_up.high
    assert batch.p_value < 1e-6


@pytest.mark.parametrize(
    ("before_s", "after_s", "words"),
    [
        ([600], [500], "1.2x as fast (measured once each)?"),
        ([600], [60], "10x faster (measured once each)"),
        ([600, 606], [60], "10x faster (one of them measured once)"),
        ([600, 606, 603], [1206, 1200, 1203], "2.00x slower (1.97 to 2.02)"),
    ],
)
def test_a_row_of_a_batch_says_what_its_verdict_says(before_s, after_s, words):
    times = [[BatchRun(real_s=each) for each in side] for side in (before_s, after_s)]
    batch = compare_batch("b", *times, margin_share=0.05)
    text = before_after_text(BeforeAfter(batches=[batch], verdict=[batch_phrase(batch)]), top=1)
    (row,) = [line for line in text.splitlines() if line.startswith("b ")]
    assert row.endswith(words)
    assert words.rstrip("?") in batch_phrase(batch)


@pytest.mark.parametrize(("after_s", "answer"), [(700, "undecided"), (1300, "slower")])
def test_a_batch_that_ran_once_needs_more_than_noise(after_s, answer):
    batch = compare_batch(
        "b", [BatchRun(real_s=600)], [BatchRun(real_s=after_s)], margin_share=0.05
    )
    assert batch.answer == answer


def test_a_batch_that_failed_is_reported():
    times = [BatchRun(real_s=600), BatchRun(real_s=3, failed=True)]
    batch = compare_batch("b", times, [BatchRun(real_s=600)], margin_share=0.05)
    assert batch.warnings == ["1 of 2 runs before ended with an error: failing early is fast."]


def test_slower_is_reported_by_how_much_longer_it_takes():
    ratio = Estimate(value=0.8, low=0.75, high=0.85, rounds=9, unit="ratio")
    assert speed_phrase(ratio) == "1.25x slower (1.18 to 1.33)"


def test_what_is_slower_is_first_and_named():
    (key,) = keys_of(20)[3:4]
    slower = {key: 1.5, keys_of(20)[4]: 1.2}
    table = compared(*turns(np.random.default_rng(5), rounds=16, slower=slower))
    assert [regression.key for regression in table.regressions] == [key, keys_of(20)[4]]
    reported = slower_by(BeforeAfter(queries=table), 0.3)
    assert reported[-1].startswith(f"select {key} 1.")
    assert not any(keys_of(20)[4] in each for each in reported)


def test_a_limit_is_passed_where_the_near_end_of_the_interval_is():
    table = compared(*turns(np.random.default_rng(5), rounds=10, queries=1, slower=1.3))
    slow = table.overall.speed_up
    found = BeforeAfter(queries=table)
    significant, seen = 1 / slow.high - 1, 1 / slow.value - 1
    assert significant > 0.05
    assert slower_by(found, significant - 0.001)
    between = (significant + seen) / 2
    assert slower_by(found, between) == []
    assert [each.split(" 1.")[0] for each in perhaps_slower_by(found, between)] == [
        "average query",
        f"select {keys_of(1)[0]}",
    ]
    assert perhaps_slower_by(found, seen + 0.001) == []


def test_what_noise_may_have_made_of_it_does_not_count_for_a_limit():
    batch = compare_batch("b", [BatchRun(real_s=600)], [BatchRun(real_s=1300)], margin_share=0.05)
    found = BeforeAfter(batches=[batch])
    assert batch.answer == "slower"
    assert slower_by(found, 0.13)  # 1300 / 600 / 1.9 = 1.14
    assert slower_by(found, 0.15) == []
    assert perhaps_slower_by(found, 0.15) == ["B 2.17x slower (measured once each)"]


def test_several_rounds_against_one_are_not_called_measured_once_each():
    before, after = turns(np.random.default_rng(6), rounds=10, slower=9.0)
    after = msgspec.structs.replace(after, units=after.units[:1])
    table = compared(before, after)
    reported = " ".join([*table.warnings, *verdict(BeforeAfter(queries=table))])
    assert "measured once each" not in reported
    assert "One side was measured once: there is no significance test" in reported
    assert "slower (one of them measured once)" in reported


def test_a_regression_that_was_measured_once_is_reported_so():
    rng = np.random.default_rng(7)
    before, after = (
        capture(rng, means_s=np.full(4, 0.2 * factor), slices=100) for factor in (1, 3)
    )
    (found,) = find_in_before_after(BeforeAfter(queries=compared(before, after)))
    assert "within the captures; measured once each): select" in found.sentence


def test_halves_of_rounds_in_turns_are_no_noise_on_which_anything_rests():
    table = compared(*turns(np.random.default_rng(8), rounds=10))
    assert table.floor.source == "halves"
    assert "Noise" not in before_after_text(BeforeAfter(queries=table), top=1)


def test_the_same_is_said_with_its_bound():
    rng = np.random.default_rng(6)
    reported = sentences(*turns(rng, rounds=60, queries=3))
    assert re.match(
        r"No difference in the average query \(within [1-5] %\); geometric mean", reported
    )


def once(name: str, mean_s: float, **more: object) -> MeasuredSide:
    measured = {"0": CallFigures(calls=1000.0, total_s=1000 * mean_s)}
    unit = Unit(number=0, measured=measured, covered_s=100.0, **more)
    return entrant(name, [unit], kind="statements", clock="server")


def test_what_only_one_side_has_is_reported_with_its_share():
    before, after = once("a", 0.001), once("b", 0.001)
    more = {**after.units[0].measured, "1": CallFigures(calls=10.0, total_s=3.0)}
    after = entrant("b", [msgspec.structs.replace(after.units[0], measured=more)],
                    kind="statements", clock="server")  # fmt: skip
    table = compared(before, after)
    assert [each.key for each in table.only_after] == ["1"]
    assert any(
        "75 % of the time of b was spent in 1 query that a does not have" in w
        for w in table.warnings
    )


def test_sides_without_anything_in_common_say_so():
    before, after = once("a", 0.001), once("b", 0.001)
    unit = msgspec.structs.replace(
        after.units[0], measured={"9": CallFigures(calls=1.0, total_s=1.0)}
    )
    after = entrant("b", [unit], kind="statements", clock="server")
    assert "Nothing can be compared" in sentences(before, after)


def test_an_aa_measurement_sharpens_what_is_measured_once():
    before, after, control = once("a", 0.001), once("b", 0.0008), once("a again", 0.00101)
    assert compared(before, after).overall.answer == "undecided"
    assert compared(before, after).overall.below_floor
    known = compared(before, after, control=control)
    assert known.overall.answer == "faster"
    assert known.floor.source == "pair"
    worse = compared(before, after, control=once("a again", 0.0013))
    assert worse.overall.answer == "undecided"


@pytest.mark.parametrize("common_calls", [0.0, 400.0, 600.0])
def test_a_control_of_other_queries_shows_no_noise(common_calls):
    before = once("a", 0.001)
    measured = {
        "0": CallFigures(calls=common_calls, total_s=common_calls * 0.001),
        "1": CallFigures(calls=1000.0 - common_calls, total_s=1.0 - common_calls * 0.001),
    }
    units = [msgspec.structs.replace(before.units[0], measured=measured)]
    before = entrant("a", units, kind="statements", clock="server")
    after = msgspec.structs.replace(before, name="b")
    table = compared(before, after, control=once("again", 0.001))
    is_used = common_calls > 500
    assert table.floor.source == ("pair" if is_used else "usual")
    share = f"again has only queries with {common_calls / 10:.0f} % of the time of a"
    assert any(share in warning for warning in table.warnings) != is_used


def test_traffic_and_failures_are_reported():
    before, after = once("a", 0.001), once("b", 0.001)
    measured = {"0": CallFigures(calls=9000.0, total_s=9.0, errors=900.0)}
    after = entrant("b", [msgspec.structs.replace(after.units[0], measured=measured)],
                    kind="statements", clock="server")  # fmt: skip
    warnings = compared(before, after).warnings
    assert any("load alone changes response times" in warning for warning in warnings)
    assert any("900 of 9,000" in warning for warning in warnings)
