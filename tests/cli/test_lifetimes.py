"""The state of a run whose process was ended, was killed, or is elsewhere."""

import signal
import sqlite3

import msgspec
import pytest

from cli.command import ended, seatrial, start
from seatrial.errors import RefusedError
from seatrial.process_identity import OwnerProcess
from seatrial.results.store import ResultsFile

LONG = ("--seconds", "60", "--size", "8MiB")


def begun(folder):
    """A run that measures: its folder for trial files is there, and so is its row."""
    target = folder / "target"
    target.mkdir()
    process = start("io", "target", *LONG, folder=folder)
    wait_for_round(process)
    assert list(target.iterdir())
    return process


def wait_for_round(process):
    while "Round 1" not in (line := process.stderr.readline()):
        assert line, "it ended before its first round"


def status(folder):
    (run,) = seatrial("list", "--json", folder=folder).document["runs"]
    return run["status"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_each_signal_ends_a_run_in_order_and_leaves_nothing(tmp_path, number):
    process = begun(tmp_path)
    assert status(tmp_path) == "running"
    process.send_signal(number)
    reported = ended(process)
    assert reported.code == 4, reported.err
    assert "Traceback" not in reported.err
    assert "was interrupted" in reported.out
    assert not list((tmp_path / "target").iterdir())
    assert not list((tmp_path / "state").glob("*.jsonl"))
    assert status(tmp_path) == "interrupted"


def test_a_run_that_nohup_started_does_not_heed_a_hangup(tmp_path):
    (tmp_path / "target").mkdir()
    process = start(
        *("io", "target", "--seconds", "1", "--size", "8MiB"), folder=tmp_path, prefix=("nohup",)
    )
    wait_for_round(process)
    process.send_signal(signal.SIGHUP)
    assert ended(process).code == 0


def test_a_killed_run_is_not_called_running(tmp_path):
    process = begun(tmp_path)
    process.kill()
    process.wait()
    assert status(tmp_path) == "interrupted"
    assert seatrial("clean", folder=tmp_path).code == 0
    assert status(tmp_path) == "interrupted"
    assert not list((tmp_path / "target").iterdir())


@pytest.mark.parametrize(
    "other",
    [
        {"boot_id": "the boot of another machine, or an earlier one"},
        {"start_ticks": 1},
        {"pid_namespace": "pid:[1]"},
        {"pid": 4_000_000},
        None,
    ],
    ids=["copied", "pid-reused", "container", "gone", "older-version"],
)
def test_only_a_process_that_can_be_seen_makes_a_run_run(tmp_path, other):
    process = begun(tmp_path)
    try:
        owner = msgspec.structs.asdict(OwnerProcess.current()) | {"host": ""}
        stored = msgspec.json.encode(owner | other if other else None).decode()
        with sqlite3.connect(tmp_path / "results.seatrial") as connection:
            connection.execute("UPDATE run SET process_json = ?", (stored,))
        assert status(tmp_path) == "interrupted"
    finally:
        process.terminate()
        ended(process)


def test_the_results_file_does_not_name_the_host(tmp_path):
    process = begun(tmp_path)
    process.kill()
    process.wait()
    with ResultsFile.open(tmp_path / "results.seatrial", read_only=True) as store:
        owner = store.run("last").process
    assert owner.pid == process.pid
    assert owner.host == ""


def test_a_run_that_another_process_measures_is_not_resumed(tmp_path):
    process = begun(tmp_path)
    try:
        reported = f"Process {process.pid} is measuring the run"
        store = ResultsFile.open(tmp_path / "results.seatrial")
        with store, pytest.raises(RefusedError, match=reported):
            store.resume_run(store.run("last").id)
    finally:
        process.terminate()
        ended(process)
