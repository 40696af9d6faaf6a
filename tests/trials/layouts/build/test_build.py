"""Building by way of the journal, with a made-up backend whose commands leave files."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from seatrial.errors import SpaceError, TargetError
from seatrial.machine.file import TrialFolder
from seatrial.machine.fingerprint.tree import CommandOutput, SystemTree
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.machine.undo_result import Undoer, gone, undone
from seatrial.machine.undoers import UNDOERS
from seatrial.trials.layouts.build import build as building
from seatrial.trials.layouts.build import filesystems, registry, running, tuning
from seatrial.trials.layouts.build.backend import ArrayState, Backend, Built, Construction, Step
from seatrial.trials.layouts.build.build import (
    build,
    built_bytes,
    commands_of,
    destroy,
    run_steps,
    wait_synced,
)
from seatrial.trials.layouts.build.names import array_name, mount_folder
from trials.layouts.build.specs import built_of, variant

RUN = "20261121-074500-3fa2"
NAME = array_name(RUN, 1)


class Files(Backend):
    """Arrays that are two files; a step called ``fails`` fails."""

    name = "files"
    levels = ("raid0",)
    programs = ()
    undoers: ClassVar[dict[str, Undoer]] = {}

    def __init__(self, folder: Path, *, names: tuple[str, ...] = ("one", "two")) -> None:
        self.folder = folder
        self.names = names
        self.states = [ArrayState()]
        self.haste: list[Step] = []

    def plan(self, spec, assigned, name) -> Construction:
        steps = tuple(
            Step(command=("make", str(self.folder / each)), undo="made", details={"path": each})
            for each in self.names
        )
        return Construction(steps=steps, devices=("/dev/none",))

    def describe(self, built):
        return {}

    def state(self, built, leg):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def fail(self, built, leg, member):
        raise AssertionError("not asked for here")

    def replace(self, built, leg, member, new_device):
        raise AssertionError("not asked for here")

    def remove_sync_limits(self, built):
        return self.haste


@pytest.fixture
def files(tmp_path, monkeypatch, state_dir):
    backend = Files(tmp_path)
    backend.reported = []

    def unmake(*, path):
        backend.reported.append(f"undo {path}")
        if not (tmp_path / path).exists():
            return gone("it is not there")
        (tmp_path / path).unlink()
        return undone("removed")

    def run(command, **_how):
        path = Path(command[-1])
        recorded = (state_dir / f"{RUN}.undo.jsonl").read_text()
        assert json.dumps(path.name) in recorded, "written to the journal before it runs"
        backend.reported.append(f"make {path.name}")
        if path.name == "fails":
            path.write_text("half")
            return CommandOutput(1, "", "no room")
        path.write_text("made")
        return CommandOutput(0, "", "")

    monkeypatch.setitem(UNDOERS, "made", Undoer(undo=unmake, subject="path"))
    monkeypatch.setattr(registry, "backends", lambda: {"files": backend})
    monkeypatch.setattr(running, "attempt", run)
    monkeypatch.setattr(building, "_POLL_S", 0.0)
    return backend


def spec_of(**others):
    return variant("files", "raid0", 2, **{"filesystem": "none", **others})


def built_with(journal, spec=None):
    spec = spec or spec_of()
    return build(spec, built_of(spec), NAME, journal)


def test_steps_run_in_order_each_recorded_before_and_are_undone_in_reverse(files, tmp_path):
    journal = UndoJournal(RUN)
    built = built_with(journal)
    assert built.commands == [f"make {tmp_path}/one", f"make {tmp_path}/two"]
    assert built.paths == ("/dev/none",)
    assert [each.outcome for each in destroy(built, journal)] == ["undone", "undone"]
    assert files.reported == ["make one", "make two", "undo two", "undo one"]
    assert not journal.path.exists()


def test_a_build_that_fails_midway_is_undone_and_reports_why(files, tmp_path):
    files.names = ("one", "fails", "never")
    journal = UndoJournal(RUN)
    with pytest.raises(TargetError, match="Output: no room"):
        built_with(journal)
    assert files.reported == ["make one", "make fails", "undo fails", "undo one"]
    assert not journal.path.exists()
    assert list(tmp_path.glob("*one")) == []


def test_an_interrupted_build_is_undone(files, monkeypatch):
    def interrupt(*_any, **_how):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "attempt", interrupt)
    journal = UndoJournal(RUN)
    with pytest.raises(KeyboardInterrupt):
        built_with(journal)
    assert files.reported == ["undo one"]


def test_what_could_not_be_undone_is_reported_with_the_error_and_stays(files, monkeypatch):
    def stuck(*, path):
        raise OSError(16, "busy")

    monkeypatch.setitem(UNDOERS, "made", Undoer(undo=stuck, subject="path"))
    files.names = ("fails",)
    journal = UndoJournal(RUN)
    with pytest.raises(TargetError) as caught:
        built_with(journal)
    assert "Not undone: made fails: OSError" in caught.value.__notes__[0]
    assert journal.path.exists()


def test_a_name_of_another_run_is_refused(files):
    spec = spec_of()
    with pytest.raises(ValueError, match="not an array of the run"):
        build(spec, built_of(spec), "seatrial-other-1", UndoJournal(RUN))
    assert files.reported == []


def test_a_missing_mkfs_is_reported_before_anything_is_made(files, monkeypatch):
    jfs = filesystems.FILESYSTEMS["jfs"]
    missing = replace(jfs, program=replace(jfs.program, name="mkfs.no-such"))
    monkeypatch.setitem(filesystems.FILESYSTEMS, "jfs", missing)
    with pytest.raises(TargetError, match="apt-get install jfsutils"):
        built_with(UndoJournal(RUN), spec_of(filesystem="jfs"))
    assert files.reported == []


def test_an_array_too_small_for_its_file_system_is_taken_apart_again(files, monkeypatch):
    monkeypatch.setattr(building, "require_program", lambda _program: None)
    with pytest.raises(SpaceError, match="at least 300 MiB, but the array has 0 B"):
        built_with(UndoJournal(RUN), spec_of(filesystem="xfs"))
    assert files.reported[-2:] == ["undo two", "undo one"]


def test_waiting_lifts_limits_for_its_time_only(files):
    files.haste = [
        Step(command=("make", str(files.folder / "haste")), undo="made", details={"path": "haste"})
    ]
    journal = UndoJournal(RUN)
    built = built_with(journal)
    sync = [ArrayState(operation="resync", share=share) for share in (0.0, 0.5)]
    files.states = [*sync, ArrayState(missing=1, operation="rebuild"), ArrayState()]
    reported = []
    assert wait_synced(built, journal, report=reported.append) == built.synced_s
    assert len(files.states) == 1, "it waited for the last of them"
    assert files.reported[-2:] == ["make haste", "undo haste"]
    assert [each.subject for each in destroy(built, journal)] == ["two", "one"]


@pytest.mark.parametrize(
    ("first", "took"),
    [(ArrayState(operation="resync", share=0.5), True), (ArrayState(), False)],
)
def test_a_synchronisation_that_ends_while_the_file_system_is_made_took_time(files, first, took):
    files.states = [first, ArrayState()]
    journal = UndoJournal(RUN)
    built = built_with(journal)
    assert (wait_synced(built, journal) > 0) is took
    destroy(built, journal)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (ArrayState(operation="resync", share=0.5), "resync at 50%, 0 drives missing"),
        (ArrayState(missing=2, has_failed=True), "idle, 2 drives missing"),
    ],
)
def test_waiting_ends_where_nothing_gets_on(files, state, words):
    journal = UndoJournal(RUN)
    built = built_with(journal)
    files.states = [state]
    with pytest.raises(TargetError, match=words):
        wait_synced(built, journal, no_progress_s=0.0)
    destroy(built, journal)


def test_further_steps_are_undone_with_the_array(files, tmp_path):
    journal = UndoJournal(RUN)
    built = built_with(journal)
    more = Step(command=("make", str(tmp_path / "more")), undo="made", details={"path": "more"})
    run_steps(built, [more], journal)
    assert built.commands[-1] == f"make {tmp_path}/more"
    destroy(built, journal)
    assert files.reported[-3:] == ["undo more", "undo two", "undo one"]


def test_commands_are_reported_without_root_or_drives():
    spec = variant(spares=1, scheduler="none", read_ahead_kib=4096, mount_options=["noatime"])
    reported = commands_of(spec, built_of(spec), NAME)
    assert [line.split()[0] for line in reported] == [
        *("echo", "echo", "echo", "echo"),
        *("mdadm", "echo", "mkfs.xfs", "mount"),
    ]
    assert reported[0] == "echo none | tee /sys/block/sda/queue/scheduler"
    assert reported[5] == "echo 4096 | tee /sys/block/md200/queue/read_ahead_kb"
    assert reported[-1].endswith(f"/.seatrial-{RUN}/v")


def test_drives_that_are_wrapped_are_reported_with_what_wraps_them():
    spec = variant(flaky=True, delay_ms=[0.0, 40.0, 0.0])
    reported = commands_of(spec, built_of(spec), NAME)
    first = f"seatrial-{RUN}-1"
    assert reported[0] == f"dmsetup create {first}-dust --table '0 SECTORS dust /dev/sda 0 4096'"
    assert reported[1] == (
        f"dmsetup create {first}-delay --table '0 SECTORS delay /dev/mapper/{first}-dust 0 0'"
    )
    create = next(line for line in reported if line.startswith("mdadm"))
    assert f"/dev/mapper/{first}-delay" in create
    assert "/dev/sda" not in create


def test_schedulers_are_recorded_with_what_they_were(tmp_path):
    for path, text in {
        "block/sda/queue/scheduler": "none [mq-deadline]",
        "block/sda/diskseq": "7",
        "block/sda/dev": "8:0",
    }.items():
        (tmp_path / "sys" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / path).write_text(text)
    for link in ("dev/block/8:0", "class/block/sda"):
        (tmp_path / "sys" / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / link).symlink_to(tmp_path / "sys/block/sda")
    tree = SystemTree(tmp_path)
    spec = variant("single", "single", 1, scheduler="none")
    (step,) = tuning.scheduler_steps(spec, built_of(spec), tree)
    assert step.undo == "scheduler"
    assert step.details == {
        "device": "sda",
        "new": "none",
        "old": "mq-deadline",
        "diskseq": "7",
    }
    wrong = variant("single", "single", 1, scheduler="bfq")
    with pytest.raises(TargetError, match="Its schedulers are none"):
        tuning.scheduler_steps(wrong, built_of(wrong), tree)


def test_a_mount_point_has_no_links_as_the_kernel_lists_it(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "link"))
    assert mount_folder(NAME, "r5") == f"{tmp_path.resolve()}/.seatrial-{RUN}/r5"


def test_the_runs_folder_on_another_target_outlives_an_array_mounted_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spec = variant("zfs", "stripe", 1)
    for has_other in (False, True):
        journal = UndoJournal(RUN, tmp_path / "state")
        if has_other:
            TrialFolder(tmp_path, RUN, journal).open(0, direct=False).claim("data")
        folder = Path(mount_folder(NAME, "leg1"))
        built = Built(spec=spec, name=NAME, assigned=built_of(spec), construction=None)
        for each in (folder, folder.with_name("leg2")):
            building._make_mount_folder(built, str(each), journal)
        destroy(built, journal)
        assert folder.parent.exists() is has_other
        journal.undo_all()
        assert not folder.parent.exists()


def test_a_kill_before_the_first_step_leaves_a_record_that_clean_finds_empty(files):
    journal = UndoJournal(RUN)
    journal.record("made", path="one")
    text = journal.path.read_text().replace(f'"pid":{_pid(journal)}', '"pid":4194305')
    journal.path.write_text(text)
    assert [each.outcome for each in clean()] == ["gone"]


def _pid(journal) -> int:
    return json.loads(journal.path.read_text().splitlines()[0])["owner"]["pid"]


@pytest.mark.parametrize(
    ("backend", "level", "share"),
    [("btrfs", "raid5", 0.75), ("btrfs", "raid6", 0.5), ("btrfs", "raid1", 1), ("md", "raid5", 1)],
)
def test_parity_of_btrfs_is_no_capacity(tmp_path, backend, level, share):
    spec = variant(backend, level, 4)
    built = Built(
        spec=spec,
        name=NAME,
        assigned=built_of(spec),
        construction=Construction(steps=()),
        folders=(str(tmp_path),),
    )
    status = os.statvfs(tmp_path)
    assert built_bytes(built) == int(status.f_blocks * status.f_frsize * share)
