"""The page of a run on layouts: its own section, the article's figures, failures over time."""

from __future__ import annotations

import msgspec
import pytest

from findings.analyses import with_analyses
from report.page_reader import Node, embedded, read
from seatrial.findings.model import Summary
from seatrial.report.document import BYTES_MAX
from seatrial.report.figures.model import Figure
from seatrial.report.page import charted_part, left_out, render
from seatrial.results.model import ArrayEvent
from seatrial.trials.layouts.analysis.figures import FIGURES
from seatrial.trials.layouts.analysis.model import layouts_of
from seatrial.trials.layouts.report.figures import (
    figure_name,
    in_runs,
    layout_figures,
    line_names,
    numbers_sentence,
)
from seatrial.trials.layouts.report.phrases import array_marks, dips_of, event_text
from trials.layouts.report.layout_hand import SPECS, layout_summary


@pytest.fixture(scope="module")
def summary() -> Summary:
    return layout_summary()


@pytest.fixture(scope="module")
def document(summary: Summary) -> Node:
    page = render(summary)
    assert len(page.encode()) <= BYTES_MAX
    return read(page)


@pytest.fixture(scope="module")
def chart(summary: Summary) -> Figure:
    (drawn,) = layout_figures(layouts_of(summary))
    return drawn


def test_the_section_is_among_the_chapters(document: Node):
    links = [link.text for link in document.one("nav").all("a")]
    assert links[links.index("Findings") + 1] == "Layouts"


def test_figures_are_named_as_in_the_article(chart: Figure):
    labels = [view.label for view in chart.views]
    assert "Fig 3: random 8 KiB, 1 thread, against number of drives" in labels
    assert "Fig 6: random bandwidth against block size and threads: RAID0, 4 drives" in labels
    assert "Fig 30: RAID5, random writes of 10 threads" in "; ".join(labels)
    assert {view.group for view in chart.views} >= {
        "Against the number of drives",
        "Against the block size",
    }


def test_each_figure_has_lines_with_their_doubt(chart: Figure):
    for view in chart.views:
        points = [point for panel in view.panels for line in panel.lines for point in line.points]
        assert points, view.label
        assert all(point.low <= point.y <= point.high for point in points), view.label


def test_where_more_drives_give_no_more_is_circled(summary: Summary, chart: Figure):
    (view,) = [view for view in chart.views if view.label.startswith("Fig 5:")]
    reads = next(panel for panel in view.panels if panel.title == "Reads")
    by_name = {ring.name.partition(",")[0]: ring for ring in reads.rings}
    assert by_name["raid0"].x == 6  # 900 MB/s of the controller are six drives' 160
    drawn = next(each for each in layouts_of(summary).figures if each.number == 5)
    line = next(each for each in drawn.lines if each.operation == "read")
    assert by_name["raid0"].text == line.saturation.sentence


def test_lines_bear_what_distinguishes_them(summary: Summary):
    drawn = next(each for each in layouts_of(summary).figures if each.number == 6)
    assert set(line_names(drawn).values()) == {"1 thread", "10 threads"}
    (only,) = line_names(msgspec.structs.replace(drawn, lines=drawn.lines[:1])).values()
    assert only == "1 thread"


def test_of_too_many_cells_the_fastest_layouts_have_charts(summary: Summary):
    assert charted_part(summary, len(summary.cells)) is summary
    assert left_out(summary, summary) == ""
    charted = charted_part(summary, 20)
    drawn = {part.cell.target for part in charted.cells}
    assert len(charted.cells) <= 20
    assert layouts_of(summary).best[0].target in drawn
    reported = left_out(summary, charted)
    assert f"Charts of all {len(SPECS)} targets" in reported
    assert all(target in reported for target in drawn)
    assert charted_part(summary, 1).cells  # one target is drawn, however many cells it has


