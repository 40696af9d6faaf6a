"""The load line as a chart and a table: what holds, what breaks, and what is not known."""

from __future__ import annotations

import json

import msgspec

from findings.analyses import with_analyses
from report.exports_hand import estimate, make_cell, make_summary, summary_with
from report.page_reader import read
from seatrial.report.exports import export
from seatrial.report.page import render
from seatrial.report.table import as_text
from seatrial.report.tables import tables
from seatrial.stats.estimate import AtLeast
from seatrial.stats.wording import format_estimate
from seatrial.trials.loadline.analysis.narrative import exact_duration
from seatrial.trials.loadline.report import (
    load_line_figures,
    load_line_table,
    load_line_verdict,
    load_lines_table,
)
from trials.loadline.report.loadline_hand import LIMIT_NS, RATES_PER_S, make_load_line, make_step

LINE = make_load_line()


def panel_of(line=LINE):
    [figure] = load_line_figures([line])
    [panel] = figure.views[0].panels
    return panel


def summary_of(line=LINE):
    cell = make_cell("mixed", 8192, 16, kind="loadline", arrival="poisson", rate=2000.0)
    summary = make_summary([summary_with(cell, (2000.0, 1990.0, 2010.0))])
    return with_analyses(summary, load_lines=[line])


def test_the_answer_is_the_title_and_how_it_breaks_the_note():
    [figure] = load_line_figures([LINE])
    assert figure.title == LINE.sentence
    assert figure.views[0].notes == [LINE.cause]
    generator = make_load_line(generator="The generator's own limit is near")
    assert load_line_figures([generator])[0].views[0].notes[1] == (
        "The generator's own limit is near."
    )


def test_every_step_is_a_point_with_its_interval():
    response, service = panel_of().lines[:2]
    assert (response.name, service.name) == ("p99, response time", "p99, service time")
    assert [point.x for point in response.points] == list(RATES_PER_S[:-1])
    assert [point.x for point in service.points] == list(RATES_PER_S)
    third = LINE.steps[2].response["p99"]
    assert response.points[2].text == format_estimate(third)
    assert (response.points[2].low, response.points[2].high) == (third.low, third.high)


def test_the_shape_of_a_mark_says_whether_the_step_holds():
    marks = {line.name: line for line in panel_of().lines if line.look == "dots"}
    places = {name: [point.x for point in line.points] for name, line in marks.items()}
    assert places == {
        "met": [2_000, 6_000, 10_000, 14_000, 16_000, 17_000],
        "undecided": [17_500],
        "exceeded": [18_000, 19_500, 22_000],
    }
    assert len({line.marker for line in marks.values()}) == 3


def test_a_percentile_that_is_not_known_is_at_the_top_and_says_why():
    panel = panel_of()
    [breaks] = [line for line in panel.lines if line.name == "exceeded"]
    last = breaks.points[-1]
    assert panel.y.high / 1.3 < last.y < panel.y.high
    assert last.text == "unknown, 21 % skipped as too late or never completed"


def test_a_line_none_of_whose_percentiles_is_known_is_drawn_around_its_limit():
    """So it is where the target was frozen in the only sample of the only rate."""
    half = {"p50": estimate((4_000_000, 3_900_000, 4_100_000), "ns")}
    step = make_step(20_000, response=half, service=half, holds=None, late_share=0.4)
    panel = panel_of(make_load_line(steps=[step], sustained=None, knee_per_s=None))
    assert panel.y.low < LIMIT_NS < panel.y.high


def test_limit_sustained_rate_closed_loop_and_stalls_are_marked():
    panel = panel_of()
    limit, sustained, closed = panel.guides
    assert (limit.axis, limit.low, limit.label) == ("y", LIMIT_NS, "limit: p99 5 ms")
    assert (sustained.axis, sustained.low, sustained.high) == ("x", 16_000, 18_000)
    assert (closed.axis, closed.low, closed.high) == ("x", 20_400, None)
    assert [(foot.x, foot.text, foot.sort) for foot in panel.feet] == [
        (18_000, "2 stalls", "stalls")
    ]
    assert panel.x.high >= 22_000
    assert panel.y.low < LIMIT_NS < panel.y.high


def test_a_line_that_never_broke_says_at_least():
    known = msgspec.structs.replace(estimate((9000, 9000, 9000), "IOPS"), high=None)
    line = make_load_line(sustained=known, closed_loop=None)
    guides = panel_of(line).guides
    assert len(guides) == 2
    assert (guides[1].low, guides[1].high) == (9000, None)
    assert guides[1].label == "at least 9,000 IOPS"
    assert load_line_verdict(line).startswith("sustains at least 9,000 IOPS (no upper end)")
    assert load_lines_table([line]).rows[0][3:5] == ["at least 9,000 IOPS", "no upper end"]


