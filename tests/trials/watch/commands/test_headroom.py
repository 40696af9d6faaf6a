"""Headroom as the commands show it, over a load line measured on a throttled disk of our own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cli.command import ended, seatrial, start
from kernel.injections import Group

pytestmark = pytest.mark.root

LIMIT_PER_S = 400
RATE_PER_S = 100
"""What the watched load asks for: a quarter of the limit."""


@pytest.fixture
def disk_bytes() -> int:
    return 160 << 20


def number_of(disk: Path) -> str:
    status = disk.stat()
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def watched(disk: Path, folder: Path, *load: str) -> list[dict]:
    """The headroom of each interval while a load runs on the disk."""
    run = start("io", disk, "--seconds", "4", "--no-report", *load, folder=folder)
    seen = seatrial("watch", disk, "--for", "3", "--json", folder=folder)
    assert seen.code == 0, seen
    assert ended(run).code == 0
    return [each for text in seen.out.splitlines() for each in json.loads(text)["headroom"]]


def test_a_load_is_a_share_of_the_limit_that_was_measured_of_its_disk(disk, tmp_path):
    before = seatrial("watch", disk, "--for", "0.2", folder=tmp_path)
    assert f"results.seatrial has no load line for {disk.name}" in before.err
    assert "`seatrial loadline TARGET --p99 5ms` measures one" in before.err
    line = ("--p50", "100ms", "--seconds", "1", "--budget", "30", "--no-report")
    with Group() as group:
        group.limit(number_of(disk), LIMIT_PER_S)
        measured = ended(start("loadline", disk, *line, folder=tmp_path, prefix=group.entering), 60)
    assert measured.code == 0, measured
    (own,) = seatrial("show", "last", "--json", folder=tmp_path).document["load_lines"]
    assert 0 < own["sustained"]["value"] < 1.2 * LIMIT_PER_S
    shares = [each for each in watched(disk, tmp_path, "--rate", str(RATE_PER_S)) if each["per_s"]]
    assert shares
    best = min(shares, key=lambda each: abs(each["per_s"] - RATE_PER_S))
    assert best["per_s"] == pytest.approx(RATE_PER_S, rel=0.3)
    assert best["share"] == pytest.approx(best["per_s"] / own["sustained"]["value"])
    assert best["share_high"] == pytest.approx(best["per_s"] / own["sustained"]["low"])
    assert "that kept p50 below 100 ms" in best["text"]
    assert "random reads of 8 KiB" in best["text"]
    unlike = watched(disk, tmp_path, "--rate", str(RATE_PER_S), "--block-size", "64k")
    busy = [each for each in unlike if each["per_s"] > RATE_PER_S / 2]  # not the opening alone
    assert busy
    for each in busy:
        assert each["share"] is None
        assert "not comparable with" in each["text"]
        assert "are of 8 KiB to 16 KiB" in each["text"]
        assert "--block-size 64K` measures a line of such requests" in each["text"]


def test_a_line_of_another_disk_is_none_of_this_one(disk, tmp_path):
    other = tmp_path / "other.img"
    other.write_bytes(b"\1" * (16 << 20))
    made = ["losetup", "--find", "--show", str(other)]
    device = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
    try:
        line = ("--p50", "100ms", "--seconds", "0.2", "--budget", "3", "--no-report")
        assert seatrial("loadline", device, *line, folder=tmp_path).code == 0
        seen = seatrial("watch", disk, "--for", "0.2", "--json", folder=tmp_path)
        assert json.loads(seen.out.splitlines()[0])["headroom"] == []
        own = seatrial("watch", device, "--for", "0.2", "--json", folder=tmp_path)
        (found,) = json.loads(own.out.splitlines()[0])["headroom"]
        assert found["disk"] == Path(device).name
        # The requests of one process are not the load of the disk.
        one = ("--pid", str(os.getpid()))
        part = seatrial("watch", device, *one, "--for", "0.2", "--json", folder=tmp_path)
        assert json.loads(part.out.splitlines()[0])["headroom"] == []
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
