"""Real btrfs arrays on loop devices: built for their cells, broken, checked, and gone after."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.command import ended, seatrial, start
from machine.loops import loops_over
from measure.studies import stored, wait_until
from seatrial.machine.fingerprint.tree import LIVE, program_path
from seatrial.results.model import Run, Sample
from trials.layouts.measure.trial import Stages, at_s, measured, whats

pytestmark = pytest.mark.root

STUDY = """
    name = "mirrors"
    rounds = {{ min = {rounds}, max = {rounds} }}
    [drives]
    loop = "4x256M"
    folder = "{directory}"
    [[target]]
    label = "plain"
    path = "{directory}"
    size = "4MiB"
    [[layout]]
    name = "pair"
    backend = "btrfs"
    level = ["raid1", "raid0"]
    drives = 3
    filesystem = "btrfs"
    size = "32MiB"
    [[workload]]
    name = "rw"
    kind = "io"
    operations = "mixed"
    block_sizes = "4KiB"
    data = "verifiable"
    verify = true
    seconds = {seconds}
"""
LEFT_OUT = """
    name = "s"
    rounds = {{ min = 1, max = 1 }}
    [drives]
    loop = "1x160MiB"
    folder = "{directory}"
    [[layout]]
    name = "few"
    backend = "btrfs"
    level = "single"
    drives = [1, 2]
    size = "8MiB"
    skip_too_large = true
    [[workload]]
    kind = "io"
    operations = "read"
    block_sizes = "4KiB"
    seconds = 0.1
"""
BROKEN = """
    [[workload]]
    name = "broken"
    kind = "io"
    targets = ["pair-raid1"]
    operations = "mixed"
    block_sizes = "8KiB"
    data = "verifiable"
    verify = true
    seconds = 2
    fail = [{ after_s = 0.5, member = 2 }, { after_s = 1, fault = "replace", member = 2 }]
"""


@dataclass
class Measured:
    """A run of the broken study, and what was left of it in its directory and state folder."""

    run: Run
    samples: list[Sample]
    reported: list[str]
    left: list[str]


def require_btrfs() -> None:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and the kernel's loop devices")
    known = (LIVE.text("/proc/filesystems") or "").split()
    if "btrfs" not in known or program_path("mkfs.btrfs") is None:
        pytest.skip("needs btrfs: the kernel's module and btrfs-progs")


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> Measured:
    """Two rounds on a plain folder and two arrays, of which one is broken in each round."""
    require_btrfs()
    folder = tmp_path_factory.mktemp("broken")
    directory, state = folder / "directory", folder / "state"
    directory.mkdir()
    watcher = Stages()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SEATRIAL_STATE_DIR", str(state))
        study = STUDY.format(directory=directory, rounds=2, seconds=0.2) + BROKEN
        run, samples = measured(folder, study, watcher=watcher)
    return Measured(run, samples, watcher.reported, leftovers(directory, state))


@pytest.fixture
def directory(tmp_path) -> Path:
    """A folder for the files of loop devices, on whose devices btrfs can be made."""
    require_btrfs()
    folder = tmp_path / "directory"
    folder.mkdir()
    return folder


@pytest.fixture
def state(tmp_path) -> Path:
    """The folder of undo journals of a test's commands; what they leave is undone."""
    yield tmp_path / "state"
    assert seatrial("clean", folder=tmp_path).code == 0


def leftovers(directory: Path, state: Path) -> list[str]:
    """Whatever a run left: loop devices, mounts, files in its directory, journals."""
    files = [*directory.iterdir(), *(each for each in state.iterdir() if each.name != "undo.lock")]
    return devices_of(directory) + [str(each) for each in files]


def devices_of(directory: Path) -> list[str]:
    """Loop devices with files in a folder, and what is mounted from them."""
    loops = loops_over(directory)
    mounts = [line.split()[:2] for line in Path("/proc/mounts").read_text().splitlines()]
    return loops + [point for source, point in mounts if source in loops]


