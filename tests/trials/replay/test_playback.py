"""Loads of real servers, logged, read and played to another one: all of it arrives there."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.results.replay import ReplayRecord
from seatrial.trials.replay.analysis.verdict import judge
from trials.replay.loads import Trace, read
from trials.replay.logging_server import MODES, LoggingServer
from trials.replay.mixed_load import ERRORS, RECONNECTS, SESSIONS, TABLES, TURNS, mixed_load
from trials.replay.targets import CONFLICT_ORDERS, END_OF_LOGGING, Target, play, record_in, replay

CLIENTS = 8
TRANSACTIONS = 100
"""Of each client; the whole case of 8 x 2,000 is in bench/RESULTS.md."""
COMMITS = CLIENTS * TRANSACTIONS
ORDERS = ("session", "commit", *CONFLICT_ORDERS)


@pytest.fixture(scope="module")
def tpcb(source, target, tmp_path_factory) -> dict[str, Trace]:
    """Logs of pgbench by protocol; the database ``tpcb`` of the target is as they begin."""
    folder = tmp_path_factory.mktemp("tpcb")
    source.pgbench("--initialize", "--quiet", "--scale=1")
    traces = {}
    for protocol in ("simple", "prepared"):
        with source.logging(f"tpcb-{protocol}", **MODES["log_statement"]):
            done = source.pgbench(
                "--no-vacuum",
                f"--protocol={protocol}",
                f"--client={CLIENTS}",
                f"--transactions={TRANSACTIONS}",
            )
        assert done == COMMITS
        log = source.log(f"tpcb-{protocol}", "csv")
        traces[protocol] = read(log, folder / f"{protocol}.trace")
    target.make("tpcb")
    target.pgbench("tpcb", "--initialize", "--quiet", "--scale=1")
    return traces


@pytest.mark.parametrize(
    ("protocol", "speed", "order"),
    [
        *(("simple", speed, order) for speed in (None, 1.0, 2.5) for order in ORDERS),
        *(("prepared", None, order) for order in ORDERS),
    ],
)
def test_tpcb_ends_and_its_invariant_holds(tpcb, target, protocol, speed, order):
    name = target.make("tpcb_played", template="tpcb")
    record = play(tpcb[protocol].path, target.address(name), speed=speed, order=order)
    assert judge(record).ok, judge(record)
    assert_all_was_sent(record)
    assert record.commits.captured == record.commits.committed == COMMITS
    accounts, branches, tellers, history, transactions = target.sums(name)
    assert accounts == branches == tellers == history
    assert transactions == COMMITS
    assert (record.lag.paced > 0) == (speed is not None)


def assert_all_was_sent(record: ReplayRecord) -> None:
    assert record.end == "complete", record.words
    total = record.total
    assert all(account.adds_up for account in record.classes.values())
    assert (total.not_reached, total.failed) == (0, 0)
    assert total.skipped == {"server": END_OF_LOGGING}
    assert total.ok == total.captured - END_OF_LOGGING >= COMMITS * 7
    assert record.sessions.open_max <= record.sessions.captured_open_max
    assert (record.sessions.lost, record.sessions.refused) == (0, 0)


def test_a_pace_is_not_overtaken(tpcb, target):
    name = target.make("tpcb_played", template="tpcb")
    trace = tpcb["simple"]
    statements = sorted(statement["start_us"] for statement in trace.statements)
    half_us = (statements[-1] - statements[0]) // 2
    record = play(trace.path, target.address(name), speed=1.0, until_us=half_us)
    assert record.total.skipped["after_until"] > 0
    assert record.total.ok + record.total.skipped_count == record.total.captured
    assert len(record.timeline) * record.timeline_slice_s >= 0.8 * half_us / 1e6


def test_the_command_says_so(tpcb, target, tmp_path):
    name = target.make("tpcb_played", template="tpcb")
    reported = replay(
        tpcb["simple"].path, target.url(name), "--allow-writes", name, folder=tmp_path
    )
    assert reported.code == 0, reported.out + reported.err
    record = record_in(tmp_path)
    sent, captured = f"{record.total.ok:,}", f"{record.total.captured:,}"
    first = " ".join(reported.out.split())
    assert (
        f"{sent} of {captured} statements were sent, {END_OF_LOGGING} skipped, 0 new errors: "
        in first
    )
    assert "(measured once" in first or "within one round" in first, first
    assert "x the captured rate. " in first
    assert f"{COMMITS:,} of {COMMITS:,}" in first
    assert list(tmp_path.glob("seatrial-reports/*.html"))


def test_a_folder_gets_a_server_of_its_own(tpcb, tmp_path):
    (tmp_path / "ssd").mkdir()
    reported = replay(
        *(tpcb["simple"].path, tmp_path / "ssd", "--scale", "1", "--rounds", "2"),
        *("--until", "500ms"),
        folder=tmp_path,
    )
    assert reported.code == 0, reported.out + reported.err
    assert "statements/s (95 % " in " ".join(reported.out.split())
    assert list((tmp_path / "ssd").iterdir()) == []


def test_read_only_leaves_the_database_as_it_is(tpcb, target, tmp_path):
    before = target.checksums("tpcb")
    reported = replay(tpcb["simple"].path, target.url("tpcb"), "--read-only", folder=tmp_path)
    assert reported.code == 0, reported.out + reported.err
    assert target.checksums("tpcb") == before
    total = record_in(tmp_path).total
    assert sum(total.skipped.values()) == 4 * COMMITS + END_OF_LOGGING
    assert total.skipped["writes"] >= 4 * COMMITS
    assert total.ok == total.captured - total.skipped_count


class Mixed:
    """The mixed load: its traces, and what the source's tables hold after it."""

    def __init__(self, source: LoggingServer, folder: Path) -> None:
        source_target = Target(source.server, None)
        source_target.run("postgres", TABLES)
        with source.logging("mixed", **MODES["log_statement"]):
            still_open = mixed_load(source)
        self.log = source.log("mixed", "csv")
        self.trace = read(self.log, folder / "mixed.trace")
        # Only now: their ends might still come into the log.
        for session in still_open:
            session.close()
        self.checksums = source_target.checksums("postgres")


