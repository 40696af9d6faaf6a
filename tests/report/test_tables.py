"""The plain tables: laid out as bm-flash does, with doubt, and never blank."""

from __future__ import annotations

from report.exports_hand import (
    make_cell,
    make_run,
    make_sample,
    make_summary,
    summarised,
    summary_with,
)
from report.sample_run import sample_summary
from seatrial.report.part import table_sections
from seatrial.report.table import Table, as_text
from seatrial.report.tables import runs_table, tables
from seatrial.stats.model import CellSummary
from seatrial.trials.io.report.figures import figures_of

BLANK = "0 completed, oldest in flight 4.2 s"


def around(value: float, share: float = 0.03) -> tuple[float, float, float]:
    return value, value * (1 - share), value * (1 + share)


def drawn(*cells: CellSummary) -> str:
    return "\n".join(as_text(table) for table in tables(make_summary(list(cells))))


def test_the_matrix_is_laid_out_as_bm_flash_does():
    rates = {(512, 1): 11_307.0, (512, 10): 63_751.0, (4096, 1): 29_158.0, (4096, 10): 63_088.0}
    cells = [
        summary_with(make_cell("read", size_bytes, threads), around(rate))
        for (size_bytes, threads), rate in rates.items()
    ]
    assert drawn(*cells) == (
        "Block size against threads, ssd: read\n"
        "\n"
        "           |      1 thread      |     10 threads\n"
        "Block size |  IOPS  MB/s      ± | IOPS  MB/s      ±\n"
        "512 B      | 11.3k   5.8  ± 3 % |  64k  32.6  ± 3 %\n"
        "4 KiB      | 29.2k   119  ± 3 % |  63k   258  ± 3 %\n"
    )


def test_a_cell_in_which_nothing_completed_says_so():
    text = drawn(
        summary_with(make_cell("write", 4096, 1), around(1000)),
        summary_with(make_cell("write", 4096, 10), (0, 0, 0), blank=BLANK),
    )
    assert f"|    0     0  {BLANK}" in text


def test_a_cell_measured_once_says_so():
    text = drawn(summarised([make_sample(make_cell(), {"read": 12_345})]))
    assert "12k    51  (1 round)" in text


def test_a_figure_that_is_hardly_known_has_no_absurd_ends():
    cell = make_cell("read", 4096)
    text = drawn(summary_with(cell, (4000, 60, 270_000), {"p50": (1e6, 64.0, 47e10)}))
    assert text.splitlines()[-1].endswith("4,000    20  over ± 100 %")
    single = make_cell("read", 4096, kind="io", pattern="random")
    text = drawn(summary_with(single, around(4000), {"p50": (1e6, 64.0, 47e10)}))
    assert "1 ms over ± 100 %" in text


def test_a_cell_that_a_partial_run_never_reached_says_so():
    text = drawn(
        summary_with(make_cell("read", 4096, 1), around(1000)),
        summary_with(make_cell("read", 4096, 10), around(2000)),
        summary_with(make_cell("read", 8192, 1), around(900)),
    )
    assert "–     –  not measured" in text


def test_reads_and_writes_depths_and_targets_have_tables_of_their_own():
    cells = [
        summary_with(make_cell(operation, 4096, 1, depth=depth, target=target), around(1000))
        for operation in ("write", "read")
        for depth in (8, 1)
        for target in ("old", "new")
    ]
    titles = [table.title for table in tables(make_summary(cells))]
    assert titles == [
        f"Block size against threads, {target}: {operation}, depth {depth}"
        for target in ("new", "old")
        for operation in ("read", "write")
        for depth in (1, 8)
    ]


def test_block_sizes_and_threads_rise_whatever_the_order_of_the_cells():
    cells = [
        summary_with(make_cell("read", size_bytes, threads), around(1000))
        for size_bytes in (65_536, 512, 4096)
        for threads in (40, 1, 10)
    ]
    (table,) = tables(make_summary(cells))
    assert [row[0] for row in table.rows] == ["512 B", "4 KiB", "64 KiB"]
    assert [group.title for group in table.groups] == ["", "1 thread", "10 threads", "40 threads"]


def test_commits_have_percentiles_and_say_where_too_few_were_seen():
    cells = [
        summary_with(
            make_cell("commit", 8192, threads, kind="commit", method=method),
            around(1240),
            {"p50": around(640_000), "p90": around(9e5), "p99": (3e6, 1.2e6, 4.3e6)},
        )
        for method in ("fdatasync", "o_dsync")
        for threads in (16, 1)
    ]
    (table,) = tables(make_summary(cells))
    assert table.headers == [
        "Committers", "Method", "Commits/s", "±", "p50", "p99", "p99.9", "max",
    ]  # fmt: skip
    assert [row[:2] for row in table.rows] == [
        ["1", "fdatasync"],
        ["1", "o_dsync"],
        ["16", "fdatasync"],
        ["16", "o_dsync"],
    ]
    assert table.rows[0][2:7] == [
        "1,240", "± 3 %", "640 µs ± 3 %", "3 ms (1.2 ms to 4.3 ms)", "too few",
    ]  # fmt: skip


