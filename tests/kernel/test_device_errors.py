"""Devices and file systems that fail, vanish or fill up: reported, without a crash."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cli.command import ended, seatrial, start
from kernel.conftest import run, unmount
from measure.studies import wait_until
from measure.test_errors import assert_accounted, is_measuring
from seatrial.units import MIB

pytestmark = pytest.mark.root

SIZE_BYTES = 16 * MIB
ENGINES = pytest.mark.parametrize("depth", [1, 32], ids=["psync", "io_uring"])


@pytest.fixture
def loop(memory):
    """A loop device over a file in memory: the device and its backing file."""
    backing = memory / "backing.img"
    backing.write_bytes(os.urandom(SIZE_BYTES))
    device = run("losetup", "--find", "--show", str(backing)).strip()
    yield Path(device), backing
    subprocess.run(["losetup", "-d", device], check=True)


def findings(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in document["findings"] if each["kind"] == kind]


@ENGINES
def test_a_device_with_a_dead_half_gives_eio(loop, tmp_path, depth):
    device, backing = loop
    os.truncate(backing, SIZE_BYTES // 2)
    command = ["io", device, "--seconds", "0.5", "--depth", str(depth), "--json"]
    reported = seatrial(*command, folder=tmp_path)
    assert reported.code == 0, reported
    (sample,) = reported.document["samples"]
    assert_accounted(sample)
    assert sample["outcome"]["completed"] > 0
    assert sample["errors_count"] > 0
    assert {error["name"] for error in sample["errors"]} == {"EIO"}
    assert all(error["offset_bytes"] >= SIZE_BYTES // 2 for error in sample["errors"])
    (finding,) = findings(reported.document, "errors")
    assert (finding["severity"], finding["evidence"]["errno_name"]) == ("critical", "EIO")
    assert finding["evidence"]["first_offset_bytes"] >= SIZE_BYTES // 2


DEAD_HALF = """
name = "dead-half"
rounds = {{ min = 1, max = 1 }}

[[target]]
path = "{device}"

[[workload]]
kind = "io"
seconds = 5
range_start = {start_bytes}
"""


def test_nothing_but_errors_is_a_blank_cell_not_a_silent_zero(loop, tmp_path):
    device, backing = loop
    os.truncate(backing, SIZE_BYTES // 2)
    study = tmp_path / "study.toml"
    study.write_text(DEAD_HALF.format(device=device, start_bytes=SIZE_BYTES // 2))
    reported = seatrial("study", study, "--json", folder=tmp_path)
    assert reported.code == 0, reported
    (sample,) = reported.document["samples"]
    (cell,) = reported.document["cells"]
    assert_accounted(sample)
    assert sample["outcome"]["completed"] == 0
    # It does not go on against nothing but errors for all the time that it has.
    assert (sample["errors_count"], sample["duration_s"] < 5) == (1000, True)
    assert cell["blank"] == "0 completed, 1,000 failed (EIO)"
    kinds = {each["kind"] for each in reported.document["findings"]}
    # The kernel's own log says so too.
    assert {"errors", "nothing_completed", "kernel_errors"} <= kinds


@ENGINES
def test_a_device_that_vanishes_ends_the_cell_early(loop, tmp_path, depth):
    """Its size becomes 0, as that of a drive that was pulled: nothing is there to be read."""
    device, backing = loop
    command = ["io", device, "--seconds", "20", "--depth", str(depth), "--json"]
    process = start(*command, folder=tmp_path)
    wait_until(lambda: is_measuring(process.pid, device), "the cell")
    os.truncate(backing, 0)
    run("losetup", "--set-capacity", str(device))
    reported = ended(process, timeout_s=15.0)
    assert reported.code == 0, reported
    (sample,) = reported.document["samples"]
    assert_accounted(sample)
    assert sample["duration_s"] < 10
    assert sample["counters"]["gave_up_workers"] == 1
    assert {error["name"] for error in sample["errors"]} <= {"short transfer", "EIO", "ENXIO"}
    assert findings(reported.document, "errors")


@ENGINES
def test_a_file_system_that_shuts_down_leaves_results_and_a_way_to_clean(
    file_system, tmp_path, depth
):
    """What xfs does when its device fails: every request fails, and so does the clearing away."""
    place = file_system("xfs").folder
    command = ["io", place, "--size", "16MiB", "--seconds", "20", "--depth", str(depth), "--json"]
    process = start(*command, folder=tmp_path)
    (trial_file,) = wait_for_files(place)
    wait_until(lambda: is_measuring(process.pid, trial_file, os.O_RDONLY), "the cell")
    run("xfs_io", "-x", "-c", "shutdown -f", str(place))
    try:
        reported = ended(process, timeout_s=30.0)
    finally:
        remount(place)  # others use the file system after this test
    assert "Traceback" not in reported.err
    assert reported.code == 1, reported
    assert "could not be undone" in reported.document["seen"]
    assert "seatrial clean" in reported.document["next"]
    shown = seatrial("show", "--json", folder=tmp_path).document
    (sample,) = shown["samples"]
    assert {error["name"] for error in sample["errors"]} == {"EIO"}
    assert findings(shown, "errors")
    assert trial_file.exists()
    cleaned = seatrial("clean", "--json", folder=tmp_path)
    assert (cleaned.code, list(place.glob(".seatrial-*"))) == (0, [])


def wait_for_files(place: Path) -> list[Path]:
    def filled() -> list[Path]:
        files = place.glob(".seatrial-*/trial.dat")
        return [file for file in files if file.stat().st_size == SIZE_BYTES]

    wait_until(filled, "the filled trial file")
    return filled()


def remount(place: Path) -> None:
    source = run("findmnt", "-no", "SOURCE", str(place)).strip()
    unmount(place)
    run("mount", source, str(place))
    place.stat()  # it fails if a copy of the mount, in another namespace, kept what was there


FILL = """
name = "full"
rounds = {{ min = 1, max = 1 }}

[[target]]
path = "{place}"
size = "300MiB"

[[workload]]
kind = "fill"
direct = false
"""


def test_a_file_system_that_fills_up_ends_the_run_by_name(memory, tmp_path):
    """Somebody else takes the space after the check at the start."""
    study = tmp_path / "study.toml"
    study.write_text(FILL.format(place=memory))
    process = start("study", study, "--json", folder=tmp_path)
    wait_until(lambda: list(memory.glob(".seatrial-*")), "the trial folder")
    take_all_space(memory / "others.dat")
    reported = ended(process)
    assert reported.code == 8, reported
    assert reported.document["error"] == "SpaceError"
    assert "No space left on" in reported.document["seen"]
    assert "df -h" in reported.document["next"]
    assert [entry.name for entry in memory.iterdir()] == ["others.dat"]


def take_all_space(path: Path) -> None:
    """Faster than the fill: whole pages are given out at once and need not be written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    length_bytes = 0
    with suppress(OSError):
        while True:
            os.posix_fallocate(descriptor, length_bytes, 4 * MIB)
            length_bytes += 4 * MIB
    os.close(descriptor)
