"""`seatrial runs`, `report --all`, and notes in `list` and `show`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import seatrial
from report.index_sample import RATES, store_runs
from report.json_schema import assert_published
from seatrial.results.store import ResultsFile


def validated(document):
    assert_published(document)
    return document


@pytest.fixture
def folder(tmp_path):
    with ResultsFile.open(tmp_path / "results.seatrial", create=True) as file:
        store_runs(file, RATES[:2])
    return tmp_path


def runs_in(folder: Path, name: str = "results.seatrial"):
    with ResultsFile.open(folder / name, read_only=True) as file:
        return file.runs()


def test_a_run_is_renamed_and_annotated(folder):
    ended = seatrial("runs", "rename", "last", "baseline", folder=folder)
    assert (ended.code, ended.out) == (0, "20261102-074500-0001: label 'baseline', before ''\n")
    ended = seatrial("runs", "annotate", "baseline", "firmware 1.4", "--json", folder=folder)
    assert validated(ended.document)["action"] == "annotate"
    assert (runs_in(folder)[0].label, runs_in(folder)[0].note) == ("baseline", "firmware 1.4")
    assert "firmware 1.4" in seatrial("list", folder=folder).out
    assert "Note:   firmware 1.4" in seatrial("show", "baseline", folder=folder).out
    listed = validated(seatrial("list", "--json", folder=folder).document)
    assert [run["note"] for run in listed["runs"]] == ["firmware 1.4", ""]


@pytest.mark.parametrize("label", ["two\nlines", "\x1b[31m", "x" * 101])
def test_a_label_that_no_table_can_show_is_refused(folder, label):
    ended = seatrial("runs", "rename", "last", label, folder=folder)
    assert (ended.code, runs_in(folder)[0].label) == (2, "")


def test_runs_are_deleted_only_when_that_is_confirmed(folder):
    ended = seatrial("runs", "delete", "last", folder=folder)
    assert (ended.code, len(runs_in(folder))) == (2, 2)
    assert "--yes" in ended.err
    ended = seatrial("runs", "delete", "last", "night 1", "--yes", "--json", folder=folder)
    assert (ended.code, runs_in(folder)) == (0, [])
    assert validated(ended.document)["run_ids"] == ["20261102-074500-0001", "20261101-074500-0000"]


def test_runs_of_another_file_are_merged(folder):
    ended = seatrial("runs", "merge", "results.seatrial", "--results", "all.db", folder=folder)
    assert (ended.code, len(runs_in(folder, "all.db"))) == (0, 2)
    again = ("runs", "merge", "results.seatrial", "--results", "all.db")
    assert seatrial(*again, folder=folder).code == 5
    ended = seatrial(*again, "--skip-existing", "--json", folder=folder)
    assert (ended.code, len(validated(ended.document)["left_out_ids"])) == (0, 2)
    assert seatrial("runs", "merge", "absent.db", folder=folder).code == 7


def test_an_index_is_written_where_it_is_wanted(folder):
    ended = seatrial("report", "--all", "--output", "public", "--json", folder=folder)
    document = validated(ended.document)
    assert document["path"] == "public/index.html"
    assert all((folder / path).is_file() for path in document["pages"].values())
    ended = seatrial("report", "--all", "--output", "public", folder=folder)
    assert ended.out.endswith("0 pages written, 3 up to date.\n")
    graded = ("report", "--all", "--output", "public", "--profile", "oltp")
    assert seatrial(*graded, folder=folder).out.endswith("2 pages written, 1 up to date.\n")
    assert seatrial(*graded, folder=folder).out.endswith("0 pages written, 3 up to date.\n")
    page = (folder / "public" / "20261102-074500-0001.html").read_text()
    (folder / "public" / "20261102-074500-0001.html").unlink()
    assert "1 page written" in seatrial(*graded, folder=folder).out
    assert "<h1>" not in page
    assert "OLTP" in page[page.index("<h1 class=") :].partition("</h1>")[0]
    ended = seatrial("report", "last", "--all", folder=folder)
    assert ended.code == 2
    assert ended.err.startswith("seatrial: --all was given together")
