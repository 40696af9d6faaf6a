"""An existing server: databases of our own come and go there, and nothing else is touched."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import msgspec
import pytest

from seatrial.errors import RefusedError, TargetError
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.postgres.clone import clone_folder
from seatrial.postgres.connection import Address, connect
from seatrial.postgres.remote import NAME_BYTES_MAX, RemoteServer, database_name

RUN = "20261121-140000-ab12"
NAME = database_name(RUN)
DEAD = {"start_ticks": 1}


@pytest.fixture(scope="module")
def server(template, tmp_path_factory):
    """A server as somebody else would run it, with a role that may not create databases."""
    folder = tmp_path_factory.mktemp("remote")
    clone_folder(template.folder, folder / "data")
    hba = "local all seatrial trust\nlocal all guest trust\nlocal all maker scram-sha-256\n"
    (folder / "data/pg_hba.conf").write_text(hba)
    with UndoJournal("remote", folder / "state") as journal:
        cluster = dataclasses.replace(template, folder=folder / "data", journal=journal)
        with cluster.start({"fsync": "off"}) as running:
            execute(
                running.address,
                "CREATE ROLE guest LOGIN",
                "CREATE ROLE maker LOGIN CREATEDB PASSWORD 'hunter2'",
                "CREATE DATABASE theirs",
            )
            yield running


def execute(address: Address, *statements: str) -> None:
    with contextlib.closing(connect(address)) as connection:
        for statement in statements:
            connection.execute(statement)


def databases(address: Address) -> set[str]:
    with contextlib.closing(connect(address)) as connection:
        return {row[0] for row in connection.execute("SELECT datname FROM pg_database")}


@pytest.fixture
def journal(state_dir):
    return UndoJournal(RUN)


@pytest.fixture
def remote(server, journal):
    yield RemoteServer(server.address, journal=journal)
    for name in databases(server.address) - {"postgres", "template0", "template1", "theirs"}:
        execute(server.address, f'DROP DATABASE "{name}" WITH (FORCE)')


def leave_behind(journal):
    """Make a journal look as a killed process leaves it."""
    lines = journal.path.read_bytes().splitlines(keepends=True)
    owner = json.loads(lines[0])
    owner["owner"] |= DEAD
    journal.path.write_bytes(b"".join([json.dumps(owner).encode() + b"\n", *lines[1:]]))


def test_a_database_comes_and_goes(remote, server, journal, binaries):
    assert remote.version == binaries.version
    assert remote.may_create_databases()
    address = remote.create_database(NAME)
    assert address == server.address.with_dbname(NAME)
    assert remote.creator_of(NAME) == RUN
    assert "hunter2" not in journal.path.read_text()
    with contextlib.closing(remote.connect(NAME)):
        remote.drop_database(NAME)
    assert NAME not in databases(server.address)
    assert not journal.path.exists()
    remote.drop_database(NAME)
    assert not journal.path.exists()


def test_a_template_is_copied(remote, server):
    first = remote.create_database(NAME)
    execute(first, "CREATE TABLE lines AS SELECT 1 AS n")
    copy = remote.create_database(database_name(RUN, "copy"), template=NAME)
    with contextlib.closing(connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM lines").fetchone() == (1,)


def test_names_are_the_run_s_and_never_cut_off():
    assert database_name(RUN) == "seatrial_20261121_140000_ab12"
    assert database_name(RUN, "Process 2") == "seatrial_20261121_140000_ab12_process_2"
    long = database_name("x" * 80 + "-end", "copy")
    assert len(long) == NAME_BYTES_MAX
    assert long.startswith("seatrial_")
    assert long.endswith("_end_copy")


@pytest.mark.parametrize("name", ["postgres", "theirs", "seatrial_" + "x" * 60, ""])
def test_names_that_are_not_ours_are_neither_made_nor_dropped(remote, name):
    with pytest.raises(ValueError, match="not a name of the run's own"):
        remote.create_database(name)
    with pytest.raises(ValueError, match="not a name of the run's own"):
        remote.drop_database(name)


def test_without_a_journal_nothing_is_made(server):
    with pytest.raises(ValueError, match="undo journal"):
        RemoteServer(server.address).create_database(NAME)


def test_a_database_of_that_name_without_the_mark_is_never_dropped(remote, server, journal):
    execute(server.address, f"CREATE DATABASE {NAME}")
    with pytest.raises(TargetError, match=r"already exists.*somebody else"):
        remote.create_database(NAME)
    with pytest.raises(RefusedError, match="was not created by this run"):
        remote.drop_database(NAME)
    execute(server.address, f"COMMENT ON DATABASE {NAME} IS 'made by seatrial, run other'")
    with pytest.raises(RefusedError, match="was not created by this run"):
        remote.drop_database(NAME)
    assert [each.outcome for each in journal.undo_all()] == ["foreign"]
    assert NAME in databases(server.address)


def test_no_right_to_create_is_reported_in_the_server_s_words(server, journal, remote):
    guest = RemoteServer(msgspec.structs.replace(server.address, user="guest"), journal=journal)
    assert not guest.may_create_databases()
    with pytest.raises(
        TargetError, match=r"permission denied to create.*ALTER ROLE guest CREATEDB"
    ):
        guest.create_database(NAME)


@pytest.mark.parametrize(
    ("statement", "reported"),
    [
        ("CREATE TABLE orders (n int)", "table public.orders"),
        ("CREATE VIEW newest AS SELECT 1 AS n", "view public.newest"),
        ("CREATE SEQUENCE numbers", "sequence public.numbers"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "function public.f"),
        ("CREATE SCHEMA s CREATE TABLE inner_one (n int)", "table s.inner_one"),
    ],
)
def test_a_database_that_holds_anything_is_refused(remote, statement, reported):
    address = remote.create_database(NAME)
    remote.require_empty(NAME)
    execute(address, statement)
    with pytest.raises(
        RefusedError, match=f"{NAME} at .* is not empty: it has {reported}.*createdb"
    ):
        remote.require_empty(NAME)


def test_what_an_extension_brought_along_is_not_a_user_s(remote):
    address = remote.create_database(NAME)
    with contextlib.closing(connect(address)) as connection:
        known = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'"
        if connection.execute(known).fetchone() == (0,):
            pytest.skip("needs PostgreSQL's contrib: pg_stat_statements")
        connection.execute("CREATE EXTENSION pg_stat_statements")
    remote.require_empty(NAME)


def test_many_objects_are_counted_not_listed(remote):
    address = remote.create_database(NAME)
    execute(address, *(f"CREATE TABLE t{number} ()" for number in range(8)))
    with pytest.raises(RefusedError, match=r"table public.t4 and 3 more"):
        remote.require_empty(NAME)


def test_clean_drops_what_a_killed_run_left(remote, server, journal):
    remote.create_database(NAME)
    leave_behind(journal)
    assert [(each.kind, each.outcome) for each in clean()] == [("remote_database", "undone")]
    assert NAME not in databases(server.address)
    assert clean() == []


def test_a_database_of_that_name_on_another_server_keeps_its_tables(remote, journal):
    remote.mark_objects("theirs", ["table pgbench_history"])
    there = msgspec.structs.replace(remote.address, parameters={"sslmode": "disable"})
    RemoteServer(there, journal=journal).drop_marked_objects("theirs")
    with pytest.raises(RefusedError):
        remote.require_empty("theirs")
    remote.drop_marked_objects("theirs")
    remote.require_empty("theirs")


@pytest.mark.parametrize(("is_marked", "outcome"), [(True, "undone"), (False, "gone")])
def test_clean_drops_marked_tables_in_a_database_of_the_user_s(remote, journal, is_marked, outcome):
    theirs = remote.address.with_dbname("theirs")
    remote.mark_objects("theirs", ["table pgbench_history", "function not_made"])
    execute(theirs, "CREATE TABLE pgbench_history ()")
    if not is_marked:
        execute(theirs, f"DROP TABLE {NAME}")
    leave_behind(journal)
    assert [(each.kind, each.outcome) for each in clean()] == [("remote_objects", outcome)]
    if is_marked:
        remote.require_empty("theirs")
    else:
        execute(theirs, "DROP TABLE pgbench_history")


def test_clean_without_the_password_says_so_and_keeps_the_entry(
    server, remote, journal, monkeypatch, tmp_path
):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    address = msgspec.structs.replace(server.address, user="maker")
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSWORD", "hunter2")
        RemoteServer(address, journal=journal).create_database(NAME)
    leave_behind(journal)
    (failed,) = clean()
    assert failed.outcome == "failed"
    assert "requires a password for user maker" in failed.detail
    assert "PGPASSWORD=... seatrial clean" in failed.detail
    assert journal.path.exists()
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    assert [each.outcome for each in clean()] == ["undone"]
    assert NAME not in databases(server.address)
