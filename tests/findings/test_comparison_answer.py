"""The answer of a comparison: one line, ratios as tiles, and what to do next."""

from __future__ import annotations

import msgspec
import pytest

from report.comparison_hand import full_comparison, make_comparand, make_comparison
from report.exports_hand import make_run
from seatrial.findings.answer import VERDICT_LETTERS_MAX, WORST_MAX, first_clauses
from seatrial.findings.comparison_answer import comparison_answer
from seatrial.stats.compare.model import Difference, OneSidedFigure, Overall, Side


def test_a_faster_side_is_said_with_its_interval_and_counts():
    found = comparison_answer([full_comparison()])
    assert found.verdict == (
        "after is 1.12x (± 5 %) as fast as before; "
        "faster in 42 of 84 tests, slower in 28 of 84 tests."
    )
    assert [(each.label, each.detail, each.better) for each in found.tiles[:2]] == [
        ("IOPS, after / before", "higher", "higher"),
        ("read p99, after / before", "lower", "lower"),
    ]
    assert "compared round by round" in found.confidence.lower()
    assert "22 of 252 figures undecided" in found.confidence
    assert "below" not in f"{found.confidence} {found.next_step}"
    # "Warnings" are findings, as in "no warnings; 1 note".
    assert "1 limitation" in found.confidence
    assert "warning" not in found.confidence


def test_the_worst_findings_are_those_of_the_comparison():
    comparison = full_comparison()
    found = comparison_answer([comparison])
    grave = [each for each in comparison.findings if each.severity != "note"]
    assert found.worst == grave[:WORST_MAX]
    assert found.notes_count == len(comparison.findings) - len(found.worst)
    assert found.next_step == grave[0].next


def changed(**changes: object):
    comparison = make_comparison([make_comparand("iops", 4096, 1)])
    totals = {
        name: msgspec.structs.replace(each, **changes)
        for name, each in comparison.overall_answers.items()
    }
    assert totals, "there is something to change"
    return msgspec.structs.replace(comparison, overall_answers=totals, findings=[])


def test_what_is_the_same_is_said_within_how_much():
    found = comparison_answer([changed(answer="same", within_share=0.03)])
    assert found.verdict == "No difference between before and after (within 3 %)."


def test_what_is_undecided_is_said_with_the_rounds_that_would_settle_it():
    found = comparison_answer([changed(answer="undecided", within_share=None, rounds_more=7)])
    assert found.verdict.startswith("Undecided: after is ")
    assert found.next_step == "Measure 7 more rounds of both to settle it."


def test_a_ratio_that_may_be_anything_is_not_stated():
    undecided = changed(answer="undecided", within_share=None)
    wide = msgspec.structs.replace(undecided.overall["iops"], value=1.0, low=0.05, high=20.0)
    found = comparison_answer([msgspec.structs.replace(undecided, overall={"iops": wide})])
    assert found.verdict.endswith("whether after is faster or slower than before.")
    assert "1x" not in found.verdict


def with_totals(**totals: Overall):
    return msgspec.structs.replace(changed(), overall_answers=totals)


def test_the_rounds_are_those_that_settle_the_verdicts_figure():
    total = changed(answer="undecided", within_share=None).overall_answers["iops"]
    lead, other = (msgspec.structs.replace(total, rounds_more=n) for n in (145, 10))
    found = comparison_answer([with_totals(**{"iops": lead, "read p99": other})])
    assert "145 more rounds" in found.next_step
    found = comparison_answer([with_totals(iops=lead), with_totals(iops=other)])
    assert "145 more rounds" in found.next_step
    decided = msgspec.structs.replace(total, answer="higher")
    found = comparison_answer([with_totals(**{"iops": decided, "read p99": other})])
    assert "10 more rounds" in found.next_step


@pytest.mark.parametrize("letters", [1, 40, 200])
def test_the_verdict_is_one_short_line_whatever_the_names(letters: int):
    name = "n" * letters
    sides = {"a": Side(name=name, run=make_run()), "b": Side(name=f"{name}2", run=make_run())}
    comparison = msgspec.structs.replace(full_comparison(), **sides)
    for several in ([comparison], [comparison] * 4):
        found = comparison_answer(several)
        assert len(found.verdict) <= VERDICT_LETTERS_MAX
        assert "\n" not in found.verdict


