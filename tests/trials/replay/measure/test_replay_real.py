"""Replays of a real pgbench log: samples that add up, ceilings, interrupts, a server lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from postgres.programs import installed_programs
from seatrial._core import trace_statements
from seatrial.errors import RefusedError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import SilentWatcher
from seatrial.postgres.account import account_for
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect, driver_parameters, parse_url
from seatrial.postgres.server_processes import kill_server
from seatrial.results.replay import ReplayRecord
from seatrial.trials.database.study.workloads import ReplaySpec
from seatrial.trials.replay.measure import replay_ceiling
from seatrial.trials.replay.measure.replay import engine_spec, play
from seatrial.trials.replay.measure.replay_ceiling import replay_ceiling_per_s
from trials.database.measure.null_runs import null_server
from trials.database.measure.trial import trial
from trials.replay.logging_server import MODES, LoggingServer, logging_server
from trials.replay.study.traces import make_trace, read_csv

CLIENTS = 4
TRANSACTIONS = 200
STATEMENTS = 7
"""Of a transaction of pgbench's script tpcb-like, its BEGIN and its END among them."""
PLAYED = CLIENTS * TRANSACTIONS
STUDY = """
    name = "replays"
    [[target]]
    label = "here"
    {target}
    [[workload]]
    kind = "replay"
    trace = "{trace}"
    {more}
"""
SUMS = """
    SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(delta) FROM pgbench_history),
        (SELECT count(*) FROM pgbench_history)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    with logging_server(tmp_path_factory.mktemp("source"), installed_programs()) as server:
        yield server


@pytest.fixture(scope="module")
def trace(source: LoggingServer, tmp_path_factory) -> Path:
    """TPC-B by pgbench, captured; the source's database is as it was before it again."""
    source.pgbench("--initialize", "--quiet", "--scale=1")
    with source.logging("tpcb", **MODES["log_min_duration"]):
        options = (f"--client={CLIENTS}", f"--transactions={TRANSACTIONS}", "--no-vacuum")
        assert source.pgbench(*options) == PLAYED
    source.pgbench("--initialize", "--quiet", "--scale=1")
    return read_csv(source.log("tpcb", "csv"), tmp_path_factory.mktemp("traces") / "tpcb.trace")


def study(trace: Path, target: str, more: str = "") -> str:
    return STUDY.format(target=target, trace=trace, more=more)


def there(source: LoggingServer) -> str:
    address = source.server.address
    return f'url = "postgresql://{address.user}@/postgres?host={address.host}"'


def folder(tmp_path: Path) -> str:
    place = tmp_path / "here"
    place.mkdir()
    return f'path = "{place}"'


def length_s(trace: Path) -> float:
    """How long the capture took: as fast as this machine is."""
    starts = [
        statement["start_us"] for statement in trace_statements(trace, 0, 2 * PLAYED * STATEMENTS)
    ]
    return (max(starts) - min(starts)) / 1e6


def sums(source: LoggingServer) -> tuple[int, int, int]:
    with connect(source.server.address) as connection:
        return connection.execute(SUMS).fetchone()


def test_a_sample_on_a_directory_adds_up(tmp_path, trace):
    more = 'scale = 1\nstart = "warm"\norder = ["session", "commit"]'
    with trial(tmp_path, study(trace, folder(tmp_path), more)) as here:
        for cell in here.plan.cells:
            sample = here._databases.measure(cell, SampleContext(0, 0, SilentWatcher()))
            record = sample.replay
            assert record.end == "complete"
            assert all(account.adds_up for account in record.classes.values())
            total = record.total
            assert total.captured > total.ok >= PLAYED * STATEMENTS
            assert record.errors.new == total.failed == 0
            assert set(total.skipped) <= {"server", "ddl"}
            assert record.commits.committed == PLAYED
            assert sample.outcome.completed == total.ok
            assert sum(operation.completed for operation in sample.operations.values()) == total.ok
            assert sample.database.client_cpu_share > 0
            assert sample.database.ceiling_per_s > sample.outcome.completed / sample.duration_s
            assert sample.counters["transactions_committed"] >= PLAYED
            assert record.client.cpu_user_ns + record.client.cpu_system_ns > 0


