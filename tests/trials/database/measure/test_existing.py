"""A server that is there already: databases of our own on it, and nothing else touched."""

from __future__ import annotations

import signal
import subprocess
import threading
import time

import msgspec
import pytest

from postgres.programs import installed_programs
from seatrial.errors import RefusedError, SeatrialError, StudyError, TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect, text_of
from seatrial.postgres.remote import RemoteServer, database_name
from seatrial.trials.database.measure import load, pgbench, start_state, telemetry
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.server_session import ServerSession, prewarm
from trials.database.measure.trial import trial

TARGET = """
    name = "existing"
    [[target]]
    label = "there"
    url = "{url}"
    {more}
    [[workload]]
    kind = "pgbench"
    scale = 1
    clients = 2
    seconds = 1
    scripts = "select-only"
    {workload}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that is not the trial's own, with a table of somebody's."""
    binaries = installed_programs()
    folder = tmp_path_factory.mktemp("existing")
    data = folder / "data"
    with UndoJournal("existing", folder / "state") as journal:
        cluster = create_cluster(data, binaries, account_for(data, binaries), journal)
        with cluster.start({}) as server:
            with connect(server.address) as connection:
                connection.execute("CREATE TABLE somebodys AS SELECT 1 AS one")
                connection.execute("CREATE ROLE humble LOGIN")
                connection.execute("CREATE DATABASE empty")
            yield server


def study(server, user: str = "", more: str = "", workload: str = "") -> str:
    address = server.address
    url = f"postgresql://{user or address.user}@/postgres?host={address.host}"
    return TARGET.format(url=url, more=more, workload=workload)


def databases(server) -> list[str]:
    with connect(server.address) as connection:
        rows = connection.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall()
    return [name for (name,) in rows]


def test_a_database_of_our_own_is_copied_measured_and_dropped(server, tmp_path):
    before = databases(server)
    settings = '[workload.settings]\n    work_mem = "7MB"'
    with trial(tmp_path, study(server, workload=settings)) as there:
        sample = there.measure("pgbench")
        left = set(databases(server)) - set(before)
    assert sample.outcome.completed > 100
    assert sample.database.settings["work_mem"] == "7MB"
    assert (sample.database.binaries, sample.database.cloned) == ("remote", "template")
    assert sample.database.start_state == "as_is"
    assert len(left) == 1, "the copy went with its sample, the template stays for the next one"
    assert databases(server) == before


def test_its_shared_buffers_can_be_filled_before_a_sample(server, tmp_path):
    with trial(tmp_path, study(server, workload='start = "prewarmed"')) as there:
        sample = there.measure("pgbench")
    assert sample.database.start_state == "prewarmed"
    reads = sample.counters["reads_shared_buffers"]
    # An unread database of 16 MB would be 2,000 misses.
    assert reads * 8192 > 100 * (1 << 20)
    assert sample.counters["shared_reads"] < 200


def test_a_named_empty_database_is_used_and_empty_again(server, tmp_path):
    with trial(tmp_path, study(server, more='database = "empty"')) as there:
        assert there.measure("pgbench").outcome.completed > 100
    assert tables_in_empty(server) == []


def tables_in_empty(server) -> list[str]:
    with connect(server.address, dbname="empty") as connection:
        rows = connection.execute("SELECT relname FROM pg_stat_user_tables").fetchall()
    return [name for (name,) in rows]


TELEMETRY = """
    name = "existing"
    [[target]]
    label = "there"
    url = "postgresql://{user}@/postgres?host={host}"
    database = "empty"
    [[workload]]
    kind = "telemetry"
    devices = 10
    history_hours = 1
    clients = 1
    seconds = 1
"""


@pytest.mark.parametrize("kind", ["pgbench", "telemetry"])
def test_a_failed_load_leaves_nothing_in_a_named_database(server, tmp_path, monkeypatch, kind):
    def fail(_session):
        raise KeyboardInterrupt

    monkeypatch.setattr(ServerSession, "checkpoint", fail)
    more = 'database = "empty"'
    address = server.address
    text = TELEMETRY.format(user=address.user, host=address.host)
    text = study(server, more=more) if kind == "pgbench" else text
    with pytest.raises(KeyboardInterrupt), trial(tmp_path, text):
        raise AssertionError("it was loaded")
    assert tables_in_empty(server) == []
    RemoteServer(address).require_empty("empty")


