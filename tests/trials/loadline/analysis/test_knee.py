"""The finding ``knee``, the verdict, and the threshold ``sustained_per_s``."""

from __future__ import annotations

import pytest

from findings.analyses import analyses_of
from seatrial.findings.model import Summary
from seatrial.findings.rules.not_repeatable import not_repeatable
from seatrial.findings.thresholds import evaluate
from seatrial.findings.verdict import verdict
from seatrial.stats.model import Estimate
from seatrial.study.thresholds import parse_threshold
from seatrial.trials.io.findings.late_requests import late_requests
from seatrial.trials.loadline.analysis.knee import hinge
from seatrial.trials.loadline.findings.knee import knee
from stats.builders import run_of
from trials.loadline.analysis.hand import TEMPLATE, cells, context_of, line_of, step_of


def test_the_lowest_rate_that_breaks_is_reported_with_its_figures():
    (finding,) = knee(context_of(line_of()))
    assert finding.sentence.startswith("p99 <= 5 ms is exceeded at a knee. p99 is about 1 ms")
    assert (finding.severity, finding.evidence["broken_per_s"]) == ("note", 10_000)
    assert [cell["rate"] for cell in finding.cells] == [10_000]
    assert finding.evidence["sustained_per_s_low"] == 5_000
    assert finding.cause
    assert finding.next


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({"breaks": "cliff"}, "warning"),
        ({"breaks": "stalls"}, "warning"),
        ({"breaks": "service", "sustained": None}, "warning"),
        ({"breaks": "knee", "sustained": None}, "warning"),
        ({"breaks": "cliff", "generator": "The generator was slow"}, "note"),
    ],
)
def test_what_no_queue_announces_is_a_warning(changes, severity):
    (finding,) = knee(context_of(line_of(**changes)))
    assert finding.severity == severity
    assert ("The generator was slow." in finding.sentence) == ("generator" in changes)


def test_a_line_that_did_not_break_has_no_finding():
    unbroken = line_of(breaks="none", steps=[step_of(5_000, 1.0, True)])
    assert knee(context_of(unbroken)) == []
    assert knee(context_of(line_of(steps=[]))) == []
    assert knee(context_of()) == []


def test_each_of_several_lines_is_named():
    found = knee(context_of(line_of(), line_of(workload="writes")))
    assert [" in writes on trial" in finding.sentence for finding in found] == [False, True]


def test_rates_that_are_too_high_on_purpose_are_no_other_finding():
    context = context_of(line_of())
    assert late_requests(context) == []
    assert not_repeatable(context) == []


def test_the_verdict_is_the_answer():
    reported = verdict(cells(), knee(context_of(line_of())), analyses_of(load_lines=[line_of()]))
    assert reported == "Sustains 7,000 IOPS (5,000 to 10,000) within p99 <= 5 ms."
    doubted = verdict(
        cells(), [], analyses_of(load_lines=[line_of(generator="The generator was slow")])
    )
    assert doubted.endswith("The generator was slow.")


def verdicts(condition, **changes):
    threshold = parse_threshold("loadline.sustained_per_s", condition)
    summary = Summary(
        run=run_of(),
        cells=cells(),
        findings=[],
        verdict="",
        analyses=analyses_of(load_lines=[line_of(**changes)]),
    )
    (result,) = evaluate([threshold], summary)
    return result


@pytest.mark.parametrize(
    ("condition", "met", "doubtful"),
    [(">= 4000", True, False), (">= 6000", True, True), (">= 8000", False, True),
     (">= 11000", False, False)],
)  # fmt: skip
def test_the_sustained_rate_is_judged_with_its_doubt(condition, met, doubtful):
    result = verdicts(condition)
    assert (result.met, result.doubtful, result.cell) == (met, doubtful, TEMPLATE)
    assert "7,000 IOPS" in result.sentence


def test_where_nothing_is_sustained_no_demand_is_met():
    result = verdicts(">= 1", sustained=None, sentence="No rate holds p99 <= 5 ms.")
    assert (result.met, result.worst) == (False, None)
    assert "No rate holds" in result.sentence


@pytest.mark.parametrize(
    ("condition", "met", "doubtful", "answer"),
    [(">= 6000", True, False, "met"), (">= 8000", False, True, "not shown")],
)
def test_at_least_has_no_upper_end(condition, met, doubtful, answer):
    bound = Estimate(value=7e3, low=7e3, high=None, rounds=3, unit="IOPS")
    result = verdicts(condition, sustained=bound)
    assert (result.met, result.doubtful) == (met, doubtful)
    assert f": {answer}, at least 7,000 IOPS" in result.sentence


def test_the_bend_of_a_curve_is_its_knee():
    flat_then_steep = [(rate, 1e6 * max(1.0, (rate / 4_000) ** 5)) for rate in
                       (500, 1_000, 2_000, 3_000, 4_000, 4_500, 5_000, 5_500)]  # fmt: skip
    found = hinge(flat_then_steep)
    assert found is not None
    assert found.rate_per_s == pytest.approx(4_000, rel=0.05)
    assert found.floor_ns == pytest.approx(1e6, rel=0.05)
    assert hinge([(rate, 1e6 * (1 + rate / 1e5)) for rate in range(1_000, 9_000, 1_000)]) is None
    assert hinge(flat_then_steep[:3]) is None