def test_what_the_run_has_no_cells_for_is_reported_in_one_line(summary: Summary, document: Node):
    had = {each.number for each in layouts_of(summary).figures} - {0}
    absent = sorted({each.number for each in FIGURES} - had)
    reported = numbers_sentence(layouts_of(summary).figures)
    assert reported.endswith(f"missing: {in_runs(absent)}.")
    assert reported in document.one(id="layouts").text
    assert in_runs([1, 2, 3, 5, 7, 8]) == "1 to 3, 5, 7, 8"
    nothing_absent = [
        msgspec.structs.replace(layouts_of(summary).figures[0], number=each.number)
        for each in FIGURES
    ]
    assert numbers_sentence(nothing_absent) == "This run has all 31 figures of the article."


def test_figures_against_drives_are_in_tables(summary: Summary, document: Node):
    numbers = document.one(id="layout-numbers")
    captions = [table.one("caption").text for table in numbers.all("table")]
    expected = [
        figure_name(each) for each in layouts_of(summary).figures if each.against == "drives"
    ]
    assert captions == expected
    heads = [cell.text for cell in numbers.all("table")[0].all("th", scope="col")]
    assert heads[2:4] == ["2 drives", "4 drives"]


def test_a_failure_has_its_timeline_and_what_came_of_it(document: Node):
    failures = document.one(id="failures")
    reported = failures.text
    for text in ("During rebuild", "Time without redundancy", "Data at risk", "drive failed"):
        assert text in reported
    (timeline,) = [f for f in embedded(document)["figures"] if f["kind"] == "timeline"]
    panels = [panel["title"] for panel in timeline["views"][0]["timeline"]["panels"]]
    assert panels == [
        "Requests per second (IOPS)", "Response time", "Rebuilt", "Drives missing",
    ]  # fmt: skip
    marks = timeline["views"][0]["timeline"]["marks"]
    assert [mark[2] for mark in marks].count("event") == 5
    assert {mark[2] for mark in marks} == {"event", "dip"}
    assert "scrub started at 61.5 s" in timeline["views"][0]["notes"][0]
    rows = document.one(id=timeline["table"]).one("tbody").all("tr")
    assert len(rows) == 60


def test_events_and_phases_in_words(summary: Summary):
    (recovery,) = layouts_of(summary).recoveries
    (part,) = [each for each in summary.cells if each.cell.key == recovery.cell.key]
    sample = part.samples[0]
    assert array_marks(sample)[0].text == "drive failed at 20 s: /dev/disk2 of leg 1"
    dips = dips_of(sample)
    assert [(dip.start_s, dip.end_s) for dip in dips] == [(20.0, 20.4), (20.4, 38.0)]
    assert dips[0].text.startswith("degraded for 400 ms from 20 s")
    bare = ArrayEvent(at_s=3.0, what="array_failed")
    assert event_text(bare) == "array failed at 3 s"
    healthy = msgspec.structs.replace(sample, layout=None)
    assert (array_marks(healthy), dips_of(healthy)) == ([], [])


def test_commands_and_drives_of_each_layout_are_folded(document: Node):
    variants = document.one(id="layouts").all("details", class_="variant")
    assert len(variants) == len(SPECS)
    first = variants[0].text
    assert "mdadm --create /dev/md/seatrial-raid0-2 --level=raid0" in first
    assert "/dev/disk2" in first
    assert "leg 1" in first


def test_what_is_not_aligned_is_reported(document: Node):
    items = [item.text for item in document.one(id="layouts").all("li")]
    assert "raid0-6: The stripe begins 1 KiB into a chunk." in items


def test_a_run_without_layouts_has_no_such_section(summary: Summary):
    cells = [
        msgspec.structs.replace(
            part, samples=[msgspec.structs.replace(s, layout=None) for s in part.samples]
        )
        for part in summary.cells[:2]
    ]
    plain = with_analyses(summary, cells=cells, layouts=None, findings=[], audits=[])
    assert read(render(plain)).all(id="layouts") == []
