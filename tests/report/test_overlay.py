"""The model's lines, absent cells and circles on the charts of rates, and what is said of them."""

from __future__ import annotations

import msgspec
import pytest

from report.page_reader import read
from seatrial.report.answer_text import answer_text
from seatrial.report.figures.model import View
from seatrial.report.page import render
from seatrial.trials.audit.analysis.model import Parameter, audits_of
from seatrial.trials.audit.report.page import audit_answer
from seatrial.trials.audit.report.section import (
    audit_tables,
    cells_table,
    parameter_name,
    parameter_text,
    parameters_table,
)
from seatrial.trials.io.report.figures import figures_of
from seatrial.units import KIB
from trials.audit.report.audit_hand import (
    COLLAPSED,
    article_cells,
    article_summary,
    key_of,
    make_audit,
    make_gap,
    make_table,
    printed,
)

SUMMARY = article_summary()
FIGURES = {f.id: f for f in figures_of(SUMMARY.cells, audits=audits_of(SUMMARY))}
FACTORS = {"matrix-iops": lambda size: 1, "matrix-bandwidth": lambda size: size}


def view_of(name: str = "matrix-iops") -> View:
    [view] = FIGURES[name].views
    return view


def panel_of(operation: str, name: str = "matrix-iops"):
    [panel] = [p for p in view_of(name).panels if p.title.lower() == operation]
    return panel


