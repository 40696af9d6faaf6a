"""The journal and its undoers, without root. Kills of real processes: test_undo_kill.py."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial import process_identity
from seatrial.errors import RefusedError, SeatrialError, UsageError
from seatrial.machine import undo_journal, undoers
from seatrial.machine.marker import MARKER_NAME, write_marker
from seatrial.machine.undo_journal import Kept, UndoJournal, clean, kept_journals, state_folder
from seatrial.machine.undoers import UNDOERS, Outcome, Result, Undoer
from seatrial.process_identity import OwnerProcess, start_ticks

DEAD = OwnerProcess(**(msgspec.structs.asdict(OwnerProcess.current()) | {"start_ticks": 1}))


@pytest.fixture
def switches(monkeypatch, tmp_path):
    """A kind of change that is easy to see: files that stand for switches turned on."""
    undone = []

    def turn_off(*, path):
        if not Path(path).exists():
            return Result(outcome=Outcome.GONE, detail="it is off")
        if Path(path).read_text() == "stuck":
            return Result(outcome=Outcome.FAILED, detail="it is stuck")
        if Path(path).read_text() == "broken":
            raise OSError(5, "Input/output error")
        Path(path).unlink()
        undone.append(Path(path).name)
        return Result(outcome=Outcome.UNDONE, detail="turned off")

    monkeypatch.setitem(UNDOERS, "switch", Undoer(undo=turn_off, subject="path"))
    monkeypatch.setattr(undo_journal, "UNDOERS", UNDOERS)

    def turn_on(journal, name, text="on"):
        path = tmp_path / name
        entry = journal.record("switch", path=str(path))
        path.write_text(text)
        return entry

    turn_on.undone = undone
    turn_on.folder = tmp_path
    return turn_on


def disown(journal, owner=DEAD):
    """Make a journal look as a killed process leaves it."""
    lines = journal.path.read_bytes().splitlines(keepends=True)
    lines[0] = msgspec.json.encode({"owner": owner}) + b"\n"
    journal.path.write_bytes(b"".join(lines))


def outcomes(undone):
    return [item.outcome for item in undone]


def test_a_record_is_on_disk_before_it_returns(switches):
    journal = UndoJournal("run1")
    journal.record("switch", path="/x")
    lines = [json.loads(line) for line in journal.path.read_text().splitlines()]
    assert lines[0]["owner"]["pid"] == os.getpid()
    assert lines[1] == {"id": 1, "kind": "switch", "details": {"path": "/x"}}


def test_records_are_synced_to_disk_before_they_return(switches, monkeypatch):
    calls = []
    write, sync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda *args: calls.append("write") or write(*args))
    monkeypatch.setattr(os, "fsync", lambda *args: calls.append("sync") or sync(*args))
    journal = UndoJournal("run1")
    journal.record("switch", path="/x")
    assert calls == ["sync", "write", "sync"], "name, then owner and record"


def test_everything_is_undone_in_reverse_and_the_file_goes(switches):
    with UndoJournal("run1") as journal:
        for name in ("a", "b", "c"):
            switches(journal, name)
    assert switches.undone == ["c", "b", "a"]
    assert not journal.path.exists()


def test_an_entry_can_be_undone_alone_and_twice_does_no_harm(switches):
    with UndoJournal("run1") as journal:
        first, second = switches(journal, "a"), switches(journal, "b")
        assert journal.undo(first).outcome == "undone"
        assert journal.undo(first).outcome == "gone"
        assert journal.path.exists()
        journal.done(second)
        assert not journal.path.exists()
    assert switches.undone == ["a"]


def test_the_same_change_recorded_twice_is_one_entry(switches):
    with UndoJournal("run1") as journal:
        assert switches(journal, "a") == switches(journal, "a")


def test_unknown_kinds_and_wrong_details_are_caught_before_anything_is_changed():
    journal = UndoJournal("run1")
    with pytest.raises(ValueError, match="no undoer for 'teleport'"):
        journal.record("teleport", path="/x")
    with pytest.raises(TypeError):
        journal.record("loop", device="/dev/loop9")
    with pytest.raises(TypeError):
        journal.record("setting", path=Path("/sys/x"), old="1")
    assert not journal.path.exists()


@pytest.mark.parametrize("run_id", ["", "../up", "a/b", ".hidden", "a b", "x" * 101])
def test_a_run_whose_name_is_no_file_name_has_no_journal(run_id):
    with pytest.raises(ValueError, match="not a run's name"):
        UndoJournal(run_id)


def test_what_fails_stays_and_is_reported_with_its_reason(switches):
    journal = UndoJournal("run1")
    for name, text in (("a", "on"), ("b", "stuck"), ("c", "broken")):
        switches(journal, name, text)
    with pytest.raises(SeatrialError) as caught, journal:
        pass
    text = str(caught.value)
    assert "2 changes" in text
    assert "it is stuck" in text
    assert "seatrial list" in caught.value.next_step
    assert "Input/output error" in text
    assert "`seatrial clean`" in text
    assert switches.undone == ["a"], "one failure does not keep the others from being undone"
    (switches.folder / "b").write_text("on")
    (switches.folder / "c").write_text("on")
    assert outcomes(journal.undo_all()) == ["undone", "undone"]
    assert not journal.path.exists()


def test_an_error_of_the_run_is_not_hidden_by_one_of_the_undoing(switches):
    journal = UndoJournal("run1")
    switches(journal, "a", "stuck")
    with pytest.raises(KeyError) as caught, journal:
        raise KeyError("the run's own")
    assert "it is stuck" in caught.value.__notes__[0]
    assert caught.value.__notes__[0].startswith("1 change ")


def test_clean_leaves_a_running_run_alone(switches):
    journal = UndoJournal("run1")
    switches(journal, "a")
    assert outcomes(clean()) == ["running"]
    assert (switches.folder / "a").exists()
    journal.undo_all()


def test_clean_undoes_a_dead_run_and_is_idempotent(switches):
    journal = UndoJournal("run1")
    for name in ("a", "b"):
        switches(journal, name)
    disown(journal)
    assert outcomes(clean(dry_run=True)) == ["pending", "pending"]
    assert (switches.folder / "a").exists()
    found = clean()
    assert [(item.run_id, item.kind, item.outcome) for item in found] == [
        ("run1", "switch", "undone"),
        ("run1", "switch", "undone"),
    ]
    assert [Path(item.subject).name for item in found] == ["b", "a"]
    assert not journal.path.exists()
    assert clean() == []


KEPT = Kept(name="r5", undone_by="`seatrial layout destroy r5`", about={"drives": 3})


def test_what_is_kept_outlives_its_process_and_every_clean(switches):
    with UndoJournal("run1") as journal:
        switches(journal, "a")
        journal.keep(KEPT)
    disown(journal)
    for _again in range(2):
        (found,) = clean()
        assert (found.run_id, found.outcome) == ("run1", "kept")
        assert "r5 remains as requested; `seatrial layout destroy r5` undoes it" in found.detail
    assert (switches.folder / "a").exists()
    assert kept_journals() == {"run1": KEPT}


def test_what_is_kept_is_undone_by_whoever_takes_it_over_and_releases_it(switches):
    with UndoJournal("run1") as journal:
        switches(journal, "a")
        journal.keep(KEPT)
    disown(journal)
    with UndoJournal("run1", release=True):
        assert kept_journals() == {}
        assert (switches.folder / "a").exists()
    assert switches.undone == ["a"]
    assert not journal.path.exists()


def test_a_kill_between_release_and_undoing_leaves_it_to_clean(switches):
    with UndoJournal("run1") as journal:
        switches(journal, "a")
        journal.keep(KEPT)
    UndoJournal("run1", release=True)
    with journal.path.open("ab") as file:
        file.write(msgspec.json.encode({"owner": DEAD}) + b"\n")
    assert outcomes(clean()) == ["undone"]


def test_a_kept_journal_with_nothing_left_to_undo_stays_until_it_is_released(switches):
    journal = UndoJournal("run1")
    entry = switches(journal, "a")
    journal.keep(KEPT)
    journal.undo(entry)
    disown(journal)
    assert outcomes(clean()) == ["kept"]
    UndoJournal("run1", release=True)
    assert not journal.path.exists()
    assert clean() == []


def test_what_a_living_process_keeps_is_taken_over_once(switches, child):
    process = child(
        """
        from seatrial.machine.undo_journal import Kept, UndoJournal
        with UndoJournal("run1") as journal:
            journal.record("setting", path="/sys/none", old="1")
            journal.keep(Kept(name="r5", undone_by="`true`"))
        print(flush=True)
        input()
        UndoJournal("run1", release=True)
        """
    )
    process.stdout.readline()
    with pytest.raises(RefusedError, match="Two processes"):
        UndoJournal("run1")
    taken = UndoJournal("run1", release=True)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.wait() == 1, "it is another's now, and kept no longer"
    assert outcomes(taken.undo_all()) == ["gone"]


def test_what_is_kept_on_another_host_is_not_taken_over(switches):
    with UndoJournal("run1") as journal:
        switches(journal, "a")
        journal.keep(KEPT)
    disown(journal, OwnerProcess(**(msgspec.structs.asdict(DEAD) | {"host": "elsewhere"})))
    with pytest.raises(RefusedError, match="elsewhere"):
        UndoJournal("run1", release=True)


def test_what_another_user_keeps_is_not_listed(switches, monkeypatch):
    journal = UndoJournal("run1")
    switches(journal, "a")
    journal.keep(KEPT)
    monkeypatch.setattr(os, "geteuid", lambda: journal.path.stat().st_uid + 1)
    assert kept_journals() == {}


def test_clean_tries_again_what_failed_before(switches):
    journal = UndoJournal("run1")
    switches(journal, "a", "stuck")
    disown(journal)
    assert outcomes(clean()) == ["failed"]
    assert outcomes(clean()) == ["failed"]
    (switches.folder / "a").write_text("on")
    assert outcomes(clean()) == ["undone"]


@given(cut=st.integers(0, 10_000), noise=st.binary(max_size=40))
@settings(max_examples=80)
def test_a_torn_last_line_loses_nothing_that_was_whole(tmp_path_factory, cut, noise):
    folder = tmp_path_factory.mktemp("torn")
    journal = UndoJournal("run1", folder)
    for number in range(4):
        journal.record("setting", path=f"/sys/none/{number}", old="1")
    disown(journal)
    whole = journal.path.read_bytes()
    cut = min(cut, len(whole))
    journal.path.write_bytes(whole[:cut] + noise.replace(b"\n", b""))
    records_whole = max(whole[:cut].count(b"\n") - 1, 0)
    found = clean(folder=folder)
    assert outcomes(found) == ["gone"] * records_whole
    assert not journal.path.exists()


def test_a_journal_taken_over_after_a_torn_line_goes_on_whole(switches):
    journal = UndoJournal("run1")
    switches(journal, "a")
    disown(journal)
    with journal.path.open("ab") as file:
        file.write(b'{"id":2,"kind":"swi')
    with UndoJournal("run1") as resumed:
        assert switches(resumed, "b") == 2
        lines = journal.path.read_text().splitlines()
        assert [sorted(json.loads(line)) for line in lines] == [
            ["owner"],
            ["details", "id", "kind"],
            ["owner"],
            ["details", "id", "kind"],
        ]
        assert switches(resumed, "a") == 1, "what the dead owner recorded is known"
    assert switches.undone == ["b", "a"]


def test_a_line_that_makes_no_sense_is_reported_and_kept_and_the_rest_undone(switches):
    journal = UndoJournal("run1")
    switches(journal, "a")
    disown(journal)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(lines[0] + b"\x00garbage\n" + lines[1])
    found = clean()
    assert outcomes(found) == ["undone", "failed"]
    assert "cannot be read" in found[1].detail
    assert b"garbage" in journal.path.with_suffix(".unreadable").read_bytes()
    assert clean() == []


def test_a_kind_of_a_newer_version_is_reported_and_stays(switches):
    journal = UndoJournal("run1")
    switches(journal, "a")
    disown(journal)
    with journal.path.open("ab") as file:
        file.write(b'{"id":2,"kind":"teleport","details":{}}\n')
    found = clean()
    assert outcomes(found) == ["failed", "undone"]
    assert "newer version" in found[0].detail
    assert journal.path.exists()


def test_two_processes_cannot_be_at_the_same_run(switches, child):
    process = child(
        """
        from seatrial.machine.undo_journal import UndoJournal
        journal = UndoJournal("run1")
        journal.record("setting", path="/sys/none", old="1")
        print(flush=True)
        input()
        """
    )
    process.stdout.readline()
    with pytest.raises(RefusedError, match=f"Process {process.pid}"):
        UndoJournal("run1")
    assert outcomes(clean()) == ["running"]
    process.kill()
    process.wait()
    with UndoJournal("run1") as journal:
        assert outcomes(journal.undo_all()) == ["gone"]


def test_without_proc_no_owner_is_called_dead(monkeypatch):
    owner = OwnerProcess.current()
    monkeypatch.setattr(process_identity, "_text", lambda path: "")
    monkeypatch.setattr(process_identity, "pid_namespace", lambda: "")
    assert owner.state() == "elsewhere"


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"pid_namespace": "pid:[1]"}])
def test_a_journal_of_another_host_or_container_is_left_alone(switches, change, monkeypatch):
    monkeypatch.setattr(process_identity, "INITIAL_NAMESPACE", "pid:[2]")
    journal = UndoJournal("run1")
    switches(journal, "a")
    disown(journal, OwnerProcess(**(msgspec.structs.asdict(DEAD) | change)))
    found = clean()
    assert outcomes(found) == ["failed"]
    assert "another host or in another container" in found[0].detail
    assert (switches.folder / "a").exists()


def test_after_a_reboot_only_files_are_left_to_undo(tmp_path, child):
    journal = UndoJournal("run1")
    folder = tmp_path / ".seatrial-run1"
    journal.record("file", path=str(folder), run_id="run1", mount_point="")
    folder.mkdir()
    write_marker(folder, "run1")
    # By chance, another process got the number and the start of the one before the reboot.
    other = child("input()")
    ticks = start_ticks(other.pid)
    journal.record("process", pid=other.pid, start_ticks=ticks, grace_s=0.1)
    disown(journal, OwnerProcess(**(msgspec.structs.asdict(DEAD) | {"boot_id": "another boot"})))
    found = clean()
    assert [(item.kind, item.outcome) for item in found] == [
        ("process", "gone"),
        ("file", "undone"),
    ]
    assert "reboot" in found[0].detail
    assert other.poll() is None
    assert not folder.exists()


def test_a_journal_of_another_user_is_not_obeyed(switches, monkeypatch):
    journal = UndoJournal("run1")
    switches(journal, "a")
    disown(journal)
    monkeypatch.setattr(os, "geteuid", lambda: journal.path.stat().st_uid + 1)
    found = clean()
    assert outcomes(found) == ["failed"]
    assert "run clean as that user" in found[0].detail
    assert (switches.folder / "a").exists()


def test_a_full_disk_leaves_the_journal_whole_and_stops_the_change(switches, monkeypatch):
    journal = UndoJournal("run1")
    switches(journal, "a")
    before = journal.path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    with pytest.raises(UsageError, match="No space left"):
        journal.record("switch", path="/b")
    monkeypatch.undo()
    assert journal.path.read_bytes() == before


def test_a_state_folder_that_cannot_be_made_is_explained(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "file/state"))
    with pytest.raises(UsageError, match="Set SEATRIAL_STATE_DIR"):
        UndoJournal("run1")


@pytest.mark.parametrize("read", [clean, kept_journals])
def test_a_state_folder_that_cannot_be_read_is_explained(tmp_path, read):
    with pytest.raises(UsageError, match="Set SEATRIAL_STATE_DIR"):
        read(folder=tmp_path / ("x" * 300))


def test_the_state_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", "/a")
    assert state_folder() == Path("/a")
    monkeypatch.delenv("SEATRIAL_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", "/b")
    assert state_folder() == Path("/b/seatrial/undo")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert state_folder() == Path("/c/.local/state/seatrial/undo")


class TestFiles:
    def undo(self, path, run_id="run1", mount_point=""):
        return undoers.undo_file(path=str(path), run_id=run_id, mount_point=mount_point)

    def trial_folder(self, tmp_path, run_id="run1"):
        folder = tmp_path / f".seatrial-{run_id}"
        folder.mkdir()
        write_marker(folder, run_id)
        (folder / "trial.dat").write_bytes(b"x" * 100)
        return folder

    def test_a_marked_folder_goes_with_all_in_it(self, tmp_path):
        folder = self.trial_folder(tmp_path)
        (folder / "sub").mkdir()
        (folder / "sub/file").touch()
        (folder / "link").symlink_to(tmp_path)
        assert self.undo(folder).outcome == "undone"
        assert list(tmp_path.iterdir()) == []
        assert self.undo(folder).outcome == "gone"

    def test_the_marker_is_removed_last(self, tmp_path, monkeypatch):
        folder = self.trial_folder(tmp_path)
        removed = []
        unlink = Path.unlink
        monkeypatch.setattr(
            Path, "unlink", lambda self, **kw: removed.append(self.name) or unlink(self, **kw)
        )
        self.undo(folder)
        assert removed == ["trial.dat", MARKER_NAME]

    def test_a_folder_of_another_run_or_without_marker_stays(self, tmp_path):
        folder = self.trial_folder(tmp_path, "run2")
        assert self.undo(folder).outcome == "foreign"
        (folder / MARKER_NAME).unlink()
        assert self.undo(folder, "run2").outcome == "foreign"
        assert (folder / "trial.dat").exists()

    def test_a_marker_is_not_written_anew_so_that_a_kill_cannot_tear_it(
        self, tmp_path, monkeypatch
    ):
        folder = self.trial_folder(tmp_path)
        monkeypatch.setattr(os, "write", lambda *_arguments: 1 / 0)
        write_marker(folder, "run1")
        assert (folder / MARKER_NAME).read_text() == "run1\n"

    @pytest.mark.parametrize("marker", [None, "", "ru"])
    def test_a_folder_that_was_not_wholly_marked_yet_goes(self, tmp_path, marker):
        folder = tmp_path / ".seatrial-run1"
        folder.mkdir()
        if marker is not None:
            (folder / MARKER_NAME).write_text(marker)
        assert self.undo(folder).outcome == "undone"
        assert not folder.exists()
        (tmp_path / "photos").mkdir()
        assert self.undo(tmp_path / "photos").outcome == "foreign"

    def test_a_link_in_its_place_stays_and_so_does_what_it_points_to(self, tmp_path):
        real = self.trial_folder(tmp_path)
        (tmp_path / "elsewhere").mkdir()
        moved = real.rename(tmp_path / "elsewhere/.seatrial-run1")
        real.symlink_to(moved)
        assert self.undo(real).outcome == "foreign"
        assert (moved / "trial.dat").exists()

    def test_a_file_goes_only_from_a_marked_folder(self, tmp_path):
        folder = self.trial_folder(tmp_path)
        assert self.undo(folder / "trial.dat").outcome == "undone"
        (tmp_path / "thesis.tex").touch()
        assert self.undo(tmp_path / "thesis.tex").outcome == "foreign"
        assert (tmp_path / "thesis.tex").exists()

    def test_a_file_system_that_is_not_mounted_is_waited_for(self, tmp_path):
        found = self.undo(tmp_path / ".seatrial-run1", mount_point=str(tmp_path / "usb"))
        assert found.outcome == "failed"
        assert "not mounted" in found.detail


class TestProcesses:
    def start(self, code="import time; print(flush=True); time.sleep(60)"):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        process.stdout.readline()
        return process

    def test_it_is_requested_to_end(self):
        process = self.start()
        ticks = start_ticks(process.pid)
        found = undoers.undo_process(pid=process.pid, start_ticks=ticks, grace_s=5)
        assert (found.outcome, process.wait(5)) == ("undone", -15)
        assert undoers.undo_process(pid=process.pid, start_ticks=ticks, grace_s=1).outcome == "gone"

    def test_it_is_killed_when_it_does_not_listen(self):
        process = self.start(
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "print(flush=True); time.sleep(60)"
        )
        ticks = start_ticks(process.pid)
        found = undoers.undo_process(pid=process.pid, start_ticks=ticks, grace_s=0.1)
        assert (found.outcome, process.wait(5)) == ("undone", -9)
        assert "killed" in found.detail

    def test_another_process_under_the_same_number_is_not_touched(self):
        process = self.start()
        ticks = start_ticks(process.pid) - 1
        found = undoers.undo_process(pid=process.pid, start_ticks=ticks, grace_s=0.1)
        assert found.outcome == "gone"
        assert process.poll() is None
        process.kill()
        process.wait()

    def test_a_zombie_counts_as_ended(self):
        process = self.start("print(flush=True)")
        ticks = start_ticks(process.pid) or 1
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_ticks(process.pid) is None
        assert undoers.undo_process(pid=process.pid, start_ticks=ticks, grace_s=0).outcome == "gone"
        process.wait()


def test_only_settings_of_the_kernel_are_written_back(tmp_path):
    (tmp_path / "notes").write_text("new")
    for path in (tmp_path / "notes", "/sys/../etc/hostname"):
        found = undoers.undo_setting(path=str(path), old="old")
        assert found.outcome == "foreign"
    assert (tmp_path / "notes").read_text() == "new"
    assert undoers.undo_setting(path="/sys/none/such", old="1").outcome == "gone"


def test_things_that_are_gone_need_no_undoing(tmp_path):
    assert undoers.undo_loop(device="/dev/loop-none", backing="/x").outcome == "gone"
    assert undoers.undo_mount(point=str(tmp_path), source="/dev/x").outcome == "gone"
    assert undoers.undo_cgroup(path="/sys/fs/cgroup/none", return_to="/").outcome == "gone"
    assert undoers.undo_cgroup(path=str(tmp_path), return_to="/").outcome == "foreign"
    assert undoers.undo_scheduler(device="none", old="bfq", diskseq="").outcome == "gone"


def test_the_schema_of_clean_names_every_kind():
    path = Path(__file__).parents[2] / "docs/schema/clean.schema.json"
    reported = json.loads(path.read_text())["$defs"]["Undone"]["properties"]["kind"]
    own, _of_backends = UNDOERS.maps
    for kind in (*own, "journal"):
        assert re.search(rf"\b{kind}\b", reported["description"])
