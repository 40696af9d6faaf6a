"""Findings of file workloads, each from a run that has the fault."""

from __future__ import annotations

import json

from trials.filebench.test_measure import run, seatrial


def findings_of(tmp_path):
    shown = seatrial("show", "last", "--json", "--results", "r.seatrial", cwd=tmp_path)
    return {each["kind"]: each for each in json.loads(shown.stdout)["findings"]}


def write(tmp_path, text):
    path = tmp_path / "mine.f"
    path.write_text(text)
    return path


def test_a_workload_that_is_out_of_files_says_so(tmp_path) -> None:
    workload_file = write(
        tmp_path,
        """
        define fileset name=s,size=1k,entries=25,prealloc=100
        define process name=p { thread name=t { flowop deletefile name=d,filesetname=s } }
        """,
    )
    (sample,) = run(tmp_path, workload_file, seconds=20)
    assert sample.operations["d"].completed == 25
    found = findings_of(tmp_path)["files_ended_early"]
    assert "1 sample" in found["sentence"]
    assert "ran out of files" in found["sentence"]


def test_one_that_may_end_so_is_no_finding(tmp_path) -> None:
    workload_file = write(
        tmp_path,
        """
        set mode quit firstdone
        define fileset name=s,size=1k,entries=25,prealloc=100
        define process name=p { thread name=t { flowop deletefile name=d,filesetname=s } }
        """,
    )
    run(tmp_path, workload_file, seconds=20)
    assert "files_ended_early" not in findings_of(tmp_path)


def test_a_rate_that_is_not_reached_is_a_finding_and_one_that_is_reached_is_none(tmp_path) -> None:
    workload_file = write(
        tmp_path,
        """
        set $rate=50
        eventgen rate=$rate
        define fileset name=s,size=4k,entries=5,prealloc=100
        define process name=p { thread name=t {
            flowop read name=r,filesetname=s,iosize=1k
            flowop eventlimit name=limit
        } }
        """,
    )
    run(tmp_path, workload_file, seconds=2)
    assert "event_rate_missed" not in findings_of(tmp_path)
    run(tmp_path, workload_file, rate=10_000_000)
    found = findings_of(tmp_path)["event_rate_missed"]
    assert "per second" in found["sentence"]
