"""What others put into a trial folder, or in its place, is neither written to nor removed."""

import os
from pathlib import Path

import pytest

from seatrial.errors import SeatrialError
from seatrial.machine.direct import direct_alignment
from seatrial.machine.file import TrialFolder
from seatrial.machine.marker import MARKER_NAME, write_marker
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.units import MIB

PRECIOUS = b"payroll" * 1000


@pytest.fixture
def journal(state_dir):
    return UndoJournal("run1")


@pytest.fixture
def precious(tmp_path):
    path = tmp_path / "payroll.db"
    path.write_bytes(PRECIOUS)
    return path


def opened(tmp_path, journal):
    return TrialFolder(tmp_path, "run1", journal).open(MIB)


def forged(tmp_path, name=".seatrial-run1"):
    folder = tmp_path / name
    folder.mkdir()
    write_marker(folder, "run1")
    return folder


def a_link(path, precious):
    path.symlink_to(precious)


def a_hard_link(path, precious):
    path.hardlink_to(precious)


def another_file(path, precious):
    path.write_bytes(PRECIOUS)


def a_pipe(path, precious):
    os.mkfifo(path)


PUT = (a_link, a_hard_link, another_file, a_pipe)


@pytest.mark.parametrize("put", PUT)
def test_what_has_the_name_of_a_trial_file_is_not_written_to(tmp_path, journal, precious, put):
    with opened(tmp_path, journal) as folder:
        put(folder.path / "trial.dat", precious)
        with pytest.raises(SeatrialError) as caught:
            Path(folder.claim("trial.dat")).write_bytes(b"trial")
        assert str(folder.path / "trial.dat") in str(caught.value)
        if put is another_file:
            assert (folder.path / "trial.dat").read_bytes() == PRECIOUS
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.parametrize("put", PUT)
def test_what_takes_the_place_of_a_trial_file_is_not_written_to(tmp_path, journal, precious, put):
    with opened(tmp_path, journal) as folder:
        path = folder.claim("trial.dat")
        folder.file("trial.dat").rename(folder.file("moved.dat"))
        put(folder.path / "trial.dat", precious)
        Path(path).write_bytes(b"trial")
        assert folder.file("moved.dat").read_bytes() == b"trial"
        assert folder.claim("trial.dat") == path
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.parametrize("put", PUT)
def test_a_resumed_run_knows_its_files_by_their_inodes(tmp_path, journal, precious, put):
    first = opened(tmp_path, journal)
    Path(first.claim("mine.dat")).write_bytes(b"earlier")
    Path(first.claim("trial.dat")).write_bytes(b"earlier")
    first.close()
    # The inode is still in use, so that the other file cannot be given its number.
    first.file("trial.dat").rename(first.file("kept.dat"))
    put(first.path / "trial.dat", precious)
    with opened(tmp_path, journal) as again:
        assert Path(again.claim("mine.dat")).read_bytes() == b"earlier"
        with pytest.raises(SeatrialError):
            again.claim("trial.dat")
    assert precious.read_bytes() == PRECIOUS


def test_a_folder_that_takes_the_place_of_the_trial_folder_is_not_written_to(
    tmp_path, journal, precious
):
    folder = opened(tmp_path, journal)
    moved = folder.path.rename(tmp_path / "moved")
    folder.path.symlink_to(tmp_path)
    precious.rename(tmp_path / "trial.dat")
    Path(folder.claim("trial.dat")).write_bytes(b"trial")
    assert (moved / "trial.dat").read_bytes() == b"trial"
    assert (tmp_path / "trial.dat").read_bytes() == PRECIOUS
    assert folder.remove().outcome == "foreign"
    assert (tmp_path / "trial.dat").read_bytes() == PRECIOUS


def test_a_folder_with_our_marker_that_no_journal_names_is_left_alone(tmp_path, journal):
    (forged(tmp_path) / "trial.dat").write_bytes(PRECIOUS)
    with pytest.raises(SeatrialError, match="was not created by this run"):
        opened(tmp_path, journal)
    assert (tmp_path / ".seatrial-run1/trial.dat").read_bytes() == PRECIOUS
    assert not journal.path.exists()


def test_a_forged_folder_in_place_of_a_killed_runs_is_neither_used_nor_removed(tmp_path, journal):
    folder = opened(tmp_path, journal)
    folder.close()
    folder.path.rename(tmp_path / "moved")
    (forged(tmp_path) / "trial.dat").write_bytes(PRECIOUS)
    with pytest.raises(SeatrialError):
        opened(tmp_path, journal)
    assert [each.outcome for each in journal.undo_all()] == ["foreign"]
    assert (tmp_path / ".seatrial-run1/trial.dat").read_bytes() == PRECIOUS


def test_clean_leaves_a_forged_folder(tmp_path, journal, child):
    process = child(
        """
        import sys
        from seatrial.machine.file import TrialFolder
        from seatrial.machine.undo_journal import UndoJournal
        TrialFolder(sys.argv[1], "run2", UndoJournal("run2")).open(1)
        print(flush=True)
        """,
        str(tmp_path),
    )
    process.stdout.readline()
    process.wait(10)
    (tmp_path / ".seatrial-run2").rename(tmp_path / "moved")
    folder = tmp_path / ".seatrial-run2"
    folder.mkdir()
    write_marker(folder, "run2")
    (folder / "trial.dat").write_bytes(PRECIOUS)
    assert [each.outcome for each in clean()] == ["foreign"]
    assert (folder / "trial.dat").read_bytes() == PRECIOUS


def test_a_marker_that_is_a_link_to_a_file_is_not_written_through(tmp_path, journal, precious):
    folder = tmp_path / ".seatrial-run1"
    folder.mkdir()
    (folder / MARKER_NAME).hardlink_to(precious)
    with opened(tmp_path, journal):
        pass
    assert precious.read_bytes() == PRECIOUS


def test_a_probe_that_is_a_link_to_a_file_is_not_written_through(tmp_path, precious):
    (tmp_path / "direct-probe").hardlink_to(precious)
    direct_alignment(tmp_path)
    assert precious.read_bytes() == PRECIOUS


@pytest.mark.root
def test_a_folder_of_another_user_is_not_used(tmp_path, journal):
    os.chown(forged(tmp_path), 65534, 65534)
    with pytest.raises(SeatrialError):
        opened(tmp_path, journal)
