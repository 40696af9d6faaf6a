"""Rounds that differ by more than twice: median and range in place of one figure, everywhere."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.exports_hand import make_cell, make_run, make_sample, summarised
from report.json_schema import assert_published
from report.page_reader import read
from seatrial.cli.outcome import run_text
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.findings.thresholds import evaluate
from seatrial.findings.verdict import verdict
from seatrial.report.exports import export
from seatrial.report.figures.model import Point
from seatrial.report.page import render
from seatrial.report.table import doubt_text
from seatrial.stats.cell_estimates import estimate_of_rounds, settled
from seatrial.stats.estimate import Range
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_estimate
from seatrial.study.thresholds import parse_threshold
from seatrial.trials.io.report.figures import figures_of_run

OF_THE_ISSUE = (11_150, 1_967, 662, 657)
SHOWN = "1,300 IOPS (median of 4 rounds: 660 to 11k)"
RANGE = "median of 4 rounds: 660 to 11k"


def cell_of_rounds(rates_per_s: tuple[int, ...], **which) -> CellSummary:
    cell = make_cell(**which)
    return summarised([make_sample(cell, {"read": n}, index=i) for i, n in enumerate(rates_per_s)])


def run_of(*cells: CellSummary) -> Summary:
    return summarise(make_run(), [sample for cell in cells for sample in cell.samples])


@pytest.fixture(scope="module")
def summary() -> Summary:
    steady = cell_of_rounds((900, 905, 910), block_size_bytes=4096)
    return run_of(cell_of_rounds(OF_THE_ISSUE, block_size_bytes=8192), steady)


def test_the_words_are_median_and_range():
    rate = cell_of_rounds(OF_THE_ISSUE).iops
    assert format_estimate(rate) == SHOWN
    assert doubt_text(rate) == RANGE
    assert Point.of(0, rate) == Point(0, 1314.5, 657.0, 11_150.0, SHOWN, is_range=True)


def test_twice_is_not_yet_more_than_twice():
    assert estimate_of_rounds([100.0, 150.0, 200.0], "IOPS").scatter is None
    assert estimate_of_rounds([100.0, 150.0, 200.1], "IOPS").scatter == Range(100.0, 200.1)


def test_a_round_without_a_request_is_no_repeat_of_others():
    assert format_estimate(estimate_of_rounds([0.0, 900.0, 910.0], "IOPS")) == (
        "900 IOPS (median of 3 rounds: 0 to 910)"
    )


@pytest.mark.parametrize("unit", ["ratio", "share", "count"])
def test_what_follows_from_two_figures_keeps_its_interval(unit: str):
    assert estimate_of_rounds([0.1, 0.2, 0.9], unit).scatter is None


def test_what_is_judged_keeps_the_interval():
    cell = cell_of_rounds(OF_THE_ISSUE)
    assert cell.iops.low is not None
    assert cell.iops.low < 657
    assert cell.iops.high is not None
    assert cell.iops.high > 11_150
    assert not settled(cell.samples, 0.9)


def test_percentiles_of_scattered_rounds_are_shown_so_too():
    cell = make_cell()
    slow = [make_sample(cell, {"read": 2000}, index=i, latency_ns=n * 100_000) for i, n in
            enumerate((1, 2, 9))]  # fmt: skip
    assert format_estimate(summarised(slow).latency["read"]["p99"]) == (
        "200 µs (median of 3 rounds: 100 µs to 900 µs)"
    )


def test_a_figure_in_another_unit_keeps_its_range():
    rate = estimate_of_rounds([100.0, 200.0, 500.0], "tps")
    time = rate.inverse(1e9, "ns")
    assert (time.value, time.scatter) == (5e6, Range(2e6, 1e7))
    assert time.scaled(2.0, "ns").scatter == Range(4e6, 2e7)
    assert estimate_of_rounds([0.0, 500.0, 500.0], "tps").inverse(1.0, "s").low is not None


def test_terminal_page_and_markdown_show_median_and_range(summary: Summary):
    assert SHOWN in summary.verdict
    assert re.search(rf"1,300 +11 +{RANGE}", run_text(summary))
    assert RANGE in export(summary, "markdown")
    page = read(render(summary))
    (row,) = page.all("tr", data_key=summary.cells[1].cell.key)
    assert row.all("td")[0].text == f"1,300 IOPS {RANGE}"
    assert row.all("td")[0].attributes["data-value"] == "1314.5"


def test_the_charts_whiskers_are_the_range_and_a_note_says_so(summary: Summary):
    figure = next(each for each in figures_of_run(summary) if each.id == "matrix-iops")
    points = [p for panel in figure.views[0].panels for line in panel.lines for p in line.points]
    assert (1314.5, 657.0, 11_150.0, SHOWN) in [(p.y, p.low, p.high, p.text) for p in points]
    assert any("differ by more than twice, it is their median" in note for note in figure.notes)
    calm = next(e for e in figures_of_run(run_of(summary.cells[0])) if e.id == "matrix-iops")
    assert not any("median" in note for note in calm.notes)


def test_exports_have_the_median_the_range_and_say_so(summary: Summary):
    calm, wild = csv.DictReader(io.StringIO(export(summary, "csv")))
    assert [wild[f"completed_per_s{end}"] for end in ("", "_low", "_high", "_over")] == [
        "1314.5", "657.0", "11150.0", "range",
    ]  # fmt: skip
    assert (calm["completed_per_s_over"], calm["p50_ns_low"] != "") == ("", True)
    document = json.loads(export(summary, "json"))
    assert_published(document)
    assert document["cells"][1]["iops"] == {
        "value": 1314.5, "low": 657.0, "high": 11_150.0, "rounds": 4, "unit": "IOPS",
        "over": "range",
    }  # fmt: skip
    assert document["cells"][0]["iops"]["over"] == "rounds"


def test_a_threshold_judges_the_figure_that_it_shows(summary: Summary):
    demand = parse_threshold("matrix[block_size=8KiB].iops", ">= 1500")
    (result,) = evaluate([demand], summary)
    assert (result.met, result.doubtful) == (False, True)
    assert SHOWN in result.sentence


ROUNDS = st.lists(st.integers(1, 40_000), min_size=2, max_size=7).map(tuple)


@settings(max_examples=40, deadline=None)
@given(rounds=ROUNDS)
def test_every_output_shows_one_figure_of_a_cell(rounds: tuple[int, ...]):
    summary = run_of(cell_of_rounds(rounds))
    (cell,) = summary.cells
    scatters = max(rounds) > 2 * min(rounds)
    shown = cell.iops.shown
    assert (cell.iops.scatter is not None) is scatters
    if scatters:
        assert (shown.low, shown.value, shown.high) == (
            min(rounds), statistics.median(rounds), max(rounds),
        )  # fmt: skip
    assert cell.iops.low <= cell.iops.value <= cell.iops.high
    words = format_estimate(cell.iops)
    assert ("median of" in words) is scatters
    assert words in verdict(summary.cells, [])
    assert doubt_text(cell.iops) in run_text(summary)
    (row,) = csv.DictReader(io.StringIO(export(summary, "csv")))
    (found,) = json.loads(export(summary, "json"))["cells"]
    figure = next(each for each in figures_of_run(summary) if each.id == "matrix-iops")
    (point,) = figure.views[0].panels[0].lines[0].points
    ends = (shown.value, shown.low, shown.high)
    assert tuple(float(row[f"completed_per_s{e}"]) for e in ("", "_low", "_high")) == ends
    assert tuple(found["iops"][name] for name in ("value", "low", "high")) == ends
    assert (point.y, point.low, point.high) == ends
