"""A log of SQL as a need: its commits, its shape over time, and what it must not be used for."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cli.command import Ended, seatrial
from report.json_schema import assert_published
from seatrial.results.model import Series
from seatrial.trials.plan.analysis.demand import constant_demand
from seatrial.trials.plan.analysis.log_load import (
    LACKS,
    commit_demand,
    demand_following,
    logged_load,
)
from seatrial.trials.plan.commands.load_source import demands_of_samples, log_load_of
from seatrial.trials.replay.analysis.pace import ratio_to_capture
from stats.builders import run_of
from trials.replay.analysis.hand import Play, sample_of

BEGAN = datetime.datetime(2026, 11, 21, 8, tzinfo=datetime.UTC)
MINUTES = 30
BUSY_MINUTE = 20
QUIET_PER_MINUTE, BUSY_PER_MINUTE = 30, 600
ABOUT = {"sessions_max": 3, "timed_share": 1.0, "commit_ms": None}
IO = ("--io", "reads=900,writes=100,size=8KiB")


def line(at_s: float, process: int, ms: float, sql: str) -> str:
    at = BEGAN + datetime.timedelta(seconds=at_s)
    return (
        f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC [{process}] LOG:  "
        f"duration: {ms:.3f} ms  statement: {sql}\n"
    )


def transactions(per_minute: list[int]) -> str:
    """A log of three sessions: a transaction that writes, and a query and a procedure besides."""
    lines = []
    for minute, count in enumerate(per_minute):
        for source_name in range(count):
            at_s, process = 60 * (minute + (source_name + 0.5) / count), 100 + source_name % 3
            lines += [
                line(at_s, process, 0.1, "BEGIN"),
                line(at_s + 0.002, process, 0.5, "INSERT INTO t VALUES (5)"),
                line(at_s + 0.012, process, 8.0, "COMMIT"),
                line(at_s + 0.014, process, 0.5, "SELECT a FROM t WHERE k = 5"),
            ]
            if source_name % 2:
                lines.append(line(at_s + 0.02, process, 1.0, "CALL p(5)"))
    return "".join(lines)


def busy_minute() -> list[int]:
    found = [QUIET_PER_MINUTE] * MINUTES
    found[BUSY_MINUTE] = BUSY_PER_MINUTE
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    source_name = tmp_path_factory.mktemp("log") / "prod.log"
    source_name.write_text(transactions(busy_minute()))
    return source_name


def planned(log: Path, *words: str) -> Ended:
    return seatrial(
        "plan", log.name, "--capacity", "500GiB", "--volume", "gp2", "--volume", "gp3", *words,
        folder=log.parent, env={"SEATRIAL_CATALOGUE": str(log.parent / "own.toml")},
    )  # fmt: skip


def test_a_log_shows_its_commits_by_minute(log: Path):
    load = log_load_of(str(log))
    assert load is not None
    assert load.slot_s == 60
    counts = np.array(busy_minute())
    assert load.commits_per_s_min * 60 == pytest.approx(counts[: len(load.commits_per_s_min)])
    commits = load.busiest_commits_per_s
    assert (commits.low, commits.high) == (10.0, 15.0)
    assert load.commit_ms is not None
    assert load.commit_ms == pytest.approx((8.0, 8.0), rel=0.01)
    busy_s = BUSY_PER_MINUTE * (0.1 + 0.5 + 8.0 + 0.5 + 0.5) / 1000
    assert load.at_work.max() == pytest.approx(busy_s / 60)


def test_a_trace_of_a_log_is_the_same_need(log: Path):
    assert seatrial("sql", "read", log.name, "-o", "prod.trace", folder=log.parent).code == 0
    load, traced = log_load_of(str(log)), log_load_of(str(log.parent / "prod.trace"))
    assert load is not None
    assert traced is not None
    assert (load.statements_per_s == traced.statements_per_s).all()
    assert (load.commits_per_s_max == traced.commits_per_s_max).all()


def test_means_follow_the_statements_and_keep_their_mean():
    columns = np.array([[10.0, 10.0, 80.0, 20.0], *[[1.0] * 4] * 3])
    load = logged_load("x", 60.0, columns, **ABOUT)
    demand = demand_following(constant_demand("typed", 900, 100, 8192), load)
    assert demand.reads_per_s.mean() == pytest.approx(900)
    assert demand.write_bytes_per_s.mean() == pytest.approx(100 * 8192)
    shape = load.statements_per_s / load.statements_per_s.mean()
    assert demand.reads_per_s / 900 == pytest.approx(shape)
    assert demand.reads_per_s.max() > 2 * demand.reads_per_s.min()


def test_a_second_at_the_end_of_a_log_is_no_busiest_minute():
    """30 minutes with 10 commits a second, then a second with 100: 11.5 in the last minute."""
    commits = np.full(1801, 10.0)
    commits[-1] = 100
    load = logged_load("x", 1.0, np.array([commits] * 4), **ABOUT)
    assert load.busiest_commits_per_s.high == pytest.approx(11.5, rel=0.02)
    assert load.commits_per_s_max.mean() == pytest.approx(commits.mean())
    assert "busiest minute" in load.words()[0]


def test_commits_that_may_share_a_write_are_an_interval():
    commits = np.array([[60.0] * 20, [30.0] * 20, [60.0] * 20, [180.0] * 20])
    demand, shared = commit_demand(logged_load("x", 60.0, commits, **ABOUT))
    assert demand.writes_per_s == pytest.approx(np.full(20, 1.0))
    assert (shared.low, shared.high) == pytest.approx((0.5 / 3, 1.0))
    assert shared.mid == pytest.approx(math.sqrt(0.5 / 3))


def test_a_burst_of_the_log_refuses_what_its_mean_would_not(log: Path):
    """900 + 100 IOPS on the average, 12.2 times that for a minute: no small volume serves it."""
    words = ("--other-day", "1", "--growth", "0", "--json")
    steady = seatrial(
        "plan", "reads=900,writes=100,size=8KiB", "--capacity", "500GiB", "--volume", "gp3", *words,
        folder=log.parent,
    )  # fmt: skip
    bursting = planned(log, *IO, *words)
    assert bursting.code == steady.code == 0, bursting
    assert_published(bursting.document)
    plan = bursting.document["plan"]
    mean_per_s = (QUIET_PER_MINUTE * (MINUTES - 1) + BUSY_PER_MINUTE) / MINUTES
    assert plan["busiest_per_s"] == pytest.approx(1000 * BUSY_PER_MINUTE / mean_per_s, rel=0.01)
    assert plan["follows"]["low"] < 1 < plan["follows"]["high"]
    assert "follows" in plan["load"]
    assert steady.document["plan"]["choices"][0]["binding_per_s"] < 5000
    assert all(each["binding_per_s"] > 5000 for each in plan["choices"])
    assert plan["lacks"] == ""


def test_without_block_io_only_commits_are_judged(log: Path):
    done = planned(log, "--objective", "commit.p99_ms=50", "--explain", "--json")
    assert done.code == 0, done
    assert_published(done.document)
    plan = done.document["plan"]
    assert done.document["verdict"].startswith("Not ranked, as the log has no block I/O.")
    assert done.document["notes"][0] == LACKS == plan["lacks"]
    assert "watch" in LACKS
    assert plan["busiest_per_s"] == pytest.approx(15.0)
    assert any("10 to 15 per second" in each for each in done.document["steps"])
    assert any("COMMIT after writes took 8 ms" in each for each in done.document["steps"])
    assert not any("proof" in each for each in done.document["notes"])
    fast = planned(log, "--objective", "commit.p99_ms=0.05", "--json")
    assert fast.document["plan"]["choices"] == [], "no volume commits within 0.05 ms"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--objective", "read.p99_ms=5"), "cannot be judged from the log"),
        (("--study", "p.toml"), "there is no rate to prove"),
        (("--io", "reads=900,size=8KiB"), "it has no writes"),
    ],
)
def test_what_a_log_does_not_hold_is_refused(log: Path, words: tuple[str, ...], said: str):
    done = planned(log, *words)
    assert done.code == 2, done
    assert said in " ".join(done.err.split())


def test_block_io_is_typed_for_a_log_alone(tmp_path: Path):
    done = seatrial(
        "plan", "reads=6,writes=2,size=8KiB", "--capacity", "1GiB", *IO, folder=tmp_path
    )
    assert done.code == 2
    assert "is not a log of SQL" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1;\nUPDATE t SET a = 1;\n", "has no times"),
        (line(0, 1, 1.0, "SELECT 1"), "No committed transaction of prod.log writes"),
    ],
)
def test_a_log_without_times_or_writes_is_one_sentence(tmp_path: Path, text: str, said: str):
    (tmp_path / "prod.log").write_text(text)
    done = planned(tmp_path / "prod.log")
    assert done.code == 2, done
    assert said in " ".join(done.err.split())


def test_limits_of_a_trace_take_block_io(log: Path):
    assert (
        seatrial("sql", "read", log.name, "-o", "c.trace", "--force", folder=log.parent).code == 0
    )
    done = seatrial("caps", "c.trace", "--volume", "gp3:700GiB", folder=log.parent)
    assert done.code == 2
    assert "is a trace of SQL, which holds no block I/O" in " ".join(done.err.split())


def test_a_replay_counts_at_the_pace_of_its_capture():
    """What was replayed 4.5 times as fast asks storage for that many times less, for longer."""
    sample = sample_of(Play())
    pace = ratio_to_capture([sample])
    assert pace is not None
    assert pace.value > 4
    columns = dict.fromkeys(("device_read_per_s", "device_write_per_s"), [900.0] * 12)
    columns |= dict.fromkeys(("device_read_bytes_per_s", "device_write_bytes_per_s"), [9e6] * 12)
    series = Series(period_s=1.0, columns=columns)
    (demand,) = demands_of_samples(run_of(), [msgspec.structs.replace(sample, series=series)])
    assert demand.reads_per_s == pytest.approx(np.full(12, 900 / pace.value))
    assert demand.bytes_per_s == pytest.approx(np.full(12, 18e6 / pace.value))
    assert demand.seconds == pytest.approx(12 * pace.value)
    assert "at the captured pace" in demand.origin
    assert "flush" not in demand.origin
    flushed = Series(period_s=1.0, columns=columns | {"device_flush_per_s": [None, 40.0] * 6})
    (demand,) = demands_of_samples(run_of(), [msgspec.structs.replace(sample, series=flushed)])
    assert "flushes, which disks count as writes" in demand.origin
    ended = sample_of(Play(speed=1.0, ended_at_share=0.6, end="server_lost"))
    (part,) = demands_of_samples(run_of(), [msgspec.structs.replace(ended, series=series)])
    assert part.reads_per_s == pytest.approx(np.full(12, 900.0)), "of a part no pace is known"
