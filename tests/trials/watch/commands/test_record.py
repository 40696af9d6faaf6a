"""``seatrial watch --record``: what really happened is in the file, whatever ends the watch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.command import Ended, ended, seatrial, start
from seatrial import _core
from seatrial.errors import UsageError
from seatrial.trials.watch.recording import Recording, read

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio: apt-get install fio"),
]

ORDINARY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
SKIPPED_SHARE_MAX = 0.02
"""Some hypervisors' kernels run no BPF while an agent of their own is the current process."""
KILL_COSTS_S_MAX = 1.5
"""A second of checkpoints, and what the machine adds."""


@contextmanager
def recording(folder: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A recorder that has begun; it is killed if it does not end by itself."""
    process = start("watch", *map(str, arguments), folder=folder)
    deadline_s = time.monotonic() + 20
    while not any(folder.glob("**/*.part.end")) and process.poll() is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stopped(process: subprocess.Popen[str]) -> Ended:
    process.send_signal(signal.SIGINT)
    return ended(process, 30)


def fio(disk: Path, *options: str) -> list[dict]:
    """Run jobs on a disk, one after the other; return fio's own figures of each."""
    job = [f"--filename={disk}", "--direct=1", "--ioengine=psync", "--output-format=json"]
    words = ["fio", *job, *options]
    return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["jobs"]


def steady(disk: Path, seconds: float, rate_per_s: int = 0) -> subprocess.Popen[bytes]:
    """Begin reads without a pause, or at a rate."""
    job = ["--name=steady", f"--filename={disk}", "--direct=1", "--ioengine=libaio"]
    load = ["--rw=randread", "--bs=4k", "--iodepth=8", "--time_based", f"--runtime={seconds}"]
    load += [f"--rate_iops={rate_per_s}"] if rate_per_s else []
    return subprocess.Popen(["fio", *job, *load], stdout=subprocess.DEVNULL)


def counters(disk: Path) -> list[int]:
    return [int(each) for each in Path(f"/sys/block/{disk.name}/stat").read_text().split()]


def by_kind(recording: Recording, process: str) -> Counter[tuple[str, int]]:
    """How many requests of a process there are, by operation and length."""
    names = recording.about.processes
    return Counter(
        (_core.WATCHED_OPERATIONS[operation], int(length_bytes))
        for operation, length_bytes, number in zip(
            recording.operation, recording.length_bytes, recording.process, strict=True
        )
        if names[number].startswith(f"{process} (")
    )


def files_of(folder: Path) -> list[str]:
    """The files of the recording ``r``, and what has a name as theirs."""
    return sorted(each.name for each in folder.iterdir() if each.name.partition(".")[0] == "r")


def test_every_request_of_fio_is_in_the_file(disk, tmp_path):
    before = counters(disk)
    with recording(tmp_path, disk, "--record", "r") as process:
        began_s = time.time()
        reads, writes = fio(
            disk,
            *("--name=reads", "--rw=randread", "--bs=4k", "--io_size=8m"),
            *("--name=writes", "--stonewall", "--rw=randwrite", "--bs=8k", "--io_size=4m"),
            "--fdatasync=16",
        )
        elapsed_s = time.time() - began_s
        watched = stopped(process)
    grown = [now - then for now, then in zip(counters(disk), before, strict=True)]
    assert (watched.code, "Recorded " in watched.err) == (0, True), watched
    whole = read(tmp_path / "r")
    kinds = by_kind(whole, "fio")
    expected = {
        ("read", 4096): reads["read"]["total_ios"],
        ("write", 8192): writes["write"]["total_ios"],
        ("flush", 0): writes["write"]["total_ios"] // 16,
    }
    assert (expected["read", 4096], expected["write", 8192]) == (2048, 512)
    for kind, count in expected.items():
        assert count * (1 - SKIPPED_SHARE_MAX) - 1 <= kinds[kind] <= count, (kind, kinds)
    all_kinds = Counter(whole.operation.tolist())
    missing_max = SKIPPED_SHARE_MAX * grown[0] + 1
    assert 0 <= grown[0] - all_kinds[0] <= missing_max  # the disk's own counter of reads
    assert [each.name for each in whole.about.devices] == [disk.name]
    assert whole.about.devices[0].size_bytes == 64 << 20
    assert (whole.offset_bytes + whole.length_bytes).max() <= 64 << 20
    assert whole.about.knows_queue == (whole.queue_ns >= 0).any()
    assert (whole.is_sync == 1).any()
    assert not whole.failed.any()
    assert (whole.about.is_cut_off, whole.about.lost.unrecorded) == (False, 0)
    latencies_ns = (whole.device_ns + whole.queue_ns.clip(0)).sum()
    assert 0 < latencies_ns / 1e9 < 2 * elapsed_s  # of one thread, and of who looks at the disk
    assert whole.arrived_ns.max() / 1e9 <= whole.about.seconds
    assert abs(whole.about.began_at_s - began_s) < 5
    stored = seatrial("show", "last", "--json", folder=tmp_path).document
    completed = {
        each["cell"]["operation"]: each["outcome"]["completed"] for each in stored["samples"]
    }
    assert completed["read"] == all_kinds[0]
    assert completed["write"] == all_kinds[1]


def test_a_kill_costs_at_most_a_second(disk, tmp_path):
    with recording(tmp_path, disk, "--record", "r") as process, steady(disk, 4) as load:
        time.sleep(2.6)
        with pytest.raises(UsageError, match="is being written by another process"):
            read(tmp_path / "r")
        killed_s = time.time()
        process.kill()
        process.wait()
        load.terminate()
    whole = read(tmp_path / "r")
    ended_s = whole.about.began_at_s + whole.about.seconds
    assert 0 < killed_s - ended_s < KILL_COSTS_S_MAX
    last_s = whole.about.began_at_s + whole.arrived_ns[-1] / 1e9
    assert ended_s - 0.2 < last_s <= ended_s
    assert whole.about.is_cut_off
    assert by_kind(whole, "fio")["read", 4096] > 1000
    assert files_of(tmp_path) == ["r"]
    assert read(tmp_path / "r").requests == whole.requests
    shown = seatrial("trace", "show", "r", folder=tmp_path)
    assert "As a run, until it was cut off: `seatrial trace store r`" in shown.out, shown
    stored = seatrial("trace", "store", "r", "--label", "until the kill", folder=tmp_path)
    assert (stored.code, "Stored as run " in stored.out) == (0, True), stored
    again = seatrial("trace", "store", "r", folder=tmp_path)
    assert (again.code, "Stored already, as run " in again.out) == (0, True), again
    run = seatrial("show", "last", "--json", folder=tmp_path).document
    assert run["run"]["label"] == "until the kill"
    completed = sum(each["outcome"]["completed"] for each in run["samples"])
    assert completed == (whole.device_ns >= 0).sum() > 1000
    limited = seatrial("show", "last", "--tables", folder=tmp_path)
    assert "The recording was cut off after" in " ".join(limited.out.split()), limited


def test_a_full_disk_ends_it_with_what_was_recorded(disk, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "seatrial-test", str(small)]
    subprocess.run(mount, check=True)
    try:
        with (
            recording(tmp_path, disk, "--record", small / "r") as process,
            steady(disk, 20, rate_per_s=8000) as load,
        ):
            watched = ended(process, 30)
            load.terminate()
        assert watched.code == 8, watched
        assert "No space left on device" in watched.err
        assert "Traceback" not in watched.err
        whole = read(small / "r")
        assert f"{whole.requests:,} requests of the first" in watched.err
        assert whole.requests > 1000
        assert whole.about.is_cut_off
        assert [each.name for each in small.iterdir()] == ["r"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_files_of_a_rotated_recording_are_read_as_one(disk, tmp_path):
    with recording(tmp_path, disk, "--record", "r", "--rotate", "64KiB") as process:
        with steady(disk, 3.5) as load:
            load.wait()
        watched = stopped(process)
    assert watched.code == 0, watched
    whole = read(tmp_path / "r")
    files = files_of(tmp_path)
    assert len(files) == whole.about.files > 1, files
    assert f"{whole.requests:,} requests to " in watched.err
    assert f" in {len(files)} files" in watched.err
    # Another recording replaces all of them, and only on request.
    again = seatrial("watch", disk, "--record", "r", "--for", "0.1", folder=tmp_path)
    assert (again.code, "r exists" in again.err) == (5, True), again
    (tmp_path / "r").unlink()
    again = seatrial("watch", disk, "--record", "r", "--for", "0.1", folder=tmp_path)
    assert (again.code, "r.1 exists" in again.err) == (5, True), again
    (tmp_path / "r.1").write_text("a diary")
    again = seatrial("watch", disk, "--record", "r", "--for", "0.1", "--force", folder=tmp_path)
    assert (again.code, "r.1 exists and is not a recording" in again.err) == (5, True), again
    (tmp_path / "r.1").unlink()
    (tmp_path / "r.notes").write_text("stays")
    again = seatrial("watch", disk, "--record", "r", "--for", "0.1", "--force", folder=tmp_path)
    assert again.code == 0, again
    assert files_of(tmp_path) == ["r", "r.notes"]


def test_what_was_cut_off_is_replaced_only_on_request(disk, tmp_path):
    with recording(tmp_path, disk, "--record", "r") as process:
        process.kill()
        process.wait()
    refused = seatrial("watch", disk, "--record", "r", "--for", "0.1", folder=tmp_path)
    assert (refused.code, "was cut off, but can be read" in refused.err) == (5, True), refused
    replaced = seatrial("watch", disk, "--record", "r", "--for", "0.1", "--force", folder=tmp_path)
    assert replaced.code == 0, replaced
    assert not read(tmp_path / "r").about.is_cut_off


def test_requests_of_one_process_can_be_recorded(disk, tmp_path):
    own = os.getpid()
    with recording(tmp_path, disk, "--record", "r", "--pid", own) as process:
        fio(disk, "--name=reads", "--rw=randread", "--bs=4k", "--io_size=1m")
        file = os.open(disk, os.O_RDWR)
        os.pwrite(file, b"\2" * 4096, 0)
        os.fdatasync(file)
        os.close(file)
        watched = stopped(process)
    assert watched.code == 0, watched
    whole = read(tmp_path / "r")
    assert {name.rpartition(" ")[2] for name in whole.about.processes} == {f"({own})"}
    assert "write" in {_core.WATCHED_OPERATIONS[each] for each in whole.operation}


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to give root up")
def test_without_rights_nothing_is_recorded_and_the_way_out_is_named(tmp_path):
    tmp_path.chmod(0o777)
    words = ("watch", "--record", "r", "--for", "0.3")
    refused = ended(start(*words, folder=tmp_path, prefix=ORDINARY), 20)
    assert (refused.code, "--record needs every request" in refused.err) == (6, True), refused
    assert "Run it as root, or with CAP_BPF and CAP_PERFMON" in refused.err
    assert files_of(tmp_path) == []


def test_a_recording_cannot_go_to_standard_output(tmp_path):
    refused = seatrial("watch", "--record", "-", "--for", "0.1", folder=tmp_path)
    assert (refused.code, "cannot go to standard output" in refused.err) == (2, True), refused
    small = seatrial("watch", "--record", "r", "--rotate", "1k", folder=tmp_path)
    assert (small.code, "less than 64 KiB" in small.err) == (2, True), small
