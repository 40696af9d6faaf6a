"""Every number of the summary stands in a table of the page, as the wording room says it."""

from __future__ import annotations

import pytest

from report.page_reader import Node, embedded, read
from report.sample_run import sample_summary
from seatrial.findings.model import Summary
from seatrial.report.page import render
from seatrial.report.table import Table, doubt_text
from seatrial.report.tables import tables
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import NO_BREAK_SPACE, format_count, format_value

PERCENTILES = ("p50", "p90", "p99", "p99.9")


@pytest.fixture(scope="module")
def summary() -> Summary:
    return sample_summary()


@pytest.fixture(scope="module")
def document(summary: Summary) -> Node:
    return read(render(summary))


def rows_of(document: Node, part: CellSummary) -> list[Node]:
    section = document.one(id=f"table-{part.cell.kind}")
    return section.all("tr", data_key=part.cell.key)


def assert_shows(cell: Node, estimate: Estimate | None, *, interval: bool = True) -> None:
    if estimate is None:
        assert cell.text == "too few"
        return
    assert float(str(cell.attributes["data-value"])) == estimate.value
    reported = format_value(estimate)
    assert cell.text == (f"{reported} {doubt_text(estimate)}" if interval else reported)


def test_every_figure_of_every_cell_is_in_its_row(document: Node, summary: Summary):
    for part in summary.cells:
        rows = rows_of(document, part)
        if part.blank:
            assert [cell.text for cell in rows[0].all("td")] == [
                part.blank, "0", str(part.failed), str(len(part.samples)),
            ]  # fmt: skip
            continue
        assert len(rows) == len(part.latency)
        first = rows[0].all("td")
        assert_shows(first[0], part.iops)
        assert_shows(first[1], part.bandwidth)
        assert [cell.text for cell in first[-3:]] == [
            format_count(part.completed), format_count(part.failed), str(len(part.samples)),
        ]  # fmt: skip
        for row, latency in zip(rows, part.latency.values(), strict=True):
            cells = row.all("td")[2:8]
            for cell, name in zip(cells, PERCENTILES, strict=False):
                assert_shows(cell, latency.get(name))
            assert_shows(cells[4], latency.get("max"), interval=False)
            assert_shows(cells[5], latency.get("mean"))


def test_rows_have_as_many_columns_as_headings(document: Node):
    for table in document.all("table"):
        headings = len(table.one("thead").all("tr")[-1].all("th"))
        for row in table.one("tbody").all("tr"):
            cells = [node for node in row.children if isinstance(node, Node)]
            assert sum(int(cell.attributes.get("colspan") or 1) for cell in cells) == headings


def test_the_plain_tables_are_those_of_the_terminal(document: Node, summary: Summary):
    for table in tables(summary):
        region = document.all("div", aria_label=table.title)[0]
        shown = [[cell.text for cell in row.children] for row in region.one("tbody").all("tr")]
        assert shown == table.rows
        assert [th.text for th in region.one("thead").all("tr")[-1].all("th")] == table.headers


def test_tables_that_are_given_take_their_place(summary: Summary):
    own = Table(id="four-own", title="Mine", labels=1, headers=["A", "B"], rows=[["a", "1"]])
    section = read(render(summary, tables=[own])).one(id="table-four")
    assert section.one("h3").text == "Mine"
    assert [td.text for td in section.all("td") if not td.attributes] == ["1"]


def test_every_stall_and_error_is_listed(document: Node, summary: Summary):
    samples = [sample for part in summary.cells for sample in part.samples]
    stalls = document.one(id="table-stalls").one("tbody").all("tr")
    errors = document.one(id="table-errors").one("tbody").all("tr")
    assert len(stalls) == sum(len(sample.stalls) for sample in samples) == 1
    assert len(errors) == sum(len(sample.errors) for sample in samples) == 9
    assert [cell.text.replace(NO_BREAK_SPACE, " ") for cell in stalls[0].all("td")] == [
        "2", "600 ms", "2.1 s", "device", "10 write",
        "device in flight 99 %, run queue delay 1.20 ms",
    ]  # fmt: skip
    assert "EIO (5)" in errors[0].text


def test_the_timeline_table_counts_what_the_heat_map_counts(document: Node, summary: Summary):
    heat = next(f for f in embedded(document)["figures"] if f["kind"] == "heat")
    view = heat["views"][heat["chosen"]]
    counts = [sum(column[-1]) for s in view["heat"]["samples"] for column in s["columns"]]
    section = document.one(id="table-timeline")
    rows = section.one("tbody").all("tr")
    assert [row.all("td")[2].text for row in rows] == [format_count(count) for count in counts]
    stalled = next(part for part in summary.cells if any(s.stalls for s in part.samples))
    assert sum(counts) == stalled.completed
    assert section.one(class_="of").text == view["label"]


def test_wide_tables_scroll_in_frames_that_a_keyboard_reaches(document: Node):
    frames = document.all("div", class_="scroll")
    assert len(frames) == len(document.all("table"))
    for frame in frames:
        assert frame.attributes["tabindex"] == "0"
        assert frame.attributes["role"] == "region"
        assert frame.attributes["aria-label"]


def test_every_chart_names_the_table_of_its_numbers(document: Node):
    for figure in document.all("figure"):
        link = figure.one("a", class_="numbers")
        section = document.one(id=str(link.attributes["href"]).removeprefix("#"))
        assert section.all("table")