def line_name(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


@pytest.mark.parametrize("name", list(FACTORS))
@pytest.mark.parametrize("operation", ["read", "write"])
def test_the_model_is_drawn_at_every_cell_absent_ones_too(operation: str, name: str):
    [audit] = [a for a in audits_of(SUMMARY) if a.table.operation == operation]
    drawn = {
        (line.of, point.x): (point.y, point.low, point.high)
        for line in panel_of(operation, name).lines
        if line.look == "model"
        for point in line.points
    }
    assert len(drawn) == 42
    for point in audit.table.points:
        said, factor = audit.predictions[point.key], FACTORS[name](point.block_size_bytes)
        assert drawn[line_name(point.threads), point.block_size_bytes] == pytest.approx(
            (said.iops * factor, said.low * factor, said.high * factor)
        )


@pytest.mark.parametrize("name", list(FACTORS))
def test_circles_stand_around_the_gaps_and_nothing_else(name: str):
    rings = {
        (panel.title, ring.name, ring.x): (ring.label, ring.y)
        for panel in view_of(name).panels
        for ring in panel.rings
    }
    reads, writes, factor = printed("read"), printed("write"), FACTORS[name]
    expected = {
        ("Read", line_name(threads), 512): ("1", reads[512, threads] * factor(512))
        for threads in (1, 10)
    }
    for size, threads in COLLAPSED:
        place = size * KIB
        expected["Write", line_name(threads), place] = ("2", writes[place, threads] * factor(place))
    for size, threads in ((256, 40), (512, 10), (512, 40), (1024, 40)):
        expected["Write", line_name(threads), size * KIB] = ("3", None)
    assert rings == expected


def test_absent_cells_are_marked_and_have_no_measured_point():
    panel = panel_of("write")
    absent = {(mark.name, mark.x) for mark in panel.feet}
    assert absent == {
        ("40 threads", 256 * KIB), ("10 threads", 512 * KIB), ("40 threads", 512 * KIB),
        ("40 threads", 1024 * KIB),
    }  # fmt: skip
    measured = {
        (line.name, point.x) for line in panel.lines if not line.of for point in line.points
    }
    assert not absent & measured
    assert panel.feet[0].text == "absent"
    assert not panel_of("read").feet


def test_there_is_room_below_the_lowest_figure_for_two_rows_of_marks():
    axis = panel_of("write").y
    lowest = min([*printed("read").values(), *printed("write").values()])
    assert axis.low < lowest / 4


def test_gaps_are_reported_in_order_with_how_often_they_were_seen():
    gaps = view_of().gaps
    assert len(gaps) == 3
    assert gaps[0].startswith("512 B with 1 and 10 threads did 24 and 28k IOPS")
    assert "(seen once). They are the first cells" in gaps[0]
    assert gaps[1].startswith("8 cells from 64 KiB to 1 MiB collapse")
    assert view_of().title.endswith("; 3 gaps are circled")


def test_the_note_says_how_good_the_models_are():
    [note] = view_of().notes
    assert "reads (median error 0.5 %, 1 % in cross-validation)" in note


def test_a_cell_that_was_not_measured_is_hollow_and_never_a_measured_point():
    table = make_table("read")
    unmeasured = {key_of("read", 4096, 10), key_of("read", 8192, 10)}
    points = [
        msgspec.structs.replace(point, iops=None, rounds_per_s=[], measured=False)
        if point.key in unmeasured
        else point
        for point in table.points
    ]
    audit = make_audit("read", table=msgspec.structs.replace(table, points=points))
    cells = [part for part in article_cells() if part.cell.key not in unmeasured]
    figure = figures_of(cells, audits=[audit])[0]
    lines = figure.views[0].panels[0].lines
    [prediction] = [line for line in lines if line.look == "predicted"]
    assert (prediction.name, prediction.of) == ("predicted, not measured", "10 threads")
    assert [point.x for point in prediction.points] == [4096, 8192]
    [measured] = [line for line in lines if line.name == "10 threads"]
    assert not {4096, 8192} & {point.x for point in measured.points}
    assert figure.views[0].panels[0].feet == []
    rows = cells_table(audit).rows
    assert [row[2] for row in rows if row[:2] == ["4 KiB", "10"]] == ["not measured"]


def test_where_no_model_holds_there_are_circles_but_no_lines_of_it():
    audit = make_audit(
        "read", form="none", holds=False, predictions={}, parameters=[], error_share_median=None
    )
    [view] = figures_of(article_cells(), audits=[audit])[0].views
    assert {line.look for panel in view.panels for line in panel.lines} == {"measured"}
    assert len(view.panels[0].rings) == 2
    assert view.notes == []
    assert parameters_table(audit).rows == []
    assert cells_table(audit).rows[0][4:7] == ["–", "–", "–"]


def test_a_line_of_which_every_cell_is_absent_is_marked_under_its_own_name():
    cells = [part for part in article_cells() if part.cell.threads == 1]
    table = make_table("read")
    points = [
        point if point.threads == 1 else msgspec.structs.replace(point, iops=None, rounds_per_s=[])
        for point in table.points
        if point.threads in (1, 10)
    ]
    gap = make_gap("absent", "read", [(p.block_size_bytes, 10) for p in points if not p.iops])
    audit = make_audit("read", table=msgspec.structs.replace(table, points=points), gaps=[gap])
    panel = figures_of(cells, audits=[audit])[0].views[0].panels[0]
    assert {mark.name for mark in panel.feet} == {"10 threads"}
    assert len(panel.feet) == len(panel.rings) == 14


def test_the_table_says_observed_predicted_ratio_class_and_status():
    rows = cells_table(make_audit("write")).rows
    assert len(rows) == 42
    [row] = [row for row in rows if row[:2] == ["512 KiB", "1"]]
    assert row == ["512 KiB", "1", "6.0", "(1 round)", "220", "± 11 %", "0.028x",
                   "collapse", "seen once"]  # fmt: skip
    [row] = [row for row in rows if row[:2] == ["512 KiB", "40"]]
    assert row[2:4] == ["absent", "–"]
    assert row[6:] == ["–", "absent", "seen once"]
    gaps = cells_table(make_audit("write"), gaps_only=True)
    assert len(gaps.rows) == 12
    assert gaps.title == "Gaps: Random writes, matrix on array"


def test_parameters_bear_interval_and_meaning_or_say_that_they_are_not_determined():
    rows = parameters_table(make_audit()).rows
    assert rows[0] == [
        "host cost per I/O", "15.9 µs", "15.7 µs to 16.1 µs",
        "Host cost per I/O: 15.9 µs, which limits any drives to 62,800 IOPS.",
    ]  # fmt: skip
    assert rows[1][:3] == ["bandwidth ceiling", "1,740 MiB/s", "1,730 MiB/s to 1,740 MiB/s"]
    assert rows[2] == ["queue", "7.7", "not determined by this table", "–"]


@pytest.mark.parametrize(
    ("name", "unit", "words", "text"),
    [
        ("setup_us_per_mib", "us/MiB", "setup", "150 µs/MiB"),
        ("store_forward_kib", "KiB", "store forward", "600 KiB"),
        ("serial_ratio", "ratio", "serial", "1.1"),
    ],
)
def test_every_unit_of_a_parameter_has_its_words(name: str, unit: str, words: str, text: str):
    value = {"us/MiB": 149.0, "KiB": 596.0, "ratio": 1.06}[unit]
    parameter = Parameter(name=name, value=value, low=None, high=None, unit=unit, sentence="")
    assert parameter_name(name) == words
    assert parameter_text(parameter) == text


def test_each_tile_names_its_table_in_words():
    labels = [each.label for each in audit_answer(SUMMARY, ()).tiles]
    assert "reads: host cost per I/O" in labels
    assert len(labels) == len(set(labels))


def test_of_several_targets_each_tile_names_its_own_also_on_a_terminal():
    first = SUMMARY.cells[0]
    other = msgspec.structs.replace(first.cell, target="other")
    cells = [*SUMMARY.cells, msgspec.structs.replace(first, cell=other)]
    found = audit_answer(msgspec.structs.replace(SUMMARY, cells=cells), ())
    assert all(each.label.startswith(f"{first.cell.target}: ") for each in found.tiles)
    long = [
        msgspec.structs.replace(each, label=f"second-of-two-{each.label}") for each in found.tiles
    ]
    lines = answer_text(msgspec.structs.replace(found, tiles=long), 80, colour=False)
    assert f" second-of-two-{first.cell.target}: reads: host cost per I/O  " in lines


def test_the_page_says_it_without_scripts():
    document = read(render(SUMMARY))
    section = document.one(id="audits")
    assert [part.text for part in section.all("h3")] == [
        "Random reads, matrix on array", "Random writes, matrix on array",
    ]  # fmt: skip
    assert "which limits any drives to 62,800 IOPS" in section.text.replace("\u00a0", " ")
    assert "Of blocks below 512 B and above 4 MiB it says nothing." in section.text
    assert [part.attributes["start"] for part in section.all("ol")] == ["1", "2"]
    assert len(section.all("table")[1].one("tbody").all("tr")) == 42
    caption = document.one(id="figure-matrix-iops").one("figcaption")
    assert len(caption.one("ol", class_="gaps").all("li")) == 3
    assert [link.text for link in document.one("nav").all("a")][:4] == [
        "Contents", "Key charts", "Findings", "Models and gaps",
    ]  # fmt: skip


def test_a_run_without_an_audit_has_no_such_part():
    document = read(render(article_summary(audits=[])))
    assert document.all(id="audits") == []
    assert "Models and gaps" not in document.one("nav").text
    assert "hidden" in document.one(id="figure-matrix-iops").one("ol", class_="gaps").attributes


def test_tables_of_audits_leave_out_what_is_empty():
    names = [table.id.partition("-")[0] for table in audit_tables([make_audit(gaps=[])])]
    assert names == ["parameters"]
