"""``seatrial trace replay``: a recording's requests on a real file."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest
from click.testing import CliRunner

from seatrial import _core
from seatrial.cli.main import seatrial
from seatrial.errors import RefusedError, UsageError
from seatrial.trials.watch.study import listing
from trials.watch.recordings import FLUSH, READ, WRITE, recording

BLOCK_BYTES = 4096
READ_BYTES = [(number * 37 % 256) * BLOCK_BYTES for number in range(400)]
"""Where it reads: no two neighbours follow each other, which the kernel might merge."""
WRITTEN = (1, 5, 6, 200)
"""Blocks that the recording writes."""


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The path of a recording of 400 reads, 4 writes and a flush within 0.2 s."""
    monkeypatch.chdir(tmp_path)
    reads = [(i * 500_000, READ, at, BLOCK_BYTES) for i, at in enumerate(READ_BYTES)]
    writes = [(i * 1_000_000, WRITE, b * BLOCK_BYTES, BLOCK_BYTES) for i, b in enumerate(WRITTEN)]
    whole = [*reads, *writes, (150_000_000, FLUSH, 0, 0)]
    arrived_ns, operation, offset_bytes, length_bytes = map(list, zip(*whole, strict=True))
    made = recording(
        arrived_ns=arrived_ns,
        operation=operation,
        offset_bytes=offset_bytes,
        length_bytes=length_bytes,
        queue_ns=[1_000] * len(whole),
        device_ns=[100_000] * len(whole),
    )
    monkeypatch.setattr(listing, "read", lambda path: made)
    listing._listing.cache_clear()
    path = tmp_path / "load.rec"
    path.write_bytes(b"")
    yield path
    listing._listing.cache_clear()


def run(*arguments):
    done = CliRunner().invoke(seatrial, ["trace", "replay", *map(str, arguments)])
    assert done.exception is None, (done.exception, done.output)
    return done.output


def refused(kind, *arguments):
    done = CliRunner().invoke(seatrial, ["trace", "replay", *map(str, arguments)])
    assert isinstance(done.exception, kind), (done.exception, done.output)
    return f"{done.exception} {done.output}"


@pytest.mark.parametrize("speed", ["1", "4", "max"])
def test_every_request_is_sent_once(recorded, tmp_path, speed):
    target = tmp_path / "target"
    target.write_bytes(bytes(256 * BLOCK_BYTES))
    output = run(recorded, "--to", target, "--destroy", target, "--speed", speed, "--json")
    document = json.loads(output[output.index("{") :])
    (replayed,) = document["recordings"]
    completed = {each["operation"]: each["completed"] for each in replayed["operations"]}
    assert completed == {"read": 400, "write": len(WRITTEN), "sync": 1}
    assert (replayed["skipped"], replayed["failed"], replayed["left_out"]) == (0, 0, {})
    assert replayed["keeps_dependence"] is (speed == "max")


@pytest.mark.root
@pytest.mark.parametrize("speed", ["1", "max"])
def test_the_disk_gets_what_was_recorded(recorded, disk, speed):
    number = disk.stat().st_rdev
    watch = _core.Watch([(os.major(number), os.minor(number))], records=True)
    run(recorded, "--to", disk, "--destroy", disk, "--speed", speed)
    seen = Counter(
        (each.operation, each.offset_bytes, each.length_bytes)
        for each in watch.take_requests()
        # The disk is filled before, with larger requests.
        if each.length_bytes == BLOCK_BYTES and each.command.startswith("worker")
    )
    watch.stop()
    sent = Counter(
        [("read", each, BLOCK_BYTES) for each in READ_BYTES]
        + [("write", each * BLOCK_BYTES, BLOCK_BYTES) for each in WRITTEN]
    )
    assert not seen - sent
    # Some hypervisors' kernels run no BPF while an agent of their own is the current process.
    assert seen.total() >= 0.98 * sent.total()


def test_a_recording_keeps_its_times(recorded, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(bytes(256 * BLOCK_BYTES))
    for speed, least_s in (("1", 0.199), ("0.5", 0.399)):
        output = run(recorded, "--to", target, "--destroy", target, "--speed", speed, "--json")
        (replayed,) = json.loads(output[output.index("{") :])["recordings"]
        assert replayed["replayed_s"] >= least_s


def test_a_file_is_not_written_without_leave(recorded, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(bytes(256 * BLOCK_BYTES))
    output = refused(RefusedError, recorded, "--to", target)
    assert "--destroy" in output
    assert not any(target.read_bytes())


def test_a_smaller_target_wraps_and_says_so(recorded, tmp_path):
    (tmp_path / "folder").mkdir()
    output = run(recorded, "--to", tmp_path / "folder", "--size", "512KiB", "--tables")
    assert "Replayed all 405 requests at 1x" in output
    page = next((tmp_path / "seatrial-reports").glob("*.html")).read_text()
    assert "wrap, so more of them may meet in a cache" in page.replace("\N{NO-BREAK SPACE}", " ")


def test_the_plan_writes_nothing(recorded, tmp_path):
    (tmp_path / "folder").mkdir()
    output = run(recorded, "--to", tmp_path / "folder", "--plan")
    assert "until the recording ends" in output
    assert not list((tmp_path / "folder").iterdir())


def test_a_speed_that_is_none_is_refused(recorded, tmp_path):
    output = refused(SystemExit, recorded, "--to", tmp_path, "--speed", "fast")
    assert "'fast' is neither a factor above 0, up to 1000, nor 'max'" in output


def test_a_recording_without_requests_is_refused(recorded, tmp_path):
    output = refused(UsageError, recorded, "--to", tmp_path, "--device", "sdb")
    assert "has no request that could be sent" in output
    assert "405 of other devices" in output
