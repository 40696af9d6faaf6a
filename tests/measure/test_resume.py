"""Real commands killed, interrupted, resumed: no sample lost, none twice, nothing left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from cli.command import ended, heed_interrupts, seatrial, start
from machine.loops import loops_over
from measure.studies import (
    FILE_BYTES,
    measured,
    planned,
    samples_count,
    stored,
    wait_for_samples,
    wait_until,
    write_study,
)


@pytest.fixture
def place(tmp_path):
    """The directory under trial, with a file that is not ours."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "mine.txt").write_text("kept")
    return folder


def assert_nothing_left(place: Path, folder: Path) -> None:
    assert [entry.name for entry in place.iterdir()] == ["mine.txt"]
    assert (place / "mine.txt").read_text() == "kept"
    assert list((folder / "state").glob("*.jsonl")) == []


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_study_killed_twice_and_resumed_has_every_sample_once_and_in_order(tmp_path, place):
    study = write_study(tmp_path, place)
    due = planned(study)
    kept = []
    for kill_at, more in ((5, []), (21, ["--resume"])):
        process = start("study", study, *more, folder=tmp_path)
        wait_for_samples(tmp_path, kill_at)
        kill(process)
        before, kept = kept, stored(tmp_path)[1]
        assert kill_at <= len(kept) < len(due)
        assert kept[: len(before)] == before, "what was stored before the resume is as it was"
        assert [entry for entry in place.iterdir() if entry.is_dir()], "the kill left its folder"
    resumed = seatrial("study", study, "--resume", "--json", folder=tmp_path)
    assert resumed.code == 0, resumed
    run, samples = stored(tmp_path)
    assert measured(tmp_path) == due
    assert samples[: len(kept)] == kept
    assert run.status == "complete"
    assert len(resumed.document["samples"]) == len(due)
    assert_nothing_left(place, tmp_path)
    again = seatrial("study", study, "--resume", folder=tmp_path)
    assert (again.code, "has no unfinished run" in again.err) == (2, True)


def test_a_resume_goes_on_with_its_own_plan_only(tmp_path, place):
    study = write_study(tmp_path, place)
    process = start("study", study, folder=tmp_path)
    wait_for_samples(tmp_path, 3)
    kill(process)
    other = seatrial("study", study, "--resume", "--seconds", "0.06", folder=tmp_path)
    assert (other.code, "has no unfinished run" in other.err) == (2, True)
    assert samples_count(tmp_path) < len(planned(study))


def test_a_kill_while_the_file_is_filled_loses_nothing(tmp_path, place):
    study = write_study(tmp_path, place)
    process = start("study", study, folder=tmp_path)
    # Before its first byte, it is in the journal: what is longer later, and is not, is another's.
    wait_until(
        lambda: any(each.stat().st_size for each in place.glob(".seatrial-*/trial.dat")),
        "the trial file",
    )
    kill(process)
    (trial_file,) = place.glob(".seatrial-*/trial.dat")
    os.truncate(trial_file, FILE_BYTES // 3)
    had = samples_count(tmp_path)
    resumed = seatrial("study", study, "--resume", folder=tmp_path)
    assert resumed.code == 0, resumed
    assert had < 3
    assert measured(tmp_path) == planned(study)
    assert_nothing_left(place, tmp_path)


def test_clean_after_a_kill_leaves_no_file_and_every_sample(tmp_path, place):
    study = write_study(tmp_path, place)
    process = start("study", study, folder=tmp_path)
    wait_for_samples(tmp_path, 4)
    kill(process)
    kept = measured(tmp_path)
    dry = seatrial("clean", "--dry-run", "--json", folder=tmp_path)
    assert [each["outcome"] for each in dry.document["undone"]] == ["pending"]
    assert list(place.glob(".seatrial-*/trial.dat"))
    cleaned = seatrial("clean", "--json", folder=tmp_path)
    (undone,) = cleaned.document["undone"]
    assert (cleaned.code, undone["kind"], undone["outcome"]) == (0, "file", "undone")
    assert_nothing_left(place, tmp_path)
    assert "nothing to undo" in seatrial("clean", folder=tmp_path).out
    resumed = seatrial("study", study, "--resume", folder=tmp_path)
    assert resumed.code == 0, "even what was cleaned can be resumed: the file is filled again"
    assert measured(tmp_path)[: len(kept)] == kept
    assert measured(tmp_path) == planned(study)


def test_clean_leaves_a_running_study_alone(tmp_path, place):
    study = write_study(tmp_path, place)
    process = start("study", study, folder=tmp_path)
    wait_for_samples(tmp_path, 2)
    cleaned = seatrial("clean", "--json", folder=tmp_path)
    assert [each["outcome"] for each in cleaned.document["undone"]] == ["running"]
    assert ended(process).code == 0
    assert measured(tmp_path) == planned(study)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_in_order_and_keeps_what_was_measured(tmp_path, place, number):
    study = write_study(tmp_path, place)
    process = start("study", study, "--json", folder=tmp_path)
    wait_for_samples(tmp_path, 7)
    process.send_signal(number)
    reported = ended(process)
    run, samples = stored(tmp_path)
    assert reported.code == 4, reported
    assert "Traceback" not in reported.err
    assert run.status == "interrupted"
    assert 7 <= len(samples) < len(planned(study))
    assert len(reported.document["samples"]) == len(samples)
    assert "interrupted" in [finding["kind"] for finding in reported.document["findings"]]
    assert_nothing_left(place, tmp_path)
    assert seatrial("study", study, "--resume", folder=tmp_path).code == 0
    assert measured(tmp_path) == planned(study)


def test_an_interrupted_cell_that_is_the_only_one_is_kept(tmp_path, place):
    """Ctrl-C in the middle of a long `seatrial io`: what was measured until then is the result."""
    process = start("io", place, "--size", "1MiB", "--seconds", "60", "--json", folder=tmp_path)
    wait_until(lambda: list(place.glob(".seatrial-*/trial.dat")), "the trial file")
    wait_until(lambda: "worker-0" in thread_names(process.pid), "the cell's worker")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)
    process.send_signal(signal.SIGINT)
    reported = ended(process)
    (sample,) = reported.document["samples"]
    assert (reported.code, sample["status"]) == (4, "interrupted")
    assert 0 < sample["duration_s"] < 30
    assert sample["outcome"]["completed"] > 0
    assert_nothing_left(place, tmp_path)


