"""Hosts that die, are cut off or stand still while a sample is measured: none in a wrong total."""

from __future__ import annotations

import os
import random
import threading

import pytest

from fleet.lab_of_three import LabRequest, lab_of, measured, study_of
from seatrial.errors import EXIT_PARTIAL
from seatrial.findings.summary import summarise
from seatrial.topic import topics

pytestmark = [pytest.mark.ray, pytest.mark.root, pytest.mark.slow]

SECONDS = 6


def with_fault(lab, act, draw, folder, target, *, on_loss):
    """Measure while something happens to host 2 at a random time within the first sample."""
    study = study_of(
        target, "[3]", hosts=f'on_loss = "{on_loss}"', workload=f"threads = 2\nseconds = {SECONDS}"
    ).replace("min = 3\nmax = 3", "min = 1\nmax = 1")
    began = threading.Event()
    timer = threading.Timer(0.0, lambda: (began.wait(60), strike()))

    def strike():
        threading.Event().wait(1.5 + draw.uniform(0.5, SECONDS - 2))
        act(lab)

    from seatrial.trials.fleet.measure.stage import FleetStage

    plain = FleetStage._run

    def told(self, *arguments, **named):
        began.set()
        return plain(self, *arguments, **named)

    FleetStage._run = told
    timer.start()
    try:
        return measured(folder, study, lab.address)
    finally:
        FleetStage._run = plain
        timer.join()


def test_a_host_that_stands_still_for_two_seconds_is_in_the_sum(lab, target, tmp_path):
    draw = random.Random(1)
    run, _, samples = with_fault(
        lab, lambda it: it.pause(2, 2.0), draw, tmp_path, target, on_loss="stop"
    )
    (sample,) = samples
    assert (run.status, sample.fleet.lost) == ("complete", [])
    assert sum(h.window_completed for h in sample.fleet.hosts) == sample.outcome.completed
    still = next(host for host in sample.fleet.hosts if host.name == "host2")
    empty = sum(count == 0 for count in still.completed_per_slice)
    assert empty >= 15, "its two seconds of standing still are in its own line"


@pytest.mark.parametrize("fault", ["kill", "cut"])
def test_a_lost_host_is_named_and_the_others_are_kept(fault, target, tmp_path):
    name = f"fleet-{fault}-{os.getpid()}"
    draw = random.Random(fault)
    with lab_of(LabRequest(hosts_count=3), name) as own:
        run, _, samples = with_fault(
            own, lambda it: getattr(it, fault)(2), draw, tmp_path, target, on_loss="stop"
        )
    (sample,) = samples
    record = sample.fleet
    assert [each.name for each in record.lost] == ["host2"]
    assert [host.name for host in record.hosts] == ["host1", "host3"]
    assert sum(host.window_completed for host in record.hosts) == sample.outcome.completed > 0
    assert sample.cell.factors["lost_hosts"] == 1
    if fault == "kill":
        assert record.lost[0].how in ("died", "unreachable")
    else:
        assert record.lost[0].how in ("died", "unreachable", "silent")
    summary = summarise(run, samples)
    assert summary.findings[0].kind == "host_lost"
    assert summary.findings[0].sentence.startswith("host2 ")
    assert max(topic.exit_code(summary) for topic in topics()) == EXIT_PARTIAL
