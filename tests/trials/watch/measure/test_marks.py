"""Markers from one process to the watches of the same user."""

from __future__ import annotations

import subprocess
import sys

import pytest

from seatrial.errors import UsageError
from seatrial.trials.watch.measure.marks import Marks, set_mark


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))


def test_a_marker_reaches_a_watch_once():
    marks = Marks()
    assert set_mark(" cache device added ") == 1
    set_mark("ready")
    taken = marks.take()
    assert [each.text for each in taken] == ["cache device added", "ready"]
    assert taken[0].at <= taken[1].at
    assert marks.take() == []
    marks.close()


def test_without_a_watch_it_is_refused():
    with pytest.raises(UsageError, match="No watch of this user is running"):
        set_mark("x")
    Marks().close()
    with pytest.raises(UsageError, match="No watch of this user is running"):
        set_mark("x")


def test_what_a_killed_watch_left_is_removed(tmp_path):
    script = (
        "from seatrial.trials.watch.measure.marks import Marks\n"
        "import os, signal\nmarks = Marks()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    assert len([*(tmp_path / "state/watches").iterdir()]) == 1
    marks = Marks()
    assert set_mark("x") == 1
    marks.close()
    assert [*(tmp_path / "state/watches").iterdir()] == []


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "x" * 201])
def test_what_is_no_line_is_refused(text):
    with pytest.raises(UsageError, match="cannot be set"):
        set_mark(text)
