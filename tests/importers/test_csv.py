"""Tables as CSV: headings in many spellings, blanks, factors, matrices, and our own export."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.sample_run import sample_summary
from seatrial.errors import UsageError
from seatrial.findings.summary import summarise
from seatrial.importers import read_results
from seatrial.importers.own_csv import column_of
from seatrial.report.exports import export
from seatrial.report.figures.latency import other_latency
from seatrial.results.model import origin_of
from stats.builders import cell_of, run_of
from stats.timed import timed_sample

from .published import PRINTS, TABLE, published


def table(folder: Path, text: str) -> Path:
    place = folder / "table.csv"
    place.write_text(text, encoding="utf-8")
    return place


def test_the_published_table_is_read_with_a_target_for_each_configuration():
    imported = read_results(TABLE)
    assert {sample.cell.target for sample in imported.samples} == set(PRINTS)
    for configuration in PRINTS:
        reported = {cell: iops for cell, (iops, _) in published(configuration).items()}
        assert {
            (s.cell.operation, s.cell.block_size_bytes, s.cell.threads): s.completed_per_s
            for s in imported.samples
            if s.cell.target == configuration
        } == reported


@pytest.mark.parametrize(
    ("heading", "role", "scale"),
    [
        ("Block Size (KiB)", "size", 1024),
        ("bs", "size", 1),
        ("NumJobs", "threads", 1),
        ("iodepth", "depth", 1),
        ("BW [MB/s]", "bandwidth", 1e6),
        ("bandwidth_mib_per_s", "bandwidth", 1 << 20),
        ("throughput_bytes_per_sec", "bandwidth", 1),
        ("p99_us", "latency", 1e3),
        ("clat_p99.9_ns", "latency", 1),
        ("latency_ms", "latency", 1e6),
        ("rw", "operation", 1),
        ("remarks", "", 1),
    ],
)
def test_headings_are_known_in_many_spellings(heading, role, scale):
    column = column_of(heading)
    assert (column.role, column.scale) == (role, scale)


@pytest.mark.parametrize(
    ("heading", "text", "requests", "rate_per_s"),
    [
        ("BW [MB/s]", "12", 12, 12e6 / 4096),
        ("BW [MB/s]", "60.7", 607, 60.7e6 / 4096),
        ("bw_gb_per_s", "0.4", 4, 0.4e9 / 4096),
        ("iops", "1e4", 10_000, 10_000),
        ("iops", "29158", 29158, 29158),
        ("iops", "29158.25", 29159, 29158.25),
    ],
)
def test_a_rate_is_as_exact_as_it_was_printed(tmp_path, heading, text, requests, rate_per_s):
    place = table(tmp_path, f"size,threads,{heading}\n4096,1,{text}\n")
    (sample,) = read_results(place).samples
    assert sample.outcome.completed == requests
    assert sample.completed_per_s == pytest.approx(rate_per_s)
    bytes_per_s = sample.operations["read"].transferred_bytes / sample.duration_s
    assert bytes_per_s == pytest.approx(rate_per_s * 4096, rel=1e-4)


def test_percentiles_without_a_maximum_have_a_chart(tmp_path):
    place = table(
        tmp_path,
        "run_id,cell_key,kind,target,workload,operation,block_size_bytes,threads,depth,"
        "completed_per_s,request,completed,failed,transferred_bytes,p50_ns\n"
        "r,io/read/8192B/1t/1d,io,ssd,io,read,8192,1,1,1000,read,10000,0,81920000,500000\n",
    )
    imported = read_results(place)
    (figure,) = other_latency(summarise(imported.run, imported.samples).cells)
    assert "Latency of the other workloads" in figure.views[0].title


def test_units_factors_latencies_and_blanks(tmp_path):
    imported = read_results(
        table(
            tmp_path,
            "# by hand\nbs;threads;qd;rw;level;iops;bw (MiB/s);p99_us;temperature\n"
            "4k;1;32;randread;raid5;1234,5;;250;30\n"
            "8KiB;1;32;read;raid5;;100;;31\n"
            "8KiB;2;32;randread;raid5;;;;32\n",
        )
    )
    first, second = imported.samples
    assert first.cell.key == "matrix/read/4096B/1t/32d/level=raid5"
    assert first.completed_per_s == pytest.approx(1234.5, rel=1e-12)
    assert first.operations["read"].reported_ns == {"p99": 250_000.0}
    assert second.cell.factors == {"pattern": "sequential", "level": "raid5"}
    assert second.completed_per_s == pytest.approx(100 * 1024 / 8)
    origin = origin_of(imported.run)
    (blank,) = origin.blank_cells
    assert (blank.block_size_bytes, blank.threads, blank.depth) == (8192, 2, 32)
    assert any("'temperature'" in note for note in origin.notes)


@pytest.mark.parametrize(
    ("text", "rate_per_s"),
    [
        ("4K;12.345;48,2", 12345),
        ("4K;1.234,5;4,8", 1234.5),
        ('4K;"12,345";48.2', 12345),
        ("4K;1.234.567;4822", 1234567),
        ("4K;12,345;0,048", 12.345),
        ("4K;0.512;2000", 0.512),
    ],
)
def test_other_numbers_show_which_mark_is_decimal(tmp_path, text, rate_per_s):
    (sample,) = read_results(table(tmp_path, f"size;iops;bw_mib_per_s\n{text}\n")).samples
    assert sample.completed_per_s == pytest.approx(rate_per_s)


@pytest.mark.parametrize(("iops", "noted"), [("12345", False), ("12.345", True)])
def test_a_bandwidth_that_contradicts_the_iops_is_noted(tmp_path, iops, noted):
    imported = read_results(table(tmp_path, f"size,iops,bw_mib_per_s\n4K,{iops},48.2\n"))
    notes = origin_of(imported.run).notes
    assert any("1 row (line 2)" in note for note in notes) == noted


def test_lines_of_the_same_cell_are_its_rounds(tmp_path):
    place = table(tmp_path, "size,threads,iops\n4096,1,100\n4096,1,110\n4096,1,120\n")
    imported = read_results(place)
    assert [sample.round for sample in imported.samples] == [0, 1, 2]
    (cell,) = summarise(imported.run, imported.samples).cells
    assert cell.iops.rounds == 3
    assert cell.iops.low < cell.iops.value < cell.iops.high


def test_a_matrix_of_sizes_against_threads(tmp_path):
    imported = read_results(table(tmp_path, "size,1,10,40\n4K,100,200,\n8K,50,100,150\n"))
    assert [sample.completed_per_s for sample in imported.samples] == [100, 200, 50, 100, 150]
    assert imported.samples[1].cell.key == "matrix/read/4096B/10t/1d"
    (blank,) = origin_of(imported.run).blank_cells
    assert (blank.block_size_bytes, blank.threads) == (4096, 40)


def test_our_own_export_comes_back_with_its_rates_and_counts(tmp_path):
    summary = sample_summary()
    imported = read_results(table(tmp_path, export(summary, "csv")))
    back = {part.cell.key: part for part in summarise(imported.run, imported.samples).cells}
    assert back.keys() == {part.cell.key for part in summary.cells}
    for part in summary.cells:
        other = back[part.cell.key]
        assert other.cell.factors == part.cell.factors
        assert other.iops.value == pytest.approx(part.iops.value, rel=1e-9)
        assert other.completed == part.completed


@pytest.mark.parametrize(
    "how",
    [
        {"factors": {"sync_every": 1}, "sync_every": 1},
        {"workload": "mix", "arrival": {"kind": "streams"}, "streams": [{"sync_every": 1}]},
    ],
)
def test_a_test_with_syncs_comes_back_with_the_rates_of_its_writes(tmp_path, how):
    cell = cell_of(operation="write", **how)
    counts = {"write": [100] * 30, "sync": [100] * 30}
    summary = summarise(run_of(), [timed_sample(counts, cell)])
    (sample,) = read_results(table(tmp_path, export(summary, "csv"))).samples
    assert sample.duration_s == pytest.approx(3)
    assert (sample.completed_per_s, sample.outcome.completed) == (pytest.approx(1000), 6000)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("size,threads,iops\n4096,1,12a4\n", ["line 2", "'iops'", "'12a4'"]),
        ("size,threads,iops\n\n4096,one,12\n", ["line 3", "'threads'", "'one'"]),
        ("size,threads,iops\n4 apples,1,12\n", ["line 2", "'size'", "4 apples"]),
        ("size,threads,iops\n4kB,1,12\n", ["line 2", "'size'", "4kB"]),
        ("size,threads,iops\n4096,1,-3\n", ["line 2", "'-3'"]),
        ("size,threads,iops\n4096,1,inf\n", ["line 2", "'inf'"]),
        ("size,threads,iops\n4096,1,1e-320\n", ["line 2", "'1e-320'"]),
        ("size,threads,iops\n64MiB,1,1e14\n", ["matrix/read/67108864B/1t/1d", "2^63"]),
        ("size;iops\n4096;12.345\n", ["line 2", "'12.345'", "decimals"]),
        ('size;iops\n4096;"12,345"\n', ["line 2", "'12,345'", "decimals"]),
        ("size,rw,iops\n4096,erase,1\n", ["line 2", "'erase'"]),
        ("size,threads,bw\n4096,1,12\n", ["'bw'", "no unit"]),
        ("size,threads,iops\n", ["no lines below"]),
        ("size,threads,iops\n4096,1,\n", ["no figure"]),
        ("size,1,10\n4K,100,x\n", ["line 2", "'10'", "'x'"]),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, named):
    with pytest.raises(UsageError) as caught:
        read_results(table(tmp_path, text))
    assert all(part in str(caught.value) for part in named)


def cells(imported) -> dict[tuple, float]:
    """Rates by operation, threads, depth and factors other than the pattern."""
    found = {}
    for sample in imported.samples:
        assert sample.round == 0
        cell = sample.cell
        own = {name: value for name, value in cell.factors.items() if name != "pattern"}
        found[cell.operation, cell.threads, cell.depth, *own.items()] = sample.completed_per_s
    return found


@pytest.mark.parametrize(
    "heading", ["users", "Threads", "clients", "jobs", "numjobs", "connections", "sessions"]
)
def test_what_runs_at_the_same_time_is_a_setting_by_any_name(tmp_path, heading):
    text = f"size,{heading},iops\n4096,1,100\n4096,16,900\n"
    assert cells(read_results(table(tmp_path, text))) == {
        ("read", 1, 1): 100,
        ("read", 16, 1): 900,
    }


@pytest.mark.parametrize("heading", ["qd", "iodepth", "Queue Depth", "QueueDepth"])
def test_depth_is_a_setting_by_any_name(tmp_path, heading):
    text = f"size,{heading},iops\n4096,1,100\n4096,16,900\n"
    assert cells(read_results(table(tmp_path, text))) == {
        ("read", 1, 1): 100,
        ("read", 1, 16): 900,
    }


@pytest.mark.parametrize("values", [("1", "16"), ("0.5", "0.7"), ("lz4", "zstd")])
def test_a_column_that_distinguishes_rows_is_a_factor_and_never_makes_rounds(tmp_path, values):
    rows = "".join(f"4096,{value},{100 + place}\n" for place, value in enumerate(values))
    imported = read_results(table(tmp_path, f"size,setting,iops\n{rows}"))
    assert len(cells(imported)) == 2
    assert all("setting" in sample.cell.factors for sample in imported.samples)


def test_of_two_columns_of_one_meaning_none_is_dropped(tmp_path):
    text = "size,threads,users,iops\n4096,1,10,100\n4096,1,20,150\n"
    assert cells(read_results(table(tmp_path, text))) == {
        ("read", 1, 1, ("users", 10)): 100,
        ("read", 1, 1, ("users", 20)): 150,
    }


@pytest.mark.parametrize("heading", ["round", "run", "iteration", "timestamp", "seed"])
def test_what_counts_or_dates_rounds_makes_no_cells(tmp_path, heading):
    text = f"size,threads,{heading},iops\n4096,1,1,100\n4096,1,2,110\n"
    imported = read_results(table(tmp_path, text))
    assert [sample.round for sample in imported.samples] == [0, 1]


@pytest.mark.parametrize("heading", ["name", "op", "operation", "test", "rw"])
def test_reads_and_writes_are_reported_by_whatever_column_names_them(tmp_path, heading):
    text = f"{heading},size,iops\nrandread,4096,100\nrandwrite,4096,50\n"
    assert cells(read_results(table(tmp_path, text))) == {("read", 1, 1): 100, ("write", 1, 1): 50}


def test_names_of_tests_report_the_operation_the_pattern_and_the_test(tmp_path):
    text = "name,size,iops\nseq-write-a,4096,100\nseq-write-b,4096,50\nrandread-a,4096,70\n"
    imported = read_results(table(tmp_path, text))
    assert [(s.cell.operation, s.cell.factors["pattern"]) for s in imported.samples] == [
        ("write", "sequential"),
        ("write", "sequential"),
        ("read", "random"),
    ]
    assert len(cells(imported)) == 3


def test_requests_of_both_kinds_are_not_called_reads(tmp_path):
    (sample,) = read_results(table(tmp_path, "rw,size,iops\nrandrw,4096,100\n")).samples
    assert list(sample.operations) == ["mixed"]


def test_a_row_that_a_grid_lacks_is_an_absent_test(tmp_path):
    rows = "".join(
        f"{size},{threads},100\n"
        for size in (4096, 8192)
        for threads in (1, 2, 4)
        if (size, threads) != (8192, 4)
    )
    origin = origin_of(read_results(table(tmp_path, f"size,threads,iops\n{rows}")).run)
    (blank,) = origin.blank_cells
    assert (blank.block_size_bytes, blank.threads) == (8192, 4)


def own_rows(tmp_path) -> tuple[list[str], list[str]]:
    lines = export(sample_summary(), "csv").splitlines()
    return lines[0].split(","), lines[1].split(",")


def test_a_rate_that_nothing_can_have_is_refused_in_an_export(tmp_path):
    headings, values = own_rows(tmp_path)
    values[headings.index("completed_per_s")] = "1e-320"
    with pytest.raises(UsageError, match="'completed_per_s'"):
        read_results(table(tmp_path, f"{','.join(headings)}\n{','.join(values)}\n"))


def test_settings_that_were_put_into_an_export_are_factors(tmp_path):
    headings, row = own_rows(tmp_path)
    text = "\n".join(",".join(line) for line in ([*headings, "users"], [*row, "1"], [*row, "9"]))
    imported = read_results(table(tmp_path, text + "\n"))
    assert [sample.cell.factors["users"] for sample in imported.samples] == [1, 9]
    assert [sample.round for sample in imported.samples] == [0, 0]


def test_tests_of_a_database_are_left_out_of_an_export(tmp_path):
    headings, row = own_rows(tmp_path)
    at = headings.index("kind")
    lines = [",".join(each) for each in (headings, row, [*row[:at], "pgbench", *row[at + 1 :]])]
    imported = read_results(table(tmp_path, "\n".join(lines)))
    assert [sample.cell.kind for sample in imported.samples] == ["matrix"]
    (note,) = (each for each in origin_of(imported.run).notes if "1 test is left out" in each)
    assert "block I/O" not in note  # load lines are left out, too
    with pytest.raises(UsageError, match="only of pgbench"):
        read_results(table(tmp_path, "\n".join([lines[0], lines[2]])))
    with pytest.raises(UsageError, match="'pgbanch' is not one of"):
        read_results(table(tmp_path, "\n".join(lines).replace("pgbench", "pgbanch")))


def test_two_exports_in_one_file_are_rounds_and_none_is_dropped(tmp_path):
    headings, row = own_rows(tmp_path)
    other = [
        "another-run" if name == "run_id" else v for name, v in zip(headings, row, strict=True)
    ]
    text = "\n".join(",".join(line) for line in (headings, row, other))
    imported = read_results(table(tmp_path, text + "\n"))
    assert [sample.round for sample in imported.samples] == [0, 1]
