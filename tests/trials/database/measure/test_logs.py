"""The driver's logs go where they are not measured, if there is such a place with room."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from seatrial.trials.database.measure import stage

SHM = Path("/dev/shm")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder for state and one under trial, on one file system; the temporary one with them."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    for name in ("state", "trial"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_what_lies_on_the_file_system_under_trial_is_avoided(places, monkeypatch):
    if not SHM.is_dir() or SHM.stat().st_dev == places.stat().st_dev:
        pytest.skip("needs /dev/shm on a file system of its own")
    monkeypatch.setattr(stage, "FREE_BYTES_MIN", 1)
    assert stage.choose_log_folder([places / "trial"], places / "state") == (SHM, "")
    assert stage.choose_log_folder([SHM], places / "state") == (places / "state", "")


def test_where_no_place_has_room_it_is_said(places, monkeypatch):
    monkeypatch.setattr(stage, "FREE_BYTES_MIN", 1 << 60)
    place, note = stage.choose_log_folder([places / "trial"], places / "state")
    assert place == places / "state"
    assert "on the device under test" in note
