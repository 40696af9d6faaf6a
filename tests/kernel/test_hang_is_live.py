"""A hang is reported while it lasts; one that outlasts the cell is reported at its end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from cli.command import start
from kernel import injections
from kernel.injections import Frozen
from seatrial import _core

pytestmark = pytest.mark.root

FILE_BYTES = 4 << 20
BLOCK_BYTES = 4096
HANG_S = 1.6
GRACE_S = 10.0
PATIENCE_S = 5.0


@pytest.fixture
def frozen(file_system):
    """A file on a file system that a test may freeze; thawed in any case."""
    place = file_system("xfs")
    path = place.folder / "frozen.dat"
    path.write_bytes(bytes(FILE_BYTES))
    os.sync()
    yield path
    injections.thaw(place.folder)
    path.unlink()


def cell(path: Path, *, operation: str, depth: int, seconds: float) -> str:
    access = {
        "operation": operation,
        "sizes": [{"bytes": BLOCK_BYTES, "weight": 1}],
        "align_bytes": BLOCK_BYTES,
        "address": {"kind": "random"},
    }
    target = {"kind": "file", "path": str(path), "size_bytes": FILE_BYTES, "direct": True}
    spec = {
        "seed": 1,
        "target": target,
        "range": {"start_bytes": 0, "length_bytes": FILE_BYTES},
        "accesses": [access],
        "threads": 1,
        "depth": depth,
        "engine": "auto",
        "limit": {"duration_s": seconds},
    }
    return json.dumps(spec)


@pytest.mark.parametrize("depth", [1, 32], ids=["psync", "io_uring"])
def test_a_hang_is_reported_while_it_lasts(frozen, depth):
    running = _core.start(cell(frozen, operation="write", depth=depth, seconds=3.0))
    assert not running.wait(0.3)
    before = running.live()
    assert before.iops > 0
    with Frozen(frozen.parent) as freeze:
        time.sleep(HANG_S)
        frozen_s = time.time() - freeze.began.before_s
        live = running.live()
    # A busy machine may have added stalls of its own.
    assert live.stalls > before.stalls
    assert live.iops == 0
    assert frozen_s - 0.05 <= live.oldest_in_flight_ns / 1e9 <= frozen_s + 0.5
    assert running.wait(PATIENCE_S)
    sample = running.result()
    assert sample["outcome"]["in_flight_at_end"] == 0
    # The disk below may have had a stall of its own, when other tests wrote to it.
    longest = max(sample["stalls"], key=lambda stall: stall["length_s"])
    assert longest["length_s"] > HANG_S - 0.05
    assert longest["cause"] == "filesystem"


def test_a_hang_that_outlasts_cell_and_grace_does_not_hang_the_caller(frozen):
    with Frozen(frozen.parent):
        began_s = time.monotonic()
        cells = {
            depth: _core.start(cell(frozen, operation="write", depth=depth, seconds=0.5))
            for depth in (1, 32)
        }
        ended = {depth: running.wait(GRACE_S + PATIENCE_S) for depth, running in cells.items()}
        took_s = time.monotonic() - began_s
        samples = {depth: running.result() for depth, running in cells.items() if ended[depth]}
    assert ended == {1: True, 32: True}
    assert GRACE_S <= took_s <= GRACE_S + PATIENCE_S
    for depth, sample in samples.items():
        outcome = sample["outcome"]
        assert (outcome["completed"], outcome["in_flight_at_end"]) == (0, depth)
        assert GRACE_S <= sample["oldest_in_flight_ns"] / 1e9 <= took_s
        (stall,) = sample["stalls"]
        assert (stall["cause"], stall["depth"]) == ("filesystem", depth)
        assert stall["length_s"] >= GRACE_S


def test_a_blank_cell_is_reported_by_the_command(file_system, tmp_path):
    """The device does nothing from the beginning: no figure, and a sentence in its place."""
    place = file_system("xfs")
    path = place.folder / "blank.dat"
    path.write_bytes(os.urandom(FILE_BYTES))
    os.sync()
    with injections.Throttled(place.device) as group:
        options = ("--seconds", "0.5", "--tables")
        process = start("io", path, *options, folder=tmp_path, prefix=group.entering)
        try:
            reported_live = process.stderr.readline() + process.stderr.readline()
            reported = read_until(process, "Report:")
        except BaseException:
            process.kill()
            raise
    # Only now can the kernel let go of the thread that waits for the device.
    process.communicate(timeout=PATIENCE_S)
    path.unlink()
    assert "0 completed, oldest in flight" in reported_live
    assert re.search(r"0 completed, oldest in flight 1\d s", reported), reported
    assert "No request completed in" in reported
    assert process.returncode == 0


def read_until(process: subprocess.Popen[str], beginning: str) -> str:
    """Read lines until one begins so; the pipe stays open as long as a thread is stuck."""
    lines = []
    while not (lines and lines[-1].startswith(beginning)):
        line = process.stdout.readline()
        assert line, lines
        lines.append(line)
    return "".join(lines)
