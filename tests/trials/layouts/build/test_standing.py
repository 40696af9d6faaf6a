"""Layouts that are left standing: kept, found by name, seen to be gone, destroyed."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.errors import RefusedError, UsageError
from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.machine.marker import write_marker
from seatrial.machine.undo_journal import Kept, UndoJournal, clean
from seatrial.study.layouts.layout import Layout, assigned, variants
from seatrial.trials.layouts.build.backend import Built, Construction
from seatrial.trials.layouts.build.standing import (
    destroy,
    find_standing_layout,
    keep,
    standing_layouts,
)

DRIVES = ["/dev/loop1", "/dev/loop2", "/dev/loop3"]


@pytest.fixture
def build(tmp_path):
    """Leave a layout standing that consists of a marked folder: what was made is easily seen."""

    def make(run_id: str = "run1", label: str = "r5", folders: tuple[str, ...] = ("/mnt/r5",)):
        (spec,) = variants(Layout(name=label, backend="md", level="raid5", drives=3))
        built = Built(
            spec=spec,
            name=f"seatrial-{run_id}-1",
            assigned=assigned(spec, DRIVES),
            construction=Construction(steps=(), devices=("/dev/md/r5",)),
            folders=folders,
            commands=["mdadm --create /dev/md/r5"],
            built_s=0.5,
            synced_s=2.0,
        )
        folder = tmp_path / f".seatrial-{run_id}"
        with UndoJournal(run_id) as journal:
            journal.record("file", path=str(folder), run_id=run_id, mount_point="")
            folder.mkdir()
            write_marker(folder, run_id)
            return keep(journal, built, {"metadata": "1.2"}, ["leg 1 is off by 512 B"])

    return make


def test_what_stands_is_listed_with_all_that_is_known_of_it(build):
    kept = build()
    (found,) = standing_layouts()
    assert found == kept
    assert found.spec.level == "raid5"
    assert found.assigned.legs == [DRIVES]
    assert (found.paths, found.facts) == (["/mnt/r5"], {"metadata": "1.2"})
    assert found.misaligned == ["leg 1 is off by 512 B"]
    assert (found.built_s, found.synced_s) == (0.5, 2.0)


def test_without_a_file_system_the_devices_are_what_is_measured(build):
    assert build(folders=()).paths == ["/dev/md/r5"]


@pytest.mark.parametrize("name", ["r5", "run1", "seatrial-run1-1"])
def test_it_is_found_by_label_run_and_name_of_the_array(build, name):
    build("run0", "other")
    meant = build()
    assert find_standing_layout(name) == meant


def test_a_name_that_nothing_bears_is_reported_with_those_that_are_there(build):
    with pytest.raises(UsageError, match="No layout was built"):
        find_standing_layout("r5")
    build(label="r10")
    with pytest.raises(UsageError, match="The standing layouts are r10"):
        find_standing_layout("r5")


def test_a_name_that_two_bear_is_reported_with_their_runs(build):
    build("run1")
    build("run2")
    with pytest.raises(UsageError, match="2 layouts are named r5: run1, run2"):
        find_standing_layout("r5")
    assert find_standing_layout("run2").run_id == "run2"


def test_clean_names_it_and_leaves_it_and_destroy_undoes_it(build, tmp_path):
    standing = build()
    (left,) = clean()
    assert left.outcome == "kept"
    assert left.detail == (
        "layout r5 remains as requested; `seatrial layout destroy run1` undoes it"
    )
    assert (tmp_path / ".seatrial-run1").is_dir()
    assert [undone.outcome for undone in destroy(standing)] == ["undone"]
    assert not (tmp_path / ".seatrial-run1").exists()
    assert standing_layouts() == clean() == []


def test_one_that_is_being_destroyed_by_another_process_is_refused(build, child):
    standing = build()
    process = child(
        """
        from seatrial.machine.undo_journal import UndoJournal
        UndoJournal("run1", release=True)
        print(flush=True)
        input()
        """
    )
    process.stdout.readline()
    with pytest.raises(RefusedError, match=f"Process {process.pid}"):
        destroy(standing)
    process.kill()
    process.wait()
    assert [undone.outcome for undone in clean()] == ["undone"]


def test_what_else_is_kept_is_no_layout():
    with UndoJournal("run1") as journal:
        journal.record("setting", path="/sys/none", old="1")
        journal.keep(Kept(name="another thing", undone_by="`true`"))
    assert standing_layouts() == []


def test_one_that_a_restart_unmounted_is_seen_not_to_be_there(build, tmp_path):
    standing = build()
    mountinfo = tmp_path / "machine/proc/self/mountinfo"
    mountinfo.parent.mkdir(parents=True)
    line = "36 35 9:0 / {} rw - xfs /dev/md0 rw\n"
    mountinfo.write_text(line.format("/") + line.format("/mnt/r5"))
    assert standing.is_there(SystemTree(tmp_path / "machine"))
    mountinfo.write_text(line.format("/"))
    assert not standing.is_there(SystemTree(tmp_path / "machine"))


def test_devices_without_a_file_system_are_looked_for(build, tmp_path):
    standing = build(folders=())
    tree = SystemTree(tmp_path / "machine")
    assert not standing.is_there(tree)
    device = Path(tree.at("/dev/md/r5"))
    device.parent.mkdir(parents=True)
    device.touch()
    assert standing.is_there(tree)
