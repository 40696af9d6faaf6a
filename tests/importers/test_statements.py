"""Snapshots of pg_stat_statements, of every version's columns."""

from __future__ import annotations

import csv

import pytest

from seatrial.errors import UsageError
from seatrial.importers.statements import is_snapshot, read_snapshot
from seatrial.statement_counters import contains, grown
from seatrial.trials.replay.commands.compare_sides import snapshot_side

OLD = [
    "userid",
    "dbid",
    "queryid",
    "query",
    "calls",
    "total_time",
    "rows",
    "shared_blks_hit",
    "shared_blks_read",
    "blk_read_time",
]
V1_8 = [
    "userid",
    "dbid",
    "queryid",
    "query",
    "plans",
    "total_plan_time",
    "calls",
    "total_exec_time",
    "rows",
    "shared_blks_hit",
    "shared_blks_read",
    "wal_bytes",
]
V1_9 = ["userid", "dbid", "toplevel", *V1_8[2:]]
V1_11 = [*V1_9, "shared_blk_read_time", "stats_since", "minmax_stats_since"]
V1_12 = [*V1_11, "wal_buffers_full", "parallel_workers_to_launch"]  # fmt: skip


def snapshot(tmp_path, columns, rows, name="a.csv"):
    path = tmp_path / name
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="0", extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**dict.fromkeys(("userid", "dbid"), "10"), **row} for row in rows)
    return path


def row(number, calls, ms, **more):
    reported = {"queryid": str(number), "query": f"SELECT v\nFROM t{number} WHERE id = $1"}
    times = {"total_exec_time": str(ms), "total_time": str(ms), "shared_blks_hit": str(7 * calls)}
    return {**reported, "calls": str(calls), **times, "wal_bytes": str(3 * calls), **more}


@pytest.mark.parametrize("columns", [OLD, V1_8, V1_9, V1_11, V1_12])
def test_every_version_is_read(tmp_path, columns):
    path = snapshot(tmp_path, columns, [row(1, 10, 250.5), row(2, 1, 1)])
    assert is_snapshot(path)
    first, _ = read_snapshot(path).statements.values()
    assert (first.calls, first.exec_s, first.blocks_hit) == (10, 0.2505, 70)
    assert first.wal_bytes == (None if columns is OLD else 30)


def test_what_two_snapshots_hold_between_them(tmp_path):
    first = snapshot(tmp_path, V1_9, [row(1, 10, 100), row(2, 50, 10), row(3, 5, 5)])
    later = [row(1, 30, 500), row(2, 4, 2), row(3, 5, 5), row(4, 1, 9)]
    last = snapshot(tmp_path, V1_9, later, "b.csv")
    between, anew = grown(read_snapshot(first), read_snapshot(last))
    reported = {
        s.query.split()[3]: (s.calls, round(s.exec_s, 3)) for s in between.statements.values()
    }
    assert reported == {"t1": (20, 0.4), "t2": (4, 0.002), "t4": (1, 0.009)}
    assert anew == 1


def test_statements_inside_functions_are_part_of_the_call(tmp_path):
    call = {**row(1, 10, 100), "toplevel": "t"}
    inner = {**row(2, 500, 90), "toplevel": "f"}
    found = read_snapshot(snapshot(tmp_path, V1_9, [call, inner]))
    assert [s.query.split()[3] for s in found.statements.values()] == ["t1"]
    assert found.nested == 1


def test_hidden_statements_are_counted_and_planning_is_not(tmp_path):
    hidden = row(2, 500, 90) | {"queryid": "", "query": "<insufficient privilege>"}
    path = snapshot(tmp_path, V1_8, [row(1, 10, 100, total_plan_time="50"), hidden])
    side = snapshot_side("a", read_snapshot(path), None, 0)
    assert side.warnings[0].startswith("1 statement of a ")
    (only,) = side.units[0].measured.values()
    assert only.total_s == pytest.approx(0.1)


@pytest.mark.parametrize("counter", ["total_exec_time", "rows", "shared_blks_hit", "wal_bytes"])
def test_any_smaller_counter_began_anew(tmp_path, counter):
    first = snapshot(tmp_path, V1_9, [row(1, 10, 100, rows="50")])
    last = snapshot(tmp_path, V1_9, [row(1, 12, 120, rows="60") | {counter: "7"}], "b.csv")
    between, anew = grown(read_snapshot(first), read_snapshot(last))
    (only,) = between.statements.values()
    assert (only.calls, anew) == (12, 1)


def test_counters_that_began_later_began_anew_and_what_is_gone_is_lost(tmp_path):
    times = ["2026-11-21 08:00:00.5+00", "2026-11-21 09:00:00.5+00:00"]
    first = [row(1, 10, 100, stats_since=times[0]), row(2, 5, 5, stats_since=times[0])]
    later = [row(1, 30, 300, stats_since=times[1])]
    begin = read_snapshot(snapshot(tmp_path, V1_11, first))
    end = read_snapshot(snapshot(tmp_path, V1_11, later, "b.csv"))
    between, lost = grown(begin, end)
    (only,) = between.statements.values()
    assert (only.calls, lost) == (30, 2)


def test_a_later_snapshot_of_the_same_counters_contains_the_first(tmp_path):
    first = read_snapshot(snapshot(tmp_path, V1_9, [row(1, 10, 100), row(2, 50, 10)]))
    later = [row(1, 30, 500), row(2, 50, 10), row(4, 1, 9)]
    last = read_snapshot(snapshot(tmp_path, V1_9, later, "b.csv"))
    other = read_snapshot(snapshot(tmp_path, V1_9, [row(1, 90, 900), row(2, 4, 1)], "c.csv"))
    assert contains(first, last)
    assert not contains(last, first)
    assert not contains(first, first)
    assert not contains(first, other)


def test_other_tables_are_no_snapshots(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("query,calls\nselect 1,2\n")
    assert not is_snapshot(path)
    with pytest.raises(UsageError, match="not a snapshot"):
        read_snapshot(path)
    path.write_text("query,calls,total_exec_time\nselect 1,many,2\n")
    with pytest.raises(UsageError, match="many"):
        read_snapshot(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_snapshot(tmp_path / "missing.csv")