def test_a_start_to_end_sweep_has_a_group_for_each_part_and_direction():
    cells = [
        summary_with(
            make_cell(operation, 65_536, 1, kind="sequential", pattern="sequential", file=file),
            around(1000),
        )
        for operation in ("read", "write")
        for file in ("big", "small")
    ]
    (table,) = tables(make_summary(cells))
    titles = [group.title for group in table.groups]
    assert titles == ["", "read, big", "read, small", "write, big", "write, small"]
    assert table.rows == [["64 KiB", *["66", "± 3 %"] * 4]]


def test_the_map_reports_ends_middle_and_extremes():
    rates = [500.0, 480.0, 520.0, 300.0, 410.0]
    cells = []
    for zone, rate in enumerate(rates):
        cell = make_cell(
            "read", 1024**2, 1, kind="map", pattern="sequential", zone=zone, zones=len(rates)
        )
        cell.spec["range"] = {"start_bytes": zone * 1024**3, "length_bytes": 1024**3}
        cells.append(summary_with(cell, around(rate), {"p50": around(1e9 / rate)}))
    (table,) = tables(make_summary(cells))
    assert [(row[1], row[2], row[3]) for row in table.rows] == [
        ("start", "0 B", "500"),
        ("middle", "2 GiB", "520"),
        ("end", "4 GiB", "410"),
        ("slowest", "3 GiB", "300"),
        ("fastest", "2 GiB", "520"),
    ]


def test_an_imported_map_without_ranges_is_in_order_of_its_zones():
    cells = []
    for zone in (10, 2, 1):
        cell = make_cell("read", 1024**2, 1, kind="map", pattern="sequential", zone=zone, zones=11)
        cell.spec.pop("range", None)
        cells.append(summary_with(cell, around(100.0 + zone), {"p50": around(1e7)}))
    (table,) = tables(make_summary(cells))
    assert [(row[1], row[2], row[3]) for row in table.rows[:3]] == [
        ("start", "–", "101"),
        ("middle", "–", "102"),
        ("end", "–", "110"),
    ]
    assert "map" not in [figure.id for figure in figures_of(cells)]
    page = "".join(table_sections(cells, []))
    assert "zone 10" in page
    assert "from 0 B" not in page


def test_mixes_have_columns_for_each_kind_of_request():
    cell = make_cell("mixed", 0, 8, kind="mix", access="database")
    samples = [make_sample(cell, {"read": 2000, "write": 1000}, index=index) for index in range(3)]
    (table,) = tables(make_summary([summarised(samples)]))
    assert table.headers[-4:] == ["read p50", "read p99", "write p50", "write p99"]
    assert table.rows[0][-2].startswith("100 µs")


def test_a_factor_that_a_cell_leaves_out_shows_its_usual_value():
    cells = [
        summary_with(make_cell("write", kind="io"), around(100.0)),
        summary_with(make_cell("write", kind="io", engine="psync", direct=False), around(200.0)),
        summary_with(make_cell("write", kind="io", sync_every=4, data="verifiable"), around(300.0)),
        summary_with(make_cell("write", kind="io", arrival="fixed", rate=500.0), around(400.0)),
    ]
    (table,) = tables(make_summary(cells))
    named = {name: [row[place] for row in table.rows] for place, name in enumerate(table.headers)}
    assert sorted(named["Engine"]) == ["auto", "auto", "auto", "psync"]
    assert sorted(named["Direct"]) == ["no", "yes", "yes", "yes"]
    assert sorted(named["Sync every"]) == ["4", "never", "never", "never"]
    assert sorted(named["Data"]) == ["random", "random", "random", "verifiable"]
    assert sorted(named["Arrival"]) == ["closed", "closed", "closed", "fixed"]
    assert sorted(named["Rate"]) == ["500.0", "–", "–", "–"]


def assert_whole(table: Table) -> None:
    assert sum(group.columns for group in table.groups) in (0, len(table.headers))
    for row in table.rows:
        assert len(row) == len(table.headers)
        assert all(text.strip() for text in row), row


def test_no_table_of_a_whole_run_has_a_blank():
    found = tables(sample_summary())
    for table in found:
        assert_whole(table)
    kinds = {"matrix", "fill", "sequential", "copy", "map", "commit", "four", "mix"}
    assert {table.id.split("-")[0] for table in found} == kinds
    assert len({table.id for table in found}) == len(found)


def test_columns_stand_below_each_other():
    for table in tables(sample_summary()):
        _, _, *lines = as_text(table).splitlines()
        bars = [[at for at, character in enumerate(line) if character == "|"] for line in lines]
        assert all(found == bars[0][: len(found)] for found in bars)


def test_runs_are_listed_with_their_state():
    table = runs_table([make_run(label="ssd before"), make_run(id="b", status="interrupted")])
    assert_whole(table)
    assert table.rows[0] == [
        "20261121-074500-3fa2", "ssd before", "quick", "complete", "2026-11-21 07:45 UTC",
    ]  # fmt: skip
    assert table.rows[1][3] == "interrupted"
