"""Verdict, findings and exit code of a comparison come from one judgement."""

from __future__ import annotations

import random

import msgspec
import pytest

from seatrial.cli.compare_command import slower_than
from seatrial.findings.registry import (
    find_in_comparison,
)
from seatrial.stats.compare.figures import is_rate
from seatrial.stats.compare.model import Comparison, FigureComparison, Overall, Side
from seatrial.stats.compare.verdict import verdict
from seatrial.stats.estimate import Estimate
from stats.builders import run_of

FIGURES = ("iops", "read p50", "read p99")
ANSWERS = ("higher", "lower", "same", "undecided")
WORSE = ("slower", "higher in latency")
BETTER = ("faster", "lower in latency")


def ratio(answer: str, draw: random.Random) -> Estimate:
    """A ratio whose interval says what the answer says."""
    away = draw.choice([0.01, 0.04, 0.2])
    value = {"higher": 1 + away, "lower": 1 - away}.get(answer, 1.0)
    half = 0.3 if answer == "undecided" else 0.005
    return Estimate(value=value, low=value - half, high=value + half, rounds=5, unit="ratio")


def comparison(seed: int) -> Comparison:
    draw = random.Random(seed)
    figures = draw.choice([FIGURES, FIGURES[:1], FIGURES[1:]])
    cells = draw.choice([1, 4])
    # Mostly open, so that single answers stand alone.
    answers = ["undecided"] * 9 + list(ANSWERS)
    comparands, overall, totals = [], {}, {}
    for figure in figures:
        for number in range(cells):
            answer = draw.choice(answers)
            comparands.append(
                FigureComparison(
                    key=f"cell {number}",
                    identity={"workload": "matrix", "threads": number},
                    figure=figure,
                    a=Estimate(value=1.0, low=None, high=None, rounds=5, unit="iops"),
                    b=Estimate(value=1.0, low=None, high=None, rounds=5, unit="iops"),
                    ratio=ratio(answer, draw),
                    p_value=0.5,
                    p_adjusted=0.5,
                    answer=answer,
                    within_share=0.01,
                )
            )
        answer = comparands[-1].answer if cells == 1 else draw.choice(answers)
        overall[figure] = comparands[-1].ratio if cells == 1 else ratio(answer, draw)
        totals[figure] = Overall(
            cells=cells, p_value=0.5, p_adjusted=0.5, answer=answer, within_share=0.01
        )
    found = Comparison(
        a=Side(name="before", run=run_of()),
        b=Side(name="after", run=run_of()),
        differences=[],
        comparands=comparands,
        overall=overall,
        only_a=[],
        only_b=[],
        noise_share=None,
        findings=[],
        warnings=[],
        verdict="",
        overall_answers=totals,
        cells_count=len({each.key for each in comparands}),
    )
    found = msgspec.structs.replace(found, verdict=verdict(found))
    return msgspec.structs.replace(found, findings=find_in_comparison(found))


@pytest.mark.parametrize("seed", range(400))
def test_none_denies_what_another_says(seed):
    found = comparison(seed)
    kinds = {finding.kind for finding in found.findings}
    confident = {
        is_rate(each) == (answer == "lower")
        for each, answer in [
            *((each.figure, each.answer) for each in found.comparands),
            *((name, total.answer) for name, total in found.overall_answers.items()),
        ]
        if answer in ("higher", "lower")
    }
    assert kinds & {"regressed", "improved"} == {
        "regressed" if worse else "improved" for worse in confident
    }
    denies = found.verdict.startswith(("Undecided", "No difference"))
    assert denies == (not confident), found.verdict
    slow = slower_than(found, 0.05)
    if slow:
        assert "regressed" in kinds
    totals = found.overall_answers.items()
    for is_worse, words in ((True, WORSE), (False, BETTER)):
        if is_worse not in confident:
            assert not any(f"{word} than" in found.verdict for word in words), found.verdict
            continue
        in_ratio = any(
            total.answer in ("higher", "lower")
            and (is_rate(n) == (total.answer == "lower")) == is_worse
            for n, total in totals
        )
        counted = [w for w in ("slower", "longer") if is_worse] or ["faster", "shorter"]
        assert (
            in_ratio
            or any(
                f"{word} than" in found.verdict or f"{word} in" in found.verdict for word in words
            )
            or any(
                f" {word}" in found.verdict and f"none {word}" not in found.verdict
                for word in counted
            )
        ), found.verdict


def is_of_latency_alone(found: Comparison) -> bool:
    rates = [each.answer for each in found.comparands if each.figure == "iops"]
    totals = found.overall_answers
    return (
        len(rates) > 1
        and {*rates, totals["iops"].answer} == {"undecided"}
        and [each.kind for each in found.findings] == ["regressed"]
        and slower_than(found, 0.05) != ""
    )


def test_a_latency_that_significantly_grew_is_in_the_verdict():
    found = next(filter(is_of_latency_alone, map(comparison, range(1000))))
    assert found.verdict.startswith("after is higher in latency than before ")
    assert "undecided in IOPS: " in found.verdict
    assert "no test significantly faster or slower in IOPS" in found.verdict
