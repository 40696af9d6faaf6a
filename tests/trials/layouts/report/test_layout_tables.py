"""The tables of layouts: results with the layout first, drives' work next to the rule, failures."""

from __future__ import annotations

import msgspec
import pytest

from report.exports_hand import estimate
from seatrial.cli.options import default_results
from seatrial.cli.outcome import targets_text
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.report.table import NO_FIGURE, Table, as_text, fitted
from seatrial.report.tables import tables
from seatrial.trials.layouts.analysis.figures import window_phrase
from seatrial.trials.layouts.analysis.model import layouts_of
from seatrial.trials.layouts.report.phrases import layout_sentences
from seatrial.trials.layouts.report.tables import (
    data_text,
    failures_table,
    rebuild_text,
    unprotected_text,
)
from trials.layouts.report.layout_hand import (
    ROUNDS,
    SPECS,
    layout_samples,
    layout_summary,
    make_run,
)

WIDTH_MAX = 100


@pytest.fixture(scope="module")
def summary() -> Summary:
    return layout_summary()


@pytest.fixture(scope="module")
def found(summary: Summary) -> dict[str, Table]:
    return {table.id: table for table in tables(summary)}


def column(table: Table, header: str) -> list[str]:
    column = table.headers.index(header)
    return [row[column] for row in table.rows]


def test_results_have_the_layout_as_first_column(found: dict[str, Table]):
    reads = found["matrix-layouts-matrix-read"]
    assert reads.headers[:2] == ["Layout", "Block size"]
    assert set(column(reads, "Layout")) == {each.label for each in SPECS}
    assert column(reads, "Layout").count("raid0-4") == 3
    assert column(reads, "Block size")[:2] == ["8 KiB", "2 KiB"]
    copies = found["copy-layouts-copy"]
    assert copies.headers[0] == "Layout"
    assert len(copies.rows) == len(SPECS)


def test_all_of_it_fits_a_terminal(found: dict[str, Table]):
    wide = {
        name: max(map(len, as_text(table).splitlines()))
        for name, table in found.items()
        if name.startswith(("layout-", "matrix-", "copy-"))
    }
    assert {name: width for name, width in wide.items() if width > WIDTH_MAX} == {}


def test_layouts_are_reported_as_they_were_built(found: dict[str, Table]):
    built = found["layout-built"]
    assert len(built.rows) == len(SPECS)
    row = dict(zip(built.headers, next(r for r in built.rows if r[0] == "raid05-2x4"), strict=True))
    assert (row["Backend"], row["Drives"], row["Usable"]) == ("md+lvm", "2 x 4", "12 GiB")
    assert row["Sync time"].startswith("7.10 s ±")
    aligned = dict(zip(column(built, "Layout"), column(built, "Aligned"), strict=True))
    assert [label for label, text in aligned.items() if text == "no"] == ["raid0-6"]


def test_a_layout_built_once_has_no_interval():
    once = [sample for sample in layout_samples()[:9] if sample.round == 0]
    built = next(
        table for table in tables(summarise(make_run(), once)) if table.id == "layout-built"
    )
    assert set(column(built, "Build time")) == {"1.9 s (1 round)"}


def test_drives_work_stands_next_to_the_rule(found: dict[str, Table]):
    table = found["layout-accounting"]
    by_request = {tuple(row[:2]): row for row in table.rows}
    assert len(table.rows) == 2 * len(SPECS)  # a read and a write each, of those of every size
    write = by_request["raid5-4", "random write 8 KiB"]
    assert write[2:4] == ["2.00 ± 0.1 %", "2.02 ± 0.1 %"]
    read = by_request["raid0-2", "random read 8 KiB"]
    assert read[2:5] == ["1.00 ± 0.1 %", "0.00", "1 + 0"]


def test_many_layouts_are_not_compared_cell_by_cell(summary: Summary):
    reported = targets_text(summary, default_results())
    assert reported.strip().count("\n") == 0
    assert f"seatrial compare {summary.run.id}:raid0-2 {summary.run.id}:raid0-4" in reported


