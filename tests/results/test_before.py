"""Results files and studies written before the rooms were rebuilt open, and give the same figures.

``before/runs.sql`` is the dump of a results file that commit 0bbf21e wrote (a study on a simulated
device with a load line, a database, a replay), without the fingerprints of its machine.
``before/shown.json`` is what that commit's ``seatrial show --json`` said of it.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from seatrial.findings.summary import summarise
from seatrial.report.exports.json_document import render
from seatrial.results.store import ResultsFile
from seatrial.study.load import load_study
from seatrial.study.plan import make_plan

BEFORE = Path(__file__).parent / "before"
SHOWN: dict[str, dict[str, Any]] = json.loads((BEFORE / "shown.json").read_text())

JUDGED_SINCE = "cpu_pressure_share_max"
"""Was 0 where the pressure was not judged, and is None there now."""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("before") / "results.seatrial"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((BEFORE / "runs.sql").read_text())
    with ResultsFile.open(path) as store:
        yield store


@pytest.mark.parametrize("label", SHOWN)
def test_a_run_of_before_shows_the_same_figures(opened, label):
    (run,) = (each for each in opened.runs() if each.label == label)
    document = json.loads(render(summarise(run, opened.samples(run.id))))
    for key, shown in SHOWN[label].items():
        assert document[key] == approximately(shown), key


def test_a_study_of_before_makes_the_same_cells(opened):
    (run,) = (each for each in opened.runs() if each.label == "mixed")
    plan = make_plan(load_study(BEFORE / "mixed.toml"))
    assert plan.plan_hash == run.plan_hash


def approximately(value: Any) -> Any:
    """Equal but for the last digits of what a library computes, and the wording of sentences."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-6, abs=1e-9)
    if isinstance(value, list):
        return [approximately(each) for each in value]
    if isinstance(value, dict):
        return Fields({key: approximately(each) for key, each in value.items()})
    return Sentence(value) if isinstance(value, str) and " " in value else value


class Fields(dict[str, Any]):
    """The fields of an object, to which others may have been added since."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and all(
            key in other and other[key] == value
            for key, value in self.items()
            if key != JUDGED_SINCE
        )


class Sentence(str):
    """A text of several words, whose wording may have been edited since."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(other)
