"""Steady state on the page: the timeline of the rate, its phases, and what the rules say."""

from __future__ import annotations

import msgspec
import pytest

from report.exports_hand import SLICE_NS, make_cell, make_sample, make_summary, repeated, summarised
from report.page_reader import read
from report.steady_hand import make_phase, make_steady
from seatrial.findings.model import Summary
from seatrial.report.exports import export
from seatrial.report.page import render
from seatrial.report.table import as_text
from seatrial.report.tables import informative, rules_table, steady_table, tables
from seatrial.results.model import Outcome, Sample, Slice, Timeline
from seatrial.stats.model import CellSummary
from seatrial.trials.io.report.figures import steady_figures

CELL = make_cell("write")
LEVELS = [900] * 20 + [500] * 10 + [200] * 50 + [90] * 20  # completions in each slice of 100 ms


def timeline_of(counts: list[int], index: int = 0) -> Sample:
    """A sample with so many completions in each slice."""
    slices = [
        Slice(
            index=place,
            operation="write",
            completed=count,
            transferred_bytes=count * 4096,
            response=repeated(100_000, count).encode(),
        )
        for place, count in enumerate(counts)
    ]
    total = sum(counts)
    made = make_sample(CELL, {"write": total}, len(counts) / 10, index=index)
    return msgspec.structs.replace(
        made,
        outcome=Outcome(
            offered=total, completed=total, failed=0, late_skipped=0, in_flight_at_end=0
        ),
        timeline=Timeline(slice_ns=SLICE_NS, slices=slices),
    )


def cells_with(counts: list[int]) -> list[CellSummary]:
    return [summarised([timeline_of(counts)])]


def summary_with_state(**changes) -> Summary:
    state = make_steady(cell=CELL.key, **changes)
    return msgspec.structs.replace(make_summary(cells_with(LEVELS)), steady=[state])


def test_the_timeline_is_drawn_with_every_request_in_it():
    [figure] = steady_figures([make_steady(cell=CELL.key)], cells_with(LEVELS))
    [panel] = figure.views[0].panels
    points = panel.lines[0].points
    assert len(points) == 100
    assert sum(point.y * 0.1 for point in points) == pytest.approx(sum(LEVELS))
    assert points[0].x == pytest.approx(0.05)
    assert panel.x.high == 10


def test_a_long_timeline_is_drawn_in_means_and_loses_nothing():
    counts = LEVELS * 6
    [figure] = steady_figures([make_steady(cell=CELL.key)], cells_with(counts))
    points = figure.views[0].panels[0].lines[0].points
    assert len(points) <= 150
    assert sum(point.y for point in points) / len(points) == pytest.approx(
        sum(counts) * 10 / len(counts), rel=0.02
    )
    assert "A value is the mean of 400 ms." in figure.views[0].notes


def test_phases_are_shaded_and_each_has_its_mean():
    [figure] = steady_figures([make_steady(cell=CELL.key)], cells_with(LEVELS))
    view = figure.views[0]
    [panel] = view.panels
    assert [(g.label, g.low, g.high, g.tone) for g in panel.guides] == [
        ("fresh", 0.0, 2.0, "quiet"),
        ("transition", 2.0, 3.0, "none"),
        ("steady", 3.0, 8.0, "answer"),
        ("left", 8.0, 10.0, "limit"),
    ]
    means = [line for line in panel.lines if line.look == "model"]
    assert [[(p.x, p.y) for p in line.points] for line in means][2] == [(3.0, 2_000), (8.0, 2_000)]
    assert view.title.startswith("Writes do 9,000 IOPS for 2 s")
    assert view.notes[0].startswith("The rule snia is met from 5 s on")
    assert view.label == "matrix on ssd: random write 4 KiB, 1 thread: write, round 1"


def test_over_rounds_each_round_is_a_point_at_its_end():
    samples = [
        timeline_of([rate] * 10, index) for index, rate in enumerate((900, 500, 200, 200, 200))
    ]
    state = make_steady(cell=CELL.key, over="rounds", round=None)
    [figure] = steady_figures([state], [summarised(samples)])
    measured = figure.views[0].panels[0].lines[0]
    assert [(point.x, point.y) for point in measured.points] == [
        (1.0, 9_000), (2.0, 5_000), (3.0, 2_000), (4.0, 2_000), (5.0, 2_000),
    ]  # fmt: skip
    assert measured.look == "measured"
    assert figure.views[0].label.endswith("write, over rounds")


def test_what_is_steady_throughout_needs_no_chart():
    still = make_steady(cell=CELL.key, phases=[make_phase("steady", 0, 10, 2_000)])
    assert informative([still]) == []
    assert steady_figures([still], cells_with(LEVELS)) == []
    summary = msgspec.structs.replace(make_summary(cells_with(LEVELS)), steady=[still])
    assert all(table.id != "steady" for table in tables(summary))
    reported = read(render(summary)).one(id="table-steady").text
    assert "1 timeline over time or rounds: steady from start to end." in reported
    never = make_steady(phases=[make_phase("transition", 0, 10, 2_000)])
    assert informative([never]) == [never]


def test_what_left_its_steady_state_comes_first_and_the_rest_is_counted():
    calm = make_steady(
        cell=CELL.key,
        phases=[make_phase("fresh", 0, 2, 90_000), make_phase("steady", 2, 10, 10)],
    )
    [figure] = steady_figures([*[calm] * 13, make_steady(cell=CELL.key)], cells_with(LEVELS))
    assert len(figure.views) == 12
    assert figure.views[0].panels[0].guides[-1].label == "left"
    assert figure.notes[1].startswith("The chart shows the 12 of 14 timelines that change most")


def test_a_row_for_each_phase_with_its_times_and_rate():
    table = steady_table([make_steady(cell=CELL.key)], cells_with(LEVELS))
    name = "matrix on ssd: random write 4 KiB, 1 thread, round 1"
    assert table.rows[0] == [name, "write", "fresh", "0 s", "2.0 s", "9,000", "± 3 %"]
    assert [row[2] for row in table.rows] == ["fresh", "transition", "steady", "left"]
    rules = rules_table([make_steady(cell=CELL.key)], cells_with(LEVELS)).rows
    assert [row[2:4] for row in rules] == [["SNIA", "yes"], ["fio, slope", "no"]]


def test_terminal_markdown_and_page_report_the_phases():
    summary = summary_with_state()
    assert "transition" in as_text(tables(summary)[-1])
    assert "| transition | 2.0 s | 3.0 s |" in export(summary, "markdown")
    document = read(render(summary))
    assert len(document.one(id="table-steady").all("tbody")[0].all("tr")) == 4
    assert document.one(id="figure-steady").one("h3").text.replace("\u00a0", " ") == (
        make_steady().sentence
    )
