"""Real kernel errors: counted, sampled with offset and name, reported as findings; no crash."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cli.command import Ended, ended, seatrial, start
from measure.studies import stored, wait_until

BLOCK_BYTES = 8192
FILE_BYTES = 4 << 20
HALF_BYTES = FILE_BYTES // 2
ENGINES = pytest.mark.parametrize("depth", [1, 32], ids=["psync", "io_uring"])


def assert_accounted(sample: dict[str, Any]) -> None:
    outcome = sample["outcome"]
    parts = ("completed", "failed", "late_skipped", "in_flight_at_end")
    assert outcome["offered"] == sum(outcome[part] for part in parts)
    assert outcome["failed"] == sample["errors_count"]
    assert len(sample["errors"]) == min(sample["errors_count"], 32)


def the_errors(reported: Ended) -> tuple[dict[str, Any], dict[str, Any]]:
    """The only sample and the only finding of kind ``errors`` of a command that ended well."""
    assert (reported.code, reported.err) == (0, "")
    document = reported.document
    (sample,) = document["samples"]
    (finding,) = (each for each in document["findings"] if each["kind"] == "errors")
    assert_accounted(sample)
    return sample, finding


@ENGINES
def test_a_file_that_shrinks_gives_short_reads(tmp_path, depth):
    path = tmp_path / "target.dat"
    path.write_bytes(os.urandom(FILE_BYTES))
    command = ["io", path, "--seconds", "1.5", "--depth", str(depth), "--buffered", "--json"]
    process = start(*command, folder=tmp_path)
    wait_until(lambda: is_measuring(process.pid, path), "the cell")
    # The last block that is left is not whole: its read is short, those behind it are empty.
    os.truncate(path, HALF_BYTES + 1000)
    sample, finding = the_errors(ended(process))
    assert sample["outcome"]["completed"] > 0
    assert {error["name"] for error in sample["errors"]} == {"short transfer"}
    offsets = {error["offset_bytes"] for error in sample["errors"]}
    assert all(HALF_BYTES <= offset < FILE_BYTES for offset in offsets)
    assert all(error["length_bytes"] == BLOCK_BYTES for error in sample["errors"])
    assert all(0 < error["at_s"] < sample["duration_s"] + 1 for error in sample["errors"])
    assert (finding["severity"], finding["evidence"]["errno_name"]) == (
        "critical",
        "short transfer",
    )
    assert finding["evidence"]["failed_count"] == sample["errors_count"]
    assert "short transfer" in finding["sentence"]


def is_measuring(pid: int, path: Path, mode: int | None = None) -> bool:
    """Whether a process has a file open, in that access mode if given, while a worker runs.

    The fill before a cell that only reads has the file open for writing.
    """
    # Threads and descriptors come and go while they are looked at.
    with suppress(FileNotFoundError, ProcessLookupError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        names = {(task / "comm").read_text().strip() for task in tasks}
        links = Path(f"/proc/{pid}/fd").iterdir()
        modes = {access_mode(pid, link.name) for link in links if link.readlink() == path}
        return "worker-0" in names and bool(modes) and (mode is None or mode in modes)
    return False


def access_mode(pid: int, descriptor: str) -> int:
    """O_RDONLY, O_WRONLY or O_RDWR, as reported by proc(5) for a descriptor."""
    facts = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().split()
    return int(facts[facts.index("flags:") + 1], 8) & os.O_ACCMODE


FILL = """
name = "fill"
rounds = {{ min = 1, max = 1 }}

[[target]]
path = "{place}"
size = {size_bytes}

[[workload]]
kind = "fill"
direct = false
block_sizes = "64KiB"
depths = {depth}
"""


@ENGINES
def test_writes_beyond_what_is_allowed_are_counted_and_named(tmp_path, depth):
    """A limit of the session in place of a full disk: the same path, and no root needed."""
    place = tmp_path / "place"
    place.mkdir()
    study = tmp_path / "study.toml"
    study.write_text(FILL.format(place=place, size_bytes=FILE_BYTES, depth=depth))
    limited = ("prlimit", f"--fsize={HALF_BYTES}")
    reported = seatrial("study", study, "--json", folder=tmp_path, prefix=limited)
    sample, finding = the_errors(reported)
    assert sample["outcome"]["completed"] == HALF_BYTES // 65536
    assert sample["errors_count"] == HALF_BYTES // 65536
    assert {error["name"] for error in sample["errors"]} == {"EFBIG"}
    assert min(error["offset_bytes"] for error in sample["errors"]) == HALF_BYTES
    assert finding["evidence"]["first_offset_bytes"] == HALF_BYTES
    assert "EFBIG" in finding["sentence"]
    assert "--size" in finding["next"]
    assert list(place.iterdir()) == []


def test_a_trial_file_that_cannot_be_filled_ends_the_run(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    limited = ("prlimit", f"--fsize={HALF_BYTES}")
    command = ["io", place, "--size", str(FILE_BYTES), "--buffered", "--json"]
    reported = seatrial(*command, folder=tmp_path, prefix=limited)
    assert reported.code == 6
    assert reported.document["error"] == "TargetError"
    assert "could not be filled completely: EFBIG" in reported.document["seen"]
    assert "ulimit -f" in reported.document["cause"]
    run, samples = stored(tmp_path)
    assert (run.status, samples) == ("failed", [])
    assert list(place.iterdir()) == []
