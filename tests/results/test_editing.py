"""Runs are renamed, annotated, deleted and merged: all of it or nothing, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from results.builders import make_run, make_sample
from results.test_schema import file_of_version
from seatrial.errors import RefusedError, ResultsFileError
from seatrial.fingerprint import FingerprintAfter
from seatrial.results import rows
from seatrial.results.copying import bring_run, merge
from seatrial.results.store import ResultsFile

OLD, NEW = make_run().id, "20261122-080000-aaaa"
TABLES = ("run", "cell", "sample", *rows.PARTS)


def fill(file: ResultsFile, run_id: str, *, label: str = "", samples: int = 2) -> None:
    file.start_run(make_run(run_id, label=label))
    for index in range(samples):
        file.add_sample(run_id, make_sample(index=index))
    file.finish_run(run_id, "complete", 1_795_247_200.0, FingerprintAfter())


def rows_in(file: ResultsFile) -> dict[str, int]:
    counted = (f"SELECT count(*) FROM {table}" for table in TABLES)
    return dict(
        zip(TABLES, (file._connection.execute(each).fetchone()[0] for each in counted), strict=True)
    )


@pytest.fixture
def file(tmp_path):
    with ResultsFile.open(tmp_path / "results.seatrial", create=True) as opened:
        fill(opened, OLD, label="before")
        fill(opened, NEW, samples=1)
        yield opened


def test_a_label_changes_and_nothing_else(file):
    before, other = file.run(OLD), file.run(NEW)
    file.edit_run(OLD, label="baseline")
    after = file.run("baseline")
    assert after.edited_at is not None
    assert msgspec.structs.replace(after, edited_at=None) == msgspec.structs.replace(
        before, label="baseline"
    )
    assert file.run(NEW) == other


def test_a_note_is_kept_until_it_is_emptied(file):
    file.edit_run(NEW, note="after the firmware update\nsecond line")
    assert file.run(NEW).note == "after the firmware update\nsecond line"
    file.edit_run(NEW, label="x")
    assert file.run(NEW).note.startswith("after")
    file.edit_run(NEW, note="")
    assert (file.run(NEW).note, file.run(NEW).label) == ("", "x")


def test_an_unknown_run_is_not_edited(file):
    with pytest.raises(ResultsFileError, match="contains no run"):
        file.edit_run("20261122", note="x")


def test_a_run_that_is_measured_may_be_renamed_and_keeps_its_name(file):
    file.start_run(make_run("20261123-000000-bbbb"))
    file.edit_run("20261123-000000-bbbb", label="tonight")
    file.finish_run("20261123-000000-bbbb", "complete", 1.0, FingerprintAfter())
    assert file.run("tonight").status == "complete"


def test_a_deleted_run_leaves_no_row(file):
    one = rows_in(file)
    file.delete_runs([OLD])
    assert [run.id for run in file.runs()] == [NEW]
    left = rows_in(file)
    assert {table: left[table] for table in ("run", "cell", "sample", "operation")} == {
        "run": 1,
        "cell": 1,
        "sample": 1,
        "operation": 1,
    }
    assert one["sample"] == 3
    assert len(file.samples(NEW)) == 1
    file.delete_runs([NEW])
    assert not any(rows_in(file).values())


def test_deleting_gives_the_space_back(file):
    counters = {f"counter_{number}": 1.0 for number in range(5000)}
    file.add_sample(NEW, msgspec.structs.replace(make_sample(index=5), counters=counters))
    large = _pages(file)
    file.delete_runs([NEW])
    assert _pages(file) < large / 3
    assert len(file.samples(OLD)) == 2


def _pages(file: ResultsFile) -> int:
    return file._connection.execute("PRAGMA page_count").fetchone()[0]


def test_a_run_that_is_measured_is_not_deleted_nor_any_with_it(file):
    file.start_run(make_run("20261123-000000-bbbb"))
    with pytest.raises(RefusedError, match="is measuring the run 20261123"):
        file.delete_runs([OLD, "20261123-000000-bbbb"])
    assert len(file.runs()) == 3
    assert len(file.samples(OLD)) == 2


def test_runs_of_another_file_are_merged_once(file, tmp_path):
    with ResultsFile.open(tmp_path / "other.seatrial", create=True) as other:
        fill(other, "20261101-000000-cccc", label="theirs")
        other.edit_run("20261101-000000-cccc", note="from the lab bench")
        copied, left_out = merge([other], file)
        assert ([run.id for run in copied], left_out) == (["20261101-000000-cccc"], [])
        assert file.run("theirs").note == "from the lab bench"
        assert len(file.samples("20261101-000000-cccc")) == 2
        fill(other, "20261102-000000-dddd")
        with pytest.raises(RefusedError, match="already contains 1 of the 2 runs"):
            merge([other], file)
        assert all(run.id != "20261102-000000-dddd" for run in file.runs())
        copied, left_out = merge([other], file, skip_existing=True)
        assert [run.id for run in copied] == ["20261102-000000-dddd"]
        assert [run.id for run in left_out] == ["20261101-000000-cccc"]


def test_a_run_that_is_measured_is_not_merged(file, tmp_path):
    with ResultsFile.open(tmp_path / "other.seatrial", create=True) as other:
        fill(other, "20261101-000000-cccc")
        other.start_run(make_run("20261123-000000-bbbb"))
        with pytest.raises(RefusedError, match="is being measured"):
            merge([other], file)
    assert len(file.runs()) == 2


def test_a_run_brought_once_more_keeps_label_and_note(file, tmp_path):
    with ResultsFile.open(tmp_path / "lab.seatrial", create=True) as lab:
        fill(lab, OLD, samples=3)
        file.edit_run(OLD, label="mine", note="mine")
        brought = bring_run(lab, OLD, file)
    assert (brought.label, brought.note, len(file.samples(OLD))) == ("mine", "mine", 3)


@pytest.mark.parametrize("version", [1, 6])
def test_a_file_of_before_notes_can_be_annotated(tmp_path, version):
    path = tmp_path / "older.seatrial"
    file_of_version(path, version)
    with ResultsFile.open(path, read_only=True) as old:
        assert (old.run("last").note, old.run("last").edited_at) == ("", None)
    with ResultsFile.open(path) as older:
        older.edit_run(OLD, note="found in a drawer")
    with ResultsFile.open(path, read_only=True) as old:
        assert old.run("last").note == "found in a drawer"
        assert len(old.samples(OLD)) == 1
