"""Real processes killed by kill -9 at awkward moments, and what clean finds and leaves."""

import fcntl
import os
import re
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from machine.conftest import run
from seatrial.machine import undoers
from seatrial.machine.loop import attach
from seatrial.machine.marker import write_marker
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.machine.undoers import loop_file
from seatrial.units import MIB

MAKE_FILES = """
    import sys, time
    from pathlib import Path
    from seatrial.machine.file import TrialFolder
    from seatrial.machine.undo_journal import UndoJournal

    journal = UndoJournal("run1")
    folder = TrialFolder(sys.argv[1], "run1", journal).open(1 << 20)
    folder.file("trial.dat").write_bytes(bytes(1 << 20))
"""
REPORT_AND_WAIT = """
    print("ready", flush=True)
    time.sleep(60)
"""
ATTACH_LOOP = """
    from seatrial.machine.loop import attach
    backing = folder.file("backing.img")
    with backing.open("wb") as file:
        file.truncate(64 << 20)
    loop = attach(backing, journal)
"""
MOUNT_LOOP = """
    from seatrial.machine.commands import run_command
    run_command("mkfs.ext4", "-q", str(loop.path))
    point = folder.file("mnt")
    journal.record("mount", point=str(point), source=str(loop.path))
    point.mkdir()
    run_command("mount", str(loop.path), str(point))
    (point / "data").write_text("x")
"""


def kill(process):
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait(10)


def reported(undone):
    return [(item.kind, item.outcome) for item in undone]


def test_files_of_a_killed_run_are_removed(tmp_path, child, state_dir):
    (tmp_path / "mine.txt").write_text("kept")
    process = child(MAKE_FILES + REPORT_AND_WAIT, str(tmp_path))
    kill(process)
    assert (tmp_path / ".seatrial-run1/trial.dat").stat().st_size == MIB
    assert reported(clean(dry_run=True)) == [("file", "pending")]
    assert (tmp_path / ".seatrial-run1").exists()
    assert reported(clean()) == [("file", "undone")]
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.txt"]
    assert list(state_dir.glob("*.jsonl")) == []
    assert clean() == []


@pytest.mark.parametrize("step", ["mkdir", "write_marker", "rmdir", "unlink"])
def test_a_kill_at_any_step_of_making_or_removing_a_folder_is_cleaned(
    tmp_path, child, state_dir, step
):
    """The child kills itself in place of, or in the middle of, one step."""
    traps = {
        "mkdir": "Path.mkdir = trap_after(Path.mkdir)",
        "write_marker": "file.write_marker = trap_before",
        "rmdir": "Path.rmdir = trap_before",
        "unlink": "Path.unlink = trap_after(Path.unlink)",
    }
    code = f"""
        import os, sys
        from pathlib import Path
        from seatrial.machine import file
        from seatrial.machine.undo_journal import UndoJournal

        def trap_before(*args, **kwargs):
            os.kill(os.getpid(), 9)

        def trap_after(real):
            def trapped(path, *args, **kwargs):
                real(path, *args, **kwargs)
                # A folder is emptied through its descriptor.
                is_ours = ".seatrial-" in str(path) or "/proc/self/fd/" in str(path)
                if is_ours and path.name not in ("direct-probe", "SEATRIAL-TRIAL-FOLDER.new"):
                    os.kill(os.getpid(), 9)
            return trapped

        journal = UndoJournal("run1")
        making = {step in ("mkdir", "write_marker")}
        if making:
            {traps[step]}
        folder = file.TrialFolder(sys.argv[1], "run1", journal).open(1 << 20)
        folder.file("trial.dat").write_bytes(b"x")
        {traps[step]}
        folder.remove()
    """
    process = child(code, str(tmp_path))
    assert process.wait(20) == -signal.SIGKILL
    assert list(state_dir.glob("*.jsonl")), "the journal outlived the process"
    assert [outcome for _, outcome in reported(clean())] == ["undone"]
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_is_resumed_and_then_leaves_nothing(tmp_path, child, state_dir):
    kill(child(MAKE_FILES + REPORT_AND_WAIT, str(tmp_path)))
    resumed = child(MAKE_FILES + "    print(journal.undo_all()[0].outcome)", str(tmp_path))
    assert resumed.communicate(timeout=20)[0] == "undone\n"
    assert list(tmp_path.iterdir()) == []
    assert list(state_dir.glob("*.jsonl")) == []


