"""Requests of a real server by table, against tables of known sizes."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from cli.command import ended, seatrial, start
from postgres.programs import installed_programs
from seatrial import _core
from seatrial.errors import TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import Address, connect
from seatrial.postgres.page_cache import drop_cached
from seatrial.trials.cache.measure.counters import relation_accesses
from seatrial.trials.watch.analysis.activity import Interval, broken_down
from seatrial.trials.watch.measure.readings import ServerWatch
from seatrial.trials.watch.measure.recorder import RecordingTarget
from seatrial.trials.watch.measure.relations import Relations
from seatrial.trials.watch.measure.watching import Watcher, WatchOptions
from seatrial.trials.watch.recording import read
from trials.replay.targets import Target
from trials.watch.measure.volumes import volume_below

pytestmark = pytest.mark.root

ROWS = {"small": 20_000, "medium": 40_000, "large": 120_000}


OPTIONS = {"fsync": "off", "autovacuum": "off"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    volume_below(folder)
    binaries = installed_programs()
    account = account_for(folder / "data", binaries)
    with UndoJournal("watched", folder / "state") as journal:
        yield create_cluster(folder / "data", binaries, account, journal)


def filled(target: Target, name: str) -> str:
    tables = "".join(
        f"CREATE TABLE {table} AS SELECT i AS id, repeat('x', 200) AS t "
        f"FROM generate_series(1, {rows}) i; "
        for table, rows in ROWS.items()
    )
    made = target.make(name, f"{tables} CREATE INDEX large_id ON large (id);")
    target.run(made, "CHECKPOINT")
    return made


def of(address: Address) -> Relations:
    with contextlib.closing(connect(address)) as connection:
        return Relations(connection, address)


def waits_now(address: Address) -> dict[str, float]:
    watch = ServerWatch(address, None, 0.2)
    try:
        for _ in range(50):
            time.sleep(0.1)
            if "server_waits" in (found := watch.take()):
                return found["server_waits"]
    finally:
        watch.stop()
    raise AssertionError("no answer in 5 s")


def shares(interval: Interval, operation: str) -> dict[str, float]:
    """The shares of the bytes of an operation by relation, of those that belong to one."""
    groups = [each for each in interval.groups if each.operation == operation]
    found = {each.relation: each.transferred_bytes for each in broken_down(groups, ["relation"])}
    for unknown in ("not mapped", "other programs"):
        found.pop(unknown, None)
    total = sum(found.values())
    return {name: size / total for name, size in found.items()}


def test_reads_are_those_of_the_tables_in_proportion_to_their_sizes(cluster):
    with cluster.start(OPTIONS) as server:
        name = filled(Target(server, cluster), "sized")
    with (  # anew: nothing is left in shared buffers
        cluster.start(OPTIONS) as server,
        contextlib.closing(connect(server.address.with_dbname(name))) as connection,
    ):
        watcher = Watcher(WatchOptions(relations=of(server.address.with_dbname(name))))
        os.sync()
        drop_cached(cluster.folder)
        watcher.take()
        for table in ROWS:
            connection.execute(f"SELECT count(t) FROM {table}")
        interval = watcher.take()
        found = shares(interval, "read")
        watcher.stop()
        sizes = dict(
            connection.execute(
                "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relname = ANY(%s)",
                [list(ROWS)],
            ).fetchall()
        )
    total = sum(sizes.values())
    # What BPF did not see here is of one table or the other.
    unseen = interval.lost.unseen_bytes / total
    for table in ROWS:
        assert found[table] == pytest.approx(sizes[table] / total, abs=0.02 + unseen), (
            table,
            found,
        )


def test_tables_of_one_name_in_two_schemas_are_two(cluster):
    with cluster.start(OPTIONS) as server:
        made = Target(server, cluster).make(
            "schemas",
            "CREATE SCHEMA other; CREATE TABLE orders (id int PRIMARY KEY, t text); "
            "CREATE TABLE other.orders (LIKE orders INCLUDING ALL); "
            "INSERT INTO other.orders SELECT i, '' FROM generate_series(1, 9000) i;",
        )
        address = server.address.with_dbname(made)
        with contextlib.closing(connect(address)) as connection:
            found = relation_accesses(connection)
    own = {name: each.size_bytes > 0 for name, each in found.items() if "orders" in name}
    toast = {name: own.pop(name) for name in [*own] if name.startswith("pg_toast")}
    assert own == {
        "orders": False,
        "orders_pkey (index of orders)": True,
        "other.orders": True,
        "other.orders_pkey (index of orders)": True,
    }
    assert len(toast) == 2


def test_requests_are_recorded_with_their_relations(cluster, tmp_path):
    with cluster.start(OPTIONS) as server:
        name = filled(Target(server, cluster), "recorded")
    with (
        cluster.start(OPTIONS) as server,
        contextlib.closing(connect(server.address.with_dbname(name))) as connection,
    ):
        to = RecordingTarget(tmp_path / "r", 1 << 30)
        relations = of(server.address.with_dbname(name))
        watcher = Watcher(WatchOptions(relations=relations, record=to))
        os.sync()
        drop_cached(cluster.folder)
        for table in ROWS:
            connection.execute(f"SELECT count(t) FROM {table}")
            watcher.poll()
        interval = watcher.take()
        recorded = watcher.end_recording()
        watcher.stop()
    whole = read(to.path)
    assert recorded is not None
    assert whole.requests == recorded.requests > 0
    assert whole.about.knows_relations
    # Each request of the watch is in the file, with the relation that it counts for.
    expected = Counter(
        {
            (each.operation, each.relation): each.requests
            for each in broken_down(interval.groups, ["operation", "relation"])
            if each.relation in ROWS
        }
    )
    names = whole.about.relations
    found = Counter(
        (_core.WATCHED_OPERATIONS[operation], names[number])
        for operation, number in zip(whole.operation, whole.relation, strict=True)
        if number >= 0 and names[number] in ROWS
    )
    assert {("read", table) for table in ROWS} <= expected.keys() <= found.keys()
    assert all(found[key] >= count for key, count in expected.items())
    assert (found - expected).total() <= 0.01 * found.total()  # after the last look
    assert "not mapped" not in names


def test_other_programs_are_distinguished_from_the_server_and_the_kernel(cluster):
    with (
        cluster.start(OPTIONS) as server,
        contextlib.closing(connect(server.address)) as connection,
    ):
        relations = of(server.address)
        relations.stop()
        backend = connection.info.backend_pid
        assert relations.is_of_other_program(os.getpid(), "python")
        assert not relations.is_of_other_program(backend, "postgres")
        assert not relations.is_of_other_program(1 << 22, "kworker/1:1H")
        assert relations.is_of_other_program(1 << 22, "ended")


def test_what_is_written_meanwhile_stays_mapped(cluster):
    with cluster.start(OPTIONS) as server:
        target = Target(server, cluster)
        name = filled(target, "changing")
        relations = of(server.address.with_dbname(name))
        watcher = Watcher(WatchOptions(relations=relations))
        target.run(
            name, "INSERT INTO large SELECT i, repeat('y', 200) FROM generate_series(1, 50000) i"
        )
        target.run(name, "CREATE INDEX medium_id ON medium (id)")
        target.run(name, "VACUUM FULL small")
        target.run(name, "CHECKPOINT")
        os.sync()
        found = shares(watcher.take(), "write")
        watcher.stop()
    assert {"large", "medium_id (index of medium)", "small", "WAL"} <= found.keys(), found


@pytest.fixture
def space(cluster):
    """A folder for a tablespace; the server may pass no closed folder on the way to it."""
    with tempfile.TemporaryDirectory() as folder:
        volume_below(Path(folder))
        cluster.account.take_ownership(Path(folder))
        yield Path(folder)


def test_what_was_not_committed_at_first_and_other_databases_have_names(cluster, space):
    """Also temporary tables, and a database whose files are in a tablespace."""
    rows = "AS SELECT i, repeat('z', 400) AS t FROM generate_series(1, 60000) i"
    with cluster.start(OPTIONS) as server:
        target = Target(server, cluster)
        name = filled(target, "committed")
        target.run(name, f"CREATE TABLESPACE space LOCATION '{space}'")
        target.run(name, "CREATE DATABASE elsewhere TABLESPACE space")
        address = server.address.with_dbname(name)
        with (
            contextlib.closing(connect(address)) as connection,
            contextlib.closing(connect(address.with_dbname("elsewhere"))) as other,
        ):
            watcher = Watcher(WatchOptions(relations=of(address)))
            other.execute(f"CREATE TABLE o {rows}")
            connection.execute("BEGIN")
            connection.execute(f"CREATE TABLE fresh {rows}")
            os.sync()
            watcher.take()
            connection.execute("COMMIT")
            watcher.take()
            connection.execute(f"CREATE TEMP TABLE brief TABLESPACE space {rows}")
            target.run(name, "CHECKPOINT")
            drop_cached(cluster.folder)
            drop_cached(space)
            watcher.take()
            for table in ("fresh", "brief"):
                connection.execute(f"SELECT count(t) FROM {table}")
            other.execute("SELECT count(t) FROM o")
            found = shares(watcher.take(), "read")
            watcher.stop()
    read = {owner.rpartition(".")[2]: share for owner, share in found.items()}
    assert min(read.get(each, 0) for each in ("fresh", "brief", "database elsewhere")) > 0.2, read


def test_a_server_that_hangs_or_is_lost_neither_delays_nor_ends_a_watch(cluster):
    made = "CREATE TABLE {} AS SELECT i FROM generate_series(1, 9000) i; CHECKPOINT"

    def owners() -> set[str]:
        relations.refresh()
        return {file.owner.name for file in relations._files.values()}

    with cluster.start(OPTIONS) as server:
        target = Target(server, cluster)
        name = filled(target, "lost")
        relations = of(server.address.with_dbname(name))
        with contextlib.closing(connect(server.address.with_dbname(name))) as connection:
            connection.execute("BEGIN")
            connection.execute(made.format("slow").partition(";")[0])
            connection.execute("LOCK TABLE pg_class IN ACCESS EXCLUSIVE MODE")
            began_s = time.monotonic()
            for _ in range(5):
                assert "slow" not in owners()
            assert time.monotonic() - began_s < 2
            assert waits_now(server.address) == {}  # and our own wait is not the server's
            connection.execute("COMMIT")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            target.run(name, made.format("later"))
            give_up_s = time.monotonic() + 20
            while not {"slow", "later"} <= owners():
                assert time.monotonic() < give_up_s
                time.sleep(0.2)
            connection.execute("BEGIN")
            connection.execute(made.format("never").partition(";")[0])
            connection.execute("LOCK TABLE pg_class IN ACCESS EXCLUSIVE MODE")
            relations.refresh()
            began_s = time.monotonic()
            relations.stop()
            assert time.monotonic() - began_s < 0.5


def test_a_servers_own_statistics_are_read(cluster):
    with cluster.start(OPTIONS | {"track_io_timing": "on"}) as server:
        name = filled(Target(server, cluster), "requested")
    with cluster.start(OPTIONS | {"track_io_timing": "on"}) as server:
        drop_cached(cluster.folder)
        address = server.address.with_dbname(name)
        watch = ServerWatch(address, None, 0.2)
        found: dict[str, dict[str, float]] = {}
        try:
            with contextlib.closing(connect(address)) as connection:
                give_up_s = time.monotonic() + 20
                while time.monotonic() < give_up_s and not all(
                    found.get(panel, {}).get(label)
                    for panel, label in (
                        ("server_requests", "read"),
                        ("server_ns", "read"),
                        ("server_wal", "WAL"),
                    )
                ):
                    connection.execute("SELECT count(t) FROM large")
                    connection.execute("UPDATE small SET id = id + 1 WHERE id < 100")
                    for panel, values in watch.take().items():
                        for label, value in values.items():
                            known = found.setdefault(panel, {})
                            known[label] = max(value, known.get(label, 0.0))
        finally:
            watch.stop()
    assert found["server_requests"]["read"] > 0
    assert found["server_ns"]["read"] > 0
    assert found["server_wal"]["WAL"] > 100
    assert watch.take() == {}


def test_a_server_elsewhere_is_not_mapped(cluster, monkeypatch):
    with cluster.start(OPTIONS) as server:
        # As on another machine, where a server of its own has a folder of the same name.
        module = "seatrial.trials.watch.measure.relations.server_pids"
        monkeypatch.setattr(module, lambda _: [1])
        with pytest.raises(TargetError, match="cannot be read"):
            of(server.address)


def test_of_a_server_that_hides_its_files_its_own_statistics_are_shown(cluster, tmp_path):
    with cluster.start(OPTIONS) as server:
        name = filled(Target(server, cluster), "hidden")
        Target(server, cluster).run(name, "CREATE ROLE plain LOGIN; GRANT SELECT ON large TO plain")
        address = msgspec.structs.replace(server.address.with_dbname(name), user="plain")
        arguments = ("watch", "--url", address.as_url(), "--for", "3", "--every", "0.5")
        process = start(*arguments, "--json", folder=tmp_path)
        with contextlib.closing(connect(address)) as connection:
            while process.poll() is None:
                connection.execute("SELECT count(t) FROM large")
        watched = ended(process, 30)
        refused = seatrial(*arguments, "--pid", "1", folder=tmp_path)
    assert watched.code == 0, watched
    assert "does not reveal its data directory" in watched.err
    documents = [json.loads(line) for line in watched.out.splitlines()]
    assert all(each["requests"] == [] for each in documents)
    assert any(each["readings"].get("server_requests") for each in documents)
    assert refused.code == 6, refused
