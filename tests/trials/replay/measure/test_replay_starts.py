"""Every sample of a replay that writes begins with the same data, and that is looked at."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

import msgspec
import pytest

from postgres.programs import installed_programs
from seatrial.errors import TargetError
from seatrial.postgres.connection import connect
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.existing_database import run_restore
from seatrial.trials.database.measure.start_state import read_start_state
from seatrial.trials.replay.analysis.starts import start_differences
from trials.database.measure.trial import trial
from trials.replay.logging_server import MODES, LoggingServer, logging_server
from trials.replay.study.traces import read_csv

ROWS = {
    "public.pgbench_accounts": 100_000,
    "public.pgbench_branches": 1,
    "public.pgbench_history": 0,
    "public.pgbench_tellers": 10,
}
TRANSACTIONS = 50
STUDY = """
    name = "replays"
    [[target]]
    label = "here"
    {target}
    [[workload]]
    kind = "replay"
    trace = "{trace}"
    {more}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    with logging_server(tmp_path_factory.mktemp("source"), installed_programs()) as server:
        server.pgbench("--initialize", "--quiet", "--scale=1")
        yield server


@pytest.fixture(scope="module")
def trace(source: LoggingServer, tmp_path_factory) -> Path:
    """TPC-B by pgbench, captured."""
    with source.logging("tpcb", **MODES["log_min_duration"]):
        source.pgbench("--client=2", f"--transactions={TRANSACTIONS}", "--no-vacuum")
    return read_csv(source.log("tpcb", "csv"), tmp_path_factory.mktemp("traces") / "tpcb.trace")


@pytest.fixture
def standing(source: LoggingServer):
    """A database that is there already: a fresh copy of pgbench's tables, with a sequence."""
    run(source, "postgres", "CREATE DATABASE standing")
    with contextlib.closing(connect(source.server.address, dbname="standing")) as connection:
        connection.execute("CREATE SEQUENCE ids; CREATE TABLE counted AS SELECT 1 AS one")
    environment = source.server.address.with_dbname("standing")
    source.pgbench("--initialize", "--quiet", "--scale=1", environment.as_url())
    yield f'url = "{url(source, "standing")}"'
    run(source, "postgres", "DROP DATABASE standing WITH (FORCE)")


def run(source: LoggingServer, dbname: str, statement: str) -> None:
    with contextlib.closing(connect(source.server.address, dbname=dbname)) as connection:
        connection.execute(statement.encode())


def url(source: LoggingServer, dbname: str) -> str:
    address = source.server.address
    return f"postgresql://{address.user}@/{dbname}?host={address.host}"


def ask(source: LoggingServer, dbname: str, query: str) -> object:
    with contextlib.closing(connect(source.server.address, dbname=dbname)) as connection:
        return connection.execute(query.encode()).fetchone()[0]


def study(target: str, trace: Path, more: str) -> str:
    return STUDY.format(target=target, trace=trace, more=more)


def endpoints(source: LoggingServer, dbname: str) -> Endpoints:
    address = source.server.address.with_dbname(dbname)
    return Endpoints(addresses=[address], secret=None, binaries=source.binaries)


def test_copies_of_a_directory_begin_alike_in_each_schema(tmp_path, trace):
    place = tmp_path / "here"
    place.mkdir()
    (tmp_path / "new.sql").write_text("CREATE SEQUENCE added; DROP TABLE pgbench_history")
    schemas = '[[workload.schema]]\nname = "old"\n[[workload.schema]]\nname = "new"\n'
    more = f'scale = 1\n{schemas}migrate = "new.sql"'.replace("\n", "\n    ")
    with trial(tmp_path, study(f'path = "{place}"', trace, more)) as here:
        old, new = (cell for cell in here.plan.cells)
        samples = [here.measure_cell(cell, nth) for cell, nth in ((old, 0), (new, 0), (old, 1))]
    first, changed, second = (sample.database.start for sample in samples)
    assert first.rows == second.rows == ROWS
    assert first.sequences == second.sequences == {}
    assert first.checkpoint_lsn == second.checkpoint_lsn != ""
    assert first.restored in ("reflink", "copy")
    assert changed.rows == {
        name: rows for name, rows in ROWS.items() if name != "public.pgbench_history"
    }
    assert changed.sequences == {"public.added": 1}
    assert [sample.replay.errors.new for sample in (samples[0], samples[2])] == [0, 0]
    codes = {example.sqlstate: example.count for example in samples[1].replay.errors.examples}
    assert codes["42P01"] == 2 * TRANSACTIONS


