"""The tables of what a database's time went into: the order of their rows."""

from __future__ import annotations

import msgspec

from seatrial.trials.database.analysis.model import DatabaseAnalysis
from seatrial.trials.database.report.time_tables import time_tables
from trials.database.report.database_hand import around, database_cell, database_summary


def test_a_figure_that_only_a_later_cell_has_stands_where_it_stands_there():
    cells = database_summary().cells[:2]
    first, second = (database_cell(part) for part in cells)
    parts = [
        msgspec.structs.replace(first, waits={"io": 0.9, "client": 0.1}),
        msgspec.structs.replace(second, waits={"io": 0.5, "lwlock": 0.4, "client": 0.1}),
    ]
    reported = DatabaseAnalysis(cells=parts, sweeps=[])
    table = time_tables(database_summary(cells=cells, database=reported))[0]
    rows = [row[0] for row in table.rows]
    assert rows[:4] == [
        "Bound by",
        "Active clients' time: I/O",
        "Active clients' time: LWLock",
        "Active clients' time: client",
    ]
    assert rows[-1] == "Client with a null server"


def test_rates_of_the_table_with_a_row_per_cell_are_in_the_unit_of_their_heading():
    cells = database_summary().cells[:3]
    columns = {
        "wal_bytes_per_s": around(932_874.0, 0.04, "B/s"),
        "device_read_bytes_per_s": around(7e6, 0.4, "B/s"),
        "device_read_per_s": around(74.0, 0.04, "IOPS"),
    }
    parts = [msgspec.structs.replace(database_cell(part), columns=columns) for part in cells]
    tables = time_tables(
        database_summary(cells=cells, database=DatabaseAnalysis(cells=parts, sweeps=[]))
    )
    device = next(table for table in tables if table.id == "database-device")
    row = dict(zip(device.headers, device.rows[0], strict=True))
    assert (row["WAL MB/s"], row["MB/s read"], row["reads/s"]) == ("930 kB/s", "7", "74")
