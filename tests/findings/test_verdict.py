"""One sentence that somebody who runs a database can use."""

from types import SimpleNamespace

import msgspec
import pytest

from seatrial._core import Histogram
from seatrial.findings.registry import rules
from seatrial.findings.verdict import io_tiles, verdict
from seatrial.stats.model import Figures, Finding
from stats.builders import MS_NS, cell_of, rounds_of, sample_of, stall_of, summary_of
from stats.builders import finding_of as stated


def finding_of(kind, severity="warning", cells=(), **evidence):
    """A finding of a kind; of one that a verdict says in short, with these of its figures alone."""
    rules()
    if kind == "stall":
        evidence["longest_stall"] = stall_of(evidence["longest_s"], evidence["cause"])
        evidence["examples"] = [{"seen": None}]
    waiting = [Figures]
    while waiting:
        of = waiting.pop()
        waiting += of.__subclasses__()
        is_of_kind = of.__struct_config__.tag == kind and "seatrial." in of.__module__
        if is_of_kind and not of.__subclasses__() and of.in_short is not Figures.in_short:
            figures = of(**dict.fromkeys(of.__struct_fields__) | evidence)
            return Finding(severity=severity, cells=list(cells), figures=figures)
    return stated(
        kind=kind,
        severity=severity,
        cells=list(cells),
        sentence="It was seen.",
        cause="",
        evidence=evidence,
        next="",
    )


STALLED = {"stalls_count": 1, "longest_s": 2.0, "cause": "device"}
STALL = finding_of("stall", "critical", stalls_count=1, longest_s=3.1, cause="device")


def database_cells(**rest):
    spread = (0.99, 1.0, 1.01)

    def cell(rate, **factors):
        return rounds_of(cell_of(**factors), [round(rate * s) for s in spread], **rest)

    return [
        cell(20_000, threads=1),
        cell(74_000, threads=10),
        cell(41_000, operation="write", threads=10),
        cell(90_000, block_size_bytes=4096, threads=10),
        cell(1_200, workload="sequential", address="sequential", block_size_bytes=1_000_000),
        cell(
            800,
            workload="sequential",
            address="sequential",
            block_size_bytes=1_000_000,
            operation="write",
        ),
        cell(1_240, workload="commit", operation="commit", address="sequential"),
        cell(5_000, workload="commit", operation="commit", address="sequential", threads=16),
    ]


def test_the_units_of_a_database():
    reported = verdict(database_cells(latency_ns=int(2.1 * MS_NS)), [STALL])
    assert reported == (
        "Reads 8 KiB at random at 74k IOPS (± 3 %) and writes at 41k IOPS (± 3 %), both with "
        "10 threads (workload matrix); "
        "reads 1,200 MB/s (± 3 %) and writes 800 MB/s (± 3 %) in sequence, both with 977 KiB, "
        "1 thread (workload sequential); "
        "commits 1,240/s (± 3 %) with p99 2.10 ms (± 0.4 %) at 1 committer; "
        "stalled once for 3.1 s (device)."
    )


def test_measured_once_is_said():
    reported = verdict([rounds_of(cell_of(), [74_000])], [])
    assert reported == "Reads 8 KiB at random at 74k IOPS (measured once) with 1 thread."


def test_a_fill_counts_only_if_nothing_else_was_measured():
    fill = rounds_of(
        cell_of(kind="fill", workload="fill", operation="write", address="sequential"), [9000]
    )
    write, read = (
        rounds_of(cell_of(workload="four", operation=operation, address="sequential"), [1000])
        for operation in ("write", "read")
    )
    assert "writes 8.2 MB/s" in verdict([fill, write, read], [])
    assert "writes" not in verdict([fill, read], [])
    assert "Writes 74 MB/s" in verdict([fill], [])


def test_without_8_kib_the_nearest_page_size_is_reported():
    assert "4 KiB at random" in verdict([rounds_of(cell_of(block_size_bytes=4096), [100])], [])


def test_other_cells_are_reported_as_they_are():
    reported = verdict([rounds_of(cell_of(workload="io", address="zipf"), [1000])], [])
    assert reported == "1,000 IOPS (measured once), 8.2 MB/s in io: read 8 KiB, 1 thread."
    cells = [rounds_of(cell_of(workload="io", address="zipf", threads=n), [n]) for n in (1, 9)]
    reported = verdict(cells, [])
    assert reported.endswith("in io: read 8 KiB, 9 threads, the highest bandwidth of 2 tests.")


