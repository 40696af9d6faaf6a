"""A notebook shows what the analysis found: audits, load lines and phases draw themselves."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import seatrial
from seatrial.importers import read_results
from seatrial.notebook import LoadLine, Run
from seatrial.results.store import ResultsFile
from trials.loadline.report.loadline_hand import make_load_line

PRINTED = Path(__file__).parents[3] / "report/bm-flash-2009-raid5.txt"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    found = read_results(PRINTED)
    place = tmp_path / "results.seatrial"
    with ResultsFile.open(place, create=True) as file:
        file.start_run(found.run)
        for sample in found.samples:
            file.add_sample(found.run.id, sample)
        file.finish_run(found.run.id, "complete", found.run.started_at, {})
    return seatrial.open(place).run()


def test_audits_are_typed_and_draw_themselves(run: Run):
    audits = run.summary.audits
    assert [audit.table.operation for audit in audits] == ["read", "write"]
    assert audits[0].parameters[1].value == pytest.approx(15.9, rel=0.01)
    drawn = audits[1]._repr_html_()
    assert audits[1].sentence in drawn
    assert "collapse" in drawn
    assert "Models and gaps" in audits._repr_html_()
    assert "Models and gaps" in run.summary._repr_html_()


def test_a_load_line_shows_its_answer_and_its_steps():
    line = make_load_line(sentence="<b>17k IOPS</b>")
    names = line.__struct_fields__
    drawn = LoadLine(**{name: getattr(line, name) for name in names})._repr_html_()
    assert "&lt;b&gt;17k IOPS" in drawn
    assert drawn.count("<tr>") == len(line.steps) + 1


def test_lists_that_are_empty_are_shown_too(run: Run):
    assert run.summary.load_lines == []
    assert "<table>" in run.summary.load_lines._repr_html_()
    assert "<table>" in run.summary.steady._repr_html_()


def test_nothing_of_the_analysis_is_lost_on_the_way(run: Run):
    found = msgspec.to_builtins(run.summary.audits)
    assert [len(audit["gaps"]) for audit in found] == [1, 2]