def test_an_existing_database_is_read_and_stays_as_it_is(tmp_path, source, trace):
    before = sums(source)
    with trial(tmp_path, study(trace, there(source), "read_only = true")) as here:
        sample = here.measure("replay")
    assert sums(source) == before
    total = sample.replay.total
    assert total.adds_up
    assert total.ok >= PLAYED
    assert total.skipped["writes"] >= 4 * PLAYED
    assert total.failed == 0


def test_an_existing_database_is_written_to_where_its_name_was_typed(tmp_path, source, trace):
    with trial(tmp_path, study(trace, there(source), 'allow_writes = "postgres"')) as here:
        sample = here.measure("replay")
    assert sample.replay.commits.committed == PLAYED
    accounts, history, rows = sums(source)
    assert (accounts, rows) == (history, PLAYED)


def test_a_speed_is_kept_its_lag_reported_and_the_server_watched(tmp_path, source, trace):
    half_s = length_s(trace) / 2
    paced_s = 2.5  # what is watched is read once a second
    more = f"read_only = true\nspeed = {half_s / paced_s}\nuntil = {half_s}"
    with trial(tmp_path, study(trace, there(source), more)) as here:
        sample = here.measure("replay")
    record = sample.replay
    assert sample.duration_s == pytest.approx(paced_s, abs=0.3)
    assert sample.series.columns
    assert record.total.skipped["after_until"] > 0
    assert record.lag.paced == record.total.sent
    assert sample.operations["select"].service is not None


class InterruptsIn(SilentWatcher):
    """Presses Ctrl-C soon after statements were answered."""

    def live(self, reading) -> None:
        if reading.done > 0:
            raise KeyboardInterrupt


def test_an_interrupt_keeps_what_ran(tmp_path, source, trace):
    more = "read_only = true\nspeed = 0.05"
    with trial(tmp_path, study(trace, there(source), more)) as here:
        sample = here.measure("replay", watcher=InterruptsIn())
    assert sample.status == "interrupted"
    assert sample.replay.end == "interrupted"
    total = sample.replay.total
    assert total.adds_up
    assert total.not_reached > 0
    assert 0 < total.sent < PLAYED * STATEMENTS


def played_to_nobody(folder: Path, replay: ReplaySpec, **options: Any) -> ReplayRecord:
    """Replay to a null server."""
    with null_server(folder, connections_max=8) as server:
        endpoints = {"host": server.host, "port": server.port, "database": "y", "user": "x"}
        spec = engine_spec(replay, endpoints, slice_ms=10, stall_threshold_ms=60_000)
        outcome = play(spec, SilentWatcher(), **options)
    return msgspec.json.decode(outcome.result.record_json, type=ReplayRecord)


def test_a_record_is_of_what_is_played_and_not_of_the_whole_log(tmp_path):
    replay = ReplaySpec(trace=str(make_trace(tmp_path / "4s.trace")), ids="off", speed=4.0)
    record = played_to_nobody(tmp_path, msgspec.structs.replace(replay, until_s=1.0))
    assert 0 < record.total.sent < record.total.captured
    assert record.captured_s == pytest.approx(1.0, abs=0.2)
    assert record.lag.due_ns_last == pytest.approx(0.25e9, abs=0.05e9)
    assert record.lag.due_ns_last <= record.lag.sent_ns_last
    assert sum(moment.captured for moment in record.timeline) == record.total.sent
    assert 0 < record.client.reader_cpu_ns < record.client.cpu_ns
    # Connections that are closed because it was stopped are open until then.
    stopped = played_to_nobody(tmp_path, replay, seconds_max=0.3)
    assert stopped.total.not_reached
    assert stopped.timeline[-1].sessions == 2