def test_each_of_several_targets_has_its_own_figures():
    cells = [
        rounds_of(cell_of(target="old"), [500]),
        rounds_of(cell_of(target="new"), [9000]),
        rounds_of(cell_of(target="new", workload="commit", operation="commit"), [70]),
        rounds_of(cell_of(target="dead"), [0]),
    ]
    assert verdict(cells, []) == (
        "On old, reads 8 KiB at random at 500 IOPS (measured once) with 1 thread; "
        "on new, reads 8 KiB at random at 9,000 IOPS (measured once) with 1 thread "
        "(workload matrix); "
        "on dead, nothing completed in any test."
    )


def test_nothing_completed():
    reported = verdict([rounds_of(cell_of(), [0])], [finding_of("nothing_completed", "critical")])
    assert reported == "Nothing completed in any test."


def test_doubt_comes_first():
    reported = verdict(database_cells(), [finding_of("corruption", "critical"), STALL])
    assert reported.startswith("Do not trust these numbers: data came back wrong. Reads 8 KiB")
    assert reported.endswith("stalled once for 3.1 s (device).")


@pytest.mark.parametrize(
    ("kind", "is_of_shown", "is_doubt"),
    [
        ("late_requests", True, True),
        ("late_requests", False, False),
        ("device_cache_served", True, True),
        ("corruption", False, True),  # elsewhere, but on the same storage
        ("errors", False, True),
        ("stall", True, False),
    ],
)
def test_doubt_is_of_the_figures_reported(kind, is_of_shown, is_doubt):
    shown = rounds_of(cell_of(threads=9), [9000])
    other = rounds_of(cell_of(threads=1), [1000])
    concerned = shown if is_of_shown else other
    late = {"worst": SimpleNamespace(of_generator="", lacks_slots=False)}
    evidence = {"stall": STALLED, "late_requests": late}.get(kind, {})
    finding = finding_of(kind, "critical", [concerned.cell.identity()], **evidence)
    cells = [shown] if is_of_shown else [shown, other]
    assert verdict(cells, [finding]).startswith("Do not trust") is is_doubt


def test_commits_report_the_highest_percentile_that_is_known():
    cell = cell_of(workload="commit", operation="commit", address="sequential")
    assert "with p90 1.0 ms" in verdict([rounds_of(cell, [200])], [])
    assert "with" not in verdict([rounds_of(cell, [10])], [])


def test_a_warning_is_no_reason_for_distrust():
    reported = verdict(database_cells(), [finding_of("device_cache_served", "warning")])
    assert not reported.startswith("Do not trust")
    assert reported.endswith("a cache below the file system served 0 tests.")


def test_cells_that_a_cache_served_are_not_the_best():
    slow, fast = rounds_of(cell_of(threads=1), [1000]), rounds_of(cell_of(threads=9), [9000])
    served = finding_of("page_cache_served", cells=[fast.cell.identity()])
    assert "1,000 IOPS" in verdict([slow, fast], [served])
    assert "9,000 IOPS" in verdict([fast], [served])


def test_notes_are_not_worth_the_verdict():
    assert verdict([rounds_of(cell_of(), [100])], [finding_of("virtualised", "note")]).endswith(
        "(measured once) with 1 thread."
    )


@pytest.mark.parametrize(
    ("finding", "reported"),
    [
        (
            finding_of("stall", stalls_count=4, longest_s=0.2, cause="generator"),
            "CPU contention on the host stopped the load generator 4 times for up to 200 ms",
        ),
        (
            finding_of("link_narrower", lost_share=0.25),
            "the drive's link is 25 % below the drive's maximum",
        ),
        (finding_of("interrupted"), "the result is partial"),
    ],
)
def test_the_worst_is_reported_in_a_few_words(finding, reported):
    assert verdict([rounds_of(cell_of(), [100])], [finding]).endswith(f"; {reported}.")


def test_the_worst_without_few_words_is_a_sentence_of_its_own():
    reported = verdict([rounds_of(cell_of(), [100])], [finding_of("drive_health")])
    assert reported.endswith("IOPS (measured once) with 1 thread. It was seen.")


@pytest.mark.parametrize(("sync_ms", "detail"), [(50, "sync p99 50 ms"), (0.1, "p99 1.0 ms")])
def test_the_first_figures_name_the_slower_of_a_write_and_its_sync(sync_ms, detail):
    sample = sample_of(cell_of(operation="write", sync_every=1))
    (write,) = sample.operations.values()
    times = Histogram.of([int(sync_ms * MS_NS)] * 1000)
    sync = msgspec.structs.replace(write, response=times.encode())
    sample = msgspec.structs.replace(sample, operations={"write": write, "sync": sync})
    (tile,) = io_tiles([summary_of(sample)], (), has_headline=False)
    assert tile.detail == detail
