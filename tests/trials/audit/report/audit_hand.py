"""Audits made by hand, of the article's own table: a model that follows it, and its known gaps.

What the model says of a cell off the gaps is what was printed, less one percent; of a cell in a
gap it is drawn straight, on logarithms, between its neighbours that are sound.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from findings.analyses import analyses_of
from report.exports_hand import make_run, make_sample
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise_cell
from seatrial.results.model import Run
from seatrial.stats.model import CellSummary, Estimate
from seatrial.study.cell import Cell
from seatrial.trials.audit.analysis.model import (
    CellTable,
    Gap,
    GapKind,
    Parameter,
    Prediction,
    TableAudit,
    TablePoint,
)
from seatrial.units import KIB

PRINTED = Path(__file__).parents[4] / "reference" / "bm-flash-2009.csv"
RAID5 = "raid5-4ssd-1controller"
THREADS = (1, 10, 40)
SIZES_BYTES = tuple(512 << power for power in range(14))
TARGET = "array"

COLLAPSED = (
    (64, 1), (64, 10), (64, 40), (128, 10), (128, 40), (256, 10), (512, 1), (1024, 10),
)  # fmt: skip


def printed(operation: str, configuration: str = RAID5) -> dict[tuple[int, int], float]:
    """The printed IOPS by block size (bytes) and threads; what is blank there is absent here."""
    with PRINTED.open() as lines:
        return {
            (int(row["block_size_bytes"]), int(row["threads"])): float(row["iops"])
            for row in csv.DictReader(lines)
            if (row["configuration"], row["operation"]) == (configuration, operation)
            and row["iops"]
        }


def key_of(operation: str, size_bytes: int, threads: int) -> str:
    return f"matrix/{operation}/{size_bytes}B/{threads}t/1d"


def article_cell(operation: str, size_bytes: int, threads: int) -> Cell:
    return Cell(
        key=key_of(operation, size_bytes, threads),
        target=TARGET,
        workload="matrix",
        kind="matrix",
        operation=operation,
        block_size_bytes=size_bytes,
        threads=threads,
        factors={"pattern": "random"},
    )


def article_cells() -> list[CellSummary]:
    """The cells of the RAID5 tables, measured once for a second each."""
    found = []
    for operation in ("read", "write"):
        for (size_bytes, threads), iops in printed(operation).items():
            cell = article_cell(operation, size_bytes, threads)
            found.append(summarise_cell([make_sample(cell, {operation: round(iops)})]))
    return found


def once(iops: float) -> Estimate:
    return Estimate(value=iops, low=None, high=None, rounds=1, unit="IOPS")


def make_table(operation: str) -> CellTable:
    known = printed(operation)
    points = [
        TablePoint(
            key=key_of(operation, size_bytes, threads),
            block_size_bytes=size_bytes,
            threads=threads,
            depth=1,
            iops=once(known[size_bytes, threads]) if (size_bytes, threads) in known else None,
            rounds_per_s=[known[size_bytes, threads]] if (size_bytes, threads) in known else [],
            position=place,
            duration_s=None,
        )
        for place, (size_bytes, threads) in enumerate(
            (size, threads) for size in SIZES_BYTES for threads in THREADS
        )
    ]
    return CellTable(
        target=TARGET,
        workload="matrix",
        operation=operation,
        factors={"pattern": "random"},
        imported=True,
        points=points,
    )


def make_gap(kind: GapKind, operation: str, cells: list[tuple[int, int]], **changes) -> Gap:
    values = {
        "kind": kind,
        "keys": [key_of(operation, size_bytes, threads) for size_bytes, threads in cells],
        "status": "seen_once",
        "ratio": 0.1,
        "sentence": f"{len(cells)} cells are far below what the rest of the table says.",
        "cause": "Nothing is known of it.",
    }
    return Gap(**values | changes)


def article_gaps(operation: str) -> list[Gap]:
    if operation == "read":
        return [
            make_gap(
                "start_transient",
                "read",
                [(512, 1), (512, 10)],
                ratio=0.001,
                sentence="512 B with 1 and 10 threads did 24 and 28k IOPS, 0.001 and 0.45 of what "
                "the rest of the table says.",
                cause="They are the first cells in the order of measuring: the writes before them "
                "were still draining.",
            )
        ]
    known = printed("write")
    absent = [
        (size_bytes, threads)
        for size_bytes in SIZES_BYTES
        for threads in THREADS
        if (size_bytes, threads) not in known
    ]
    return [
        make_gap(
            "collapse",
            "write",
            [(size * KIB, threads) for size, threads in COLLAPSED],
            ratio=0.03,
            sentence="8 cells from 64 KiB to 1 MiB collapse to 0.03 to 0.31 of what the rest of "
            "the table says.",
            cause="Partial stripes overtake the cache of the controller, which then reads before "
            "each write.",
        ),
        make_gap(
            "absent",
            "write",
            absent,
            ratio=0.0,
            sentence="4 cells from 256 KiB to 1 MiB have no figure.",
            cause="Nothing completed in them, or they were never measured.",
        ),
    ]


def predictions_of(operation: str, gaps: list[Gap]) -> dict[str, Prediction]:
    known = printed(operation)
    outlier = {key for gap in gaps for key in gap.keys}
    found = {}
    for threads in THREADS:
        sound = [
            (math.log(size), math.log(known[size, threads]))
            for size in SIZES_BYTES
            if (size, threads) in known and key_of(operation, size, threads) not in outlier
        ]
        for size_bytes in SIZES_BYTES:
            iops = math.exp(drawn_straight(math.log(size_bytes), sound)) * 0.99
            found[key_of(operation, size_bytes, threads)] = Prediction(
                iops=iops, low=iops * 0.9, high=iops * 1.11
            )
    return found


def drawn_straight(at: float, line: list[tuple[float, float]]) -> float:
    """The height at a place of a line of points, level beyond its ends."""
    before = [point for point in line if point[0] <= at] or line[:1]
    after = [point for point in line if point[0] >= at] or line[-1:]
    (x1, y1), (x2, y2) = before[-1], after[0]
    return y1 if x1 == x2 else y1 + (y2 - y1) * (at - x1) / (x2 - x1)


def make_audit(operation: str = "read", **changes) -> TableAudit:
    gaps = article_gaps(operation)
    values = {
        "table": make_table(operation),
        "form": "read" if operation == "read" else "parity_write",
        "holds": True,
        "sentence": "The model of reads through one link describes 40 of 42 cells within 0.5 % at "
        "the median; the table was measured once, so how far it repeats is not known.",
        "parameters": [
            Parameter(
                name="host_service_us",
                value=15.9,
                low=15.7,
                high=16.1,
                unit="us",
                sentence="Host cost per I/O: 15.9 µs, which limits any drives to 62,800 IOPS.",
            ),
            Parameter(
                name="link_mib_per_s",
                value=1736,
                low=1730,
                high=1742,
                unit="MiB/s",
                sentence="Bandwidth ceiling: 1,736 MiB/s.",
            ),
            Parameter(
                name="queue_count",
                value=7.7,
                low=None,
                high=None,
                unit="count",
                sentence="",
            ),
        ],
        "predictions": predictions_of(operation, gaps),
        "error_share_median": 0.005,
        "error_share_p90": 0.018,
        "held_out_share_median": 0.01,
        "scale_log": 0.006,
        "gaps": gaps,
        "limits": ["Of blocks below 512 B and above 4 MiB it says nothing."],
    }
    return TableAudit(**values | changes)


def imported_run() -> Run:
    """A run whose figures come from the article."""
    study = {
        "name": "bm-flash-2009",
        "imported": {
            "format": "bm-flash",
            "file": "raid5.txt",
            "tool": "bm-flash",
            "blank_cells": [
                {
                    "workload": "matrix",
                    "operation": "write",
                    "block_size_bytes": 256 * KIB,
                    "threads": 40,
                }
            ],
            "notes": ["The length of a cell is not given."],
        },
    }
    return make_run(
        command="seatrial import raid5.txt", study_name="bm-flash-2009", study=study,
        label="RAID5 of 4 SSDs",
    )  # fmt: skip


def article_summary(audits: list[TableAudit] | None = None) -> Summary:
    """The article's RAID5 tables with an audit of each."""
    return Summary(
        run=imported_run(),
        cells=article_cells(),
        findings=[],
        verdict="Reads 8 KiB at random at 63k IOPS (measured once); 8 cells of writes collapse.",
        analyses=analyses_of(
            audits=[make_audit("read"), make_audit("write")] if audits is None else audits
        ),
    )
