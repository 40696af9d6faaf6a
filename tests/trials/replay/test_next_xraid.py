"""The command that makes what `studies/next-xraid.toml` replays, on a small scale."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from postgres.programs import installed_programs
from seatrial.study.load import load_study
from seatrial.study.plan import make_plan
from seatrial.trials.replay.study.trace_facts import trace_facts

MAKE = Path(__file__).resolve().parents[3] / "tools/next-xraid/make.py"
TRANSACTIONS = 400


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a snapshot and the log of some work on it."""
    installed_programs()
    folder = tmp_path_factory.mktemp("made")
    options = ("--customers", "200", "--transactions", str(TRANSACTIONS), "--clients", "4")
    subprocess.run([sys.executable, MAKE, folder, *options], check=True, capture_output=True)
    return folder


def test_a_snapshot_and_a_log_are_made_and_nothing_else_is_left(made):
    assert {path.name for path in made.iterdir()} == {"next-xraid.dump", "next-xraid.trace"}
    assert (made / "next-xraid.dump").read_bytes()[:5] == b"PGDMP"
    facts = trace_facts(made / "next-xraid.trace")
    assert facts.databases == ["shop"]
    assert 3 * TRANSACTIONS < facts.statements < 5 * TRANSACTIONS
    assert facts.executable == facts.statements
    assert facts.open_max == 4
    assert facts.writing > 0.1 * facts.statements


def test_the_study_plays_it(made, monkeypatch):
    monkeypatch.chdir(made)
    plan = make_plan(load_study("next-xraid"))
    assert {cell.threads for cell in plan.cells} == {4}
    assert not any("does not exist yet" in note for note in plan.notes)