def test_two_cleaners_at_once_undo_everything_once(tmp_path, child, state_dir):
    kill(child(MAKE_FILES + REPORT_AND_WAIT, str(tmp_path)))
    code = """
        from seatrial.machine.undo_journal import clean
        input()
        print([str(item.outcome) for item in clean()])
    """
    cleaners = [child(code) for _ in range(3)]
    for cleaner in cleaners:
        cleaner.stdin.write("\n")
        cleaner.stdin.flush()
    said = [cleaner.communicate(timeout=20)[0] for cleaner in cleaners]
    assert [cleaner.returncode for cleaner in cleaners] == [0, 0, 0]
    assert sum(text.count("undone") for text in said) == 1
    assert list(tmp_path.iterdir()) == []


def test_taking_a_journal_over_waits_its_turn(tmp_path, child, state_dir):
    kill(child(MAKE_FILES + REPORT_AND_WAIT, str(tmp_path)))
    with (state_dir / "undo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cleaner = child("from seatrial.machine.undo_journal import clean; clean()")
        with pytest.raises(subprocess.TimeoutExpired):
            cleaner.wait(1.5)
        assert (tmp_path / ".seatrial-run1").exists()
    assert cleaner.wait(20) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
class TestRoot:
    def test_a_loop_device_and_its_file_are_cleaned(self, tmp_path, child):
        kill(child(MAKE_FILES + ATTACH_LOOP + REPORT_AND_WAIT, str(tmp_path)))
        assert str(tmp_path) in run("losetup", "--list")
        assert reported(clean()) == [("loop", "undone"), ("file", "undone")]
        assert str(tmp_path) not in run("losetup", "--list")
        assert list(tmp_path.iterdir()) == []

    def test_a_mount_on_it_is_cleaned_first(self, tmp_path, child):
        kill(child(MAKE_FILES + ATTACH_LOOP + MOUNT_LOOP + REPORT_AND_WAIT, str(tmp_path)))
        assert str(tmp_path) in Path("/proc/mounts").read_text()
        assert reported(clean()) == [("mount", "undone"), ("loop", "undone"), ("file", "undone")]
        assert str(tmp_path) not in Path("/proc/mounts").read_text()
        assert list(tmp_path.iterdir()) == []

    def test_a_mount_in_use_is_reported_and_nothing_below_it_is_torn_away(
        self, tmp_path, child, monkeypatch
    ):
        monkeypatch.setattr(undoers, "PATIENCE_S", 0.3)
        kill(child(MAKE_FILES + ATTACH_LOOP + MOUNT_LOOP + REPORT_AND_WAIT, str(tmp_path)))
        data = tmp_path / ".seatrial-run1/mnt/data"
        with data.open():
            found = clean()
            assert reported(found) == [("mount", "failed"), ("loop", "failed"), ("file", "failed")]
            assert "fuser -vm" in found[0].detail
            assert "is mounted on" in found[1].detail
            assert data.read_text() == "x"
        assert reported(clean()) == [("mount", "undone"), ("loop", "undone"), ("file", "undone")]

    def test_a_loop_device_that_stands_for_another_file_now_is_left_alone(
        self, tmp_path, image, loops
    ):
        journal = UndoJournal("run1")
        ours = attach(image("ours.img"), journal)
        run("losetup", "-d", str(ours.path))
        theirs = image("theirs.img")
        run("losetup", str(ours.path), str(theirs))
        try:
            (found,) = journal.undo_all()
            assert found.outcome == "foreign"
            assert str(theirs) in found.detail
            assert loop_file(ours.path.name) == str(theirs)
        finally:
            run("losetup", "-d", str(ours.path))

    def test_a_loop_device_whose_file_was_removed_is_detached(self, image):
        journal = UndoJournal("run1")
        path = image()
        loop = attach(path, journal)
        path.unlink()
        assert reported(journal.undo_all()) == [("loop", "undone")]
        assert loop_file(loop.path.name) == ""

    def test_a_mount_of_another_source_is_left_alone(self, mounts, tmp_path):
        point = mounts("tmpfs", "-t", "tmpfs")
        found = undoers.undo_mount(point=str(point), source="/dev/loop99")
        assert found.outcome == "foreign"
        assert str(point) in Path("/proc/mounts").read_text()

    def test_a_mount_is_found_through_a_link(self, mounts, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path)
        folder = tmp_path / "link/.seatrial-run1"
        folder.mkdir()
        write_marker(folder, "run1")
        data = mounts("tmpfs", "-t", "tmpfs", name=f"{folder.name}/mnt") / "data"
        data.write_text("x")
        remove = partial(undoers.undo_file, path=str(folder), run_id="run1", mount_point="")
        assert remove().outcome == "failed"
        assert data.exists()
        unmounted = undoers.undo_mount(point=str(folder / "mnt"), source="tmpfs")
        assert (unmounted.outcome, remove().outcome) == ("undone", "undone")

    def test_a_scheduler_is_set_back_once_and_only_on_the_same_disk(self, image, loops):
        name = loops(image()).name
        setting = Path(f"/sys/block/{name}/queue/scheduler")
        diskseq = Path(f"/sys/block/{name}/diskseq").read_text().strip()
        old = re.search(r"\[(.+?)\]", setting.read_text())[1]
        other = next(word for word in setting.read_text().split() if word.strip("[]") != old)
        setting.write_text(other)
        details = {"device": name, "old": old}
        assert undoers.undo_scheduler(**details, diskseq="0").outcome == "foreign"
        of_user = undoers.undo_scheduler(**details, diskseq=diskseq, new="another")
        assert of_user.outcome == "foreign"
        assert undoers.undo_scheduler(**details, diskseq=diskseq).outcome == "undone"
        assert f"[{old}]" in setting.read_text()
        assert undoers.undo_scheduler(**details, diskseq=diskseq).outcome == "gone"

    def test_a_setting_is_set_back_once(self, image, loops):
        setting = Path(f"/sys/block/{loops(image()).name}/queue/read_ahead_kb")
        old = setting.read_text().strip()
        setting.write_text(str(int(old) * 2))
        details = {"path": str(setting), "old": old}
        assert undoers.undo_setting(**details, new=str(int(old) * 4)).outcome == "foreign"
        assert setting.read_text().strip() == str(int(old) * 2)
        assert undoers.undo_setting(**details, new=str(int(old) * 2)).outcome == "undone"
        assert setting.read_text().strip() == old
        assert undoers.undo_setting(**details).outcome == "gone"

    def test_processes_go_back_and_their_control_group_goes(self, child):
        parents = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
        parent = next((path for path in parents if (path / "cgroup.procs").exists()), None)
        if parent is None:
            pytest.skip("needs a control group hierarchy")
        group = parent / f"seatrial-test-{os.getpid()}"
        journal = UndoJournal("run1")
        journal.record("cgroup", path=str(group), return_to=str(parent))
        group.mkdir()
        sleeper = child("import time; time.sleep(60)")
        (group / "cgroup.procs").write_text(str(sleeper.pid))
        assert (group / "cgroup.procs").read_text().split() == [str(sleeper.pid)]
        assert reported(journal.undo_all()) == [("cgroup", "undone")]
        assert not group.exists()
        assert str(sleeper.pid) in (parent / "cgroup.procs").read_text().split()
