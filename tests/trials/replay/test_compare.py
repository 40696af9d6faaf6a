"""Replays on a real server, compared: what the server counted, how it planned, what is slower."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cli.command import Ended, seatrial
from postgres.programs import installed_programs
from seatrial import _core
from seatrial.importers.statements import read_snapshot
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect
from seatrial.results.store import ResultsFile
from seatrial.trials.database.measure import server_session, server_side
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.server_side import (
    CounterSnapshot,
    PlanNode,
    counters_at,
    increases,
    plans_of,
    read_counters,
    shape,
)
from trials.replay.targets import Target

ROWS = 100_000
FOUND = "SELECT v FROM t WHERE k = {}"
LOG = """\
2026-11-21 08:00:00.000 UTC [7] app@before LOG:  execute <unnamed>: SELECT v FROM t WHERE k = $1
2026-11-21 08:00:00.000 UTC [7] app@before DETAIL:  Parameters: $1 = '17'
2026-11-21 08:00:00.010 UTC [7] app@before LOG:  statement: UPDATE t SET v = v + 1 WHERE k = 3
2026-11-21 08:00:00.020 UTC [7] app@before LOG:  statement: SELECT 1; DELETE FROM t
2026-11-21 08:00:00.030 UTC [7] app@before LOG:  statement: SELECT * FROM nowhere
"""


@pytest.fixture(scope="module")
def counting(tmp_path_factory) -> Iterator[Target]:
    """A server that counts statements, and two databases: with an index, and without."""
    folder = tmp_path_factory.mktemp("counting")
    binaries = installed_programs()
    library = {"shared_preload_libraries": "pg_stat_statements"}
    with UndoJournal("compare", folder / "state") as journal:
        data = folder / "data"
        cluster = create_cluster(data, binaries, account_for(data, binaries), journal)
        with cluster.start({"fsync": "off", **library}) as server:
            target = Target(server, cluster)
            target.run("postgres", "CREATE EXTENSION pg_stat_statements")
            target.make(
                "before",
                "CREATE TABLE t (k int, v int);"
                f"INSERT INTO t SELECT i, i FROM generate_series(1, {ROWS}) AS i;"
                "CREATE INDEX t_k ON t (k); ANALYZE t",
            )
            target.make("after", template="before")
            target.run("after", "DROP INDEX t_k")
            yield target


@pytest.fixture(scope="module")
def folder(counting, tmp_path_factory) -> Path:
    """Holds a trace, and a results file with a replay of it to each database."""
    folder = tmp_path_factory.mktemp("compared")
    texts = [FOUND.format(1 + number * 97 % ROWS) for number in range(150)]
    (folder / "s.sql").write_text(";\n".join([*texts, "SELECT count(*) FROM t"]) + ";\n")
    assert seatrial("sql", "read", "s.sql", "-o", "s.trace", folder=folder).code == 0
    for name in ("before", "after"):
        played = seatrial(
            *("sql", "replay", "--tables", "s.trace", "--to", counting.url(name)),
            *("--read-only", "--rounds", "3", "--label", name),
            folder=folder,
        )
        assert played.code == 0, played.err + played.out
    return folder


def compared(folder: Path, *arguments: str) -> Ended:
    return seatrial("sql", "compare", "--tables", *arguments, folder=folder)


def test_a_lost_index_is_slower_and_its_plan_another(folder):
    reported = compared(folder, "before", "after", "--json").document
    queries = reported["queries"]
    (lookup,) = [each for each in queries["changes"] if " k = " in each["text"]]
    assert lookup["plan_changed"] is True
    assert "t_k" in lookup["plan_before"]
    assert lookup["plan_after"] == "Seq Scan t"
    assert lookup["server_after"]["calls"] == 3 * 150
    assert lookup["server_after"]["blocks_hit"] > 5 * lookup["server_before"]["blocks_hit"]
    assert lookup["speed_up"]["value"] < 0.7
    assert queries["basis"] == "in_sequence"
    assert any("one after the other" in each for each in queries["warnings"])


def test_slower_is_exit_code_3_where_it_is_requested(folder):
    text = compared(folder, "before", "after", "--fail-if-slower", "10")
    assert text.code == 3, text.out + text.err
    assert "Slower by more than 10 %" in text.out
    assert "Plan of select v from t where k = $1" in text.out
    assert compared(folder, "before", "after").code == 0


def test_two_targets_of_one_run_are_compared_round_by_round(counting, folder, tmp_path):
    played = seatrial(
        *("sql", "replay", "--tables", str(folder / "s.trace"), "--read-only", "--rounds", "5"),
        *("--to", f"old={counting.url('before')}", "--to", f"new={counting.url('after')}"),
        folder=tmp_path,
        timeout_s=120,
    )
    assert played.code == 0, played.err + played.out
    reported = compared(tmp_path, "last", "--json").document["queries"]
    assert reported["basis"] == "interleaved"
    assert (reported["before"]["name"], reported["after"]["name"]) == ("old", "new")
    (lookup,) = [each for each in reported["changes"] if " k = " in each["text"]]
    assert lookup["answer"] == "slower"
    assert reported["slower"][0] == lookup["key"]
    assert lookup["p_adjusted"] < 0.05


def test_two_logs_are_compared_by_what_the_server_took(tmp_path):
    for name, ms in (("a.log", 0.5), ("b.log", 0.1)):
        lines = [
            f"2026-11-21 08:{n // 60:02}:{n % 60:02}.000 UTC [7] app@before LOG:  duration: "
            f"{ms * (1 + n % 3):.3f} ms  statement: {FOUND.format(n)}\n"
            for n in range(600)
        ]
        (tmp_path / name).write_text("".join(lines))
    reported = compared(tmp_path, "a.log", "b.log")
    assert reported.code == 0, reported.err
    assert "Average query 5.00x faster" in reported.out
    assert "measured once each" in " ".join(reported.out.split())


def test_a_replay_is_not_compared_with_a_log_without_an_offset(folder):
    log = folder / "p.log"
    log.write_text(
        "".join(
            f"2026-11-21 08:00:{n % 60:02}.000 UTC [7] app@before LOG:  duration: 0.500 ms  "
            f"statement: {FOUND.format(n)}\n"
            for n in range(60)
        )
    )
    refused = compared(folder, "p.log", "after")
    assert refused.code == 2
    assert "the client's" in refused.err
    reported = compared(folder, "p.log", "after", "--client-offset", "1us", "--json").document
    assert reported["queries"]["offset_s"] == pytest.approx(1e-6)
    assert reported["queries"]["basis"] == "once"


def test_counters_grow_by_what_is_executed(counting):
    address = counting.address("before")
    first = read_counters(address, None)
    for number in range(7):
        counting.run("before", FOUND.format(number))
    second = read_counters(address, None)
    assert first is not None
    assert second is not None
    key = _core.fingerprint_sql(FOUND.format(0))[0]
    own = increases(first, second)[key]
    assert (own.calls, own.wal_bytes) == (7, 0)
    assert own.blocks_hit + own.blocks_read >= 7
    assert own.exec_ns > 0


def test_snapshots_of_a_server_are_sides(counting, tmp_path):
    url = counting.url("before")
    for name in ("0", "1"):
        for number in range(50):
            counting.run("before", FOUND.format(number))
        written = seatrial(
            *("sql", "compare", "--snapshot", url, "-o", f"a{name}.csv"), folder=tmp_path
        )
        assert written.code == 0, written.err
    assert len(counters_at(url).rows) > 0
    reported = compared(tmp_path, "a0.csv", "a0.csv..a1.csv", "--json").document
    changes = {each["text"]: each for each in reported["queries"]["changes"]}
    lookup = changes["select v from t where k = $1"]
    assert lookup["after"]["calls"] == 50
    assert lookup["server_after"]["blocks_hit"] is not None
    assert lookup["answer"] == "undecided"
    assert reported["queries"]["after"]["covered_s"] > 0


def test_statements_of_other_roles_are_counted_as_hidden(counting, tmp_path):
    counting.run("before", "DROP ROLE IF EXISTS humble; CREATE ROLE humble LOGIN; SELECT 1")
    url = counting.url("before", user="humble")
    written = seatrial("sql", "compare", "--snapshot", url, "-o", "a.csv", folder=tmp_path)
    assert "of other roles are hidden" in written.out
    found = counters_at(url)
    assert found.hidden
    assert read_snapshot(tmp_path / "a.csv").hidden >= len(found.hidden) - 1
    everything = counters_at(counting.url("before"))
    assert not everything.hidden
    assert not increases(found, found)


def test_a_replay_notes_that_statements_of_other_roles_ran_meanwhile(counting, monkeypatch):
    def hidden(calls):
        row = (10, 5, None, "<insufficient privilege>", calls)
        columns = ["userid", "dbid", "queryid", "query", "calls"]
        return CounterSnapshot(columns=columns, rows=[row], taken_at=0.0, evicted=0)

    for calls, notes in (((5, 5), 0), ((5, 6), 1)):
        found = iter(map(hidden, calls))
        monkeypatch.setattr(server_side, "read_counters", lambda *_, found=found: next(found))
        address = counting.address("before")
        endpoints = Endpoints(addresses=[address], secret=None, binaries=counting.cluster.binaries)
        assert len(server_side.ServerStatistics(endpoints)._increases()[1]) == notes


def test_a_database_that_a_pooler_names_otherwise_is_found(counting, monkeypatch):
    real = counting.address("before")

    def pooled(*_arguments, dbname="", **_options):
        return connect(real, dbname=dbname if dbname == "postgres" else None)

    for module in (server_side, server_session):
        monkeypatch.setattr(module, "connect", pooled)
    renamed = real.with_dbname("renamed")
    found = read_counters(renamed, None)
    assert found is not None
    assert found.rows
    endpoints = Endpoints(addresses=[renamed], secret=None, binaries=counting.cluster.binaries)
    with server_session.ServerSession(endpoints) as session:
        assert session.size_bytes() > 0


def test_plans_are_explained_and_nothing_is_executed(counting, tmp_path):
    (tmp_path / "p.log").write_text(LOG)
    read = seatrial(
        *("sql", "read", "p.log", "-o", "p.trace", "--prefix", "%m [%p] %u@%d "), folder=tmp_path
    )
    assert read.code == 0, read.err
    texts = ("SELECT v FROM t WHERE k = $1", "UPDATE t SET v = v + 1 WHERE k = 3")
    others = ("SELECT 1; DELETE FROM t", "SELECT * FROM nowhere")
    keys = {text: _core.fingerprint_sql(text)[0] for text in (*texts, *others)}
    endpoints = Endpoints(
        addresses=[counting.address("before")], secret=None, binaries=counting.cluster.binaries
    )
    found = plans_of(endpoints, str(tmp_path / "p.trace"), list(keys.values()))
    assert found.keys() == {keys[text] for text in texts}
    shapes = {text: found[keys[text]][1] for text in texts}
    assert "t_k" in shapes[texts[0]]
    assert shapes[texts[1]].startswith("Update t(")
    assert counting.run("before", "SELECT count(*), sum(v) FROM t") == [
        (ROWS, ROWS * (ROWS + 1) // 2)
    ]


def shape_of(reported):
    return shape(msgspec.convert(reported, PlanNode))


def test_a_shape_reports_nodes_relations_and_the_order_of_joins():
    inner = {"Node Type": "Index Scan", "Index Name": "a_pkey", "Relation Name": "a"}
    outer = {"Node Type": "Seq Scan", "Relation Name": "b", "Total Cost": 7.0}
    join = {"Node Type": "Hash Join", "Join Type": "Left", "Plans": [outer, inner]}
    assert shape_of(join) == "Left Hash Join(Seq Scan b, Index Scan a_pkey)"
    swapped = {**join, "Plans": [inner, outer]}
    assert shape_of(swapped) != shape_of(join)
    assert shape_of({**join, "Plans": [{**outer, "Total Cost": 9.0}, inner]}) == shape_of(join)


def test_what_the_server_reported_is_in_the_results_file(folder):
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as store:
        records = [s.replay for run in store.runs() for s in store.samples(run.id)]
    assert all(record and record.queries_server for record in records)
    reported = msgspec.to_builtins(records[0].queries_server[0])
    assert reported["calls"] == 150
    assert len(reported["plan_hash"]) == 16