def test_the_ceiling_is_well_above_what_a_database_does(trace):
    replay_ceiling._measured.cache_clear()
    per_s = replay_ceiling_per_s(ReplaySpec(trace=str(trace)), connections=CLIENTS)
    assert per_s > 5_000


def test_a_password_is_taken_as_libpq_takes_it(tmp_path, source, trace, monkeypatch):
    with connect(source.server.address) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'p w' IN ROLE pg_read_all_data")
    address = source.server.address
    passfile = tmp_path / "pgpass"
    passfile.write_text("*:*:*:reader:p w\n")
    passfile.chmod(0o600)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", os.fspath(passfile))
    url = f"postgresql://reader@/postgres?host={address.host}"
    assert driver_parameters(*parse_url(url))["password"] == "p w"
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGPASSWORD", "of the environment")
    assert driver_parameters(*parse_url(url))["password"] == "of the environment"
    with trial(tmp_path, study(trace, f'url = "{url}"', "read_only = true")) as here:
        sample = here.measure("replay")
    assert "of the environment" not in msgspec.json.encode(sample.replay).decode()
    assert sample.replay.total.failed == 0
    assert sample.replay.total.ok >= PLAYED


class Kills(SilentWatcher):
    """Kills the server below a folder soon after statements were answered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.killed: list[Path] = []

    def live(self, reading) -> None:
        if reading.done > 0 and not self.killed:
            (pid_file,) = self._folder.rglob("postmaster.pid")
            self.killed.append(pid_file.parent)
            assert kill_server(pid_file.parent)


def test_a_server_that_is_killed_is_reported_and_what_ran_is_kept(tmp_path, trace):
    text = study(trace, folder(tmp_path), 'scale = 1\nstart = "warm"\nspeed = 0.1')
    with trial(tmp_path, text) as here:
        sample = here.measure("replay", watcher=Kills(tmp_path / "here"))
        again = here.measure("replay", round_number=1, watcher=InterruptsIn())
    record = sample.replay
    assert record.end == "server_lost"
    assert record.words
    assert record.total.adds_up
    assert record.total.sent > 0
    assert record.total.not_reached + record.total.skipped_count > 0
    assert any("The connection to the server was lost" in note for note in sample.database.notes)
    assert again.replay.total.ok > 0


@pytest.fixture
def standby(source, tmp_path):
    """A server in recovery that takes reading sessions: a copy of a new cluster, with a signal."""
    data = tmp_path / "standby" / "data"
    data.parent.mkdir()
    binaries = source.binaries
    with UndoJournal("standby", tmp_path / "standby" / "state") as journal:
        account = account_for(data, binaries)
        cluster = create_cluster(data, binaries, account, journal)
        with cluster.start({}):
            pass
        signal = data / "standby.signal"
        signal.touch()
        account.take_ownership(signal)
        with cluster.start({}) as server:
            yield server


def test_a_standby_takes_only_what_reads_and_only_where_requested(tmp_path, trace, standby):
    url = f"postgresql://{standby.address.user}@/postgres?host={standby.address.host}"
    target = f'url = "{url}"'
    for more, words in (
        ('allow_writes = "postgres"', "in recovery, and the replay would write"),
        ("read_only = true", "--allow recovery"),
    ):
        with (
            pytest.raises(RefusedError, match=words),
            trial(tmp_path, study(trace, target, more)),
        ):
            raise AssertionError("it was opened")
    workload = f'kind = "replay"\n    trace = "{trace}"'
    own = study(trace, target).replace(workload, 'kind = "pgbench"\n    scale = 1')
    with pytest.raises(RefusedError, match="takes no writes"), trial(tmp_path, own):
        raise AssertionError("it was opened")
    more = 'read_only = true\nallow = ["recovery"]'
    with trial(tmp_path, study(trace, target, more)) as here:
        sample = here.measure("replay")
    record = sample.replay
    assert record.total.adds_up
    assert record.errors.new > 0
    assert any("no tables before the replay" in note for note in sample.database.notes)
    assert record.classes["transaction"].failed < record.classes["transaction"].captured