def test_groups_come_one_after_the_other_and_the_plain_target_stays(broken):
    of_round = [sample for sample in broken.samples if sample.round == 0]
    of_rw = {each.cell.target: each for each in of_round if each.cell.workload == "rw"}
    assert of_rw["plain"].layout is None
    for label in ("pair-raid1", "pair-raid0"):
        record = of_rw[label].layout
        assert record.layout["label"] == label
        assert (record.built_s > 0, record.synced_s, record.misaligned) == (True, 0.0, [])
        assert any(command.startswith("mkfs.btrfs") for command in record.commands)
        assert set(record.roles.values()) == {"leg 1"}
        wrote_bytes = sum(own["write_bytes"] for own in record.members.values())
        copies = 2 if label == "pair-raid1" else 1
        assert wrote_bytes >= copies * of_rw[label].operations["write"].transferred_bytes
        found = broken.run.fingerprint_before.other_targets[label]
        assert found.filesystem.type == "btrfs"
    assert broken.left == []


def test_what_stands_is_used_again_and_what_was_broken_is_built_and_filled_anew(broken):
    """A group is built once a round, and not at all where it stands from the round before."""
    assert len(broken.samples) == 8
    steps = [
        reported
        for reported in broken.reported
        if reported.startswith(("Building", "Filling", "Removing"))
    ]
    built = [reported.split()[1] for reported in steps if reported.startswith("Building")]
    filled = [
        reported.split()[3]
        for reported in steps
        if reported.startswith("Filling trial.dat on pair")
    ]
    assert filled == [f"{label}:" for label in built]
    assert built.count("pair-raid1") == 2, "broken in the first round"
    assert built.count("pair-raid0") in (1, 2)
    assert (
        len([reported for reported in steps if reported.startswith("Removing")]) == len(built) - 1
    )
    assert all(each.verification.corrupt_blocks == 0 for each in broken.samples)


def test_a_mirror_that_lost_a_drive_loses_nothing_and_is_replaced(broken):
    samples = [each for each in broken.samples if each.cell.workload == "broken"]
    assert len(samples) == 2
    for sample in samples:
        assert whats(sample)[:2] == ["failed", "replaced"]
        assert "rebuild_ended" in whats(sample)
        assert 0.3 < at_s(sample, "failed") < 0.9 < at_s(sample, "replaced")
        assert (sample.layout.unreadable_bytes, sample.outcome.failed) == (0, 0)
        assert sample.verification.checked_blocks == sample.operations["read"].completed + 8192
        assert (sample.layout.checked_bytes, sample.layout.wrong_bytes) == (32 << 20, 0)
        assert 1.0 in sample.series.columns["missing_members"]
        assert sample.counters["drives_settled_s"] > 0


def test_a_killed_study_is_resumed_on_new_arrays(tmp_path, directory, state):
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(directory=directory, rounds=1, seconds=0.5))
    process = start("study", study, folder=tmp_path)
    wait_until(lambda: any("pair" in each for each in devices_of(directory)), "an array's mount")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert devices_of(directory), "the kill left its drives"
    resumed = seatrial("study", study, "--resume", "--json", folder=tmp_path)
    assert resumed.code == 0, resumed
    run, samples = stored(tmp_path)
    assert run.status == "complete"
    assert len(samples) == len({each.cell.key for each in samples}) == 3
    assert all(each.verification.corrupt_blocks == 0 for each in samples)
    assert leftovers(directory, state) == []


def test_variants_that_are_left_out_for_want_of_drives_are_not_waited_for(
    directory, state, tmp_path, monkeypatch
):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(state))
    _, samples = measured(tmp_path, LEFT_OUT.format(directory=directory))
    assert {sample.cell.target for sample in samples} == {"few-1"}
    assert leftovers(directory, state) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_it_on_an_array_nothing_is_left(tmp_path, directory, state, number):
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(directory=directory, rounds=1, seconds=20))
    process = start("study", study, folder=tmp_path)
    wait_until(lambda: any("pair" in each for each in devices_of(directory)), "an array's mount")
    process.send_signal(number)
    if number == signal.SIGKILL:
        process.communicate()
        assert devices_of(directory), "the kill left its drives"
        assert seatrial("clean", folder=tmp_path).code == 0
    else:
        assert ended(process).code == 4
    assert leftovers(directory, state) == []
