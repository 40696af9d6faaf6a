"""The tables of databases: the article's figures with intervals, in a terminal's width."""

from __future__ import annotations

import functools

import msgspec
import pytest

from findings.analyses import with_analyses
from report.sample_run import sample_summary
from seatrial.findings.model import Summary
from seatrial.report.page import render
from seatrial.report.table import Table, as_text, rate_text
from seatrial.report.tables import tables
from seatrial.stats.model import Estimate
from seatrial.trials.database.analysis.model import DatabaseAnalysis, batch_length, database_of
from seatrial.trials.database.report.tables import (
    WIDTH_MAX,
    database_tables,
    inverse,
    kind_rate,
    process_rate,
    rate_tables,
)
from seatrial.trials.database.report.time_tables import others_table
from seatrial.trials.database.report.wording import figure_name, figure_text, seconds_interval
from trials.database.report.database_hand import (
    BATCH_REAL_S,
    DRIVES,
    Draft,
    Maker,
    around,
    batch_summary,
    database_cell,
    database_summary,
    make_sweep,
    pgbench_cell,
)


@functools.cache
def made() -> Summary:
    return database_summary()


def table_of(summary: Summary, start: str) -> Table:
    (found,) = [table for table in tables(summary) if table.id.startswith(start)]
    return found


def column(table: Table, header: str) -> list[str]:
    place = table.headers.index(header)
    return [row[place] for row in table.rows]


def test_the_article_s_table_has_target_scale_clients_and_processes():
    table = table_of(made(), "database-transactions")
    assert table.headers[:6] == ["Target", "Scale", "Clients", "Processes", "tps", "±"]
    assert [row[:4] for row in table.rows] == [
        [target, scale, "10", processes]
        for target in DRIVES
        for scale, processes in (("100", "1"), ("1000", "1"), ("1000", "2"))
    ]
    cells = [part for part in made().cells if part.cell.kind == "pgbench"]
    assert column(table, "tps") == [rate_text(part.iops) for part in cells]
    assert all(text.startswith("± ") for text in column(table, "±"))


def test_every_table_fits_a_terminal_and_has_no_blank():
    for table in database_tables(made()):
        assert max(map(len, as_text(table).splitlines())) <= WIDTH_MAX, table.title
        for row in table.rows:
            assert len(row) == len(table.headers)
            assert all(text.strip() for text in row)
    identifiers = [table.id for table in tables(made())]
    assert len(set(identifiers)) == len(identifiers)


def test_the_page_keeps_what_a_terminal_has_no_room_for():
    (wide, *_) = rate_tables([part for part in made().cells if part.cell.kind == "pgbench"])
    assert "p99.9" in wide.headers
    assert "p99.9" not in table_of(made(), "database-transactions").headers


def test_databases_and_i_o_keep_out_of_each_other_s_tables():
    of_database = [table.id.partition("-")[0] for table in tables(made())]
    assert set(of_database) == {"database"}
    drawn = sample_summary()
    both = with_analyses(drawn, cells=[*drawn.cells, *made().cells], database=database_of(made()))
    assert tables(both) == [*tables(drawn), *tables(made())]


@pytest.mark.parametrize("word", ["IOPS", "threads", "Threads", "thread"])
def test_the_words_are_those_of_a_database(word: str):
    assert word not in "\n".join(as_text(table) for table in tables(made()))


def test_each_client_process_is_reported_by_itself():
    table = table_of(made(), "database-processes")
    assert column(table, "Process") == ["1", "2"] * 3
    part = made().cells[2]
    first, second = (process_rate(part, number) for number in (1, 2))
    assert first is not None
    assert second is not None
    assert first.value + second.value == pytest.approx(part.iops.value, rel=0.05)
    assert column(table, "tps")[0] == rate_text(first)
    assert process_rate(part, 3) is None


def test_settings_and_scripts_that_vary_name_the_rows():
    cells = [
        Maker().summary(
            Draft(pgbench_cell("nvme", 100, 10, **factors), DRIVES["nvme"], 2_000.0), rounds=1
        )
        for factors in ({}, {"script": "select-only"}, {"shared_buffers": "4GB"})
    ]
    table = table_of(database_summary(cells=cells, database=None), "database-transactions")
    assert table.headers[:4] == ["Scale", "Clients", "Script", "shared_buffers"]
    assert column(table, "Script") == ["tpcb-like", "select-only", "tpcb-like"]
    assert column(table, "shared_buffers") == ["–", "–", "4GB"]
    assert all("1 round" in text for text in column(table, "±"))


def test_telemetry_distinguishes_ingest_and_query():
    table = table_of(made(), "database-telemetry")
    assert column(table, "Kind") == ["ingest", "query"]
    part = next(p for p in made().cells if p.cell.kind == "telemetry")
    ingest = kind_rate(part.samples, "ingest")
    rows = msgspec.structs.replace(
        ingest, value=ingest.value * 6_000, low=ingest.low * 6_000, high=ingest.high * 6_000
    )
    assert column(table, "Rows/min") == [rate_text(rows), "–"]
    total = ingest.value + kind_rate(part.samples, "query").value
    assert total == pytest.approx(part.iops.value, rel=0.01)


