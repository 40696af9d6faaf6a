"""Which part of a large run has charts."""

from __future__ import annotations

import msgspec

from seatrial.findings.model import Summary
from seatrial.report.figures.naming import grouped
from seatrial.topic import topics


def charted_part(summary: Summary, cells_max: int) -> Summary:
    """Return a run with so many of its targets as have charts: all, if its cells are that few.

    Those that are fastest at something come first, then the others in their order.

    Args:
        summary: The run.
        cells_max: How many cells may be drawn; one target is, however many it has.
    """
    if len(summary.cells) <= cells_max:
        return summary
    by_target = grouped(summary.cells, lambda part: part.cell.target)
    best = [target for topic in topics() for target in topic.best_targets(summary)]
    order = [target for target in dict.fromkeys([*best, *by_target]) if target in by_target]
    kept: set[str] = set()
    count = 0
    for target in order:
        count += len(by_target[target])
        if kept and count > cells_max:
            break
        kept.add(target)
    cells = [part for part in summary.cells if part.cell.target in kept]
    return msgspec.structs.replace(summary, cells=cells)


def left_out(summary: Summary, charted: Summary) -> str:
    """Return which targets of a run have charts, as a sentence; empty where all have."""
    targets = dict.fromkeys(part.cell.target for part in summary.cells)
    drawn = dict.fromkeys(part.cell.target for part in charted.cells)
    if len(drawn) == len(targets):
        return ""
    return (
        f"Charts of all {len(targets)} targets would make this page too large: these are of "
        f"{', '.join(drawn)}. The tables have all of them."
    )