def test_the_batch_of_telemetry_leaves_no_setting_in_the_session(server):
    with connect(server.address) as connection:
        connection.execute("CREATE SEQUENCE telemetry_number")
        telemetry.set_batch(connection, 7)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        connection.execute("DROP SEQUENCE telemetry_number")


def test_a_role_with_a_time_limit_can_load(server):
    """Its limit would end the VACUUM and the checkpoint after loading."""
    limited = msgspec.structs.replace(
        server.address, parameters={"options": "-c statement_timeout=50"}
    )
    endpoints = Endpoints(addresses=[limited], secret=None, binaries=installed_programs())
    with connect(server.address) as connection, ServerSession(endpoints) as session:
        connection.execute("CREATE TABLE large AS SELECT generate_series(1, 300000) AS n")
        assert load._count_rows(endpoints, limited) >= 300_000
        connection.execute("UPDATE large SET n = n + 1")
        assert session.checkpoint()
        connection.execute("DROP TABLE large")


def with_time_limit(server) -> Endpoints:
    """Return a database in whose sessions a setting of ours would show."""
    limited = msgspec.structs.replace(
        server.address, parameters={"options": "-c statement_timeout=90s"}
    )
    return Endpoints(addresses=[limited], secret=None, binaries=installed_programs())


def test_counting_rows_leaves_no_setting_in_the_session_of_a_pooler(server, monkeypatch):
    endpoints = with_time_limit(server)
    sessions = []
    monkeypatch.setattr(ServerSession, "__exit__", lambda self, *_: sessions.append(self))
    monkeypatch.setattr(load, "is_pooled", lambda _connection: True)
    load._count_rows(endpoints, endpoints.addresses[0])
    with sessions[0].connection as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("90s",)


def test_programs_behind_a_pooler_get_no_options_that_it_refuses(
    server, missing_standby, monkeypatch
):
    endpoints = with_time_limit(server)
    given = "-c statement_timeout=90s"
    for pooled, options in ((False, f"{given} -c synchronous_commit=local"), (True, given)):
        monkeypatch.setattr(load, "is_pooled", lambda _connection, pooled=pooled: pooled)
        assert load._environment(endpoints, endpoints.addresses[0])["PGOPTIONS"] == options


def test_a_role_without_privileges_reads_and_warms_what_it_may(server):
    with connect(server.address) as connection:
        connection.execute("CREATE DATABASE shared")
    with connect(server.address, dbname="shared") as connection:
        connection.execute("""
            CREATE EXTENSION pg_prewarm; CREATE SCHEMA closed; CREATE TABLE closed.t (n serial);
            GRANT SELECT ON ALL TABLES IN SCHEMA closed TO humble;
            GRANT SELECT ON ALL SEQUENCES IN SCHEMA closed TO humble;
            CREATE TABLE open (n int PRIMARY KEY); INSERT INTO open SELECT generate_series(1, 9999);
            GRANT SELECT ON open TO humble; CREATE TABLE hidden (n int)
        """)
    address = msgspec.structs.replace(server.address, user="humble", dbname="shared")
    endpoints = Endpoints(addresses=[address], secret=None, binaries=installed_programs())
    unread = start_state.read_start_state(endpoints, restored="").unread
    assert unread == ["closed.t_n_seq", "closed.t", "public.hidden"]
    assert prewarm(endpoints)[0].startswith("2 of 4 tables and indexes ")
    with ServerSession(endpoints) as session:
        for code in ("0A000", "55000"):
            refusal = f"DO $$ BEGIN RAISE SQLSTATE '{code}'; END $$"
            assert not text_of(session.connection, refusal)
    with connect(server.address) as connection:
        connection.execute("DROP DATABASE shared WITH (FORCE)")


def test_a_server_that_hides_its_position_awaits_no_standby(server):
    """As Aurora does."""
    function = "EXECUTE ON FUNCTION pg_current_wal_flush_lsn()"
    with connect(server.address) as connection:
        connection.execute(f"REVOKE {function} FROM PUBLIC")
        RemoteServer(msgspec.structs.replace(server.address, user="humble")).await_standbys()
        connection.execute(f"GRANT {function} TO PUBLIC")


def test_what_cannot_be_dropped_is_reported(server, tmp_path, monkeypatch):
    def fail(*_arguments):
        raise TargetError(seen="no answer", cause="-", next_step="-")

    text = study(server, more='database = "empty"')
    with (
        monkeypatch.context() as patch,
        pytest.raises(SeatrialError, match="pgbench_accounts"),
        trial(tmp_path, text),
    ):
        patch.setattr(RemoteServer, "drop_objects", fail)
    assert {"pgbench_accounts"} < set(tables_in_empty(server))
    (path,) = (tmp_path / "state").glob("trial-*.jsonl")
    with UndoJournal(path.name.removesuffix(".undo.jsonl"), path.parent):
        pass
    assert tables_in_empty(server) == []


