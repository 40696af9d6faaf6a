"""pgbench on one and on four hosts against one PostgreSQL, and hosts that are lost meanwhile."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.shared_lab import HOSTS, measured
from fleet.throttled_server import WRITES_PER_S, lab_server
from seatrial.errors import EXIT_PARTIAL
from seatrial.findings.summary import summarise
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.topic import topics
from seatrial.trials.database.measure.hosts import HostLoadGenerator

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]

CLIENTS = 4
SECONDS = 4
ROUNDS = 2
MORE_OF_A_HOST = CLIENTS + 2 + 2
"""Transactions that the server counts and no log holds: each session begins with one (the clients,
pgbench's first session, and ours that tries the address), and pgbench sends two statements before
the load (``GetTableInfo`` of pgbench.c)."""


START_DELAY_S = 3.0
NOTICED_S_MAX = 5.0
SESSIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name LIKE 'seatrial % host4' AND state = 'active'
"""


@pytest.fixture(scope="module")
def server(lab):
    folder = Path(tempfile.mkdtemp(prefix="seatrial-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        with lab_server(folder, lab.address.partition(":")[0]) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def study_of(server, counts: str, *, rounds: int = ROUNDS, on_loss: str = "stop") -> str:
    return f"""
name = "server"
[rounds]
min = {rounds}
max = {rounds}
remeasure = 0
[hosts]
counts = {counts}
on_loss = "{on_loss}"
[[target]]
url = "{server.url}"
[[workload]]
kind = "pgbench"
scale = 1
clients = {CLIENTS}
clone = "reuse"
seconds = {SECONDS}
"""


@dataclass(frozen=True)
class Found:
    """What the command measured on one and on four hosts."""

    run: Run
    samples: list[Sample]
    printed: str


@pytest.fixture(scope="module")
def found(lab, server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    words = ["--hosts", "1,4", "--rounds", str(ROUNDS), "--seconds", str(SECONDS), "--json"]
    running = command(server, lab, folder, *words)
    out, error = running.communicate(timeout=200)
    assert running.returncode == 0, out + error
    return Found(*stored(folder), out)


def stored(folder: Path) -> tuple[Run, list[Sample]]:
    """The run in a folder's results file, and its samples."""
    with ResultsFile.open(folder / "results.seatrial", read_only=True) as store:
        (run,) = store.runs()
        return run, store.samples(run.id)


def test_every_number_of_hosts_shows_the_limit_of_the_server(found):
    assert (found.run.status, len(found.samples)) == ("complete", 2 * ROUNDS)
    rates = {}
    for sample in found.samples:
        rates.setdefault(sample.cell.factors["hosts"], []).append(sample.completed_per_s)
    # Four hosts would reach four times as much of a server without a limit; a busy machine delays
    # single samples by a tenth.
    assert max(rates[1] + rates[4]) <= WRITES_PER_S
    assert max(rates[4]) == pytest.approx(max(rates[1]), rel=0.15), rates


def test_sums_are_those_of_the_server(found):
    """What the server counts more is the same for each host, and is explained."""
    for sample in found.samples:
        hosts = sample.fleet.hosts
        of_hosts = sum(host.completed for host in hosts)
        more = sample.counters["transactions_committed"] - of_hosts
        assert more == MORE_OF_A_HOST * len(hosts), (of_hosts, sample.counters)
        assert sample.outcome.completed + sample.fleet.outside_completed == of_hosts
        assert sum(host.window_completed for host in hosts) == sample.outcome.completed > 0


def test_the_summary_says_that_the_server_is_the_limit(found):
    (scaling,) = summarise(found.run, found.samples).analyses["fleet"]
    assert [step.hosts for step in scaling.steps] == [1, 4]
    assert scaling.is_at_limit
    (printed,) = json.loads(found.printed)["scaling"]
    assert [step["hosts"] for step in printed["steps"]] == [1, 4]


def test_hosts_load_the_server_by_the_start(found):
    """pgbench is started up to a second before, so that its clients are connected."""
    first_ns = [host.lateness_ns for sample in found.samples for host in sample.fleet.hosts]
    assert statistics.median(first_ns) < 0
    for sample in found.samples:
        if max(host.lateness_ns for host in sample.fleet.hosts) <= 0:
            assert sample.fleet.skew_ns == 0
            # All but the first slice, of 100 ms, and what of the last one is not whole.
            assert sample.duration_s == pytest.approx(SECONDS - 0.1, abs=0.11)


def test_only_the_load_reaches_a_host_while_it_measures(found):
    for sample in found.samples:
        assert {host.failed for host in sample.fleet.hosts} == {0}
        assert not [note for note in sample.database.notes if "time of day" in note]
        ahead = {host.name: host.clock_before.offset_ns for host in sample.fleet.hosts}
        if len(ahead) == HOSTS:
            assert ahead["host2"] - ahead["host1"] == pytest.approx(3e9, abs=5e7)


@contextmanager
def struck(act, after_s: float, monkeypatch) -> Iterator[None]:
    """Do something so long after the hosts of the first sample were called."""
    plain, timers = HostLoadGenerator._results, []

    def answers(self, *arguments):
        if not timers:
            timers.append(threading.Timer(after_s, act))
            timers[0].start()
        return plain(self, *arguments)

    monkeypatch.setattr(HostLoadGenerator, "_results", answers)
    yield
    for each in timers:
        each.join()


def test_a_host_that_is_cut_off_is_named_and_the_others_go_on(lab, server, tmp_path, monkeypatch):
    study = study_of(server, "[4]", rounds=1, on_loss="continue")
    seconds = 9
    study = study.replace(f"seconds = {SECONDS}", f"seconds = {seconds}")
    try:
        with struck(lambda: lab.cut_link(3), 3.0, monkeypatch):
            run, _, (sample,) = measured(tmp_path, study, lab.address)
    finally:
        lab.restart(3)
    require_named("host3", "silent", run, sample)
    assert sample.fleet.lost[0].noticed_s - 2.0 < NOTICED_S_MAX
    # The lost host held the hot row perhaps: its session was ended, so that the others go on.
    assert sample.duration_s > seconds - 2
    last = [host.completed_per_slice[-10:] for host in sample.fleet.hosts]
    assert all(sum(each) > 0 for each in last)


def require_named(name: str, how: str, run: Run, sample: Sample) -> None:
    """Check that a lost host is in no total, and is named first."""
    record = sample.fleet
    (lost,) = record.lost
    assert (lost.name, lost.how) == (name, how)
    left = [f"host{number}" for number in range(1, HOSTS + 1) if f"host{number}" != name]
    assert [host.name for host in record.hosts] == left
    assert sample.cell.factors["lost_hosts"] == 1
    assert sum(host.window_completed for host in record.hosts) == sample.outcome.completed > 0
    summary = summarise(run, [sample])
    assert summary.findings[0].kind == "host_lost"
    assert summary.findings[0].sentence.startswith(f"{name} ")
    assert max(topic.exit_code(summary) for topic in topics()) == EXIT_PARTIAL


def test_a_time_of_day_that_is_set_moves_no_transaction(lab, server, tmp_path, monkeypatch):
    with struck(lambda: lab.set_clock(2, START_DELAY_S), 3.0, monkeypatch):
        run, _, (sample,) = measured(tmp_path, study_of(server, "[4]", rounds=1), lab.address)
    lab.set_clock(2, 0.0)
    hosts = sample.fleet.hosts
    of_hosts = sum(host.completed for host in hosts)
    more = sample.counters["transactions_committed"] - of_hosts
    assert more == MORE_OF_A_HOST * len(hosts)
    (note,) = [each for each in sample.database.notes if "time of day" in each]
    assert note.startswith("host2: The time of day was set by +3.00")
    (finding,) = [f for f in summarise(run, [sample]).findings if f.kind == "host_clock_changed"]
    assert finding.sentence.startswith("The time of day of host2 was set ahead by 3.0 s")


def command(server, lab, folder, *options: str) -> subprocess.Popen[str]:
    """``seatrial db`` with the hosts of a lab."""
    words = ["db", "--url", server.url, "--ray", lab.address, "--scale", "1"]
    words += ["--clients", str(CLIENTS)]
    words += ["--clone", "reuse", "--no-report", "--progress", "none", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "seatrial", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_names_a_host_that_dies_in_its_first_line(lab, server, tmp_path):
    """Without ``--hosts`` all hosts of the cluster load."""
    running = command(server, lab, tmp_path, "--rounds", "1", "--seconds", "12")
    give_up_at_s = time.monotonic() + 90
    while server.value(SESSIONS) == 0:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < give_up_at_s
        time.sleep(0.1)
    time.sleep(2.0)
    lab.kill(4)
    try:
        out, error = running.communicate(timeout=90)
    finally:
        lab.restart(4)
    assert running.returncode == EXIT_PARTIAL, out + error
    assert out.splitlines()[0].startswith("Host4 died in round 1"), out
    assert server.value(SESSIONS) == 0
    run, (sample,) = stored(tmp_path)
    require_named("host4", "died", run, sample)
    # The others were stopped: 12 s were planned.
    assert sample.duration_s < 10


def test_nothing_is_left_on_the_server(found, server):
    assert server.value("SELECT count(*) FROM pg_database WHERE datname LIKE 'seatrial%'") == 0