def test_a_batch_is_reported_with_its_interval_and_every_repeat():
    part = batch_summary()
    real = batch_length(part.samples, "real")
    assert real is not None
    assert column(table_of(made(), "database-batch"), "real") == ["34 min 3 s"]
    repeats = table_of(made(), "database-repeats")
    assert column(repeats, "real") == ["34 min 2 s", "33 min 52 s", "34 min 15 s"]
    assert len(repeats.rows) == len(BATCH_REAL_S)
    wide = Estimate(value=2042.0, low=1985.0, high=2094.0, rounds=3, unit="s")
    assert seconds_interval(wide) == "34 min 2 s (33 to 35 min)"
    once = Estimate(value=2.14, low=None, high=None, rounds=1, unit="s")
    assert seconds_interval(once) == "2.1 s (1 round)"


def test_a_crash_trial_reports_what_was_lost_and_whether_the_word_was_kept():
    table = table_of(made(), "database-crash-")
    assert column(table, "Failure") == ["power cut", "power cut, no flush"]
    assert column(table, "Acknowledged") == ["1,200", "1,200"]
    assert column(table, "Lost") == ["2", "0"]
    assert column(table, "Durability") == ["violated", "held"]
    assert column(table, "Recovery") == ["320 ms ± 8 %"] * 2
    each = table_of(made(), "database-crashes-")
    assert column(each, "Lost") == ["0", "0", "2", "0", "0", "0"]
    other = [row for each in tables(made()) for row in each.rows if "tps" in each.headers]
    assert not any("no flush" in text for row in other for text in row)


def test_few_cells_show_every_figure_with_its_interval():
    cells = made().cells[:1]
    reported = DatabaseAnalysis(cells=[database_cell(part) for part in cells], sweeps=[])
    table = table_of(database_summary(cells=cells, database=reported), "database-time")
    rows = {row[0]: row[1] for row in table.rows}
    assert rows["Bound by"] == "commit"
    assert rows["Active clients' time: I/O"] == "86 %"
    assert rows["CPU, iowait"] == "71 % (67 to 75 %)"
    assert rows["Cores used, server"] == "0.16 (± 3 %)"


def test_many_cells_have_a_row_each():
    table = table_of(made(), "database-time-pgbench")
    assert column(table, "Bound by") == [
        bound for bound in ("commit", "read", "cpu") for _ in range(3)
    ]
    assert column(table, "Active clients' time")[0] == "I/O 86 %, LWLock 9 %"


def test_what_was_loaded_is_reported_once_for_all_that_share_it():
    table = table_of(made(), "database-load")
    held = column(table, "Contents")
    assert held.count("2 x pgbench scale 1000") == 3
    assert "1,000 devices, 24 h" in held
    assert len(set(zip(column(table, "Target"), held, strict=True))) == len(table.rows)


def test_a_sweep_shows_what_was_measured_and_what_is_predicted():
    table = table_of(made(), "database-sweep")
    assert column(table, "Figure") == ["measured"] * 4 + ["predicted"]
    assert column(table, "tps")[-1] == "600"
    unfit = database_of(made())
    assert unfit is not None
    sweep = make_sweep(predicted_per_s=None, fits=False)
    without = msgspec.structs.replace(unfit, sweeps=[sweep])
    table = table_of(database_summary(database=without), "database-sweep")
    assert column(table, "Figure") == ["measured"] * 4


def test_a_rate_has_the_ends_of_its_time_the_other_way_round():
    rate = inverse(around(0.002, 0.1, "s"))
    assert (rate.value, rate.low, rate.high) == pytest.approx((500, 1 / 0.0022, 1 / 0.0018))


@pytest.mark.parametrize(
    ("name", "estimate", "text"),
    [
        ("cpu_user_share", around(0.042, 0.02, ""), "4.2 % (4.1 to 4.3 %)"),
        ("cpu_user_share", around(0.997, 1e-5, ""), "99.7 % (± < 0.1 %)"),
        ("cpu_user_share", around(2e-4, 0.1, ""), "< 0.1 % (± < 0.1 %)"),
        ("device_read_per_s", around(1234.0, 0.1, ""), "1,200 per second (± 10 %)"),
        ("wal_bytes_per_s", around(31e6, 0.05, ""), "31 MB/s (± 5 %)"),
        ("device_flush_latency_ms", around(8.31, 0.05, ""), "8.3 ms (± 5 %)"),
        ("checkpoints", around(2.0, 0.0, ""), "2 (in every round)"),
    ],
)
def test_readings_have_units_and_no_more_digits_than_they_deserve(name, estimate, text):
    assert figure_text(name, estimate) == text


def test_what_pg_stat_io_reports_is_named_by_it():
    assert figure_name("io_bulkread_reads_per_s") == "pg_stat_io, bulkread reads"
    columns = {"io_normal_extends_per_s": around(12.0, 0.1, "")}
    cell = msgspec.structs.replace(database_of(database_summary()).cells[0], columns=columns)
    rows = others_table(cell).rows
    assert ["pg_stat_io, normal extends", "12 per second", "± 10 %"] in rows


def test_a_run_without_an_analysis_still_has_its_rates():
    summary = database_summary(database=None)
    assert [table.id for table in database_tables(summary)] == [
        "database-transactions-pgbench",
        "database-processes-pgbench",
        "database-telemetry-telemetry",
        "database-batch-nightly",
        "database-repeats-nightly",
        "database-crash-crash",
        "database-crashes-crash",
    ]
    assert "tps" in render(summary)