def test_each_failure_is_one_line(found: dict[str, Table]):
    table = found["layout-failures"]
    (row,) = table.rows
    reported = dict(zip(table.headers, row, strict=True))
    assert (reported["Layout"], reported["Workload"]) == ("raid5-4", "steady")
    assert reported["Before"].startswith("200 IOPS ±")
    assert reported["Meanwhile"].startswith("0.300x ±")
    assert reported["Rebuild time"].startswith("17.6 s")
    assert reported["Failed"] == "0"
    assert reported["Data"] == "all 1.5 GiB correct"


def test_failures_under_other_limits_and_without_a_rebuild_can_be_told_apart(summary: Summary):
    (whole,) = layouts_of(summary).recoveries
    degraded = [
        msgspec.structs.replace(each, phase="degraded") if each.phase == "rebuild" else each
        for each in whole.phases
        if each.phase != "degraded"
    ]
    limited = msgspec.structs.replace(whole, rebuild_limit_kib_per_s=4096, phases=degraded)
    table = failures_table([whole, limited])
    assert column(table, "Workload") == ["steady", "steady, limit 4 MiB/s"]
    assert ["degraded" in text for text in column(table, "Meanwhile")] == [False, True]


def test_of_a_narrow_table_of_failures_the_data_stay(summary: Summary):
    (whole,) = layouts_of(summary).recoveries
    shown, left_out = fitted(failures_table([whole]), 60)
    assert "Data" in shown.headers
    assert "Rebuild time" in left_out


def test_lost_data_is_reported_exactly(summary: Summary):
    (whole,) = layouts_of(summary).recoveries
    wrong = msgspec.structs.replace(
        whole, corrupt_blocks=5, wrong_bytes=3 * 4096, unreadable_bytes=8192
    )
    assert (
        data_text(wrong)
        == "12 KiB of 1.5 GiB corrupt, 2 reads returned corrupt data, 8 KiB unreadable"
    )
    old = msgspec.structs.replace(whole, checked_bytes=0, wrong_bytes=None)
    assert data_text(old) == f"all {ROUNDS * 131_072:,} reads correct"
    unchecked = msgspec.structs.replace(whole, corrupt_blocks=None, checked_blocks=0)
    assert data_text(unchecked) == "not verified"
    agreeing = msgspec.structs.replace(unchecked, sums_differ_count=0)
    assert data_text(agreeing) == "sums match"
    differing = msgspec.structs.replace(unchecked, checked_bytes=0, sums_differ_count=2)
    assert data_text(differing) == "sums differ in 2 rounds"
    failed = msgspec.structs.replace(whole, array_failed_count=1)
    assert data_text(failed) == "array failed in 1 round, all 1.5 GiB correct"


def test_a_rebuild_that_did_not_end_says_how_far_it_came(summary: Summary):
    (whole,) = layouts_of(summary).recoveries
    open_still = msgspec.structs.replace(
        whole, rebuild_time=None, unfinished_count=2, unfinished_share=0.4,
        window=None, window_open_s=75.0, exposed=True,
    )  # fmt: skip
    assert rebuild_text(open_still) == "unfinished, 40 % done"
    assert unprotected_text(open_still) == "more than 1 min 15 s"
    assert unprotected_text(msgspec.structs.replace(open_still, exposed=False)) == "never"
    closed = estimate((90e9, 89e9, 91e9), "ns")
    longer = msgspec.structs.replace(open_still, window=closed)
    assert longer.window_s == 90.0
    assert unprotected_text(longer) == window_phrase(longer) == "at least 1 min 30 s"
    ended = msgspec.structs.replace(longer, window_open_s=None)
    assert unprotected_text(ended).startswith("90 s")
    no_spare = msgspec.structs.replace(open_still, unfinished_count=0)
    assert rebuild_text(no_spare) == "none"


def test_sentences_name_ends_of_sweeps_and_what_is_not_aligned(summary: Summary):
    reported = layout_sentences(summary)
    assert reported[-1] == "raid0-6: The stripe begins 1 KiB into a chunk."
    assert any("saturate" in sentence for sentence in reported[:-1])


def test_a_run_without_layouts_has_none_of_this(summary: Summary):
    plain = [msgspec.structs.replace(sample, layout=None) for sample in layout_samples()[:3]]
    found = tables(summarise(make_run(), plain))
    assert not [table for table in found if table.id.startswith("layout-")]
    assert found[0].headers[0] != "Layout"
    assert NO_FIGURE not in found[0].title
