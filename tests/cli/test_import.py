"""Foreign results through the command line: stored, shown, exported, reported; or refused."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest

from importers.fio_runs import document, fio, job
from importers.published import BLANKS, PRINTS, TABLE
from report.json_schema import assert_published
from results.builders import make_run, make_sample
from seatrial.report.exports import FORMATS
from seatrial.results.store import ResultsFile

from .command import seatrial

RAID5 = PRINTS["raid5-4ssd-1controller"]
SPOILED = {
    "interrupted",
    "noisy_machine",
    "generator_limited",
    "changed_meanwhile",
    "not_repeatable",
    "nothing_completed",
    "slower_at_end",
    "kernel_errors",
    "temperature",
}
"""Findings about how a run of ours was measured: an imported one has nothing to say of them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder whose results file holds a print of bm-flash, a CSV table and a run of fio."""
    place = tmp_path_factory.mktemp("imported")
    foreign = fio(
        place, "--name=a", "--rw=randread", "--size=4m", "--runtime=300ms", "--time_based"
    )
    for file, label in ((RAID5, "raid5"), (TABLE, "table"), (foreign, "fio")):
        ended = seatrial("import", file, "--label", label, folder=place)
        assert (ended.code, ended.err) == (0, ""), ended.err
        assert "Stored as run" in ended.out
    return place


def test_an_import_prints_where_it_comes_from_and_its_tables(folder):
    shown = seatrial("show", "raid5", "--tables", folder=folder)
    assert "Imported from bm-flash-2009-raid5.txt (bm-flash, bm-flash)." in shown.out
    assert f"{len(BLANKS)} of its tests are blank." in shown.out
    assert "Block size" in shown.out
    assert "(1 round)" in shown.out


@pytest.mark.parametrize("label", ["raid5", "table", "fio"])
def test_every_command_takes_an_imported_run(folder, label):
    document_ = seatrial("show", label, "--json", folder=folder).document
    assert_published(document_)
    assert document_["run"]["status"] == "complete"
    assert not SPOILED & {finding["kind"] for finding in document_["findings"]}
    page = folder / f"{label}.html"
    assert seatrial("report", label, "--output", page, folder=folder).code == 0
    assert "<table" in page.read_text(encoding="utf-8")
    assert label in seatrial("list", folder=folder).out


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("label", ["raid5", "fio"])
def test_every_export_takes_an_imported_run(folder, label, name):
    ended = seatrial("export", label, "--format", name, folder=folder)
    if (label, name) == ("fio", "bm-flash"):
        assert ended.code == 2
        assert "no random matrix" in ended.err
    else:
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.strip()


def test_the_same_file_is_not_stored_twice(folder):
    ended = seatrial("import", RAID5, folder=folder)
    assert ended.code == 2
    assert "already contains this file" in ended.err
    assert len(seatrial("list", "--json", folder=folder).document["runs"]) == 3


def test_json_is_the_document_of_the_run(tmp_path):
    ended = seatrial("import", TABLE, "--json", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.document["kind"] == "run"
    assert len(ended.document["cells"]) == 164


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (json.dumps(document(job()))[:300], "incomplete or invalid"),
        ("Read Tests:\n\nBlock | 1 thread\n 4K | 12a 5.5M\n", "line 4, column '1 thread, IOPS'"),
        ("size,threads,iops\n4096,1,fast\n", "line 2, column 'iops'"),
        ("", "is empty"),
        ("\0\1\2", "is a binary file"),
        ("Dear reader,\n", "an unsupported format"),
        ('{"a": 1}\n', "an unsupported format"),
    ],
)
def test_a_bad_file_is_one_sentence_exit_code_2_and_nothing_written(tmp_path, content, named):
    place = tmp_path / "bad"
    place.write_text(content, encoding="utf-8")
    ended = seatrial("import", place, folder=tmp_path)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("seatrial: ")
    assert named in ended.err
    assert ended.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for name in ("absent", "."):
        ended = seatrial("import", name, folder=tmp_path)
        assert ended.code == 2
        assert "cannot be read" in ended.err


def test_an_import_is_stored_whole_or_not_at_all(tmp_path):
    place = tmp_path / "results.seatrial"
    seatrial("import", RAID5, folder=tmp_path)
    with ResultsFile.open(place, read_only=True) as store:
        (run,) = store.runs()
        samples = store.samples(run.id)
    with (
        ResultsFile.open(tmp_path / "other.seatrial", create=True) as store,
        pytest.raises(Exception, match="already has a sample"),
    ):
        store.add_run(run, [*samples, samples[0]])
    with ResultsFile.open(tmp_path / "other.seatrial", read_only=True) as store:
        assert store.runs() == []


def test_declared_hardware_is_stored_with_the_run(tmp_path):
    declared = ("--drives", "4", "--link", "sata2", "--label", "raid5")
    ended = seatrial("import", RAID5, *declared, folder=tmp_path)
    assert ended.code == 0, ended.err
    again = seatrial("show", "raid5", "--tables", folder=tmp_path)
    reported = " ".join(again.out.split())
    assert "but the drives' links saturate at 1,200 MB/s (4 links, SATA 3 Gb/s)" in reported


@pytest.fixture
def machines(tmp_path):
    """Results files of two other machines with a run each, and a third with both of these runs."""
    ids = ("20261121-074500-aaaa", "20261122-074500-bbbb")
    for name, chosen in (("a", ids[:1]), ("b", ids[1:]), ("both", ids)):
        with ResultsFile.open(tmp_path / f"{name}.seatrial", create=True) as store:
            for run_id in chosen:
                run = make_run(run_id, status="complete", label=run_id[-4:])
                store.add_run(run, [make_sample(index=number) for number in range(2)])
    return tmp_path


def runs_of(file: Path):
    with ResultsFile.open(file, read_only=True) as store:
        return [
            (run, [msgspec.structs.replace(sample, id=0) for sample in store.samples(run.id)])
            for run in store.runs()
        ]


def test_runs_of_results_files_are_imported_once(machines):
    ended = seatrial("import", "a.seatrial", "b.seatrial", folder=machines)
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[:2] for line in ended.out.splitlines()] == [
        ["Copied", "20261121-074500-aaaa"],
        ["Copied", "20261122-074500-bbbb"],
    ]
    assert runs_of(machines / "results.seatrial") == runs_of(machines / "both.seatrial")
    again = seatrial("import", "both.seatrial", "a.seatrial", folder=machines)
    assert (again.code, again.out) == (0, "Nothing to copy.\n3 runs were already there.\n")
    document_ = seatrial("import", "b.seatrial", "--json", folder=machines).document
    assert_published(document_)
    assert document_["left_out_ids"] == ["20261122-074500-bbbb"]
    assert runs_of(machines / "results.seatrial") == runs_of(machines / "both.seatrial")


def newer(place: Path) -> None:
    with sqlite3.connect(place) as file:
        file.execute("PRAGMA user_version = 999")
    file.close()


def damaged(place: Path) -> None:
    with sqlite3.connect(place) as file:
        file.execute("UPDATE sample SET timeline = x'0102' WHERE round = 1")
    file.close()


def truncated(place: Path) -> None:
    place.write_bytes(place.read_bytes()[:8192])


def foreign_database(place: Path) -> None:
    place.unlink()
    with sqlite3.connect(place) as file:
        file.execute("CREATE TABLE diary (day TEXT)")
    file.close()


@pytest.mark.parametrize(
    ("spoil", "code", "seen"),
    [
        (newer, 11, "has schema 999, newer than"),
        (damaged, 7, "is damaged"),
        (truncated, 7, "is damaged"),
        (foreign_database, 7, "is not a results file of Seatrial"),
    ],
)
def test_where_one_results_file_cannot_be_read_nothing_is_written(machines, spoil, code, seen):
    spoil(machines / "b.seatrial")
    ended = seatrial("import", "a.seatrial", "b.seatrial", folder=machines)
    assert (ended.code, ended.out) == (code, "")
    assert seen in ended.err
    assert not (machines / "results.seatrial").exists()


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("a.seatrial", TABLE), "is not a results file of Seatrial"),
        (("a.seatrial", "--label", "mine"), "A label or hardware was given"),
        (("a.seatrial", "--drives", "2", "--link", "sata3"), "A label or hardware was given"),
    ],
)
def test_results_files_are_not_mixed_or_described(machines, arguments, seen):
    ended = seatrial("import", *arguments, folder=machines)
    assert (ended.code, seen in ended.err) == (2, True), ended.err
    assert not (machines / "results.seatrial").exists()
