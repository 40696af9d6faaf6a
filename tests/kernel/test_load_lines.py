"""The load line of a throttled device ends where its throttle does; a freeze on the way is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cli.command import ended, seatrial, start
from kernel import injections

pytestmark = pytest.mark.root

LIMIT_PER_S = 4000
SECONDS = 2.0
SLICE_S = 0.1
"""What a throttle lets pass at once comes on top of the rate in each sample."""


@pytest.mark.slow
def test_it_sustains_just_what_the_throttle_lets_pass(file_system, group, tmp_path):
    place = file_system("xfs")
    group.limit(place.device, LIMIT_PER_S)
    limits = ["--p99", "25ms", "--file-size", "16MiB", "--seconds", str(SECONDS), "--budget", "24"]
    told = seatrial(
        "loadline", place.folder, *limits, "--json", folder=tmp_path, prefix=group.entering
    )
    assert told.code == 0, told
    (line,) = told.document["load_lines"]
    most_per_s = LIMIT_PER_S * (1 + SLICE_S / SECONDS)
    sustained = line["sustained"]
    # The budget allows for few samples, so the interval is that of the search.
    assert 0.9 * LIMIT_PER_S <= sustained["low"] <= most_per_s, line
    assert LIMIT_PER_S <= sustained["high"] <= 1.25 * LIMIT_PER_S, line
    assert line["breaks"] in ("cliff", "knee")
    assert {
        step["holds"] for step in line["steps"] if step["offered_per_s"] > 1.1 * most_per_s
    } == {False}
    assert "knee" in [each["kind"] for each in told.document["findings"]]


def test_a_freeze_on_the_way_is_told_as_the_file_systems(file_system, group, tmp_path):
    place = file_system("ext4")
    group.limit(place.device, LIMIT_PER_S)
    limits = ["--p99", "25ms", "--file-size", "16MiB", "--seconds", "0.8", "--budget", "8"]
    process = start(
        "loadline",
        place.folder,
        *limits,
        "--read",
        "0",
        "--json",
        folder=tmp_path,
        prefix=group.entering,
    )
    wait_until_measuring(place, process)
    injected = injections.freeze(place.folder, 1.0)
    told = ended(process)
    assert told.code == 0, told
    stalls = [
        (sample["started_at"] + stall["start_s"], stall)
        for sample in told.document["samples"]
        for stall in sample["stalls"]
        if stall["cause"] == "filesystem"
    ]
    began_s, longest = max(stalls, key=lambda each: each[1]["length_s"])
    assert longest["length_s"] == pytest.approx(1.0, abs=0.15)
    assert injected.began.distance_s(began_s) < 0.15
    (line,) = told.document["load_lines"]
    assert sum(step["stalls"] for step in line["steps"]) > 0 or line["closed_loop"]
    causes = {
        each["evidence"]["cause"] for each in told.document["findings"] if each["kind"] == "stall"
    }
    assert "filesystem" in causes


def wait_until_measuring(place, process) -> None:
    """Wait until the file is there and has been written on for a while."""
    give_up_s = time.monotonic() + 20
    while not any(is_filled(path) for path in place.folder.glob(".seatrial-*/trial.dat")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up_s, "the trial file was never filled"
        time.sleep(0.01)
    time.sleep(2)


def is_filled(path: Path) -> bool:
    return path.stat().st_size == 16 << 20
