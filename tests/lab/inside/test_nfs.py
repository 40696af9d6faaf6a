"""A file system that the lab's own server exports, mounted again: a target like any other."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from seatrial.cli.main import seatrial
from seatrial.machine.guard import inspect
from seatrial.results.store import ResultsFile
from seatrial.trials.layouts.build.nfs import nfs_obstacle

STUDY = """
name = "over-nfs"
rounds = { min = 2, max = 2 }

[[layout]]
name = "slow"
backend = "single"
level = "single"
filesystem = "ext4"
nfs = true
delay_ms = 40
member_size = "64MiB"
size = "512KiB"

[[workload]]
kind = "io"
operations = "read"
block_sizes = "8KiB"
threads = 4
direct = [true, false]
seconds = 2
"""


def test_options_and_server_are_in_the_fingerprint_and_cached_clients_are_faster(
    disks, tmp_path, monkeypatch
):
    assert nfs_obstacle() == ""
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    word = inspect(disks[0]).destroy_word
    arguments = [
        "study",
        "study.toml",
        "--devices",
        disks[0],
        "--destroy",
        word,
        "--progress",
        "none",
    ]
    assert seatrial.main(args=arguments, standalone_mode=False) == 0
    with ResultsFile.open(Path("results.seatrial"), read_only=True) as file:
        (run,) = file.runs()
        samples = list(file.samples(run.id))
    target = run.fingerprint_before.other_targets["slow"]
    assert target.filesystem.type == "nfs4"
    assert {"vers=4.2", "proto=tcp", "hard"} <= set(target.filesystem.mount_options)
    assert re.fullmatch(r"\(server [0-9a-f]{12}\):/", target.filesystem.source)
    rates = {
        direct: statistics.fmean(
            each.completed_per_s for each in samples if each.cell.parsed.target.direct is direct
        )
        for direct in (True, False)
    }
    assert rates[True] < 4 / 0.04, "every read of a direct client takes 40 ms on the server's drive"
    assert rates[False] > 2 * rates[True], "the client's page cache serves reads"
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if " nfs4 " in line]
