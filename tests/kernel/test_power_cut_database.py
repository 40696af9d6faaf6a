"""The power of a database's storage is cut in mid-load: the check can fail, and does not cry wolf.

What is simulated: all that reached the loop device survives, what lay in the page cache only is
gone. With ``lying`` the device has lost its last second, though it had acknowledged the flushes.
"""

from __future__ import annotations

import pytest

from postgres.programs import installed_programs
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.measure.progress import SilentWatcher
from seatrial.trials.database.measure.crash import CrashTrial
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec

pytestmark = pytest.mark.root

SECONDS = 1.5


@pytest.fixture
def crash_twice(tmp_path, monkeypatch):
    """Cut the power of a database twice; nothing is left of it in the end."""
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    binaries = installed_programs()

    def crash(power_cut, **settings):
        with UndoJournal("cut1") as journal:
            folder = TrialFolder(tmp_path, "cut1", journal).open(0, direct=False)
            spec = DatabaseSpec(
                load=LoadSpec(kind="ledger"),
                clients=3,
                settings=settings,
                start="warm",
                power_cut=power_cut,
            )
            trial = CrashTrial(
                folder.path, "crash", spec, binaries=binaries, journal=journal, seed=5
            )
            try:
                crashes = []
                for _ in range(2):
                    crashes.append(trial.crash(SECONDS, SilentWatcher()))
                    if not crashes[-1].recovered:
                        break
            finally:
                trial.close()
            assert folder.files() == []
        assert clean() == []
        assert all(len(crashed.load.answers) > 10 for crashed in crashes)
        return crashes

    return crash


def test_a_database_that_flushes_survives_a_power_cut(crash_twice):
    first, second = crash_twice("honest")
    assert first.recovered
    assert second.recovered
    assert first.verdict.is_ok
    assert second.verdict.is_ok
    assert second.verdict.checked > first.verdict.checked


def test_without_fsync_a_power_cut_loses_what_was_acknowledged(crash_twice):
    crashes = crash_twice("honest", fsync="off")
    assert sum(crashed.verdict.lost for crashed in crashes) > 10


def test_a_drive_that_lies_about_flushes_loses_what_was_acknowledged(crash_twice):
    crashes = crash_twice("lying")
    assert all(crashed.recovered for crashed in crashes)
    assert sum(crashed.verdict.lost for crashed in crashes) > 10
    # The drive went back to an earlier moment as a whole: nothing is there in part.
    assert sum(crashed.verdict.half for crashed in crashes) == 0
