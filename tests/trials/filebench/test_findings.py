"""Findings of file workloads, each from a run that has the fault."""

from __future__ import annotations

import json

import msgspec

from seatrial.findings.context import Context
from seatrial.trials.filebench.analysis import named
from seatrial.trials.filebench.findings.files_ended_early import files_ended_early
from seatrial.trials.filebench.wml.workload import workload_of
from stats.builders import cell_of, run_of, sample_of, summary_of
from trials.filebench.test_measure import run, seatrial


def findings_of(tmp_path):
    shown = seatrial("show", "last", "--json", "--results", "r.seatrial", cwd=tmp_path)
    return {each["kind"]: each for each in json.loads(shown.stdout)["findings"]}


def write(tmp_path, text):
    path = tmp_path / "mine.f"
    path.write_text(text)
    return path


def test_a_personality_has_its_variables_in_brackets() -> None:
    for factors, name in (({}, "varmail"), ({"nfiles": 100}, "varmail (nfiles 100)")):
        own = cell_of(workload="varmail", factors=factors)
        assert named(summary_of(sample_of(own))) == name


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


def cell(name):
    return msgspec.structs.replace(cell_of(workload=name), kind="filebench")


def test_each_reason_for_an_early_end_has_its_own_samples() -> None:
    """Only counted ones: a sample that was interrupted is not early."""

    def ended(by, workload, number, **rest):
        return sample_of(cell(workload), counters={f"files_ended_by_{by}": 1}, round=number, **rest)

    out = summary_of(ended("out_of_files", "a", 0, duration_s=4.0))
    limited = summary_of(*(ended("limit", "b", number) for number in range(3)))
    interrupted = summary_of(ended("time", "c", 0), ended("limit", "c", 1, status="interrupted"))
    found = files_ended_early(Context(run_of(), [out, limited, interrupted]))
    assert [
        (each.evidence["samples_count"], each.evidence["out_of_files_count"], len(each.cells))
        for each in found
    ] == [(1, 1, 1), (3, 0, 1)]
    assert [each.evidence["duration_s_min"] for each in found] == [4.0, 1.0]
    assert files_ended_early(Context(run_of(), [interrupted])) == []


def test_a_rate_of_events_that_nothing_takes_is_a_note_of_the_plan(tmp_path) -> None:
    workload_file = write(
        tmp_path,
        """
        eventgen rate=50
        define fileset name=s,size=4k,entries=5,prealloc=100
        define process name=p { thread name=t { flowop read name=r,filesetname=s,iosize=1k } }
        """,
    )
    program = workload_of("mine.f", workload_file.read_text())
    assert ["eventgen" in note for note in program.notes] == [True]
    (sample,) = run(tmp_path, workload_file, seconds=0.5)
    assert sample.counters["events_due"] > 0
    assert "event_rate_missed" not in findings_of(tmp_path)
