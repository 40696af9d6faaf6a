"""Undoing when signals come twice, the state folder is full, or the journal was removed."""

import errno
import os
import signal

import pytest

from seatrial.errors import SpaceError, UsageError
from seatrial.machine import undo_journal
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.machine.undo_result import Undoer, undone
from seatrial.postgres.server import died_during_run


@pytest.fixture
def full(monkeypatch):
    """Have the disk of the state folder be full from now on."""

    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr(undo_journal, "_append_line", refuse)


def test_what_a_full_state_folder_cannot_record_is_not_done(tmp_path, full):
    full()
    journal = UndoJournal("run1")
    with pytest.raises(UsageError, match="No space left"):
        TrialFolder(tmp_path, "run1", journal).open(0, direct=False)
    assert not list(tmp_path.iterdir())


def test_what_was_recorded_is_undone_though_the_state_folder_is_full(tmp_path, state_dir, full):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with UndoJournal("run1") as journal:
        for name in ("one", "two"):
            TrialFolder(tmp_path / name, "run1", journal).open(0, direct=False)
        full()
    assert not [*tmp_path.glob("*/.seatrial*"), *state_dir.glob("*.jsonl")]


def test_a_signal_in_the_middle_of_undoing_waits_until_all_is_undone(monkeypatch):
    seen = []

    def undo_one(*, path):
        os.kill(os.getpid(), signal.SIGINT)
        seen.append(path)
        return undone("removed")

    monkeypatch.setitem(undo_journal.UNDOERS, "one", Undoer(undo=undo_one, subject="path"))
    journal = UndoJournal("run1")
    for path in ("a", "b", "c"):
        journal.record("one", path=path)
    with pytest.raises(KeyboardInterrupt):
        journal.undo_all()
    assert seen == ["c", "b", "a"]
    assert not journal.path.exists()


def test_a_journal_that_was_removed_is_written_anew_with_all_it_held(tmp_path):
    journal = UndoJournal("run1")
    TrialFolder(tmp_path, "run1", journal).open(0, direct=False)
    journal.path.unlink()
    journal.record("socket_folder", path=str(tmp_path / "seatrial-pg-1"))
    text = journal.path.read_text()
    assert ".seatrial-run1" in text
    assert "seatrial-pg-1" in text
    assert clean()[0].outcome == "running"


def test_a_server_that_died_without_a_word_on_a_full_disk_is_reported_as_that(
    tmp_path, monkeypatch
):
    folder = tmp_path / ".seatrial-run1" / "sample"
    assert "The log is empty" in str(died_during_run(folder, "", 0))
    real = os.statvfs(tmp_path)
    fields = [*real]
    fields[3] = fields[4] = 1
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(fields))
    error = died_during_run(folder, "", 0)
    assert isinstance(error, SpaceError)
    assert error.exit_code == 8
    assert f"No space left on {tmp_path}" in error.seen
    crashed = died_during_run(folder, "PANIC:  could not read block", 0)
    assert not isinstance(crashed, SpaceError), "its log gives another reason"
