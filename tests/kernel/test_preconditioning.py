"""A loop device brought to its steady state: trimmed, filled, proven; refused where it is used."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cli.command import seatrial, start
from kernel.conftest import run, unmount

pytestmark = pytest.mark.root

SIZE_BYTES = 32 << 20
WRITES_PER_S = 500  # few enough for the throttle alone to decide on a busy machine


@pytest.fixture
def loop(memory):
    """A loop device over a file in memory, all of it data: the device, its file and its number."""
    backing = memory / "backing.img"
    backing.write_bytes(os.urandom(SIZE_BYTES))
    device = run("losetup", "--find", "--show", str(backing)).strip()
    yield Path(device), backing, Path(f"/sys/block/{Path(device).name}/dev").read_text().strip()
    run("losetup", "-d", device)


@pytest.mark.parametrize(("method", "fills"), [("snia", 2), ("one-pass", 1)])
def test_a_device_is_trimmed_filled_and_proven(loop, group, tmp_path, method, fills):
    device, backing, number = loop
    group.limit(number, WRITES_PER_S)
    command = ["precondition", device, "--method", method, "--seconds", "1", "--json"]
    reported = seatrial(*command, "--destroy", device, folder=tmp_path, prefix=group.entering)
    assert reported.code == 0, reported
    filled = [
        each for each in reported.document["samples"] if "discarded_bytes" in each["counters"]
    ]
    assert [each["counters"]["discarded_bytes"] for each in filled] == [SIZE_BYTES]
    rounds = [s for s in reported.document["samples"] if s["cell"]["workload"] == "proof"]
    assert len(reported.document["samples"]) - len(rounds) == fills
    assert 5 <= len(rounds) <= 25
    proof = [each for each in reported.document["steady"] if each["over"] == "rounds"]
    assert [each["rules"][0]["met"] for each in proof] == [True]
    assert backing.stat().st_blocks * 512 >= SIZE_BYTES, "every block was written after the trim"


def test_a_mounted_device_is_refused_though_it_is_named(loop, tmp_path):
    device, backing, _ = loop
    run("mkfs.ext4", "-q", str(device))
    folder = tmp_path / "mnt"
    folder.mkdir()
    run("mount", str(device), str(folder))
    try:
        (folder / "mine.txt").write_text("kept")
        # The file system itself may write whenever it likes otherwise.
        run("mount", "-o", "remount,ro", str(folder))
        before = backing.read_bytes()
        reported = seatrial("precondition", device, "--destroy", device, folder=tmp_path)
        assert (reported.code, "is mounted on" in reported.err) == (5, True), reported
        assert backing.read_bytes() == before
    finally:
        unmount(folder)


@pytest.mark.parametrize("on", ["device", "directory"])
def test_killed_in_the_middle_it_leaves_nothing_that_clean_does_not_undo(
    loop, memory, group, tmp_path, on
):
    device, _, number = loop
    group.limit(number, 100)
    target = [device, "--destroy", device] if on == "device" else [memory, "--size", "32MiB"]
    command = ["precondition", *target, "--seconds", "5"]
    process = start(*command, folder=tmp_path, prefix=group.entering)
    give_up_s = time.monotonic() + 20
    while "Round" not in (line := process.stderr.readline()) and "trimmed" not in line:
        assert process.poll() is None
        assert time.monotonic() < give_up_s
    time.sleep(0.3)
    process.kill()
    process.communicate()
    cleaned = seatrial("clean", folder=tmp_path)
    assert cleaned.code == 0, cleaned
    assert sorted(entry.name for entry in memory.iterdir()) == ["backing.img"]
    assert "nothing to undo" in seatrial("clean", folder=tmp_path).out
    assert not list((tmp_path / "state").glob("*.jsonl"))
