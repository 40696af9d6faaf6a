"""The same cell by fio: who measured is not part of the figure.

The machine is shared, so plain latencies of two runs differ by more than any defect would. A
preloaded shim gives each call a known length for both; what differs then is the measuring.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .cells import access, cell, histogram, measure_apart, preload, require

BLOCK_BYTES = 16384
# Every second call takes longer. A processor that was lost lengthens some calls, so percentiles
# are compared where both kinds are thick.
TAKE_US, SLOW_US = 300, 1_500
FAST_PERCENT, SLOW_PERCENT = 20, 60
# Half a bucket of fio (1/64 wide) and half a bucket of ours (1/128), and the way to the call.
BUCKETS = 0.5 / 64 + 0.5 / 128 + 0.01


def by_fio(path: Path, env: Mapping[str, Any], *options: str) -> dict[str, Any]:
    """Return fio's own result for random reads of the file: one job of its JSON."""
    fio = require("fio")
    job = [
        f"--filename={path}",
        f"--bs={BLOCK_BYTES}",
        *("--name=cell", "--rw=randread", "--ioengine=psync", "--invalidate=0", "--thread"),
        *("--randrepeat=0", "--norandommap", "--readonly", "--output-format=json"),
        *options,
    ]
    reported = {name: str(value) for name, value in env.items()}
    done = subprocess.run(
        [fio, *job], check=True, capture_output=True, text=True, env={**os.environ, **reported}
    )
    result: dict[str, Any] = json.loads(done.stdout)["jobs"][0]["read"]
    return result


@pytest.fixture(params=[False, True], ids=["page-cached", "direct"])
def direct(request: pytest.FixtureRequest, trial_file: Path) -> bool:
    """Whether the page cache is bypassed; skips where it cannot be."""
    if request.param:
        try:
            os.close(os.open(trial_file, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            pytest.skip(f"no direct I/O on the file system of temporary files: {error}")
    return bool(request.param)


@pytest.mark.parametrize("threads", [1, 4])
def test_bytes_and_counts_are_those_of_fio(trial_file, direct, threads):
    """So many requests each: both have done them all, and moved the same bytes."""
    requests = 1_000
    fio = by_fio(
        trial_file,
        {},
        f"--direct={int(direct)}",
        f"--numjobs={threads}",
        f"--number_ios={requests // threads}",
        "--group_reporting",
    )
    spec = cell(trial_file, [access("read", BLOCK_BYTES)], threads=threads)
    spec["target"]["direct"] = direct
    result = measure_apart(spec | {"limit": {"duration_s": 60, "operations": requests}})
    read = result["parts"]["operations"]["read"]
    assert read["completed"] == fio["total_ios"] == requests
    assert read["transferred_bytes"] == fio["io_bytes"] == requests * BLOCK_BYTES
    kernel_bytes = result["io"]["read_bytes" if direct else "rchar"]
    assert kernel_bytes == pytest.approx(fio["io_bytes"], rel=0.25)
    assert kernel_bytes >= read["transferred_bytes"]


def test_latencies_are_those_of_fio(memory_file, shim):
    env = preload(shim, BLOCK_BYTES, take_us=TAKE_US, slow_us=SLOW_US, slow_every=2)
    fio = by_fio(memory_file, env, "--runtime=1", "--time_based")
    spec = cell(memory_file, [access("read", BLOCK_BYTES)], limit={"duration_s": 1.0})
    parts = measure_apart(spec, env)["parts"]
    ours, theirs = histogram(parts, "read"), fio["clat_ns"]
    for percent, truth_us in [(FAST_PERCENT, TAKE_US), (SLOW_PERCENT, SLOW_US)]:
        their_ns = theirs["percentile"][f"{percent:.6f}"]
        assert ours.percentile_ns(percent) == pytest.approx(truth_us * 1_000, rel=BUCKETS)
        assert ours.percentile_ns(percent) == pytest.approx(their_ns, rel=BUCKETS)
    assert ours.min_ns == pytest.approx(theirs["min"], rel=BUCKETS)
    # Of an odd number of calls the odd one is fast.
    assert ours.mean_ns >= (TAKE_US + SLOW_US) / 2 * 1_000 * 0.998
    # Both lose a little of the time between two calls, more so on a crowded machine.
    our_share = busy_share(parts["outcome"]["completed"], ours.mean_ns, parts["duration_s"])
    their_share = busy_share(fio["total_ios"], theirs["mean"], fio["runtime"] / 1_000)
    assert 0.9 < our_share <= 1
    assert our_share == pytest.approx(their_share, abs=0.1)


def busy_share(completed: int, mean_ns: float, duration_s: float) -> float:
    """Return the requests in flight by Little's law: with one worker, at most 1."""
    return completed * mean_ns / (duration_s * 1e9)
