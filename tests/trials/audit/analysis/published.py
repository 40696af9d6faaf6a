"""Matrices that others measured: random requests of 4 KiB by threads and depth.

fio 2.x with libaio, 10 s a cell; the figures of four of the examples in the history of
github.com/louwrentius/fio-plot (commits 3e6ef37 and 7fbc565), in the order of the measurement.
"""

import csv
import functools
from pathlib import Path

from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.trials.audit.analysis.audit import audit_table
from seatrial.trials.audit.analysis.model import CellTable, TablePoint

SIZE_BYTES = 4096


@functools.cache
def table(matrix):
    with (Path(__file__).parent / "fio-plot.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["matrix"] == matrix]
    return CellTable(
        target="device",
        workload=matrix,
        operation=rows[0]["operation"],
        factors={"pattern": "random"},
        imported=True,
        points=[_point(row) for row in rows],
    )


def _point(row):
    iops, threads, depth = float(row["iops"]), int(row["threads"]), int(row["depth"])
    return TablePoint(
        key=f"{row['operation']}/{SIZE_BYTES}B/{threads}t/{depth}d",
        block_size_bytes=SIZE_BYTES,
        threads=threads,
        depth=depth,
        iops=estimate_of_rounds([iops], "IOPS"),
        rounds_per_s=[iops],
        position=int(row["place"]),
        duration_s=10.0,
    )


@functools.cache
def audit(matrix):
    return audit_table(table(matrix))
