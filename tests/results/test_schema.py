"""An older file is brought up to date, all of it or nothing, and read without being changed."""

from __future__ import annotations

import sqlite3

import pytest

from results.builders import make_run, make_sample
from seatrial.errors import ResultsFileError
from seatrial.results import schema
from seatrial.results.store import ResultsFile

RUN_ID = "20261121-074500-3fa2"
LATER = ("ALTER TABLE run ADD COLUMN host TEXT NOT NULL DEFAULT 'unknown'",)
BROKEN = ("ALTER TABLE run ADD COLUMN host TEXT", "ALTER TABLE absent ADD COLUMN host TEXT")


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "results.db"
    with ResultsFile.open(place, create=True) as file:
        file.start_run(make_run())
        file.add_sample(RUN_ID, make_sample())
    return place


def state(path) -> tuple[int, list[str]]:
    plain = sqlite3.connect(path)
    version = schema.version(plain)
    columns = [row[1] for row in plain.execute("PRAGMA table_info(run)")]
    plain.close()
    return version, columns


def inject(monkeypatch, statements: tuple[str, ...]) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, statements))


def test_a_new_file_bears_our_mark_and_version(path):
    head = path.read_bytes()[:100]
    assert head[68:72] == b"SEAT"
    assert int.from_bytes(head[60:64], "big") == len(schema.MIGRATIONS)


def test_an_older_file_is_migrated_when_it_is_opened_for_writing(path, monkeypatch):
    before, _ = state(path)
    inject(monkeypatch, LATER)
    with ResultsFile.open(path) as file:
        assert len(file.samples(RUN_ID)) == 1
        file.add_sample(RUN_ID, make_sample(index=1))
    after, columns = state(path)
    assert (after, columns[-1]) == (before + 1, "host")


def test_an_older_file_is_read_without_being_changed(path, monkeypatch):
    inject(monkeypatch, LATER)
    before = path.read_bytes()
    with ResultsFile.open(path, read_only=True) as file:
        assert [run.id for run in file.runs()] == [RUN_ID]
        assert len(file.samples(RUN_ID)) == 1
        with pytest.raises(ResultsFileError, match="cannot be written"):
            file.start_run(make_run("another"))
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, monkeypatch):
    before = state(path)
    inject(monkeypatch, BROKEN)
    with pytest.raises(ResultsFileError, match="absent"):
        ResultsFile.open(path)
    assert state(path) == before


def test_a_file_that_is_up_to_date_is_not_touched(path):
    before = path.read_bytes()
    connection = sqlite3.connect(path, isolation_level=None)
    schema.migrate(connection)
    connection.close()
    assert state(path)[0] == len(schema.MIGRATIONS)
    with ResultsFile.open(path, read_only=True) as file:
        assert len(file.samples(RUN_ID)) == 1
    assert len(path.read_bytes()) == len(before)
