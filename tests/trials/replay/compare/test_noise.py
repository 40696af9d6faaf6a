"""A hundred comparisons of a thing with itself, and of a thing that is 10 % slower."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seatrial.trials.replay.compare.table import compared

from .sides import RUNS_SD, capture, keys_of, turns

PAIRS = 100
FALSE_MAX = 5
ROUNDS = 10


def false_verdicts(tables: list) -> tuple[int, int]:
    overall = sum(table.overall.answer in ("faster", "slower") for table in tables)
    queries = sum(
        any(change.answer in ("faster", "slower") for change in table.changes) for table in tables
    )
    return overall, queries


@pytest.mark.parametrize("rounds", [3, 10])
def test_the_same_in_turns_is_seldom_called_different(rounds):
    rng = np.random.default_rng(1)
    tables = [compared(*turns(rng, rounds=rounds)) for _ in range(PAIRS)]
    assert {table.basis for table in tables} == {"interleaved"}
    overall, queries = false_verdicts(tables)
    assert overall <= FALSE_MAX
    assert queries <= FALSE_MAX


@pytest.mark.parametrize("rounds", [2, 10])
def test_the_same_one_after_the_other_is_seldom_called_different(rounds):
    rng = np.random.default_rng(2)
    tables = [compared(*turns(rng, rounds=rounds, in_turns=False)) for _ in range(PAIRS)]
    assert {table.basis for table in tables} == {"in_sequence"}
    overall, queries = false_verdicts(tables)
    assert overall <= FALSE_MAX
    assert queries <= FALSE_MAX


def test_the_same_captured_once_each_is_seldom_called_different():
    rng = np.random.default_rng(3)
    tables = []
    for _ in range(PAIRS):
        means_s = np.exp(rng.normal(math.log(1e-3), 1.5, 12))
        first, second = (
            capture(rng, means_s=means_s, slices=200, level=rng.normal(0, RUNS_SD))
            for _ in range(2)
        )
        tables.append(compared(first, second))
    assert {table.basis for table in tables} == {"once"}
    overall, queries = false_verdicts(tables)
    assert overall <= FALSE_MAX
    assert queries <= FALSE_MAX


def test_ten_percent_slower_is_found():
    rng = np.random.default_rng(4)
    tables = [compared(*turns(rng, rounds=ROUNDS, slower=1.1)) for _ in range(PAIRS)]
    assert sum(table.overall.answer == "slower" for table in tables) >= 90


def test_one_query_that_is_ten_percent_slower_is_found():
    rng = np.random.default_rng(5)
    (key,) = keys_of(20)[7:8]
    found, others = 0, 0
    for _ in range(PAIRS):
        table = compared(*turns(rng, rounds=16, slower={key: 1.1}))
        answers = {change.key: change.answer for change in table.changes}
        found += answers.pop(key) == "slower"
        others += any(answer in ("faster", "slower") for answer in answers.values())
    assert found >= 90
    assert others <= 2 * FALSE_MAX


def test_what_is_six_times_as_fast_is_called_so_even_once():
    rng = np.random.default_rng(6)
    means_s = np.exp(rng.normal(math.log(1e-3), 1.5, 12))
    before, after = (
        capture(rng, means_s=means_s / factor, slices=200, level=rng.normal(0, RUNS_SD))
        for factor in (1, 6)
    )
    table = compared(before, after)
    assert table.overall.answer == "faster"
    assert table.overall.speed_up.over == "timeline"
    assert table.overall.faster == 12
