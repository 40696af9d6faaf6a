"""Hosts that die, are cut off or stand still while a sample is measured: none in a wrong total.

Each run has its fault from a seed: which, on which host, and when. With SEATRIAL_TEST_LONG there
are a hundred.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.shared_lab import HOSTS, ONE_ROUND, measured, stored, study_of
from seatrial.errors import EXIT_PARTIAL
from seatrial.findings.summary import summarise
from seatrial.topic import topics
from seatrial.trials.fleet.measure.stage import FleetStage

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]

IS_LONG = bool(os.environ.get("SEATRIAL_TEST_LONG"))
FAULTS = ("kill", "cut", "pause", "clock")
SEEDS = range(100) if IS_LONG else range(len(FAULTS))
SECONDS = 4 if IS_LONG else 3
NOTICED_S_MAX = 5.0
START_DELAY_S = 3.0
TWO_ROUNDS = ("min = 3\nmax = 3", "min = 2\nmax = 2")


def log_fault(line: str) -> None:
    """Keep what happened, where a file is named for it."""
    if place := os.environ.get("SEATRIAL_TEST_FAULTS"):
        with Path(place).open("a") as log:
            log.write(f"{line}\n")


@contextmanager
def struck(act, after_s, monkeypatch):
    """Do something so long after a sample was begun, once."""
    plain = FleetStage._run
    threads = []

    def run(self, *arguments, **named):
        if not threads:
            threads.append(threading.Timer(after_s, act))
            threads[0].start()
        return plain(self, *arguments, **named)

    monkeypatch.setattr(FleetStage, "_run", run)
    yield
    for each in threads:
        each.join()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_fault_makes_a_wrong_total(seed, lab, target, tmp_path, monkeypatch):
    draw = random.Random(f"fault {seed}")
    fault = FAULTS[seed % len(FAULTS)]
    number = draw.randint(1, HOSTS)
    # The start is 1 s after the call.
    after_s = 1.0 + draw.uniform(0.2, SECONDS - 0.5)
    study = study_of(target, f"[{HOSTS}]", workload=f"threads = 2\nseconds = {SECONDS}")
    act = {
        "kill": lambda: lab.kill(number),
        "cut": lambda: lab.cut_link(number),
        "pause": lambda: lab.pause(number, 2.0),
        "clock": lambda: lab.set_clock(number, START_DELAY_S),
    }[fault]
    with struck(act, after_s, monkeypatch):
        run, _, samples = measured(tmp_path, study.replace(*ONE_ROUND), lab.address)
    if fault == "clock":
        lab.set_clock(number, 0.0)
    elif fault != "pause":
        lab.restart(number)
    (sample,) = samples
    record = sample.fleet
    log_fault(f"seed {seed}: {fault} host{number} after {after_s - 1:.2f} s: {record.lost}")
    assert sum(host.window_completed for host in record.hosts) == sample.outcome.completed > 0
    of_hosts = sum(host.completed for host in record.hosts)
    assert sample.outcome.completed + record.outside_completed == of_hosts
    summary = summarise(run, samples)
    exit_code = max(topic.exit_code(summary) for topic in topics())
    if fault == "pause":
        # It stood still, and is in the sum.
        assert (run.status, record.lost, exit_code) == ("complete", [], 0)
        return
    if fault == "clock":
        # No figure depends on the time of day; the host is named.
        assert (run.status, record.lost, exit_code) == ("complete", [], 0)
        (finding,) = [each for each in summary.findings if each.kind == "host_clock_changed"]
        assert finding.severity == "warning"
        assert finding.sentence.startswith(f"The time of day of host{number} was set ahead by 3")
        return
    name = f"host{number}"
    assert [each.name for each in record.lost] == [name]
    assert name not in {host.name for host in record.hosts}
    assert len(record.hosts) == HOSTS - 1
    assert sample.cell.factors["lost_hosts"] == 1
    assert summary.findings[0].kind == "host_lost"
    assert summary.findings[0].sentence.startswith(f"{name} ")
    assert exit_code == EXIT_PARTIAL
    assert record.lost[0].how == {"kill": "died", "cut": "silent"}[fault]
    assert record.lost[0].noticed_s - (after_s - 1.0) < NOTICED_S_MAX


def test_with_continue_the_tests_that_need_fewer_hosts_go_on(lab, target, tmp_path, monkeypatch):
    study = study_of(
        target, f"[2, {HOSTS}]", hosts='on_loss = "continue"', workload="threads = 2\nseconds = 2"
    )
    with struck(lambda: lab.kill(1), 1.8, monkeypatch):
        run, _, samples = measured(tmp_path, study.replace(*TWO_ROUNDS), lab.address)
    lab.restart(1)
    whole = [sample for sample in samples if not sample.fleet.lost]
    lost = [sample for sample in samples if sample.fleet.lost]
    assert run.status == "complete"
    assert [each.name for sample in lost for each in sample.fleet.lost] == ["host1"]
    assert {sample.cell.factors["hosts"] for sample in whole} == {2}
    # With two hosts, a test of each round, but for the one that lost its host.
    assert len(whole) == 2 - sum(each.cell.factors["hosts"] == 2 for each in lost)
    assert all("host1" not in {h.name for h in s.fleet.hosts} for s in whole)


def test_what_was_committed_is_there_after_a_kill_and_resume_goes_on(lab, target, tmp_path):
    """The process that conducts is killed, as when the head dies."""
    path = tmp_path / "study.toml"
    path.write_text(study_of(target, "[1]", workload="threads = 2\nseconds = 1"))
    results = tmp_path / "results.seatrial"
    command = [sys.executable, "-m", "seatrial", "study", str(path), "--ray", lab.address]
    command += ["--results", str(results), "--no-report", "--progress", "none"]
    own = os.environ | {"SEATRIAL_STATE_DIR": str(tmp_path / "state")}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    conducting = subprocess.Popen(command, env=own, **output)
    give_up_at_s = time.monotonic() + 90
    while len(stored(results)) < 2:
        assert conducting.poll() is None, conducting.stdout.read().decode()
        assert time.monotonic() < give_up_at_s
        time.sleep(0.1)
    conducting.kill()
    conducting.wait()
    stored_count = len(stored(results))
    assert 2 <= stored_count < 3
    done = subprocess.run([*command, "--resume"], env=own, text=True, check=False, **output)
    assert done.returncode == 0, done.stdout
    assert len(stored(results)) == 3
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "clean"], env=own, text=True, check=False, **output
    )
    assert done.returncode == 0, done.stdout
    assert [each.name for each in target.iterdir()] == ["lost+found"]