def test_a_line_that_nothing_decided_does_not_say_that_no_rate_is_sustained():
    line = make_load_line(sustained=None, breaks="none")
    assert load_lines_table([line]).rows[0][3] == "unknown"


def test_no_chart_where_nothing_is_known():
    assert load_line_figures([]) == []
    assert load_line_figures([make_load_line(steps=[])]) == []
    assert load_line_figures([make_load_line(steps=[make_step(2000, response={})])]) == []


def test_the_table_has_a_row_for_each_offered_rate():
    table = load_line_table(LINE)
    assert table.title == (
        "Latency against load (loadline), ssd: p99 <= 5 ms (1 % of requests may exceed it)"
    )
    assert [row[0] for row in table.rows][:3] == ["2,000", "6,000", "10.0k"]
    assert [row[-1] for row in table.rows].count("exceeded") == 3
    assert table.rows[-1][3:6] == ["unknown"] * 3
    assert table.rows[-1][7] == "21 %"
    assert table.rows[-3][8] == "2"
    assert as_text(table).count("\n") == len(table.rows) + 3


def test_the_share_that_decided_stands_next_to_the_answer():
    """The percentile's interval decides nothing: it may be unknown where the share is sure."""
    p99 = estimate((3_000_000, 300_000, 30_000_000), "ns", 2)
    steps = [
        make_step(rate, response={"p99": p99}, above=estimate(above, "ratio", 2), holds=holds)
        for rate, above, holds in (
            (2000, (0.0, 0.0, 0.0043), True),
            (3000, (0.0081, 0.0052, 0.0104), None),
            (4000, (0.31, 0.302, 0.318), False),
            (5000, (1.0, 0.9996, 1.0), False),
        )
    ]
    line = make_load_line(steps=steps)
    table = load_line_table(line)
    place = table.headers.index("Above limit")
    shown = [(row[place], row[-1]) for row in table.rows]
    assert shown == [
        ("0 % (0 to 0.43 %)", "met"),
        ("0.81 % (0.52 to 1.04 %)", "undecided"),
        ("31 % (30 to 32 %)", "exceeded"),
        ("100 % (100 to 100 %)", "exceeded"),
    ]
    summary = summary_of(line)
    assert all(text in export(summary, "markdown") for text, _ in shown)
    assert all(text in render(summary) for text, _ in shown)
    stored = json.loads(export(summary, "json"))["load_lines"][0]["steps"]
    assert [step["above"]["high"] for step in stored] == [0.0043, 0.0104, 0.318, 1.0]


def test_an_end_of_the_share_never_seems_to_lie_on_the_other_side_of_what_is_allowed():
    for high, holds in ((0.00996, True), (0.009997, True), (0.010003, None), (0.0104, None)):
        step = make_step(2000, above=estimate((0.008, 0.005, high), "ratio", 2), holds=holds)
        text = load_line_table(make_load_line(steps=[step])).rows[0][-2]
        shown = float(text.split("to ")[1].removesuffix(" %)"))
        assert (shown <= 1) == (holds is True), text


def test_a_step_whose_percentile_is_not_known_shows_what_it_is_at_least():
    bound = AtLeast(value=1.28e9, rounds=1, unit="ns")
    known = make_step(20_000)
    step = make_step(22_000, response_at_least={"p99": bound})
    line = make_load_line(steps=[known, step])
    row = load_line_table(line).rows[-1]
    assert row[3:6] == ["unknown", "at least 1.2 s", "unknown"]
    [breaks] = [each for each in panel_of(line).lines if each.name == "exceeded"]
    assert breaks.points[-1].text.startswith("at least 1.2 s, ")
    assert "at least 1.2 s" in render(summary_of(line))


def test_a_limit_is_reported_with_all_its_digits():
    assert exact_duration(5_000_000) == "5 ms"
    assert exact_duration(1_500_000) == "1,500 µs"
    assert exact_duration(2_000_000_000) == "2 s"
    assert exact_duration(1_001) == "1,001 ns"


def test_terminal_markdown_and_page_show_the_steps():
    summary = summary_of()
    assert [table.id for table in tables(summary)] == ["loadline-ssd-loadline"]
    assert "| 17.5k | 17.5k |" in export(summary, "markdown")
    document = read(render(summary))
    rows = document.one(id="table-loadline").all("tbody")[0].all("tr")
    assert len(rows) == len(LINE.steps)
    assert document.one(id="figure-loadline").one("a", class_="numbers").attributes["href"] == (
        "#table-loadline"
    )


def test_cells_without_their_load_line_are_still_listed():
    summary = with_analyses(summary_of(), load_lines=[])
    [table] = tables(summary)
    assert "2,000" in as_text(table)


def test_json_reports_undecided_from_broken():
    document = json.loads(export(summary_of(), "json"))
    answers = {step["offered_per_s"]: step["holds"] for step in document["load_lines"][0]["steps"]}
    assert (answers[17_000], answers[17_500], answers[18_000]) == (True, None, False)
