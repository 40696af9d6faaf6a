"""Every way in which a server refuses a connection, distinguished; no password is shown."""

from __future__ import annotations

import contextlib
import dataclasses
import socket

import msgspec
import pytest

from seatrial.errors import TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres import connection as room
from seatrial.postgres.clone import clone_folder
from seatrial.postgres.connection import Address, Secret, connect

PASSWORD = "correct horse"
WRONG = "hunter2"
HBA = "local all seatrial trust\nhost all anna 127.0.0.1/32 scram-sha-256\n"


@pytest.fixture(scope="module")
def local(template, tmp_path_factory):
    """A server that also listens on TCP, with a password, as somebody else's would."""
    folder = tmp_path_factory.mktemp("refused")
    clone_folder(template.folder, folder / "data")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    hba = folder / "data/pg_hba.conf"
    hba.write_text(HBA)
    # What is set by ALTER SYSTEM comes after the file of ours.
    with (folder / "data/postgresql.auto.conf").open("a") as file:
        file.write(f"listen_addresses = '127.0.0.1'\nport = {port}\n")
    with (
        UndoJournal("refused", folder / "state") as journal,
        dataclasses.replace(template, folder=folder / "data", journal=journal).start({}) as server,
    ):
        local = msgspec.structs.replace(server.address, port=port)
        with contextlib.closing(connect(local)) as connection:
            for statement in (
                f"CREATE ROLE anna LOGIN PASSWORD '{PASSWORD}'",
                "CREATE DATABASE closed",
                "REVOKE CONNECT ON DATABASE closed FROM public",
                "CREATE DATABASE full_up CONNECTION LIMIT 0",
            ):
                connection.execute(statement)
        yield local


@pytest.fixture
def address(local):
    return Address(host="127.0.0.1", port=local.port, user="anna", dbname="postgres")


@pytest.fixture(autouse=True)
def no_password_elsewhere(monkeypatch, tmp_path):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))


def refusal(address, secret=None, **changes):
    with pytest.raises(TargetError) as caught:
        connect(msgspec.structs.replace(address, **changes), secret=secret).close()
    reported = str(caught.value)
    assert PASSWORD not in reported
    assert WRONG not in reported
    assert caught.value.__cause__ is None
    return reported


def test_the_right_password_connects_in_autocommit_mode(address):
    with contextlib.closing(connect(address, secret=Secret(PASSWORD))) as connection:
        assert connection.autocommit
        assert connection.info.dbname == "postgres"
    with contextlib.closing(connect(address, secret=Secret(PASSWORD), dbname="template1")) as other:
        assert other.info.dbname == "template1"


def test_a_password_is_found_in_the_environment_and_in_a_file(address, monkeypatch, tmp_path):
    (tmp_path / "pass").write_text(f"127.0.0.1:*:*:anna:{PASSWORD}\n")
    (tmp_path / "pass").chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSFILE", str(tmp_path / "pass"))
        connect(address).close()
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    connect(address).close()


def test_a_wrong_password_names_user_and_place_and_the_ways_to_give_it(address):
    reported = refusal(address, Secret(WRONG))
    assert f"127.0.0.1:{address.port} refused the password of user anna" in reported
    assert "PGPASSWORD" in reported
    assert "~/.pgpass" in reported


def test_no_password_at_all(address):
    assert "requires a password for user anna, and none was given" in refusal(address)


def test_no_such_database(address):
    reported = refusal(address, Secret(PASSWORD), dbname="nosuch")
    assert "has no database nosuch" in reported


def test_no_such_role(local):
    # The private socket lets the superuser in only; another role is not even asked for.
    reported = refusal(local, user="nosuch")
    assert "does not allow user nosuch to connect to postgres" in reported


def test_no_permission_on_the_database(address):
    reported = refusal(address, Secret(PASSWORD), dbname="closed")
    assert "does not permit user anna to connect to database closed" in reported


def test_no_connection_left(address):
    reported = refusal(address, Secret(PASSWORD), dbname="full_up")
    assert "no connection left" in reported


def test_tls_demanded_of_a_server_without(address):
    reported = refusal(address, Secret(PASSWORD), parameters={"sslmode": "require"})
    assert "does not support TLS" in reported


def test_a_host_that_is_not_let_in(address):
    reported = refusal(address, Secret(PASSWORD), user="berta")
    assert "user berta" in reported
    assert "pg_hba.conf" in reported


def test_nobody_listens(address, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert f"No server listens at 127.0.0.1:{port}" in refusal(address, port=port)
    assert f"No server listens at {tmp_path} (port" in refusal(address, host=str(tmp_path))


def test_a_server_that_is_too_old(local, monkeypatch):
    monkeypatch.setattr(room, "VERSION_MIN", 990000)
    assert "Trials need version 99 or later" in refusal(local)
