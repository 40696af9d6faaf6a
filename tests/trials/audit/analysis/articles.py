"""The article's printed tables as runs and samples, as an importer gives them."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

from seatrial.findings.summary import summarise_cell
from seatrial.results.model import BlankCell
from seatrial.study.cell import Cell
from seatrial.trials.audit.analysis.audit import audit_table
from seatrial.trials.audit.analysis.tables import tables_of
from stats.builders import run_of, sample_of

CSV = Path(__file__).parents[4] / "reference" / "bm-flash-2009.csv"
RAID0, RAID5 = "raid0-12ssd-1controller", "raid5-4ssd-1controller"
SIZES = [512 << shift for shift in range(14)]
THREADS = [1, 10, 40]
FILL_BYTES, FILL_S = 4096 << 20, 3.0
ABSENT = [(256 << 10, 40), (512 << 10, 10), (512 << 10, 40), (1 << 20, 40)]


def rows(configuration):
    with CSV.open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["configuration"] == configuration]


def cell(operation, block_size_bytes, threads, *, kind="matrix", target="array", depth=1):
    return Cell(
        key=f"{kind}/{operation}/{block_size_bytes}B/{threads}t/{depth}d",
        target=target,
        workload=kind,
        kind=kind,
        operation=operation,
        block_size_bytes=block_size_bytes,
        threads=threads,
        depth=depth,
        factors={"pattern": "random"} if kind == "matrix" else {},
    )


def sample(of_cell, iops, position=0, round_number=0, duration_s=1.0):
    return sample_of(
        of_cell,
        completed=max(0, round(iops * duration_s)),
        duration_s=duration_s,
        response_ns=[],
        position=position,
        round=round_number,
        engine="imported",
    )


def samples(configuration, *, duration_s=1.0, with_fill=True):
    made = []
    if with_fill:
        filled = cell("write", 1 << 20, 1, kind="fill")
        made.append(sample(filled, FILL_BYTES / (1 << 20) / FILL_S, 0, duration_s=FILL_S))
    for position, row in enumerate(rows(configuration), start=1):
        own = cell(row["operation"], int(row["block_size_bytes"]), int(row["threads"]))
        made.append(sample(own, float(row["iops"]), position, duration_s=duration_s))
    return made


def run(configuration):
    have = {(r["operation"], int(r["block_size_bytes"]), int(r["threads"]))
            for r in rows(configuration)}  # fmt: skip
    blanks = [
        BlankCell(workload="matrix", operation=operation, block_size_bytes=size, threads=threads)
        for operation in ("read", "write")
        for size in SIZES
        for threads in THREADS
        if (operation, size, threads) not in have
    ]
    imported = {
        "format": "bm-flash",
        "file": "table.txt",
        "tool": "bm-flash",
        "blank_cells": [vars_of(blank) for blank in blanks],
    }
    return run_of(study={"name": "imported", "imported": imported})


def vars_of(blank):
    return {name: getattr(blank, name) for name in blank.__struct_fields__}


def summaries(configuration, **how):
    return [summarise_cell([each]) for each in samples(configuration, **how)]


@functools.cache
def table(configuration, operation):
    tables = tables_of(run(configuration), summaries(configuration))
    return next(each for each in tables if each.operation == operation)


@functools.cache
def audit(configuration, operation):
    return audit_table(table(configuration, operation))


def place(key):
    """``matrix/read/512B/1t/1d`` as (512, 1)."""
    parts = key.split("/")
    return int(parts[2].removesuffix("B")), int(parts[3].removesuffix("t"))
