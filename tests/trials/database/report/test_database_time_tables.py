"""The tables of what a database's time went into: the order of their rows."""

from __future__ import annotations

import msgspec

from seatrial.trials.database.analysis.model import DatabaseAnalysis
from seatrial.trials.database.report.time_tables import time_tables
from trials.database.report.database_hand import database_cell, database_summary


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
