"""The CSV holds each figure once, in a column that says its unit."""

from __future__ import annotations

import csv
import io

import pytest

from report.exports_hand import (
    make_cell,
    make_sample,
    make_summary,
    summarised,
    summary_with,
)
from seatrial.report.exports import export


def rows_of(*cells) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(export(make_summary(list(cells)), "csv"))))


def test_figures_come_back_exactly():
    cell = make_cell("read", 4096, 10)
    samples = [make_sample(cell, {"read": 2000 + index}, index=index) for index in range(3)]
    summary = summarised(samples)
    (row,) = rows_of(summary)
    assert (row["cell_key"], row["operation"], row["request"]) == (cell.key, "read", "read")
    assert (row["block_size_bytes"], row["threads"], row["depth"]) == ("4096", "10", "1")
    assert row["factor_pattern"] == "random"
    assert float(row["completed_per_s"]) == summary.iops.value
    assert float(row["completed_per_s_low"]) == summary.iops.low
    assert float(row["transferred_bytes_per_s_high"]) == summary.bandwidth.high
    assert float(row["p99_ns"]) == summary.latency["read"]["p99"].value
    assert (row["completed"], row["rounds"]) == ("6003", "3")


def test_a_figure_that_is_not_known_is_empty_not_zero():
    (row,) = rows_of(summarised([make_sample(make_cell("read", 4096), {"read": 50})]))
    assert (row["completed_per_s"], row["completed_per_s_low"]) == ("50.0", "")
    assert (row["p99_9_ns"], row["p99_9_ns_low"]) == ("", "")
    assert float(row["p50_ns"]) == pytest.approx(100_000, rel=0.008)


def test_a_mixed_cell_has_a_row_for_each_kind_of_request():
    cell = make_cell("mixed", 0, 8, kind="mix", access="database")
    rows = rows_of(summarised([make_sample(cell, {"read": 70, "write": 30})]))
    assert [(row["request"], row["completed"]) for row in rows] == [("read", "70"), ("write", "30")]
    assert {row["completed_per_s"] for row in rows} == {"100.0"}


def test_a_blank_cell_says_so():
    cell = make_cell("write", 4096, 40)
    (row,) = rows_of(summary_with(cell, (0, 0, 0), blank="0 completed, oldest in flight 4.2 s"))
    assert (row["completed"], row["blank"]) == ("0", "0 completed, oldest in flight 4.2 s")


def test_rows_of_different_workloads_have_the_same_columns():
    commit = make_cell("commit", 8192, 4, kind="commit", method="fdatasync")
    rows = rows_of(
        summary_with(make_cell(), (100.0, 99.0, 101.0)),
        summary_with(commit, (100.0, 99.0, 101.0)),
    )
    assert [(row["factor_pattern"], row["factor_method"]) for row in rows] == [
        ("random", ""),
        ("", "fdatasync"),
    ]


def test_text_with_commas_quotes_and_lines_comes_back():
    cell = make_cell(target='a "quoted", name\nof two lines')
    (row,) = rows_of(summary_with(cell, (100.0, 99.0, 101.0)))
    assert row["target"] == cell.target


def test_a_run_without_a_cell_is_one_empty_line():
    assert rows_of() == []