def test_several_comparisons_have_a_tile_each():
    third = Side(name="third", run=make_run())
    other = msgspec.structs.replace(full_comparison(), b=third)
    found = comparison_answer([full_comparison(), other])
    assert [each.label.partition(":")[0] for each in found.tiles] == ["after", "third"]


def test_the_decided_of_several_comparisons_come_first():
    def verdict(**answers: str) -> str:
        hdd, *others = (Side(name=name, run=make_run()) for name in ("hdd", *answers))
        return comparison_answer(
            [
                msgspec.structs.replace(changed(answer=answer), a=hdd, b=side)
                for side, answer in zip(others, answers.values(), strict=True)
            ]
        ).verdict

    ratio = "1.12x (± 5 %)"
    assert (
        verdict(xraid="undecided", ssd="higher")
        == f"ssd is {ratio} as fast as hdd; undecided: xraid is {ratio}."
    )
    assert (
        verdict(xraid="undecided", ssd="undecided")
        == f"Undecided: xraid is {ratio} as fast as hdd; ssd is {ratio}."
    )
    assert first_clauses("b is twice as fast; undecided: c is 1.2x", 35) == "b is twice as fast"


def test_what_only_more_rounds_can_decide_is_not_called_answered():
    undecided = changed(answer="undecided", within_share=None, rounds_more=None)
    undecided = msgspec.structs.replace(undecided, differences=[])
    assert comparison_answer([undecided]).next_step == "Measure more rounds of both."
    origin = {"format": "csv", "file": "a.csv", "tool": "vendor"}
    run = msgspec.structs.replace(undecided.a.run, study={"imported": origin})
    imported = msgspec.structs.replace(undecided, a=msgspec.structs.replace(undecided.a, run=run))
    assert comparison_answer([imported]).next_step == "Import more rounds of both."
    decided = msgspec.structs.replace(changed(answer="higher"), differences=[])
    assert comparison_answer([decided]).next_step.startswith("Nothing:")


def test_what_the_control_overrules_is_not_called_answered():
    overruled = changed(answer="undecided", within_share=None, below_noise=True)
    for differences in ([], overruled.differences):
        found = msgspec.structs.replace(overruled, differences=differences)
        assert comparison_answer([found]).next_step.startswith("Find out why the A/A control")


def test_minor_differences_are_not_called_the_reason():
    path = Difference(path="target.path", words="path", a="/a", b="/b", weight="minor")
    for weight, begin in (("minor", "Measure more rounds"), ("likely", "Check the differences")):
        difference = msgspec.structs.replace(path, weight=weight)
        undecided = changed(answer="undecided", within_share=None)
        found = msgspec.structs.replace(undecided, differences=[difference])
        assert comparison_answer([found]).next_step.startswith(begin)


def test_a_ratio_over_a_part_of_the_tests_says_so():
    comparands = [make_comparand("iops", 4096, threads) for threads in (1, 2, 4)]
    total = Overall(cells=1, p_value=0.5, p_adjusted=0.5, answer="same", within_share=0.01)
    comparison = make_comparison(comparands, overall_answers={"iops": total})
    assert comparison_answer([comparison]).tiles[0].test == "1 of 3 tests"


def test_tests_of_one_side_are_not_among_all():
    found = comparison_answer([full_comparison()])
    assert found.tiles[0].test == "84 common tests"
    assert "2 tests on one side only" in found.confidence


def test_what_b_left_unanswered_comes_first():
    lost = OneSidedFigure(
        key="io",
        identity={},
        figure="read p99",
        known_on="a",
        unanswered=41,
        nothing_completed=False,
        at_least=None,
    )
    comparison = msgspec.structs.replace(
        changed(answer="same", within_share=0.01), one_sided=[lost], cells_count=2
    )
    found = comparison_answer([comparison])
    assert found.verdict.startswith("Read p99 is unknown on after in 1 of 2 tests")
    assert "unanswered" not in found.next_step
    assert found.next_step.startswith("Find out why after")


def test_nothing_in_common_is_said():
    nothing = msgspec.structs.replace(
        full_comparison(), overall={}, overall_answers={}, comparands=[], findings=[]
    )
    found = comparison_answer([nothing])
    assert found.verdict == "after and before have no figure in common."
    assert found.tiles == []
