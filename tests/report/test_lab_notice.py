"""A run of the lab says everywhere what of its figures holds, and no other run does."""

from __future__ import annotations

import json

import msgspec
import pytest
from click.testing import CliRunner

from report import json_schema
from report.exports_hand import make_cell, make_run, make_sample, make_summary, summarised
from report.page_reader import read
from seatrial.cli.outcome import run_text
from seatrial.cli.stored_runs import list_command
from seatrial.fingerprint import Fingerprint, Machine
from seatrial.report.exports import export
from seatrial.report.exports.json_document import runs_document
from seatrial.report.lab import LAB_NOTICE
from seatrial.report.page import render
from seatrial.results.store import ResultsFile

LAB = make_run(fingerprint_before=Fingerprint(machine=Machine(lab="user-mode Linux")))
OTHER = make_run(
    id="20261121-080000-77aa", fingerprint_before=Fingerprint(machine=Machine(kernel="6.1"))
)


@pytest.mark.parametrize(("run", "expected"), [(LAB, 1), (OTHER, 0)])
def test_page_terminal_and_exports_say_it_once(run, expected: int):
    cells = [summarised([make_sample(make_cell(), {"read": 2000})])]
    summary = msgspec.structs.replace(make_summary(cells, []), run=run)
    head = read(render(summary)).one("header")
    assert [part.text for part in head.all(class_="notice")] == [LAB_NOTICE] * expected
    assert run_text(summary).count(LAB_NOTICE) == expected
    assert export(summary, "markdown").count(f"> {LAB_NOTICE}") == expected
    document = json.loads(export(summary, "json"))
    assert document["notice"] == LAB_NOTICE * expected


def test_the_list_marks_the_runs_of_the_lab(tmp_path):
    place = tmp_path / "some.seatrial"
    with ResultsFile.open(place, create=True) as store:
        for run in (LAB, OTHER):
            store.add_run(run, [])
    reported = CliRunner().invoke(list_command, ["--results", str(place)]).output
    lines = {line.split()[0]: line.rstrip() for line in reported.splitlines() if line.strip()}
    assert lines[LAB.id].endswith("lab")
    assert lines[OTHER.id].endswith("–")
    assert reported.rstrip().endswith(LAB_NOTICE)
    document = json.loads(runs_document([LAB, OTHER]).as_text())
    assert document["notices"] == {LAB.id: LAB_NOTICE}
    json_schema.assert_published(document)
