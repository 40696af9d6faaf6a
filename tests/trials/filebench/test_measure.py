"""Workloads of files on real files: what is counted is what the workload file declares."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from seatrial.results.store import ResultsFile
from seatrial.trials.filebench.wml.source import personalities, text_of
from seatrial.trials.filebench.wml.workload import workload_of

SMALL = {
    "oltp": {"nshadows": 8, "ndbwriters": 2, "filesize": "1m", "logfilesize": "1m"},
    "fileserver": {"nfiles": 60, "nthreads": 4, "filesize": "16k"},
    "varmail": {"nfiles": 60, "nthreads": 4},
    "webserver": {"nfiles": 60, "nthreads": 4},
    "randomread": {"filesize": "8m"},
}


def seatrial(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "seatrial", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run(tmp_path, personality, *, seconds=0.6, rounds=1, **variables):
    (tmp_path / "ssd").mkdir(exist_ok=True)
    ended = seatrial(
        *("filebench", tmp_path / "ssd", "--personality", personality, "--seconds", seconds),
        *("--rounds", rounds, "--no-report", "--results", tmp_path / "r.seatrial"),
        *(word for name, value in variables.items() for word in ("--set", f"{name}={value}")),
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert not list((tmp_path / "ssd").iterdir()), "files are left behind"
    with ResultsFile.open(tmp_path / "r.seatrial") as store:
        return list(store.samples(store.runs()[-1].id))


def counts_of(sample):
    return {name: part.completed for name, part in sample.operations.items()}


@pytest.mark.parametrize("name", personalities())
def test_a_personality_does_what_its_file_declares(name, tmp_path) -> None:
    """Each thread did its whole loops, and at most one more in part."""
    (sample,) = run(tmp_path, name, **SMALL[name])
    outcome, program = sample.outcome, workload_of(name, text_of(name), SMALL[name])
    assert outcome.failed == outcome.in_flight_at_end == outcome.late_skipped == 0
    assert outcome.completed == sum(counts_of(sample).values()) > 0
    engine = msgspec.to_builtins(program.engine)
    for thread in engine["threads"]:
        loops = sample.counters[f"{thread['name']}:loops"]
        for kind, per_loop in declared(thread["steps"], engine["kinds"]).items():
            done = counts_of(sample).get(kind, sample.counters.get(f"{kind}:waits", 0))
            assert 0 <= done - loops * per_loop <= thread["instances"] * per_loop, kind


def declared(steps, kinds, times=1):
    """How often one loop of a thread does each flowop."""
    found = {}
    for step in steps:
        if "steps" in step:
            inner = declared(step["steps"], kinds, times * int(step["repeat"]))
        elif step["verb"] == "eventlimit":  # without a rate it has nothing to do
            inner = {}
        else:
            inner = {kinds[step["kind"]]["name"]: times * int(step.get("iters", 1))}
        for name, count in inner.items():
            found[name] = found.get(name, 0) + count
    return found


def test_the_rate_of_events_is_kept_by_all_threads_together(tmp_path) -> None:
    workload_file = tmp_path / "paced.f"
    workload_file.write_text("""
        set $rate=100
        eventgen rate=$rate
        define fileset name=s,size=4k,entries=20,prealloc=100
        define process name=p { thread name=t,instances=4 {
            flowop read name=r,filesetname=s,iosize=1k,iters=3
            flowop iopslimit name=limit
        } }
    """)
    (sample,) = run(tmp_path, workload_file, seconds=2)
    taken, due = sample.counters["events_taken"], sample.counters["events_due"]
    # An event was due for every read but those of each thread's last loop.
    assert taken <= due
    assert taken <= counts_of(sample)["r"] <= taken + 4 * 3
    # 100 a second for 2 s: what is missing is what the threads could not do, not what they skipped.
    assert due == pytest.approx(200, abs=20)


def test_a_file_ends_its_run_itself(tmp_path) -> None:
    workload_file = tmp_path / "copy.f"
    workload_file.write_text("""
        set mode quit firstdone
        define fileset name=from,size=8k,entries=30,prealloc=100
        define fileset name=to,size=8k,entries=30
        define process name=p { thread name=t {
            flowop openfile name=open,filesetname=from,fd=1
            flowop readwholefile name=get,fd=1,iosize=1m
            flowop createfile name=create,filesetname=to,fd=2
            flowop writewholefile name=put,fd=2,srcfd=1,iosize=1m
            flowop closefile name=done-from,fd=1
            flowop closefile name=done-to,fd=2
        } }
    """)
    (sample,) = run(tmp_path, workload_file, seconds=30)
    assert counts_of(sample)["put"] == 30
    assert sample.operations["put"].transferred_bytes == 30 * 8192
    assert (sample.counters["files_ended_by_done"], sample.duration_s < 10) == (1, True)


def test_rounds_use_the_same_files_and_compare_finds_the_flowops(tmp_path) -> None:
    samples = run(tmp_path, "randomread", rounds=2, seconds=0.3, filesize="2m")
    assert [each.counters["files_made_files"] for each in samples] == [1, 0]
    shown = seatrial("show", "last", "--json", "--results", "r.seatrial", cwd=tmp_path)
    cell = json.loads(shown.stdout)["cells"][0]
    assert "random-read" in cell["latency"]
    tables = seatrial("show", "last", "--tables", "--results", "r.seatrial", cwd=tmp_path)
    assert "File workloads by flowop" in tables.stdout


def test_a_killed_run_leaves_files_that_clean_removes(tmp_path) -> None:
    folder = tmp_path / "ssd"
    folder.mkdir()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    started = subprocess.Popen(
        [
            *(sys.executable, "-m", "seatrial", "filebench", str(folder), "--no-report"),
            *("--personality", "varmail", "--seconds", "60", "--set", "nfiles=50"),
            *("--results", str(tmp_path / "r.seatrial")),
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline_s = time.monotonic() + 60
    while not list(folder.glob(".seatrial-*/filebench/mail/*")):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    started.send_signal(signal.SIGKILL)
    started.wait()
    cleaned = subprocess.run(
        [sys.executable, "-m", "seatrial", "clean"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert cleaned.returncode == 0, cleaned.stderr
    assert not list(folder.iterdir())


def test_a_plan_without_room_is_refused_before_anything_is_made(tmp_path) -> None:
    ended = seatrial(
        *("filebench", tmp_path, "--personality", "randomread", "--set", f"filesize={1 << 55}"),
        *("--results", tmp_path / "r.seatrial", "--no-report"),
        cwd=tmp_path,
    )
    assert (ended.returncode, "--set" in ended.stderr) == (8, True), ended.stderr
    assert [path.name for path in Path(tmp_path).iterdir() if path.name.startswith(".sea")] == []


def test_exports_that_have_no_words_for_files_say_so(tmp_path) -> None:
    run(tmp_path, "randomread", seconds=0.2, filesize="1m")
    for layout in ("fio-job", "fio-json"):
        ended = seatrial(
            "export", "last", "--format", layout, "--results", "r.seatrial", cwd=tmp_path
        )
        assert (ended.returncode, ended.stdout) == (2, ""), ended.stdout
    table = seatrial("export", "last", "--format", "csv", "--results", "r.seatrial", cwd=tmp_path)
    assert "random-read" in table.stdout


def test_an_interrupt_while_files_are_made_leaves_nothing(tmp_path) -> None:
    folder = tmp_path / "ssd"
    folder.mkdir()
    started = subprocess.Popen(
        [
            *(sys.executable, "-m", "seatrial", "filebench", str(folder), "--no-report"),
            *("--personality", "fileserver", "--set", "filesize=64k", "--seconds", "30"),
            *("--results", str(tmp_path / "r.seatrial")),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + 60
    while not list(folder.glob(".seatrial-*/filebench/homes")):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    _, stderr = started.communicate(timeout=60)
    assert started.returncode not in (0, 1), stderr
    assert "Traceback" not in stderr
    assert not list(folder.iterdir())
