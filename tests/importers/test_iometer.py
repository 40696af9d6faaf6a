"""IOmeter's configuration files: access specifications as a study, everything else named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import SeatrialError, UsageError
from seatrial.importers import read_jobs
from seatrial.importers.document import Document
from seatrial.importers.iometer import study_of
from seatrial.study.load import study_from_mapping
from seatrial.study.plan import make_plan

CONFIGURATION = """Version 1.1.0
'TEST SETUP ====================================================================
'Run Time
'\thours      minutes    seconds
\t0          1          30
'END test setup
'ACCESS SPECIFICATIONS =========================================================
'Access specification name,default assignment
\tOLTP, 8K (70% read),NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t8192,90,70,100,0,1,4096,0
\t65536,10,0,0,0,1,0,0
'Access specification name,default assignment
\tSlow,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t4096,100,100,100,5,10,8192,16
'END access specifications
'MANAGER LIST ==================================================================
'Worker
\tWorker 1
'Default target settings for worker
'Number of outstanding IOs,test connection rate,transactions per connection
\t16,DISABLED,1
'Worker
\tWorker 2
'END manager list
"""


def write(tmp_path, text):
    path = tmp_path / "lab.icf"
    path.write_text(text)
    return path


def test_specifications_become_a_mix(tmp_path) -> None:
    jobs = read_jobs(write(tmp_path, CONFIGURATION))
    assert jobs is not None
    fill, mix, paused = jobs.mapping["workload"]
    assert fill == {"kind": "fill"}
    assert paused == {"kind": "mix", "name": "paused", "accesses": ["Slow"], "seconds": 90}
    assert mix == {
        "kind": "mix",
        "accesses": ["OLTP-8K-70-read"],
        "seconds": 90,
        "depths": 16,
        "threads": 2,
    }
    assert jobs.mapping["access"][0]["lines"] == [
        {"share": 90, "size": 8192, "read": 0.7, "random": 1, "align": 4096},
        {"share": 10, "size": 65536, "read": 0, "random": 0, "align": 512},
    ]


def test_the_study_can_be_planned(tmp_path) -> None:
    jobs = read_jobs(write(tmp_path, CONFIGURATION))
    assert jobs is not None
    plan = make_plan(study_from_mapping(jobs.mapping, "lab.icf"))
    cell = next(cell for cell in plan.cells if cell.factors.get("access") == "OLTP-8K-70-read")
    weights = [(each.operation, round(each.weight, 3)) for each in cell.parsed.accesses]
    assert ("read", 63.0) in weights or ("read", 0.63) in weights, weights


def test_a_delay_is_a_pause_after_each_burst(tmp_path) -> None:
    jobs = read_jobs(write(tmp_path, CONFIGURATION))
    assert jobs is not None
    plan = make_plan(study_from_mapping(jobs.mapping, "lab.icf"))
    cell = next(cell for cell in plan.cells if cell.factors.get("access") == "Slow")
    assert (cell.threads, cell.depth) == (2, 10)
    (stream,) = cell.spec["streams"]
    assert stream["arrival"] == {"kind": "think", "burst": 10, "pause_s": 0.005, "is_even": True}


def test_a_delay_of_one_line_among_several_is_named(tmp_path) -> None:
    several = CONFIGURATION.replace("8192,90,70,100,0,1,4096,0", "8192,90,70,100,7,2,4096,0")
    jobs = read_jobs(write(tmp_path, several))
    assert jobs is not None
    assert "stream" not in jobs.mapping["access"][0]["lines"][0]
    (note,) = (each for each in jobs.notes if "delay" in each)
    assert "7 ms after every 2 requests is ignored, as the specification has several" in note


def test_what_is_done_otherwise_is_named(tmp_path) -> None:
    jobs = read_jobs(write(tmp_path, CONFIGURATION))
    assert jobs is not None
    said = "\n".join(jobs.notes)
    assert "delay" not in said
    assert "Slow: replies are for network workers" in said
    assert "Slow: requests of 4096 bytes cannot be aligned to 8192 bytes" in said
    assert "specify one with --target" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("65536,10,0,0,0,1,0,0", "65536,10,0,0", "line 12: '65536,10,0,0' is not eight numbers"),
        ("65536,10", "65536,x", "is not eight numbers"),
        ("8192,90,70", "8192,90,170", "line 11"),
        ("100,100,5,10", "100,100,-5,10", "is out of range"),
        (
            "'size,% of size",
            "'size,% of something",
            "line 10: the columns are size, % of something",
        ),
    ],
)
def test_a_malformed_line_is_named(old, new, said, tmp_path) -> None:
    with pytest.raises(UsageError) as caught:
        read_jobs(write(tmp_path, CONFIGURATION.replace(old, new, 1)))
    assert said in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([*CONFIGURATION.splitlines(), "1,2,3", "'", "x,NONE"]), max_size=20)
)
def test_any_lines_are_read_or_refused(lines) -> None:
    document = Document(path=Path("a.icf"), text="\n".join(lines), changed_at=0, digest="")
    said = ""
    try:
        said = f"a.icf: {study_of(document).mapping['access']}"
    except SeatrialError as error:
        said = str(error)
    assert "a.icf" in said
