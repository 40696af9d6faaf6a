"""What was called a few times, or says nothing of its own scatter, decides nothing when once."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from seatrial.findings.registry import (
    find_in_before_after,
)
from seatrial.stats.estimate import Estimate
from seatrial.trials.replay.compare.model import (
    BeforeAfter,
    CallFigures,
    CallTimeline,
    MeasuredSide,
    Unit,
)
from seatrial.trials.replay.compare.report.wording import floor_phrase
from seatrial.trials.replay.compare.table import compared
from seatrial.trials.replay.compare.verdict import Criteria, slower_by

from .sides import entrant

SLICES = 400


def log(name: str, calls: dict[str, dict[int, list[float]]]) -> MeasuredSide:
    """A log of 400 s: the times of each query's calls, by the second."""
    measured = {
        key: CallFigures(calls=sum(map(len, of.values())), total_s=sum(map(sum, of.values())))
        for key, of in calls.items()
    }
    timeline = CallTimeline(
        slice_s=1.0,
        slices=SLICES,
        calls={key: {at: float(len(own)) for at, own in of.items()} for key, of in calls.items()},
        total_s={key: {at: sum(own) for at, own in of.items()} for key, of in calls.items()},
    )
    unit = Unit(
        number=0, measured=measured, begin_s=0.0, covered_s=float(SLICES), timeline=timeline
    )
    return entrant(name, [unit], kind="log", clock="server")


def often(seed: int, mean_s: float = 0.001) -> dict[int, list[float]]:
    rng = np.random.default_rng(seed)
    return {at: [float(mean_s * rng.lognormal(0, 0.2))] for at in range(SLICES)}


def test_a_report_that_was_called_once_hot_and_once_cold_is_not_called_slower():
    hot, cold = log("a", {"report": {7: [0.04]}}), log("b", {"report": {9: [0.09]}})
    table = compared(hot, cold)
    (change,) = table.changes
    assert change.speed_up.value == pytest.approx(40 / 90)
    assert change.answer == table.overall.answer == "undecided"
    reported = BeforeAfter(queries=table)
    assert slower_by(reported, 0.1) == []
    assert find_in_before_after(reported) == []


def test_one_cold_call_does_not_decide_the_average_of_what_is_called_often():
    sides = [
        log(name, {"often": often(seed), "report": {7: [report_s]}})
        for name, seed, report_s in (("a", 1, 4.0), ("b", 2, 40.0))
    ]
    overall = compared(*sides).overall
    assert overall.speed_up.value < 1 / 5
    assert overall.speed_up.low is None  # the report seems to have no scatter at all
    assert overall.answer == "undecided"


def test_a_burst_of_calls_says_nothing_of_its_scatter():
    sides = [
        log(name, {"often": often(seed), "burst": {7: [mean_s] * 30}})
        for name, seed, mean_s in (("a", 1, 1e-4), ("b", 2, 9e-4))
    ]
    changes = {change.key: change for change in compared(*sides).changes}
    assert changes["burst"].speed_up.low is None
    assert changes["burst"].answer == "undecided"
    assert changes["often"].speed_up.low is not None


def test_snapshots_settle_no_single_query():
    sides = [
        entrant(
            name,
            [
                Unit(
                    number=0,
                    measured={"q": CallFigures(calls=1e6, total_s=total_s)},
                    covered_s=3600,
                )
            ],
            kind="statements",
            clock="server",
        )
        for name, total_s in (("a", 100.0), ("b", 1000.0))
    ]
    table = compared(*sides)
    assert table.changes[0].answer == "undecided"
    assert table.overall.answer == "slower"


@pytest.mark.parametrize(("half", "answer"), [(0.1, "slower"), (0.5, "undecided")])
def test_a_querys_own_scatter_comes_on_top_of_the_noise(half, answer):
    judging = Criteria(basis="once", margin_share=0.05, floor=1.9, is_of_query=True)
    value = 1 / 2.1
    low, high = value * math.exp(-half), value * math.exp(half)
    speed_up = Estimate(value=value, low=low, high=high, rounds=1, unit="ratio", over="timeline")
    assert high < 1
    assert judging.from_once(speed_up).answer == answer
    whole = msgspec.structs.replace(judging, is_of_query=False)
    assert whole.from_once(speed_up).answer == "slower"


def test_the_words_of_the_noise_claim_no_more_than_was_measured():
    sides = [log(name, {"often": often(seed)}) for name, seed in (("a", 1), ("b", 2))]
    floor = compared(*sides).floor
    assert floor.overall == floor.query
    reported = floor_phrase(floor, "query")
    assert "95 of 100" not in reported
    assert reported.startswith(
        "up to 90 %, overall and for a single query (from identical pgbench runs"
    )
