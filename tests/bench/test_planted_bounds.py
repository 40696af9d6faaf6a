"""Planted bounds: each is reported right or inconclusive on a real server, and never wrong."""

from __future__ import annotations

import planted_bounds
import pytest
import throttled

from long import LONG
from seatrial.errors import TargetError
from seatrial.postgres.binaries import find_binaries
from seatrial.trials.database.analysis.model import TimeVerdict


def obstacle() -> str:
    try:
        find_binaries()
    except TargetError:
        return "needs PostgreSQL: apt-get install postgresql"
    return throttled.obstacle()


def judged(plant: str, bound: str, likely: str = "") -> planted_bounds.JudgedBound:
    verdict = TimeVerdict(bound=bound, sentence="", evidence={}, likely=likely)
    return planted_bounds.JudgedBound(plant, planted_bounds.ALONE, verdict)


def test_the_page_counts_what_was_said_of_each_plant():
    said = [
        judged("commit", "commit"),
        judged("commit", "inconclusive", "commit"),
        judged("commit", "cpu"),
    ]
    text = planted_bounds.section(
        planted_bounds.BenchResult(
            conditions=["- a machine"], judged=said, rounds=3, seconds=4, seed=1
        )
    )
    reported = "1 commit, 1 inconclusive (commit if anything), 1 cpu"
    assert f"| commit | alone | 1 | 1 | 1 | {reported} |" in text
    assert "| all |  | 1 | 1 | 1 |" in text


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "nothing hinders it")
def test_no_planted_bound_is_reported_as_another():
    trials = ["--rounds", "2"] if LONG else ["--quick"]
    found = planted_bounds.measure(planted_bounds.options_of([*trials, "--seconds", "3"])).judged
    assert {each.plant for each in found} == {plant.bound for plant in planted_bounds.PLANTS}
    assert {each.condition for each in found} == set(planted_bounds.CONDITIONS)
    assert len(found) == len(planted_bounds.PLANTS) * (4 if LONG else 1)
    wrong = [each for each in found if each.outcome == planted_bounds.WRONG]
    assert [(each.plant, each.condition, each.verdict.sentence) for each in wrong] == []
    # Whatever else the machine does, something leads, and it says what it is or what is left.
    assert all(each.verdict.rivals or each.verdict.next for each in found)
