"""The power of a real file system is cut: what was synced stays, what was not is gone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.trials.database.measure import power_cut
from seatrial.trials.database.measure.power_cut import CuttableFilesystem

pytestmark = pytest.mark.root


@pytest.fixture(params=["xfs", "ext4"])
def file_system(request, tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    if shutil.which(f"mkfs.{request.param}") is None:
        pytest.skip(f"needs mkfs.{request.param}")
    with UndoJournal("cut1") as journal:
        folder = TrialFolder(tmp_path, "cut1", journal).open(0, direct=False)
        with CuttableFilesystem(folder.path, "power", journal, kind=request.param) as made:
            yield made
    assert "power" not in Path("/proc/mounts").read_text()
    assert clean() == []


def write(path: Path, *, synced: bool) -> None:
    with path.open("wb") as file:
        file.write(b"x" * 8192)
        if synced:
            os.fsync(file.fileno())
    if synced:
        descriptor = os.open(path.parent, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def test_only_what_was_synced_survives_a_cut(file_system):
    write(file_system.point / "synced", synced=True)
    write(file_system.point / "unsynced", synced=False)
    file_system.cut()
    file_system.remount()
    assert (file_system.point / "synced").read_bytes() == b"x" * 8192
    unsynced = file_system.point / "unsynced"
    assert not unsynced.exists() or unsynced.read_bytes() != b"x" * 8192


def test_a_drive_that_lied_about_flushes_loses_what_was_synced(file_system):
    write(file_system.point / "before", synced=True)
    file_system.save_content()
    write(file_system.point / "after", synced=True)
    file_system.cut()
    file_system.remount(with_saved=True)
    assert (file_system.point / "before").read_bytes() == b"x" * 8192
    assert not (file_system.point / "after").exists()


def test_a_frozen_file_system_is_thawed_by_clean(file_system, tmp_path, monkeypatch):
    journal = UndoJournal("killed", tmp_path / "other")
    journal.record("frozen", point=str(file_system.point))
    power_cut.freeze(file_system.point)
    monkeypatch.setattr("seatrial.process_identity.OwnerProcess.state", lambda _owner, **_: "dead")
    (undone,) = clean(folder=tmp_path / "other")
    assert (undone.outcome, undone.detail) == ("undone", "thawed")
    write(file_system.point / "goes-on", synced=True)
