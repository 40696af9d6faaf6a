"""An imported run says where its figures come from, and shows no machine that nobody knows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from report.page_reader import Node, read
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.fingerprint import Fingerprint, Machine
from seatrial.importers import read_results
from seatrial.report.exports import export
from seatrial.report.page import render
from seatrial.report.table import as_text
from seatrial.report.tables import tables
from seatrial.trials.audit.analysis.model import audits_of

FILE = Path(__file__).parent / "bm-flash-2009-raid5.txt"


@pytest.fixture(scope="module")
def summary() -> Summary:
    found = read_results(FILE)
    return summarise(found.run, found.samples)


@pytest.fixture(scope="module")
def document(summary: Summary) -> Node:
    return read(render(summary))


def test_the_source_stands_in_place_of_machine_and_study(document: Node):
    reported = document.one(id="origin").text
    assert "bm-flash-2009-raid5.txt" in reported
    assert "printed tables of bm-flash" in reported
    assert "4 tests listed without a figure, not shown as measured" in reported
    assert "bm-flash reports neither latencies" in reported
    assert document.all(id="machine") == []
    assert document.all(id="study") == []
    links = [link.text for link in document.one("nav").all("a")]
    assert links[-1] == "Origin"
    assert not {"Machine", "Study"} & set(links)


def test_a_fingerprint_that_came_along_is_shown(summary: Summary):
    run = msgspec.structs.replace(
        summary.run, fingerprint_before=Fingerprint(machine=Machine(kernel="6.1"))
    )
    document = read(render(msgspec.structs.replace(summary, run=run)))
    assert "6.1" in document.one(id="machine").text


def test_the_head_claims_no_time_and_no_requests_that_nobody_counted(document: Node):
    reported = document.one("header").text
    assert "Measured 81 tests, one round" in reported
    assert "requests" not in reported
    assert "longest stall? not measuredstalls unknown" in reported
    assert "Started" not in reported
    assert "Imported from" in reported


def test_absent_cells_are_absent_in_every_table(summary: Summary, document: Node):
    [writes] = [table for table in tables(summary) if table.title.endswith(": write")]
    assert as_text(writes).count("absent") == 4
    assert "not measured" not in as_text(writes)
    assert export(summary, "markdown").count("| absent |") >= 4
    assert document.one(id="table-matrix").text.count("absent") >= 4


def test_the_gaps_of_the_article_are_circled(summary: Summary, document: Node):
    gaps = document.one(id="figure-matrix-iops").one("ol", class_="gaps").all("li")
    assert len(gaps) == 3
    assert any("8 tests" in gap.text for gap in gaps)
    assert {gap.kind for audit in audits_of(summary) for gap in audit.gaps} == {
        "start_transient", "collapse", "absent",
    }  # fmt: skip


def test_markdown_says_what_the_tables_say(summary: Summary):
    reported = export(summary, "markdown")
    assert "## Models and gaps" in reported
    assert "62,700 to 63,400" in reported
    assert "Writes from 64 KiB to 1 MiB collapse" in reported
