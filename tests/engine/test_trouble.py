"""What the engine does when threads, memory, signals or calls let it down."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from seatrial import _core
from seatrial.units import MIB

from .cells import (
    access,
    cell,
    histogram,
    measure,
    measure_apart,
    outcome_of,
    preload,
    require_uring,
    start_apart,
)


def await_start(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"


def threads_of(process: subprocess.Popen[str], name: str) -> list[Path]:
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return [task for task in tasks if (task / "comm").read_text().startswith(name)]


def is_blocked(task: Path, number: signal.Signals) -> bool:
    lines = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
    return bool(int(lines["SigBlk"], 16) >> (number - 1) & 1)


def test_a_worker_that_cannot_get_ready_ends_the_cell_instead_of_hanging_it(trial_file):
    """The first workers get their 64 MiB of buffers, the last ones do not."""
    spec = cell(trial_file, [access("read", 8 * MIB)], threads=12, depth=8, engine="io_uring")
    require_uring()
    process = start_apart(spec | {"limit": {"duration_s": 0.1}})
    resource.prlimit(process.pid, resource.RLIMIT_AS, (600 * MIB, 600 * MIB))
    outcome = outcome_of(process, timeout_s=20)
    assert "io_uring engine failed: Cannot allocate memory" in outcome["error"]


def test_io_uring_refuses_what_is_more_than_one_call(trial_file, tmp_path):
    """A commit without its fdatasync would be a fast lie."""
    for accesses in ([access("commit")], [access("read"), access("copy")]):
        spec = cell(
            trial_file, accesses, engine="io_uring", target={"copy_to": str(tmp_path / "copy")}
        )
        with pytest.raises(_core.NativeUsageError, match="is io_uring, but a commit or a copy"):
            _core.start(json.dumps(spec))


def test_what_the_engine_makes_impossible_is_refused_at_once(trial_file):
    """psync makes 32 threads of 4 with depth 8, too many for 16 blocks that are kept apart."""
    spec = cell(trial_file, [access("write")], threads=4, depth=8, engine="psync")
    spec["range"]["length_bytes"] = 16 * 4096
    with pytest.raises(_core.NativeUsageError, match="has room for 16 blocks"):
        _core.start(json.dumps(spec | {"data": {"kind": "verifiable"}}))


def test_a_commit_by_io_uring_is_durable_by_itself(trial_file):
    require_uring()
    spec = cell(trial_file, [access("commit")], engine="io_uring", depth=4, target={"dsync": True})
    parts = measure(spec | {"limit": {"duration_s": 10, "operations": 20}})
    assert parts["operations"]["commit"]["completed"] == 20
    assert parts["engine"] == "io_uring"


def test_a_signal_does_not_fail_the_request_that_it_meets(memory_file, shim):
    """Ctrl-C belongs to Python's own thread, not to a worker inside of a call."""
    env = preload(shim, freeze_call=20, freeze_ms=600, breaks=1)
    process = start_apart(cell(memory_file, [access("read")], limit={"duration_s": 0.8}), env)
    await_start(process)
    time.sleep(0.2)
    worker = threads_of(process, "worker-0")[0]
    assert is_blocked(worker, signal.SIGINT)
    for _ in range(5):
        os.kill(process.pid, signal.SIGUSR1)
        time.sleep(0.02)
    parts = outcome_of(process)["parts"]
    assert (parts["outcome"]["failed"], parts["errors"]) == (0, [])
    assert histogram(parts, "read").max_ns > 580_000_000


def test_a_stopped_process_gets_time_to_end_when_it_goes_on(memory_file, shim):
    """Ctrl-Z for longer than workers are waited for: they have not had that time."""
    env = preload(shim, freeze_call=20, freeze_ms=3_250)
    spec = cell(memory_file, [access("read")], limit={"duration_s": 0.3}, threads=2)
    process = start_apart(spec | {"stall_threshold_ms": 50}, env | {"STOP_AFTER_S": 0.3})
    await_start(process)
    time.sleep(0.45)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(2.6)
    os.kill(process.pid, signal.SIGCONT)
    parts = outcome_of(process)["parts"]
    assert parts["outcome"]["in_flight_at_end"] == 0
    assert parts["oldest_in_flight_ns"] == 0
    assert parts["duration_s"] > 3


def test_a_worker_that_never_comes_back_is_left_behind_and_reported(memory_file, shim):
    env = preload(shim, freeze_call=20, freeze_ms=60_000, freeze_one=1)
    spec = cell(memory_file, [access("read")], limit={"duration_s": 30}, threads=2)
    began_s = time.monotonic()
    parts = outcome_of(start_apart(spec, env | {"STOP_AFTER_S": 0.3}))["parts"]
    assert time.monotonic() - began_s < 10
    outcome = parts["outcome"]
    assert (outcome["in_flight_at_end"], parts["status"]) == (1, "interrupted")
    assert outcome["offered"] == outcome["completed"] + 1
    assert 2e9 < parts["oldest_in_flight_ns"] < 4e9
    assert parts["duration_s"] == pytest.approx(parts["oldest_in_flight_ns"] / 1e9, abs=0.4)


def test_a_sample_forgotten_by_its_owner_ends(trial_file):
    running = _core.start(json.dumps(cell(trial_file, [access("read")], limit={"duration_s": 60})))
    tasks = Path("/proc/self/task")

    def workers() -> list[Path]:
        return [task for task in tasks.iterdir() if (task / "comm").read_text() == "worker-0\n"]

    assert not running.wait(0.1)
    assert workers()
    del running
    for _ in range(100):
        time.sleep(0.02)
        if not workers():
            return
    pytest.fail("the worker goes on without anybody to take the result")


def test_a_device_that_only_fails_does_not_take_the_whole_time(tmp_path):
    """Past its end a file has nothing: every read is short, and a worker soon gives up."""
    path = tmp_path / "short.dat"
    path.write_bytes(b"")
    spec = cell(path, [access("read")], limit={"duration_s": 20})
    spec["target"]["size_bytes"] = spec["range"]["length_bytes"] = MIB
    parts = measure_apart(spec)["parts"]
    assert parts["outcome"]["completed"] == 0
    assert parts["errors_count"] == parts["outcome"]["failed"] == 1000
    assert parts["errors"][0]["name"] == "short transfer"
    assert parts["duration_s"] < 5, "the sample claims time in which nothing was tried"