def test_copies_of_a_database_leave_it_as_it_is(tmp_path, source, trace, standing):
    more = 'clone = "template"\n    start = "prewarmed"'
    with trial(tmp_path, study(standing, trace, more)) as here:
        samples = [here.measure("replay", round_number=nth) for nth in (0, 1)]
    first, second = (sample.database.start for sample in samples)
    assert first.rows == second.rows == ROWS | {"public.counted": 1}
    assert first.sequences == second.sequences == {"public.ids": 1}
    assert (first.restored, first.checkpoint_lsn) == ("template", "")
    assert [sample.replay.errors.new for sample in samples] == [0, 0]
    assert samples[0].database.start_state == "prewarmed"
    assert ask(source, "standing", "SELECT count(*) FROM pgbench_history") == 0
    assert ask(source, "postgres", "SELECT count(*) FROM pg_database WHERE datname ~ 'trial'") == 0


def test_a_command_restores_a_database_before_each_sample(tmp_path, source, trace, standing):
    restore = tmp_path / "restore.sh"
    psql = source.binaries.program("psql")
    restore.write_text(
        f'#!/bin/sh\nset -e\n{psql} -qX -v ON_ERROR_STOP=1 "$DATABASE_URL" '
        '-c "TRUNCATE pgbench_history" -c "UPDATE pgbench_accounts SET abalance = 0"\n'
    )
    restore.chmod(restore.stat().st_mode | stat.S_IXUSR)
    more = f'allow_writes = "standing"\n    restore = "{restore}"'
    with trial(tmp_path, study(standing, trace, more)) as here:
        samples = [here.measure("replay", round_number=nth) for nth in (0, 1)]
    first, second = (sample.database for sample in samples)
    assert first.start.rows == second.start.rows
    assert second.start.rows["public.pgbench_history"] == 0
    assert first.start.restored == first.cloned == "restore"
    assert first.cloned_s > 0
    assert not any("wrote" in note for note in second.notes)
    assert ask(source, "standing", "SELECT count(*) FROM pgbench_history") == 2 * TRANSACTIONS


def test_what_was_not_restored_shows(tmp_path, source, trace, standing):
    more = 'allow_writes = "standing"'
    with trial(tmp_path, study(standing, trace, more)) as here:
        starts = [here.measure("replay", round_number=nth).database.start for nth in (0, 1)]
    assert [start.rows["public.pgbench_history"] for start in starts] == [0, 2 * TRANSACTIONS]


def test_a_restore_that_leaves_what_was_updated_shows(tmp_path, source, trace, standing):
    psql = source.binaries.program("psql")
    restore = f'{psql} -qX "$DATABASE_URL" -c "TRUNCATE pgbench_history"'
    more = f"allow_writes = \"standing\"\n    restore = '{restore}'"
    with trial(tmp_path, study(standing, trace, more)) as here:
        samples = [here.measure("replay", round_number=nth) for nth in (0, 1)]
    assert samples[0].database.start.rows == samples[1].database.start.rows
    names = {
        difference.name
        for difference in start_differences(samples)
        if difference.what == "contents"
    }
    assert names == {f"public.pgbench_{name}" for name in ("accounts", "branches", "tellers")}


