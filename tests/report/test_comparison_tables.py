"""The tables of a comparison: every answer in words, no figure without its doubt."""

from __future__ import annotations

import pytest

from report.comparison_hand import full_comparison, make_comparand, make_comparison, ratio
from seatrial.report.comparison_page import (
    comparison_table,
    decision_text,
    differences_table,
    overall_table,
)
from seatrial.report.exports.markdown import as_markdown
from seatrial.report.table import as_text


def test_a_row_says_cell_figure_both_sides_ratio_and_answer():
    [row] = comparison_table(make_comparison()).rows
    assert row == [
        "matrix: random read, 4 KiB, 1 thread", "IOPS",
        "56k IOPS", "± 2 %", "71k IOPS", "± 4 %",
        "1.25x", "± 4 %", "higher",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"answer": "higher"}, "higher"),
        ({"answer": "lower"}, "lower"),
        ({"answer": "same", "within_share": 0.031}, "same within 4 %"),
        ({"answer": "same", "within_share": 0.03}, "same within 3 %"),
        ({"answer": "undecided"}, "undecided"),
        ({"answer": "undecided", "below_noise": True}, "undecided, below the noise"),
        (
            {"answer": "undecided", "rounds_more": 1},
            "undecided, needs 1 more round",
        ),
        (
            {"answer": "undecided", "rounds_more": 14},
            "undecided, needs 14 more rounds",
        ),
    ],
)
def test_answers_in_words(changes: dict, said: str):
    assert decision_text(make_comparand(**changes)) == said


def test_a_ratio_without_an_interval_says_whether_it_was_measured_once():
    for rounds, text in ((1, "(1 round)"), (3, "no interval")):
        comparand = make_comparand(ratio=ratio(1.2, None, None, rounds=rounds))
        assert text in comparison_table(make_comparison([comparand])).rows[0]


def test_differences_bear_their_units_and_say_what_is_unknown():
    rows = differences_table(make_comparison()).rows
    assert rows[0] == ["I/O scheduler of sda", "mq-deadline", "none", "likely reason"]
    assert rows[1][2] == "unknown"
    assert rows[2] == ["memory", "64 GiB", "32 GiB", "minor"]


def test_all_cells_together():
    assert overall_table(make_comparison()).rows == [
        ["IOPS", "1.12x", "± 5 %", "higher"],
        ["read p99", "0.90x", "± 7 %", "lower"],
    ]
    assert overall_table(make_comparison(overall_answers={})).rows[0][3] == "–"


def test_every_table_has_texts_everywhere_and_is_drawn():
    for make in (differences_table, overall_table, comparison_table):
        table = make(full_comparison())
        assert all(len(row) == len(table.headers) for row in table.rows)
        assert all(text for row in table.rows for text in row)
        assert as_text(table).count("\n") == len(table.rows) + 3 + bool(table.groups)
        assert as_markdown(table).count("\n") == len(table.rows) + 1
