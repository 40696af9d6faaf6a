"""Nothing that was stored is lost, and others may read meanwhile."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from results.builders import make_run, make_sample
from seatrial.errors import ResultsFileError
from seatrial.results.store import ResultsFile

RUN_ID = "20261121-074500-3fa2"
HERE = Path(__file__).parent


def start_child(path: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "builders.py"), str(path), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said_before_the_kill(child: subprocess.Popen[str], lines: int) -> list[int]:
    """Let a child say so many rounds, kill it without warning, and return all it had said."""
    assert child.stdout is not None
    said = [int(child.stdout.readline()) for _ in range(lines)]
    os.kill(child.pid, signal.SIGKILL)
    rest, _ = child.communicate()
    # The last line may have been cut by the kill; the rounds before it were said in full.
    return said + [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize("lines", [1, 3, 20])
def test_a_killed_process_loses_no_sample_that_it_had_stored(tmp_path, lines):
    path = tmp_path / "results.db"
    said = said_before_the_kill(start_child(path), lines)
    with ResultsFile.open(path, read_only=True) as file:
        found = file.samples(RUN_ID)
    rounds = [sample.round for sample in found]
    assert rounds == list(range(len(rounds)))
    # One more than was said: stored, and killed before it could be said.
    assert len(rounds) - len(said) in (0, 1)
    assert all(len(sample.timeline.slices) == 40 for sample in found)


def test_a_killed_run_is_found_and_continued(tmp_path):
    path = tmp_path / "results.db"
    said_before_the_kill(start_child(path), 3)
    with ResultsFile.open(path) as file:
        run = file.find_resumable("plan-a", [])
        assert run is not None
        assert (run.id, run.status, run.ended_at) == (RUN_ID, "interrupted", None)
        done = {index for _, index in file.done(RUN_ID)}
        following = max(done) + 1
        file.add_sample(RUN_ID, make_sample(index=following))
        assert [sample.round for sample in file.samples(RUN_ID)] == [*sorted(done), following]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_reader_sees_each_sample_as_soon_as_it_is_stored(tmp_path):
    path = tmp_path / "results.db"
    child = start_child(path)
    assert child.stdout is not None
    try:
        for _ in range(5):
            said = int(child.stdout.readline())
            with ResultsFile.open(path, read_only=True) as file:
                assert len(file.done(RUN_ID)) > said
                assert len(file.samples(RUN_ID)) > said
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()


def test_an_open_reader_does_not_hold_up_the_writer(tmp_path):
    path = tmp_path / "results.db"
    with ResultsFile.open(path, create=True) as writer:
        writer.start_run(make_run())
        with ResultsFile.open(path, read_only=True) as reader:
            for index in range(3):
                writer.add_sample(RUN_ID, make_sample(index=index))
                assert len(reader.samples(RUN_ID)) == index + 1


def test_two_writers_share_a_file(tmp_path):
    path = tmp_path / "results.db"
    with ResultsFile.open(path, create=True) as one, ResultsFile.open(path, create=True) as two:
        one.start_run(make_run("one"))
        two.start_run(make_run("two"))
        for index in range(3):
            one.add_sample("one", make_sample(index=index))
            two.add_sample("two", make_sample(index=index))
        assert len(two.samples("one")) == len(one.samples("two")) == 3


def test_commands_at_the_same_time_make_and_close_one_file(tmp_path):
    path = tmp_path / "results.db"
    children = [start_child(path, name, "10") for name in ("one", "two", "three")]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    for child in children:
        child.communicate()
    with ResultsFile.open(path, read_only=True) as file:
        assert len(file.runs()) == 30
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_commits_are_synced_in_wal_mode(tmp_path):
    with ResultsFile.open(tmp_path / "results.db", create=True) as file:
        connection: sqlite3.Connection = file._connection
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_a_run_without_samples_can_be_taken_out_and_one_with_samples_cannot(tmp_path):
    with ResultsFile.open(tmp_path / "r.seatrial", create=True) as store:
        store.start_run(make_run())
        store.start_run(make_run("20261121-080000-aaaa"))
        store.add_sample(make_run().id, make_sample())
        store.drop_run("20261121-080000-aaaa")
        with pytest.raises(ResultsFileError):
            store.drop_run(make_run().id)
        assert [run.id for run in store.runs()] == [make_run().id]
        assert len(store.samples(make_run().id)) == 1
