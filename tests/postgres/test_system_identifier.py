"""The identifier in a data directory is the one that its server reports."""

from __future__ import annotations

import contextlib

from seatrial.postgres.connection import connect
from seatrial.postgres.remote import system_identifier_of


def test_it_is_what_the_server_reports(own_cluster):
    with own_cluster.start({}) as server, contextlib.closing(connect(server.address)) as requested:
        row = requested.execute(
            "SELECT system_identifier::text FROM pg_control_system()"
        ).fetchone()
    log = own_cluster.folder / "log" / "2026" / "postgresql.csv"
    assert system_identifier_of(own_cluster.folder) == row[0]
    assert system_identifier_of(str(log)) == row[0]


def test_a_log_elsewhere_reports_of_no_server(tmp_path):
    log = tmp_path / "postgresql.log"
    log.write_text("a line\n")
    assert system_identifier_of(log) is None


def test_what_only_looks_like_a_data_directory_reports_nothing(tmp_path):
    (tmp_path / "global").mkdir()
    (tmp_path / "global" / "pg_control").write_bytes(b"short")
    assert system_identifier_of(tmp_path) is None
    (tmp_path / "PG_VERSION").write_text("15\n")
    assert system_identifier_of(tmp_path / "postgresql.log") is None
