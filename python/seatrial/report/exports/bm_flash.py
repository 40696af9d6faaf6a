"""A run's random matrix in the format of bm-flash, for programs that read it.

The layout, the units (binary) and the cutting off of digits are those of the two printouts in
"One DVD per second" (J-Development, 2009). bm-flash leaves a cell blank in which nothing
completed; here it has 0, and a line below the tables states what was observed. Only a cell that
was never measured is blank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from seatrial.errors import UsageError
from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.stats.model import CellSummary
from seatrial.study.cell import FactorValue
from seatrial.units import GIB, KIB, MIB

COLUMN_WIDTH = 13

Cells = dict[tuple[str, int, int], CellSummary]


def render(summary: Summary) -> str:
    """Return the tables of each target's random matrix, one after another.

    Several matrices (targets, or depths) each have a line that names them; bm-flash has only one.

    Raises:
        UsageError: when the run has no random matrix.
    """
    cells = [
        part
        for part in summary.cells
        if part.cell.kind == "matrix" and part.cell.factors.get("pattern", "random") == "random"
    ]
    if not cells:
        raise UsageError(
            seen=f"Run {summary.run.id} has no random matrix, which is all that bm-flash prints",
            cause="Its study has no workload 'matrix' with random addresses",
            next_step="Export it with --format markdown, or measure `seatrial run DIR`",
        )
    matrices = grouped(cells, _table_key)
    parts = []
    for apart, members in matrices.items():
        if len(matrices) > 1:
            parts.append(", ".join(f"{name} {value}" for name, value in apart))
        parts += _matrix(summary, members)
    return "\n\n".join(parts) + "\n"


def _table_key(summary: CellSummary) -> tuple[tuple[str, FactorValue], ...]:
    """Return the factors that bm-flash does not vary, each combination of which has a table."""
    varied = {"operation", "block_size_bytes", "threads", "pattern"}
    identity = summary.cell.identity()
    return tuple((name, value) for name, value in identity.items() if name not in varied)


def _matrix(summary: Summary, members: Sequence[CellSummary]) -> list[str]:
    cells = {
        (part.cell.operation, part.cell.block_size_bytes, part.cell.threads): part
        for part in members
    }
    parts = [_fill_line(summary, members[0].cell.target)]
    for operation, title in (("read", "Read Tests:"), ("write", "Write Tests:")):
        if any(key[0] == operation for key in cells):
            parts += [title, _table(cells, operation)]
    parts.append("\n".join(_blank_line(part) for part in members if part.blank))
    return [part for part in parts if part]


def _fill_line(summary: Summary, target: str) -> str:
    """Return the line of the fill before the matrix; empty without one."""
    fills = [
        sample
        for part in summary.cells
        if part.cell.kind == "fill" and part.cell.target == target and not part.blank
        for sample in part.samples
    ]
    if not fills:
        return ""
    first = fills[0]
    filled_bytes = sum(result.transferred_bytes for result in first.operations.values())
    rate_mib_per_s = filled_bytes / MIB / first.duration_s
    return (
        f"Filling {_size(filled_bytes, is_cut_off=True)} before testing  ...   "
        f"{filled_bytes // MIB} MB done in "
        f"{max(1, round(first.duration_s))} seconds ({rate_mib_per_s:.0f} MB/sec)."
    )


def _table(cells: Cells, operation: str) -> str:
    sizes = sorted({size for kind, size, _ in cells if kind == operation})
    counts = sorted({threads for kind, _, threads in cells if kind == operation})
    rows = [
        ["Block", *(f"{count:3d} {_noun(count)}".ljust(COLUMN_WIDTH) for count in counts)],
        [" Size", *[" IOPS    BW  "] * len(counts)],
        [" " * 5, *[" " * COLUMN_WIDTH] * len(counts)],
    ]
    for size in sizes:
        figures = [_figures(cells.get((operation, size, threads))) for threads in counts]
        rows.append([_size(size).rjust(5), *figures])
    return "\n".join(" | ".join(row) + " " for row in rows)


def _noun(threads: int) -> str:
    return "thread" if threads == 1 else "threads"


def _figures(summary: CellSummary | None) -> str:
    """Return IOPS and bandwidth, truncated as by bm-flash, in 13 characters."""
    if summary is None:
        return " " * COLUMN_WIDTH
    if summary.blank:
        return f"{0:5d} {'0.0K':>7}"
    return f"{math.floor(summary.iops.value):5d} {_bandwidth(summary.bandwidth.value):>7}"


def _bandwidth(bytes_per_s: float) -> str:
    """Return binary megabytes with one decimal, below one of them binary kilobytes."""
    unit, letter = (MIB, "M") if bytes_per_s >= MIB else (KIB, "K")
    # A rate is a quotient of two floats: rounding alone must not lower a tenth.
    tenths = math.floor(bytes_per_s / unit * 10 + 1e-9)
    return f"{tenths // 10}.{tenths % 10}{letter}"


def _size(size_bytes: int, *, is_cut_off: bool = False) -> str:
    for unit, letter in ((GIB, "G"), (MIB, "M"), (KIB, "K")):
        if size_bytes >= unit and (is_cut_off or size_bytes % unit == 0):
            return f"{size_bytes // unit}{letter}"
    return f"{size_bytes}B"


def _blank_line(summary: CellSummary) -> str:
    cell = summary.cell
    return (
        f"{_size(cell.block_size_bytes)} {cell.operation}, {cell.threads} {_noun(cell.threads)}: "
        f"{summary.blank}."
    )
