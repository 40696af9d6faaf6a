"""Targets that do not exist when a run begins: what stands for them, and what is stored of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.fingerprint import Filesystem, Fingerprint, Target
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.run import storage_paths
from seatrial.results.model import Run
from seatrial.results.store import ResultsFile
from trials.layouts.measure.trial import planned

STUDY = """
    name = "s"
    [drives]
    {drives}
    [[layout]]
    name = "mirror"
    level = "raid1"
    drives = 2
    [[workload]]
    kind = "io"
"""


@pytest.mark.parametrize(
    ("drives", "paths"),
    [
        ('devices = ["/dev/sdx", "/dev/sdy"]', {"/dev/sdx": "/dev/sdx", "/dev/sdy": "/dev/sdy"}),
        ('loop = "2x1G"\n    folder = "/somewhere"', {"drives": "/somewhere"}),
        ('lab = "2x1G"', {}),
    ],
)
def test_the_drives_stand_for_layouts_that_are_not_built_yet(drives, paths):
    plan = planned(STUDY.format(drives=drives))
    assert {target.path for target in plan.targets} == {""}
    assert storage_paths(plan) == {name: Path(path) for name, path in paths.items()}


def test_a_target_that_is_built_later_joins_the_fingerprint_once(tmp_path):
    run = Run(
        id="r1",
        command="",
        study_name="s",
        study={},
        plan_hash="h",
        seed=1,
        status="running",
        started_at=0.0,
        fingerprint_before=Fingerprint(target=Target(path="/")),
        seatrial_version="0",
    )
    with ResultsFile.open(tmp_path / "results.seatrial", create=True) as store:
        store.start_run(run)
        store.note_target("r1", "mirror", Target(filesystem=Filesystem(type="xfs")))
        store.note_target("r1", "mirror", Target(filesystem=Filesystem(type="ext4")))
        store.note_target("r1", "other", Target())
        before = store.run("r1").fingerprint_before
    assert before.target == Target(path="/")
    mirror = Target(filesystem=Filesystem(type="xfs"))
    assert before.other_targets == {"mirror": mirror, "other": Target()}


def test_a_folder_on_what_the_run_mounted_with_an_array_goes_with_it(tmp_path, monkeypatch):
    """Its own removal may fail with the array: later it must not ask for that mount."""
    monkeypatch.setattr("seatrial.machine.file.mount_of", lambda _tree, _path: Mounted(tmp_path))
    with UndoJournal("r1", tmp_path / "state") as journal:
        entry = journal.record("btrfs", fsid="none", point=str(tmp_path), devices="")
        assert journal.entries("btrfs") == [entry]
        TrialFolder(tmp_path, "r1", journal).open(0, direct=False)
        (file,) = journal.entries("file")
        journal.done(entry)
        assert journal.undo(file).outcome == "undone"


class Mounted:
    """What ``mount_of`` finds."""

    def __init__(self, point: Path) -> None:
        self.point = str(point)
        self.kind = "btrfs"
