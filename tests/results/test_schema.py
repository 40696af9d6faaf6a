"""An older file is brought up to date, all of it or nothing, and read without being changed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest

from results.builders import (
    make_cell,
    make_database_sample,
    make_record,
    make_run,
    make_sample,
    make_series,
)
from results.replay_records import make_replay_record, make_replay_sample
from seatrial.errors import ResultsFileError
from seatrial.results import rows, schema
from seatrial.results.fleet import FleetRecord
from seatrial.results.model import StartRecord
from seatrial.results.replay import ReplayContent
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


def file_of_version(path: Path, version: int) -> None:
    """Write a file as the version wrote it that knew so many migrations, with one sample."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statements in schema.MIGRATIONS[:version]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    rows_of = {"run": [rows.run_columns(make_run())]}
    rows_of["cell"] = [rows.cell_columns(RUN_ID, make_cell()) | {"id": 1}]
    rows_of["sample"] = [rows.sample_columns(1, make_sample()) | {"id": 1}]
    for table, columns in rows.part_columns(make_sample()):
        rows_of.setdefault(table, []).append(columns | {"sample_id": 1})
    for table, all_columns in rows_of.items():
        known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for columns in all_columns:
            own = {name: value for name, value in columns.items() if name in known}
            places = ", ".join(f":{name}" for name in own)
            statement = f"INSERT INTO {table} ({', '.join(own)}) VALUES ({places})"
            connection.execute(statement, own)
    connection.close()


@pytest.mark.parametrize("version", [1, 2, 4])
def test_files_of_earlier_versions_are_read_and_gone_on_with(tmp_path, version):
    path = tmp_path / "older.seatrial"
    file_of_version(path, version)
    before = path.read_bytes()
    with ResultsFile.open(path, read_only=True) as file:
        (old,) = file.samples(RUN_ID)
    assert path.read_bytes() == before
    assert (old.series, old.database, old.layout, old.replay) == (None, None, None, None)
    assert old.operations == make_sample().operations
    with ResultsFile.open(path) as file:
        file.add_sample(RUN_ID, make_database_sample(index=1))
        file.add_sample(RUN_ID, make_replay_sample(index=2))
    with ResultsFile.open(path, read_only=True) as file:
        first, second, third = file.samples(RUN_ID)
    assert first == old
    assert (second.replay, third.replay) == (None, make_replay_record())
    assert second.database == make_record()
    assert second.series == make_series()
    assert state(path)[0] == len(schema.MIGRATIONS)


def test_hosts_that_were_to_take_part_are_read_under_their_former_name(path):
    record = FleetRecord(
        hosts=[],
        planned_hosts=3,
        on_loss="stop",
        skew_ns=1,
        skew_bound_ns=2,
        unaligned_ns_max=3,
        outside_completed=4,
    )
    former = msgspec.json.encode(record).replace(b"planned_hosts", b"asked_hosts").decode()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE sample SET fleet_json = ?", [former])
    connection.execute("PRAGMA user_version = 10")
    connection.close()
    with ResultsFile.open(path, read_only=True) as file:
        assert file.samples(RUN_ID)[0].fleet == record


def test_renamed_keys_and_counters_are_read_under_their_former_names(path):
    replay = make_replay_record(content=ReplayContent(duration_s=2.0))
    database = make_record(start=StartRecord(duration_s=3.0))
    former_replay = json.loads(msgspec.json.encode(replay))
    order, content = former_replay["order"], former_replay["content"]
    order |= {"held": order.pop("delayed"), "held_by": order.pop("delayed_by")}
    content["looked_s"] = content.pop("duration_s")
    former_database = json.loads(msgspec.json.encode(database))
    former_database["start"]["looked_s"] = former_database["start"].pop("duration_s")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(
        "UPDATE sample SET replay_json = ?, database_json = ?",
        [json.dumps(former_replay), json.dumps(former_database)],
    )
    connection.execute("INSERT INTO counter SELECT id, 'guard_rest_ns', 7.0 FROM sample")
    connection.execute("PRAGMA user_version = 11")
    connection.close()
    with ResultsFile.open(path, read_only=True) as file:
        (sample,) = file.samples(RUN_ID)
    assert (sample.replay, sample.database) == (replay, database)
    assert sample.counters["recovery_idle_ns"] == 7.0


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
