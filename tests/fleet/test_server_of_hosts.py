"""pgbench on one, two and four hosts against one PostgreSQL, and hosts that are lost meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.lab_of_three import LabRequest, lab_of, measured, require_ray
from fleet.throttled_server import WRITES_PER_S, lab_server
from seatrial.errors import EXIT_PARTIAL
from seatrial.findings.summary import summarise
from seatrial.topic import topics
from seatrial.trials.database.measure.hosts import HostCrowd

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]

HOSTS = 4
CLIENTS = 4
SECONDS = 4
ROUNDS = 2
MORE_OF_A_HOST = CLIENTS + 2 + 2
"""Transactions that the server counts and no log holds: each session begins with one (the clients,
pgbench's first session, and ours that tries the address), and pgbench sends two statements before
the load (``GetTableInfo`` of pgbench.c)."""


AHEAD_S = 3.0
SESSIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name LIKE 'seatrial % host4' AND state = 'active'
"""


@pytest.fixture(scope="module")
def large_lab():
    """Four hosts; the clock of the second is 3 s ahead."""
    require_ray()
    request = LabRequest(hosts_count=HOSTS, clock_shifts_s={2: 3.0}, sets_clocks=True)
    with lab_of(request, f"server-tests-{os.getpid()}") as built:
        yield built


@pytest.fixture(scope="module")
def server(large_lab):
    folder = Path(tempfile.mkdtemp(prefix="seatrial-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        with lab_server(folder, large_lab.address.partition(":")[0]) as started:
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


@pytest.fixture(scope="module")
def found(large_lab, server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    return measured(folder, study_of(server, "[1, 2, 4]"), large_lab.address)


def test_every_number_of_hosts_shows_the_limit_of_the_server(found):
    run, end, samples = found
    assert (run.status, len(samples)) == ("complete", 3 * ROUNDS), end.reason
    rates = {}
    for sample in samples:
        rates.setdefault(sample.cell.factors["hosts"], []).append(sample.completed_per_s)
    one_client = statistics.median(rates[1])
    assert one_client <= WRITES_PER_S
    for count in (2, 4):
        assert statistics.median(rates[count]) == pytest.approx(one_client, rel=0.03), rates


def test_sums_are_those_of_the_server(found):
    """What the server counts more is the same for each host, and is explained."""
    for sample in found[2]:
        hosts = sample.fleet.hosts
        of_hosts = sum(host.completed for host in hosts)
        more = sample.counters["transactions_committed"] - of_hosts
        assert more == MORE_OF_A_HOST * len(hosts), (of_hosts, sample.counters)
        assert sample.outcome.completed + sample.fleet.outside_completed == of_hosts
        assert sum(host.window_completed for host in hosts) == sample.outcome.completed > 0


def test_the_summary_says_that_the_server_is_the_limit(found):
    run, _, samples = found
    (scaling,) = summarise(run, samples).analyses["fleet"]
    assert [step.hosts for step in scaling.steps] == [1, 2, 4]
    assert scaling.is_at_limit


def test_hosts_load_the_server_by_the_start(found):
    """pgbench is started up to a second before, so that its clients are connected."""
    first_ns = [host.lateness_ns for sample in found[2] for host in sample.fleet.hosts]
    assert statistics.median(first_ns) < 0
    for sample in found[2]:
        if max(host.lateness_ns for host in sample.fleet.hosts) <= 0:
            assert sample.fleet.skew_ns == 0
            # All but the first slice, of 100 ms, and what of the last one is not whole.
            assert sample.duration_s == pytest.approx(SECONDS - 0.1, abs=0.11)


def test_only_the_load_reaches_a_host_while_it_measures(found):
    for sample in found[2]:
        assert {host.failed for host in sample.fleet.hosts} == {0}
        assert not [note for note in sample.database.notes if "time of day" in note]
        ahead = {host.name: host.clock_before.offset_ns for host in sample.fleet.hosts}
        if len(ahead) == HOSTS:
            assert ahead["host2"] - ahead["host1"] == pytest.approx(3e9, abs=5e7)


@contextmanager
def struck(act, after_s: float, monkeypatch) -> Iterator[None]:
    """Do something so long after the hosts of the first sample were called."""
    plain, timers = HostCrowd._answers, []

    def answers(self, *arguments):
        if not timers:
            timers.append(threading.Timer(after_s, act))
            timers[0].start()
        return plain(self, *arguments)

    monkeypatch.setattr(HostCrowd, "_answers", answers)
    yield
    for each in timers:
        each.join()


@pytest.mark.parametrize(("fault", "on_loss"), [("kill", "continue"), ("cut", "stop")])
def test_a_host_that_is_lost_is_named_first(  # noqa: PLR0917 - fixtures
    fault, on_loss, large_lab, server, tmp_path, monkeypatch
):
    act = {"kill": large_lab.kill, "cut": large_lab.cut}[fault]
    study = study_of(server, "[4]", rounds=1, on_loss=on_loss)
    seconds = 9
    study = study.replace(f"seconds = {SECONDS}", f"seconds = {seconds}")
    try:
        with struck(lambda: act(3), 3.0, monkeypatch):
            run, _, (sample,) = measured(tmp_path, study, large_lab.address)
    finally:
        large_lab.revive(3)
    record = sample.fleet
    (lost,) = record.lost
    assert (lost.name, lost.how) == ("host3", {"kill": "died", "cut": "silent"}[fault])
    assert lost.noticed_s - 2.0 < 5.0
    assert [host.name for host in record.hosts] == ["host1", "host2", "host4"]
    assert sample.cell.factors["lost_hosts"] == 1
    assert sum(host.window_completed for host in record.hosts) == sample.outcome.completed > 0
    if on_loss == "continue":
        # The lost host held the hot row perhaps: its session was ended, so that the others go on.
        assert sample.duration_s > seconds - 2
        last = [host.completed_per_slice[-10:] for host in record.hosts]
        assert all(sum(each) > 0 for each in last)
    summary = summarise(run, [sample])
    assert summary.findings[0].kind == "host_lost"
    assert summary.findings[0].sentence.startswith("host3 ")
    assert max(topic.exit_code(summary) for topic in topics()) == EXIT_PARTIAL


def test_a_time_of_day_that_is_set_moves_no_transaction(large_lab, server, tmp_path, monkeypatch):
    with struck(lambda: large_lab.set_clock(2, AHEAD_S), 3.0, monkeypatch):
        run, _, (sample,) = measured(tmp_path, study_of(server, "[4]", rounds=1), large_lab.address)
    large_lab.set_clock(2, 0.0)
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
    words = ["db", "--url", server.url, "--ray", lab.address, "--scale", "1", "--clients", "2"]
    words += ["--rounds", "1", "--clone", "reuse", "--no-report", "--progress", "none", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "seatrial", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_loads_from_as_many_hosts_as_it_says(large_lab, server, tmp_path):
    running = command(server, large_lab, tmp_path, "--hosts", "1,2", "--seconds", "2", "--json")
    out, error = running.communicate(timeout=120)
    assert running.returncode == 0, out + error
    (scaling,) = json.loads(out)["scaling"]
    assert [each["hosts"] for each in scaling["steps"]] == [1, 2]


def test_the_command_names_a_host_that_dies_in_its_first_line(large_lab, server, tmp_path):
    """Without ``--hosts`` all hosts of the cluster load."""
    running = command(server, large_lab, tmp_path, "--seconds", "12")
    give_up_at_s = time.monotonic() + 90
    while server.value(SESSIONS) == 0:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < give_up_at_s
        time.sleep(0.2)
    time.sleep(2.0)
    large_lab.kill(4)
    try:
        out, error = running.communicate(timeout=90)
    finally:
        large_lab.revive(4)
    assert running.returncode == EXIT_PARTIAL, out + error
    assert out.splitlines()[0].startswith("Host4 died in round 1"), out
    assert server.value(SESSIONS) == 0


def test_nothing_is_left_on_the_server(found, server):
    assert server.value("SELECT count(*) FROM pg_database WHERE datname LIKE 'seatrial%'") == 0
