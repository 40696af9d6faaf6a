"""From samples to a summary: order, figures, blank cells, findings of all sources."""

import subprocess
import sys

import pytest

from seatrial.findings.summary import summarise
from seatrial.study.load import study_from_mapping, study_to_mapping
from seatrial.study.plan import make_plan
from stats.builders import cell_of, error_of, run_of, sample_of, stall_of


def test_cells_have_their_figures():
    samples = [sample_of(completed=n, round=i) for i, n in enumerate((1000, 1100, 900))]
    summary = summarise(run_of(), samples)
    (cell,) = summary.cells
    assert (cell.completed, cell.failed, cell.blank) == (3000, 0, "")
    assert cell.iops.rounds == 3
    assert cell.bandwidth.unit == "B/s"
    assert cell.latency["read"]["p50"].unit == "ns"
    assert [sample.round for sample in cell.samples] == [0, 1, 2]


def test_samples_may_come_in_any_order():
    samples = [sample_of(completed=100 + n, round=n) for n in range(3)]
    assert summarise(run_of(), samples) == summarise(run_of(), reversed(samples))


def test_cells_follow_the_plan():
    study = study_from_mapping(
        {
            "name": "order",
            "workload": [
                {"kind": "matrix", "block_sizes": ["8KiB", "4KiB"], "threads": [10, 1]},
                {"kind": "four"},
                {"kind": "commit"},
            ],
        },
        "a test",
    )
    planned = make_plan(study).cells
    samples = [sample_of(cell, completed=10) for cell in sorted(planned, key=lambda c: c.key)]
    summary = summarise(run_of(study=study_to_mapping(study)), samples)
    assert [cell.cell.key for cell in summary.cells] == [cell.key for cell in planned]


def test_the_stored_study_is_held_to_its_thresholds():
    thresholds = {"matrix.iops": ">= 2000", "matrix[threads=1].stalls": "< 1"}
    study = study_from_mapping(
        {"name": "kept", "workload": [{"kind": "matrix"}], "thresholds": thresholds}, "a test"
    )
    run = run_of(study=study_to_mapping(study))
    summary = summarise(run, [sample_of(completed=1000)])
    assert [result.met for result in summary.thresholds] == [False, True]
    assert summarise(run_of(study={}), [sample_of()]).thresholds == []


def test_without_a_plan_cells_are_in_natural_order():
    cells = [
        cell_of(workload=workload, operation=operation, block_size_bytes=size, threads=threads)
        for workload in ("copy", "matrix")
        for operation in ("read", "write")
        for size in (512, 8192, 65536)
        for threads in (1, 4, 40)
    ]
    shuffled = sorted(cells, key=lambda cell: hash(cell.key))
    summary = summarise(run_of(study={}), [sample_of(cell, completed=1) for cell in shuffled])
    assert [cell.cell.key for cell in summary.cells] == [cell.key for cell in cells]


@pytest.mark.parametrize(
    ("sample", "blank"),
    [
        (
            {"oldest_in_flight_ns": 4_200_000_000, "in_flight": 1},
            "0 completed, oldest in flight 4.2 s",
        ),
        (
            {"failed": 3, "errors": [error_of("ENOSPC")]},
            "0 completed, 3 failed (ENOSPC)",
        ),
        ({"late_skipped": 1200}, "0 completed, 1,200 skipped as too late"),
        ({}, "0 completed, nothing was in flight"),
    ],
)
def test_no_cell_is_blank(sample, blank):
    summary = summarise(run_of(), [sample_of(completed=0, **sample)])
    assert summary.cells[0].blank == blank
    assert "p50" not in summary.cells[0].latency.get("read", {})


def test_findings_of_samples_and_fingerprint_come_together_the_worst_first():
    run = run_of(before={"machine": {"clock_source": "hpet", "virtualisation": "kvm"}})
    summary = summarise(run, [sample_of(stalls=[stall_of(3.1)], duration_s=10.0)])
    kinds = [finding.kind for finding in summary.findings]
    assert kinds == ["stall", "clock_source", "virtualised"]
    assert "stalled once for 3.1 s (device)" in summary.verdict


def test_a_run_without_samples_has_a_summary():
    summary = summarise(run_of(), [])
    assert summary.cells == []
    assert summary.verdict == "Nothing was measured."


def test_importing_the_room_imports_no_heavy_library():
    code = (
        "import sys, seatrial.findings.summary;"
        "heavy = {'numpy', 'scipy', 'rich'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