def test_a_restore_that_does_nothing_shows_where_tables_are_large(
    tmp_path, source, trace, standing, monkeypatch
):
    monkeypatch.setattr("seatrial.trials.database.measure.start_state.COUNTED_BYTES_MAX", 1)
    more = 'allow_writes = "standing"\n    restore = "true"'
    with trial(tmp_path, study(standing, trace, more)) as here:
        samples = [here.measure("replay", round_number=nth) for nth in (0, 1)]
    found = start_differences(samples)
    assert [each.what for each in found if each.what != "rows_estimated"] == ["restore"]


def test_a_database_that_is_written_to_between_its_copies_shows(
    tmp_path, source, trace, standing, monkeypatch
):
    monkeypatch.setattr("seatrial.trials.database.measure.start_state.COUNTED_BYTES_MAX", 1)
    with trial(tmp_path, study(standing, trace, 'clone = "template"')) as here:
        samples = [here.measure("replay", round_number=0)]
        run(source, "standing", "UPDATE pgbench_tellers SET tbalance = 1")
        samples.append(here.measure("replay", round_number=1))
    (found,) = start_differences(samples)
    assert (found.what, found.found - found.expected) == ("source", 10)


def test_contents_are_the_same_whatever_the_order_and_the_settings(source):
    run(source, "postgres", "CREATE TABLE IF NOT EXISTS odd (t text, at timestamptz, b bytea)")
    run(source, "postgres", "INSERT INTO odd VALUES ('a', now(), '\\x01'), ('b', NULL, NULL)")
    to = endpoints(source, "postgres")
    first = read_start_state(to, restored="").contents["public.odd"]
    run(source, "postgres", "ALTER DATABASE postgres SET timezone = 'Asia/Tokyo'")
    run(source, "postgres", "UPDATE odd SET t = t WHERE t = 'a'")
    assert read_start_state(to, restored="").contents["public.odd"] == first
    run(source, "postgres", "UPDATE odd SET t = 'c' WHERE t = 'a'")
    assert read_start_state(to, restored="").contents["public.odd"] != first
    assert read_start_state(to, restored="", keeps_contents=False).contents == {}


def test_a_restore_that_fails_is_reported_with_its_last_words(source):
    to = endpoints(source, "postgres")
    with pytest.raises(TargetError, match="exit code 3") as failed:
        run_restore("echo to $PGDATABASE; echo it broke >&2; exit 3", to, time_s_max=5)
    assert "to postgres / it broke" in failed.value.seen
    with pytest.raises(TargetError, match=r"ended by its time limit of 0\.2 s"):
        run_restore("echo begun; sleep 30", to, time_s_max=0.2)
    assert 0.0 < run_restore('test -z "$PGPASSWORD"', to, time_s_max=5) < 5


def test_large_tables_are_estimated_and_what_may_not_be_read_is_reported(source, monkeypatch):
    run(source, "postgres", "CREATE TABLE IF NOT EXISTS tiny AS SELECT 1 AS one")
    run(source, "postgres", "CREATE SEQUENCE hidden; ANALYZE")
    monkeypatch.setattr("seatrial.trials.database.measure.start_state.COUNTED_BYTES_MAX", 1 << 20)
    found = read_start_state(endpoints(source, "postgres"), restored="")
    assert found.rows["public.tiny"] == 1
    assert "public.pgbench_accounts" not in found.rows
    assert found.rows_estimated["public.pgbench_accounts"] == pytest.approx(100_000, rel=0.1)
    assert found.lsn
    run(source, "postgres", "CREATE ROLE stranger LOGIN")
    to = endpoints(source, "postgres")
    stranger = msgspec.structs.replace(to.addresses[0], user="stranger")
    seen = read_start_state(msgspec.structs.replace(to, addresses=[stranger]), restored="")
    assert {"public.hidden", "public.tiny"} <= set(seen.unread)
    assert seen.rows == {}
