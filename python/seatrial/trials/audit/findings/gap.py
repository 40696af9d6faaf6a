"""Finding ``gap``: cells far from what the rest of their table says."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_size
from seatrial.trials.audit.analysis.gaps import gap_limit_log
from seatrial.trials.audit.analysis.model import Gap, GapKind, TableAudit, TablePoint, audits_of
from seatrial.trials.audit.analysis.tables import identity_of

NOTES: Final[tuple[GapKind, ...]] = ("start_transient", "noise")
"""Classes that explain figures; the others may change a decision.

By order alone and seen once, any class is a note: where single figures scatter by a third, two or
three such gaps a table are scatter.
"""


@from_samples(rank=180, section="Time")
def gap(context: Context) -> list[Finding]:
    """Find the gaps of all audited tables, one finding for each.

    Means:
        Cells of a table of block sizes, threads and depth are far from what the rest of the table
        says. Classes: `start_transient` (the first cells that were measured are too slow),
        `collapse` (over block sizes that follow each other; with one block size, over neighbours in
        threads and depth), `too_fast` (above what the rest allows: a cache served it, burst credit
        paid for it, or its blocks had never been written), `absent` (a foreign table names the cell
        without a figure), `noise` (a cell alone). Status: `seen_once`, `persistent` (in every
        round), `transient` (in some).

    Decided:
        Against the model of the table where one holds (method.md, "Models and gaps"): the logarithm
        of observed over predicted is below -max(4 × scatter, ln 1.5), or above max(6 × scatter, ln
        1.75), in every round or with the whole interval, or in one round twice as far. Where cells
        contradict each other by order, the model rests on those that the likeliest reading calls
        sound; where another reading is nearly as likely, the cause names it. Where no model holds,
        against the order that any storage keeps, which finds fewer. A gap seen once is no proof: of
        two sweeps over one shared virtual disk, the gap of the first was gone in the second.
        Warning for `collapse`, `too_fast`, `absent` and what persists; else note, as is a
        `collapse` seen once by order alone.

    Do:
        `seatrial audit RUN` shows the table beside its model. What was seen once is measured again
        by Seatrial itself where rounds allow; else repeat the cell with `seatrial io`. Of what
        persists, read the timeline and the stalls. Plan with nothing that is `too_fast` before it
        was measured for longer than caches and credit last.
    """
    return [
        _finding(context.run.id, audit, each)
        for audit in audits_of(context)
        for each in audit.gaps
        if _is_reported(audit, each)
    ]


def _is_reported(audit: TableAudit, each: Gap) -> bool:
    """Tell whether a gap is told here: ``nothing_completed`` tells of cells that were measured."""
    return each.kind != "bound_broken" and (each.kind != "absent" or audit.table.imported)


def _finding(run_id: str, audit: TableAudit, each: Gap) -> Finding:
    points = [point for point in audit.table.points if point.key in each.keys]
    return Finding(
        kind="gap",
        severity=gap_severity(audit, each),
        cells=[identity_of(audit.table, point) for point in points],
        sentence=each.sentence,
        cause=each.cause,
        evidence={
            "class": each.kind,
            "status": each.status,
            "cells_count": len(points),
            "observed_over_predicted_ratio": each.ratio,
            "gap_limit_log": None if audit.scale_log is None else gap_limit_log(audit.scale_log),
            "scale_log": audit.scale_log,
            "rounds_share_median": audit.rounds_share_median,
            "is_by_model": audit.holds,
            "drain_mib_per_s": each.drain_mib_per_s,
        },
        next=_next(run_id, audit, each, points[0]),
    )


def gap_severity(audit: TableAudit, each: Gap) -> str:
    """Return how grave a gap is: ``warning``, or ``note`` where it explains more than it warns."""
    is_by_order_once = not audit.holds and each.status == "seen_once" and each.kind != "absent"
    is_note = is_by_order_once or (each.kind in NOTES and each.status != "persistent")
    return "note" if is_note else "warning"


def _next(run_id: str, audit: TableAudit, each: Gap, point: TablePoint) -> str:
    if each.kind == "start_transient":
        return (
            "Leave some time between the fill and the first cell, or measure in several rounds, "
            "whose order differs."
        )
    if each.kind == "too_fast":
        return _next_of_too_fast(audit, point)
    if each.status == "persistent":
        return (
            "Look at the timeline, the stalls and the slowest requests of these cells in the "
            "report ('seatrial report')."
        )
    if not audit.table.imported:
        return f"Measure it again before it is believed: 'seatrial audit {run_id} --remeasure'."
    return f"Measure it again before it is believed: '{_io_command(audit, point)} --rounds 5'."


def _next_of_too_fast(audit: TableAudit, point: TablePoint) -> str:
    return (
        "Do not plan with it before it was measured for longer than caches and credit last, on "
        "blocks that were written before, of more data than the caches hold: "
        f"'{_io_command(audit, point)} --seconds 120 --rounds 3'."
    )


def _io_command(audit: TableAudit, point: TablePoint) -> str:
    size = format_size(point.block_size_bytes).replace(" ", "")
    depth = f" --depth {point.depth}" if point.depth > 1 else ""
    return (
        f"seatrial io TARGET --operation {audit.table.operation} --block-size {size} "
        f"--threads {point.threads}{depth}"
    )
