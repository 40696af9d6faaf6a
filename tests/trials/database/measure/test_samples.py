"""Samples of a real server: they say what pgbench printed, in the state that was asked for."""

from __future__ import annotations

import contextlib
import os
import re
import signal

import pytest

from postgres.programs import installed_programs
from seatrial.errors import TargetError
from seatrial.measure.progress import SilentWatcher
from seatrial.postgres.connection import connect
from seatrial.postgres.server_processes import read_pid_file, server_pids
from seatrial.trials.database.measure import client_ceiling, pgbench
from trials.database.measure.trial import trial

LONG_S = 30
ENDLESS_S = 60
"""What would run so long if it were not ended, as the study and its program say."""

STUDY = """
    name = "samples"
    [[target]]
    label = "here"
    path = "{data_folder}"
    [[workload]]
    kind = "pgbench"
    name = "states"
    scale = 1
    clients = 3
    seconds = 1
    start = ["cold", "warm", "prewarmed"]
    [[workload]]
    kind = "pgbench"
    name = "rated"
    scale = 1
    clone = "reuse"
    clients = 2
    seconds = 1
    rate = 400
    protocols = "prepared"
    scripts = "select-only"
    [[workload]]
    kind = "pgbench"
    name = "twice"
    scale = 1
    clients = 2
    processes = 2
    seconds = 1
    [[workload]]
    kind = "pgbench"
    name = "own"
    scale = 1
    clone = "reuse"
    clients = 2
    seconds = 1
    scripts = ["{data_folder}/own.sql", "{data_folder}/wrong.sql", "{data_folder}/sleepy.sql",
               "{data_folder}/stuck.sql"]
    [[workload]]
    kind = "pgbench"
    name = "long"
    scale = 1
    clients = 2
    seconds = 30
    [[workload]]
    kind = "pgbench"
    name = "seldom"
    scale = 1
    clone = "reuse"
    clients = 1
    seconds = 1
    rate = 0.01
    scripts = "select-only"
    [[workload]]
    kind = "pgbench"
    name = "limited"
    scale = 1
    clients = 2
    seconds = 1
    clone = "template"
    [workload.settings]
    shared_buffers = "24MB"
    [[workload]]
    kind = "telemetry"
    devices = 50
    history_hours = 1
    batch_rows = 20
    query_share = 0.25
    clients = 2
    seconds = 1
    clone = "reuse"
    [[workload]]
    kind = "batch"
    name = "good"
    scale = 1
    clone = "reuse"
    file = "{data_folder}/good.sql"
    [[workload]]
    kind = "batch"
    name = "bad"
    scale = 1
    clone = "reuse"
    file = "{data_folder}/bad.sql"
    [[workload]]
    kind = "batch"
    name = "endless"
    scale = 1
    clone = "reuse"
    seconds = 0.4
    file = "{data_folder}/endless.sh"
"""
FILES = {
    "own.sql": "\\set a random(1, 100000 * :scale)\n"
    "SELECT abalance FROM pgbench_accounts WHERE aid = :a;\n",
    "wrong.sql": "SELECT no_such_column FROM pgbench_accounts;\n",
    "sleepy.sql": "\\sleep 300 ms\nSELECT 1;\n",
    "stuck.sql": f"SELECT pg_sleep({ENDLESS_S});\n",
    "good.sql": "SELECT pg_sleep(0.3);\nUPDATE pgbench_branches SET bbalance = 1;\n",
    "bad.sql": "SELECT 1;\nSELECT no_such_function();\nSELECT pg_sleep(10);\n",
    "endless.sh": "#!/bin/sh\necho $PGDATABASE >&2\nsleep 60\n",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The databases of the study, loaded once; each test measures cells of it."""
    installed_programs()
    folder = tmp_path_factory.mktemp("samples")
    place = folder / "place"
    place.mkdir()
    for name, text in FILES.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    with trial(folder, STUDY.format(data_folder=place)) as opened:
        yield opened
    assert sorted(path.name for path in place.iterdir()) == sorted(FILES)


@pytest.fixture
def printed(monkeypatch):
    """All that pgbench prints at its ends."""
    texts: list[str] = []
    plain = pgbench.totals

    def spied(text):
        texts.append(text)
        return plain(text)

    monkeypatch.setattr(pgbench, "totals", spied)
    return texts


@pytest.fixture
def seeds(monkeypatch):
    """The seed of each pgbench that is started."""
    found: list[str] = []
    plain = pgbench.Process

    def spied(command, *rest):
        found.extend(word for word in command if word.startswith("--random-seed"))
        return plain(command, *rest)

    monkeypatch.setattr(pgbench, "Process", spied)
    return found


def said(text: str, what: str) -> str:
    """The figure that a line of pgbench's begins with ``what`` and ends in, as it printed it."""
    (line,) = (line for line in text.splitlines() if line.startswith(what))
    return re.search(r"[\d.]+", line.removeprefix(what))[0]


def mean_ms(histogram) -> str:
    return f"{histogram.mean_ns / 1e6:.3f}"


def test_totals_are_pgbenchs_own_to_the_digit(here, printed):
    sample = here.measure("states", start="warm")
    (text,) = printed
    response = sample.operations["transaction"].response_histogram()
    assert str(sample.outcome.completed) == said(text, "number of transactions actually processed:")
    assert f"{sample.completed_per_s:.6f}" == said(text, "tps =")
    assert mean_ms(response) == said(text, "latency average =")
    assert response.count == sample.outcome.completed == sample.outcome.offered
    assert sample.engine == "pgbench"
    assert sum(row.completed for row in sample.timeline.slices) == response.count
    assert sample.counters["wal_bytes"] > 0
    assert sample.database.ceiling_per_s > sample.completed_per_s
    assert 0 < sample.database.client_cpu_share < 1


def test_a_rate_keeps_the_lag_apart(here, printed):
    sample = here.measure("rated")
    (text,) = printed
    transactions = sample.operations["transaction"]
    lag_ms = (
        transactions.response_histogram().mean_ns - transactions.service_histogram().mean_ns
    ) / 1e6
    assert f"{lag_ms:.3f}" == said(text, "rate limit schedule lag: avg")
    assert mean_ms(transactions.response_histogram()) == said(text, "latency average =")
    assert sample.database.reported["lag_ms_mean"] > 0
    assert 200 < sample.completed_per_s < 600


def test_two_processes_have_a_database_each_and_are_summed_up(here, printed, seeds):
    sample = here.measure("twice")
    tps = [float(said(text, "tps =")) for text in printed]
    completed = [int(said(text, "number of transactions actually")) for text in printed]
    shown = sample.database.reported
    assert [shown["tps_1"], shown["tps_2"]] == tps
    assert sample.outcome.completed == sum(completed)
    assert sample.completed_per_s == pytest.approx(sum(tps), rel=1e-9)
    alone = here.measure("states", start="warm")
    assert sample.database.database_bytes > 1.9 * alone.database.database_bytes
    first, second, same = seeds
    assert first == same != second, "the transactions of a round are the same in every cell"


def test_cold_is_cold_and_prewarmed_is_warm(here):
    cold, warm, prewarmed = (
        here.measure("states", start=start) for start in ("cold", "warm", "prewarmed")
    )
    size_bytes = cold.database.database_bytes
    assert cold.database.cached_bytes < 0.2 * size_bytes < 0.5 * size_bytes
    assert warm.database.cached_bytes > 0.6 * size_bytes
    reads = [each.counters["shared_reads"] for each in (cold, warm, prewarmed)]
    assert reads[2] < 0.2 * reads[0]
    assert reads[1] > 0.5 * reads[0], "a warm server reads as much, but from the page cache"
    assert [each.database.start_state for each in (cold, warm, prewarmed)] == [
        "cold",
        "warm",
        "prewarmed",
    ]
    assert not any("not cold" in note for note in cold.database.notes)


def test_an_own_script_runs_and_a_wrong_one_ends_in_pgbenchs_words(here):
    sample = here.measure("own", script="own.sql")
    assert sample.outcome.completed > 100
    with pytest.raises(TargetError, match=r"client \d.*no_such_column"):
        here.measure("own", script="wrong.sql")


def test_settings_and_copies_by_the_server(here):
    sample = here.measure("limited")
    assert sample.database.settings["shared_buffers"] == "24MB"
    assert sample.database.cloned == "template"
    again = here.measure("limited", round_number=1)
    assert again.outcome.completed > 0, "the copy is made anew each time"
    assert again.database.database_bytes == pytest.approx(sample.database.database_bytes, rel=0.02)


def test_a_script_that_sleeps_or_fails_alone_has_no_ceiling(here, monkeypatch):
    def gives_up(*_arguments, **_setup):
        raise TargetError(seen="It gave up", cause="It needs answers", next_step="None")

    sleepy = here.measure("own", script="sleepy.sql")
    monkeypatch.setattr(client_ceiling, "ceiling_per_s", gives_up)
    failing = here.measure("own", script="own.sql")
    for sample, why in ((sleepy, "sleeps"), (failing, "It gave up")):
        assert sample.outcome.completed > 0
        assert sample.database.ceiling_per_s is None
        assert any(why in note for note in sample.database.notes)


class AfterAWhile(SilentWatcher):
    """Does something once, when the cell has run for 0.6 s."""

    def __init__(self, act):
        self._act = act
        self._done = False

    def live(self, reading):
        if reading.elapsed_s > 0.6 and not self._done:
            self._done = True
            self._act()


def test_an_interrupt_ends_pgbench_in_order(here, printed):
    watcher = AfterAWhile(lambda: os.kill(os.getpid(), signal.SIGINT))
    sample = here.measure("long", watcher=watcher)
    (text,) = printed
    assert sample.status == "interrupted"
    assert 0.2 < sample.duration_s < LONG_S
    assert str(sample.outcome.completed) == said(text, "number of transactions actually processed:")


def test_an_interrupt_does_not_wait_for_the_end_of_a_long_transaction(here, monkeypatch):
    monkeypatch.setattr(pgbench, "STOPPED_S_MAX", 0.5)
    watcher = AfterAWhile(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        here.measure("own", script="stuck.sql", watcher=watcher)


def test_a_sample_without_a_transaction_is_empty(here, printed):
    sample = here.measure("seldom")
    assert "tps = " not in printed[-1], "pgbench prints no rate of nothing"
    assert (sample.status, sample.outcome.completed) == ("complete", 0)
    assert sample.duration_s > 0


def test_a_server_that_dies_is_reported_with_the_end_of_its_log(here):
    data = here.folder.file("sample")
    watcher = AfterAWhile(lambda: os.kill(read_pid_file(data).pid, signal.SIGKILL))
    with pytest.raises(TargetError, match="log") as caught:
        here.measure("long", watcher=watcher)
    assert "listening" in str(caught.value) or "ready" in str(caught.value)
    assert server_pids(data) == []
    assert not data.exists()
    assert here.measure("states", start="warm").outcome.completed > 0, "the next sample is well"


def test_commits_that_wait_for_a_missing_standby_end_in_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(pgbench, "CONNECT_S_MAX", 0.0)
    monkeypatch.setattr(pgbench, "OVERDUE_S_MAX", 0.5)
    study = f"""
        name = "standby"
        [[target]]
        label = "here"
        path = "{tmp_path}"
        [[workload]]
        kind = "pgbench"
        scale = 1
        clients = 5
        seconds = 1
        [workload.settings]
        synchronous_standby_names = "s1"
    """
    with trial(tmp_path, study) as here, pytest.raises(TargetError, match="IPC:SyncRep"):
        here.measure("pgbench")


@pytest.mark.parametrize(
    ("waits", "is_working"),
    [
        (["Lock:tuple", "Lock:transactionid", "CPU"], True),
        (["IPC:ExecuteGather", "IO:DataFileRead"], True),
        (["Lock:tuple", "Lock:transactionid"], False),
        ([], False),
    ],
)
def test_a_load_hangs_only_if_no_session_works(monkeypatch, waits, is_working):
    monkeypatch.setattr(pgbench, "_waits", lambda _endpoints: waits)
    monkeypatch.setattr(pgbench, "CONNECT_S_MAX", -100.0)
    deadline = pgbench._Deadline(None, 0.0)
    with contextlib.nullcontext() if is_working else pytest.raises(TargetError, match="60 s"):
        deadline.check()


def test_telemetry_stores_as_many_rows_as_it_says(here):
    sample = here.measure("telemetry")
    again = here.measure("telemetry", round_number=1)
    ingested = sum(int(each.counters["ingested_rows"]) for each in (sample, again))
    operations = sample.operations
    assert sample.counters["ingested_rows"] == 20 * operations["ingest"].completed > 0
    assert 0.1 < operations["query"].completed / sample.outcome.completed < 0.4
    counted, distinct, late = rows_of(here)
    assert counted == distinct == 50 * 60 + ingested
    assert late == (counted - 1) // 50, "every minute is whole before the next one begins"


def rows_of(here):
    """Rows, distinct keys and the last minute of the telemetry that the samples stored."""
    host = here._databases._hosts["here", False]
    (cluster,) = (
        cluster for (load, _), cluster in host._clusters.items() if load.kind == "telemetry"
    )
    query = """
        SELECT count(*), count(DISTINCT (device, at)),
            (extract(epoch FROM max(at) - min(at)) / 60)::int
        FROM telemetry_sample
    """
    with (
        cluster.at(here.folder.file(f"{cluster.folder.name}-reuse")).start({}) as server,
        connect(server.address, dbname="trial_1") as connection,
    ):
        return connection.execute(query).fetchone()


def test_a_batch_is_timed_and_a_failing_one_is_reported(here):
    good, bad, endless = (here.measure(name) for name in ("good", "bad", "endless"))
    assert 0.3 <= good.database.batch_s["real"] < 1.0
    assert good.operations["batch"].response_histogram().max_ns == pytest.approx(
        good.database.batch_s["real"] * 1e9, rel=1e-6
    )
    assert (bad.outcome.completed, bad.outcome.failed, bad.errors_count) == (0, 1, 1)
    assert bad.errors[0].errno == 3
    assert "no_such_function" in bad.errors[0].name
    assert endless.errors[0].name == "stopped after 0.4 s: trial_1"
    assert endless.duration_s < ENDLESS_S