def test_settings_of_a_named_database_stay(server, tmp_path):
    with connect(server.address) as connection:
        connection.execute("ALTER DATABASE empty SET work_mem = '77MB'")
        with trial(
            tmp_path, study(server, more='database = "empty"', workload='clone = "reuse"')
        ) as there:
            there.measure("pgbench")
        query = """
            SELECT setconfig FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
            WHERE datname = 'empty'
        """
        assert connection.execute(query).fetchone() == (["work_mem=77MB"],)
        connection.execute("ALTER DATABASE empty RESET ALL")


@pytest.fixture
def missing_standby(server):
    """Commits of the server wait for a standby that is not there; not for ever, if a test hangs."""
    with connect(server.address) as connection:

        def set_names(names):
            with connect(server.address) as changing:
                changing.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
                changing.execute("SELECT pg_reload_conf()")
            while connection.execute("SHOW synchronous_standby_names").fetchone()[0] != names:
                time.sleep(0.01)

        timer = threading.Timer(60.0, set_names, [""])
        timer.start()
        set_names("s1")
        yield timer
        timer.cancel()
        set_names("")


@pytest.mark.parametrize("kind", ["pgbench", "named", "telemetry"])
def test_only_the_measured_load_waits_for_a_standby(
    server, missing_standby, tmp_path, monkeypatch, kind
):
    monkeypatch.setattr(pgbench, "CONNECT_S_MAX", 0.0)
    monkeypatch.setattr(pgbench, "OVERDUE_S_MAX", 0.5)
    before = databases(server)
    more, workload = {
        "named": ('database = "empty"', ""),
        "pgbench": ("", 'start = "prewarmed"\n    settings = { work_mem = "7MB" }'),
    }.get(kind, ("", ""))
    text = study(server, more=more, workload=workload).replace("select-only", "simple-update")
    if kind == "telemetry":
        text = TELEMETRY.format(user=server.address.user, host=server.address.host)
    with trial(tmp_path, text) as there, pytest.raises(TargetError, match="IPC:SyncRep"):
        there.measure("telemetry" if kind == "telemetry" else "pgbench")
    assert databases(server) == before
    assert tables_in_empty(server) == []
    assert missing_standby.is_alive(), "nothing waited for the standby"


def test_a_copy_is_ready_when_the_standby_has_it(server, missing_standby, tmp_path):
    """Else the first measured commits would wait for all that was committed before."""
    with UndoJournal("standby", tmp_path / "state") as journal:
        remote = RemoteServer(server.address, journal=journal)
        remote.await_standbys()
        command = [installed_programs().program("pg_receivewal"), "--synchronous", "-D", tmp_path]
        environment = server.address.environment() | {"PGAPPNAME": "s1"}
        with subprocess.Popen(command, env=environment) as standby:
            try:
                with connect(server.address) as connection:
                    connection.execute("CREATE TABLE waits_for_it ()")
                standby.send_signal(signal.SIGSTOP)
                threading.Timer(1.0, standby.send_signal, [signal.SIGCONT]).start()
                began_s = time.monotonic()
                remote.create_database(name := database_name("standby"), template="template1")
                assert 0.9 < time.monotonic() - began_s < 30.0
                remote.drop_database(name)
            finally:
                standby.kill()
    with connect(server.address) as connection:
        connection.execute("SET synchronous_commit = local")
        connection.execute("DROP TABLE waits_for_it")


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"more": 'database = "postgres"'}, RefusedError, "somebodys"),
        ({"user": "humble"}, RefusedError, "may not create databases"),
        ({"workload": '[workload.settings]\n    fsync = "off"'}, StudyError, "sighup"),
        ({"workload": '[workload.settings]\n    no_such = "1"'}, StudyError, "no setting no_such"),
        ({"workload": "memory_limit = '96MiB'"}, StudyError, "memory_limit"),
        ({"user": "nobody_here"}, TargetError, "nobody_here"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_done(server, tmp_path, changes, kind, words):
    before = databases(server)
    with pytest.raises(kind, match=words), trial(tmp_path, study(server, **changes)):
        raise AssertionError("it was opened")
    assert databases(server) == before
