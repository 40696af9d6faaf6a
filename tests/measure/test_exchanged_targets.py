"""What takes the name of a target after it was judged is not written to: the engine is handed
the opened target itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import SilentWatcher
from seatrial.measure.stage import Stage, StageRequest
from seatrial.study.load import parse_study
from seatrial.study.model import TargetInfo
from seatrial.study.plan import make_plan
from seatrial.units import MIB

RUN_ID = "20261121-074500-3fa2"
PRECIOUS = b"payroll!" * (MIB // 8)


def planned(place, kind):
    text = (
        f'name = "s"\n[[target]]\nlabel = "place"\npath = "{place}"\nsize = {MIB}\n'
        '[[workload]]\nkind = "io"\noperations = "write"\ndirect = false\nseconds = 0.1\n'
    )
    return make_plan(parse_study(text, "s"), {"place": TargetInfo(kind=kind, size_bytes=MIB)})


def measured(place, kind, exchange, state):
    """Measure once, with the exchange after the targets were judged and opened."""
    plan = planned(place, kind)
    with (
        UndoJournal(RUN_ID, state) as journal,
        Stage(StageRequest(plan, RUN_ID, journal, destroy=str(place))) as stage,
    ):
        exchange(stage)
        stage.prepare(SilentWatcher())
        (cell,) = plan.cells
        spec = stage.spec(cell, 0)
        return stage.measure(cell, spec, SampleContext(0, 0, SilentWatcher()))


def by_a_link(path, precious):
    path.rename(path.with_name("moved"))
    path.symlink_to(precious)


def by_the_file_itself(path, precious):
    path.rename(path.with_name("moved"))
    path.hardlink_to(precious)


def by_a_link_above(path, precious):
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(precious.parent)
    precious.with_name(path.name).hardlink_to(precious)


@pytest.mark.parametrize("exchange", [by_a_link, by_the_file_itself, by_a_link_above])
def test_a_file_that_is_exchanged_after_the_check(tmp_path, exchange):
    precious = tmp_path / "db" / "payroll"
    precious.parent.mkdir()
    precious.write_bytes(PRECIOUS)
    target = tmp_path / "trial" / "table.dat"
    target.parent.mkdir()
    target.write_bytes(bytes(MIB))
    judged = os.open(target, os.O_RDONLY)
    sample = measured(target, "file", lambda _: exchange(target, precious), tmp_path / "state")
    assert sample.outcome.completed > 0
    assert precious.read_bytes() == PRECIOUS
    assert os.pread(judged, MIB, 0) != bytes(MIB), "what was judged was written"
    os.close(judged)


@pytest.mark.parametrize("exchange", [by_a_link, by_the_file_itself])
def test_a_trial_file_that_is_exchanged_after_it_was_made(tmp_path, exchange):
    precious = tmp_path / "payroll"
    precious.write_bytes(PRECIOUS)

    def plant(stage):
        # The name is that of the only trial file of the plan.
        path = stage.path("place", stage.plan.files[0].name)
        stage.spec(stage.plan.cells[0], 0)
        exchange(path, precious)

    measured(tmp_path, "directory", plant, tmp_path / "state")
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for loop devices")
def test_a_device_whose_node_is_exchanged_after_the_check(tmp_path):
    devices = []
    for name in ("trial.img", "payroll.img"):
        image = tmp_path / name
        image.write_bytes(PRECIOUS)
        made = ["losetup", "--find", "--show", str(image)]
        devices.append(subprocess.run(made, check=True, capture_output=True, text=True).stdout)
    trial, precious = (Path(device.strip()) for device in devices)
    node = tmp_path / "node"
    os.mknod(node, 0o600 | 0o060000, trial.stat().st_rdev)

    def exchange(_stage):
        node.unlink()
        node.symlink_to(precious)

    try:
        measured(node, "device", exchange, tmp_path / "state")
        os.sync()
        assert (tmp_path / "payroll.img").read_bytes() == PRECIOUS
        assert (tmp_path / "trial.img").read_bytes() != PRECIOUS
    finally:
        for device in (trial, precious):
            subprocess.run(["losetup", "--detach", str(device)], check=False)