@pytest.fixture(scope="module")
def mixed(source, target, tpcb, tmp_path_factory) -> Mixed:
    target.make("mixed", TABLES)
    return Mixed(source, tmp_path_factory.mktemp("mixed"))


def without_the_copied(checksums: dict) -> dict:
    """What a database holds but for what COPY loaded, which no log has."""
    own = {"account", "entry"}
    return {name: each for name, each in checksums.items() if name in own}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("speed", [None, 4.0])
def test_interleaved_sessions_leave_what_they_left(mixed, target, order, speed):
    name = target.make("mixed_played", template="mixed")
    record = play(mixed.trace.path, target.address(name), speed=speed, order=order)
    assert judge(record).ok, (judge(record), record.errors)
    found = without_the_copied(target.checksums(name))
    assert found == without_the_copied(mixed.checksums)
    errors = record.errors
    assert (errors.same, errors.other, errors.new, errors.gone) == (sum(ERRORS.values()), 0, 0, 0)
    assert record.total.skipped == {"copy_data": 1, "server": END_OF_LOGGING}
    assert record.total.not_reached == 0
    # The COMMIT of a transaction that had failed in the capture too is in no count.
    assert record.commits.captured == record.commits.committed == SESSIONS * TURNS
    assert record.commits.rolled_back == 0
    # With the one that is odd, and the one that ended the logging.
    assert record.sessions.captured == SESSIONS + RECONNECTS + 2
    assert record.sessions.never_ended >= 2
    assert target.run(name, "SELECT count(*) FROM loaded") == [(0,)]


@pytest.mark.parametrize("order", ORDERS)
def test_a_log_cut_in_the_middle_is_played_as_far_as_it_goes(mixed, target, tmp_path, order):
    whole = mixed.log.read_bytes()
    cut = tmp_path / "cut.csv"
    cut.write_bytes(whole[: len(whole) * 3 // 5])
    trace = read(cut, tmp_path / "cut.trace")
    assert trace.reading.accounting.statements < len(mixed.trace.statements)
    name = target.make("mixed_played", template="mixed")
    record = play(trace.path, target.address(name), order=order)
    assert record.end == "complete"
    total = record.total
    assert total.adds_up
    assert (total.not_reached, record.errors.new) == (0, 0)
    assert target.run(name, "SELECT count(*) FROM entry WHERE session = 100") == [(0,)]
