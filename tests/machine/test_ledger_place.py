"""The ledger of a target that holds no second file: kept with the journal, gone with the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.measure.stage import Stage, StageRequest
from seatrial.study.load import parse_study
from seatrial.study.model import Plan, TargetInfo
from seatrial.study.plan import make_plan
from seatrial.units import MIB

RUN_ID = "20261121-074500-3fa2"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "table.dat"
    path.write_bytes(bytes(MIB))
    text = (
        f'name = "s"\n[[target]]\nlabel = "table"\npath = "{path}"\n[[workload]]\nkind = "io"\n'
        'operations = "mixed"\ndata = "verifiable"\nverify = true\n'
    )
    return make_plan(parse_study(text, "s"), {"table": TargetInfo(kind="file", size_bytes=MIB)})


def stage(plan: Plan, journal: UndoJournal, *, resumed: bool = False) -> Stage:
    state = "resumed" if resumed else "new"
    return Stage(StageRequest(plan, RUN_ID, journal, plan.targets[0].path, state))


def test_it_lies_with_the_journal_and_goes_with_the_run(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "state"
    with UndoJournal(RUN_ID, state) as journal, stage(plan, journal) as opened:
        ledger = Path(opened.spec(plan.cells[0], 0)["ledger_path"])
        ledger.write_bytes(b"what each block should hold")
        assert ledger.is_relative_to(state)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["state", "table.dat"]
    assert [entry.name for entry in state.iterdir()] == ["undo.lock"]


def test_a_resume_finds_it_and_clean_removes_it(plan, tmp_path):
    state = tmp_path / "state"
    first = UndoJournal(RUN_ID, state)  # left by nobody: as a kill leaves it
    ledger = Path(stage(plan, first).open().spec(plan.cells[0], 0)["ledger_path"])
    ledger.write_bytes(b"kept")
    again = UndoJournal(RUN_ID, state)
    found = stage(plan, again, resumed=True).open().spec(plan.cells[0], 1)["ledger_path"]
    assert Path(found).read_bytes() == b"kept"
    assert [undone.outcome for undone in clean(folder=state, dry_run=True)] == ["running"]
    again.undo_all()
    assert not ledger.exists()