def thread_names(pid: int) -> list[str]:
    """Of a process; a thread may end while this looks."""
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            names.append((task / "comm").read_text().strip())
    return names


def test_an_interrupt_in_the_calibration_is_heeded_and_the_sample_kept(tmp_path, place):
    """The engine's own limit is measured after a cell: an interrupt then once went unheard."""
    code = """
        import os, signal, sys
        from seatrial.measure import recorder
        real = recorder.measure_spec
        def interrupted(spec, watcher):
            os.kill(os.getpid(), signal.SIGINT)
            return real(spec, watcher)
        recorder.measure_spec = interrupted
        from seatrial.cli.main import main
        main()
    """
    study = write_study(tmp_path, place)
    command = [sys.executable, "-c", textwrap.dedent(code), "study", str(study), "--json"]
    env = own_environment(tmp_path)
    heed_interrupts()
    reported = subprocess.run(
        command, check=False, cwd=tmp_path, env=env, capture_output=True, timeout=60
    )
    assert reported.returncode == 4, reported
    assert measured(tmp_path) == planned(study)[:1]
    assert_nothing_left(place, tmp_path)


def own_environment(folder: Path) -> dict[str, str]:
    """For a child that is Python: the journals in ``folder``, and the rooms that we test."""
    own = {"SEATRIAL_STATE_DIR": str(folder / "state"), "PYTHONPATH": os.pathsep.join(sys.path)}
    return os.environ | own


OLDER_RUN = "20000101-000000-aaaa"
MAKE_MOUNT = """
    import sys, time
    from pathlib import Path
    from seatrial.machine.commands import run_command
    from seatrial.machine.file import TrialFolder
    from seatrial.machine.loop import attach
    from seatrial.machine.undo_journal import UndoJournal

    journal = UndoJournal(sys.argv[2])
    folder = TrialFolder(sys.argv[1], sys.argv[2], journal).open(1 << 20)
    backing = folder.file("backing.img")
    with backing.open("wb") as file:
        file.truncate(400 << 20)
    loop = attach(backing, journal)
    run_command("mkfs.ext4", "-q", str(loop.path))
    point = folder.file("mnt")
    journal.record("mount", point=str(point), source=str(loop.path))
    point.mkdir()
    run_command("mount", str(loop.path), str(point))
    print(point, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def mounted_by(tmp_path, place):
    """Start a run that mounts a loop device in its folder; whatever is left of it is swept."""
    started: list[subprocess.Popen[str]] = []

    def mount(run_id: str) -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(MAKE_MOUNT), str(place), run_id],
            env=own_environment(tmp_path),
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, Path(process.stdout.readline().strip())

    yield mount
    for process in started:
        process.kill()
        process.wait()
    sweep(tmp_path)


@pytest.mark.root
def test_clean_leaves_no_loop_mount_or_file(tmp_path, place, mounted_by):
    """The study runs on what an older run of ours mounted, and both are killed."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and the kernel's loop devices")
    layout, point = mounted_by(OLDER_RUN)
    process = start("study", write_study(tmp_path, point), folder=tmp_path)
    wait_for_samples(tmp_path, 3)
    kill(process)
    kill(layout)
    assert list(point.glob(".seatrial-*/trial.dat"))
    cleaned = seatrial("clean", "--json", folder=tmp_path)
    reported = [(each["kind"], each["outcome"]) for each in cleaned.document["undone"]]
    assert cleaned.code == 0, cleaned.document
    assert reported == [(kind, "undone") for kind in ("file", "mount", "loop", "file")]
    assert sweep(tmp_path) == []
    assert_nothing_left(place, tmp_path)


def sweep(folder: Path) -> list[str]:
    """Unmount and detach what is left below a folder; return what that was."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    points = [point for point in mounted if Path(point).is_relative_to(folder)]
    for point in reversed(points):
        subprocess.run(["umount", point], check=True)
    loops = loops_over(folder)
    for loop in loops:
        subprocess.run(["losetup", "-d", loop], check=True)
    return points + loops
