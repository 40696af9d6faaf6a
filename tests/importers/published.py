"""The published tables of "One DVD per second", by configuration and cell."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "reference" / "bm-flash-2009.csv"
PRINTS = {
    "raid0-12ssd-1controller": ROOT / "tests" / "report" / "bm-flash-2009-raid0.txt",
    "raid5-4ssd-1controller": ROOT / "tests" / "report" / "bm-flash-2009-raid5.txt",
}
BLANKS = {
    ("write", 256 << 10, 40),
    ("write", 512 << 10, 10),
    ("write", 512 << 10, 40),
    ("write", 1 << 20, 40),
}
"""The cells that are blank in the RAID5 print; the RAID0 print has none."""

Figures = dict[tuple[str, int, int], tuple[int, str]]


def published(configuration: str) -> Figures:
    """IOPS and bandwidth (MiB/s, as printed) by operation, block size and threads."""
    with TABLE.open(encoding="utf-8") as file:
        return {
            (row["operation"], int(row["block_size_bytes"]), int(row["threads"])): (
                int(row["iops"]),
                row["bandwidth_mib_per_s"],
            )
            for row in csv.DictReader(file)
            if row["configuration"] == configuration
        }
