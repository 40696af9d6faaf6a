"""A forked command is as a process of its own: what it prints, its exit code, its surroundings."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from .command import ended, seatrial, start


@pytest.mark.parametrize(
    "words",
    [("--help",), ("list",), ("study", "nowhere.toml"), ("show", "--nothing"), ("export", "last")],
    ids=" ".join,
)
def test_it_prints_and_ends_as_a_process_of_its_own(tmp_path, words):
    assert seatrial(*words, folder=tmp_path) == ended(start(*words, folder=tmp_path, prefix=()))


def test_it_is_ended_by_a_signal_and_says_so(tmp_path):
    command = ("io", "null", "--seconds", "60", "--rounds", "1")
    with pytest.raises(subprocess.TimeoutExpired):
        (running := start(*command, folder=tmp_path)).communicate(timeout=0.5)
    assert running.poll() is None
    assert Path(f"/proc/{running.pid}/comm").read_text() == "seatrial\n"
    running.kill()
    assert running.wait(10) == -signal.SIGKILL
    assert not Path(f"/proc/{running.pid}").exists()
    running.kill()


def test_it_gets_a_session_where_that_is_wanted(tmp_path):
    command = ("io", "null", "--seconds", "60", "--rounds", "1")
    for wanted in (False, True):
        running = start(*command, folder=tmp_path, start_new_session=wanted)
        assert (os.getsid(running.pid) == running.pid) == wanted
        running.kill()
        running.communicate(10)


def test_its_files_are_whole_when_it_has_ended(tmp_path):
    command = ("io", "null", "--seconds", "0.1", "--json")
    forked = seatrial(*command, folder=tmp_path)
    assert forked.code == 0, forked
    assert seatrial("list", folder=tmp_path).code == 0
    assert not list(tmp_path.glob("*-wal")), "the results file was not closed"


def test_no_command_meets_what_another_left(tmp_path):
    places = [tmp_path / name for name in ("one", "two")]
    for place in places:
        place.mkdir()
    reported = [
        seatrial("list", folder=place, env={"SEATRIAL_RESULTS": f"{place.name}.seatrial"})
        for place in places
    ]
    assert ["one.seatrial" in each.err for each in reported] == [True, False]
    assert ["two.seatrial" in each.err for each in reported] == [False, True]


def test_it_is_in_the_control_group_that_was_named(tmp_path):
    """A folder stands in for the group: what is written there is the command's own process id."""
    pids = tmp_path / "cgroup.procs"
    pids.touch()
    command = ("io", "null", "--seconds", "0.1", "--json")
    reported = seatrial(*command, folder=tmp_path, group=tmp_path)
    assert reported.code == 0, reported
    assert pids.read_text().isdecimal()
