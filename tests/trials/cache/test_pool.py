"""A real pool with a cache device: measured, predicted before, and removed, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.results.model import Sample
from seatrial.results.store import ResultsFile
from seatrial.trials.cache.measure.pool import limit_obstacle, obstacle
from seatrial.trials.cache.measure.undoing import all_pools

SEATRIAL = str(Path(sys.executable).with_name("seatrial"))
STUDY = """
name = "small-pool"
[rounds]
min = 1
max = 1
[[workload]]
kind = "l2arc"
cache = {cache}
clients = {clients}
disks = 2
disk_iops = 400
working_set = "24MiB"
arc = "16MiB"
cache_size = "64MiB"
client_cache = "8MiB"
baseline_seconds = 4
seconds = 12
"""

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(obstacle()), reason=obstacle()),
    pytest.mark.skipif(bool(limit_obstacle()), reason=limit_obstacle()),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "target").mkdir()
    return tmp_path


def command(place: Path, *, cache: str, clients: str = '"direct"') -> list[str]:
    study = place / "study.toml"
    study.write_text(STUDY.format(cache=cache, clients=clients))
    results = str(place / "results.seatrial")
    target = ("--target", str(place / "target"))
    return [SEATRIAL, "study", str(study), *target, "--results", results, "--progress", "none"]


def measured(place: Path, **factors: str) -> list[Sample]:
    ended = subprocess.run(
        command(place, **factors), capture_output=True, text=True, check=False, cwd=place
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    with ResultsFile.open(place / "results.seatrial") as store:
        return store.samples(store.runs()[0].id)


def leftovers(place: Path) -> list[str]:
    """Loop devices, processes, control groups, mounts and files that are left."""
    loops = [
        str(each)
        for each in Path("/sys/block").glob("loop*/loop/backing_file")
        if place.name in each.read_text()
    ]
    groups = [*Path("/sys/fs/cgroup").glob("*/seatrial-*-zfs-*")]
    mounted = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line for line in mounted if str(place) in line]
    files = [*(place / "target").iterdir(), *(place / "state").glob("*.jsonl")]
    return [*loops, *map(str, all_pools()), *map(str, groups), *mounts, *map(str, files)]


def test_a_cache_device_is_predicted_then_measured_and_removed(place):
    (sample,) = measured(place, cache="true")
    record, series = sample.cache, sample.series
    assert record is not None
    assert series is not None
    assert record.forecast is not None
    assert 3.5 < record.forecast.made_at_s <= record.added_at_s + 1 < 9
    assert record.cold["l2_size"] == 0
    # The ARC was empty: only metadata of the import.
    assert record.cold["data_size"] < 0.2 * record.arc_bytes
    fill_bytes = [each for each in series.columns["device_fill_bytes"] if each is not None]
    assert fill_bytes[0] == 0
    assert fill_bytes[-1] > 0.5 * record.working_set_bytes
    assert sum(filter(None, series.columns["device_hits_per_s"])) > 0
    assert record.forecast.fill_bytes[-1] > 0.5 * record.working_set_bytes
    assert any(command.startswith("zpool add") for command in record.commands)
    assert sample.outcome.failed == 0
    assert leftovers(place) == []


def test_cached_clients_are_served_by_their_page_cache(place):
    direct, cached = sorted(
        measured(place, cache="false", clients='["direct", "cached"]'),
        key=lambda sample: sample.cell.factors.get("clients", ""),
    )
    assert (direct.cell.factors.get("clients"), cached.cell.factors["clients"]) == (None, "cached")
    assert cached.series is not None
    assert cached.series.columns["arc_misses_per_s"]
    requested = sum(
        sum(filter(None, cached.series.columns[name]))
        for name in ("arc_hits_per_s", "arc_misses_per_s")
    )
    # The page cache holds a part of the file at least: not all reads reach ZFS.
    assert requested < 0.5 * cached.outcome.completed
    assert leftovers(place) == []


@pytest.mark.parametrize("after_s", [1.0, 3.0, 8.0, 13.0])
def test_a_kill_leaves_nothing_after_clean(place, after_s):
    running = subprocess.Popen(command(place, cache="true"), cwd=place)
    time.sleep(after_s)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    cleaned = subprocess.run([SEATRIAL, "clean"], capture_output=True, text=True, check=False)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert leftovers(place) == []
