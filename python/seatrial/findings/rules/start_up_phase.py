"""Finding ``start_up_phase``: what was left out at the beginning of samples."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.estimates import counted
from seatrial.stats.model import Finding
from seatrial.stats.running import Running, running
from seatrial.stats.wording import format_cell, format_duration_s, format_iops

_FASTER = (
    "A cache, burst credit or free flash took the first requests; the database will live in what "
    "comes after."
)
_SLOWER = (
    "The target woke from saving power, filled a cache, or still worked off what an earlier cell "
    "had left behind."
)


@from_samples(rank=500, section="Time")
def start_up_phase(context: Context) -> list[Finding]:
    """Find cells whose figures rest on the running phase alone, as a start-up phase came first.

    Means:
        The beginning of a sample was not like the rest of it and is left out of the cell's figures:
        they are those of the running phase. Nothing of it is lost: the timeline shows it, its
        stalls and errors count, and the maximum is that of the whole sample.

    Decided:
        By the fixed rule of [method.md](method.md#start-up-and-running-phase): a ratio of at least
        1.2, for at most half of the sample, surely. Note.

    Do:
        If the start was faster, plan with the running phase, unless your load has pauses too; if it
        was slower, see what the cell before had left to do.
    """
    concerned = [summary for summary in context.cells if summary.running_from_s > 0]
    if not concerned:
        return []
    cut = [
        (summary, phase)
        for summary in concerned
        for phase in map(running, counted(summary.samples))
        if phase.from_s > 0
    ]
    worst, phase = max(cut, key=lambda pair: _factor(pair[1]))
    direction = "faster" if phase.start_up_ratio > 1 else "slower"
    return [
        Finding(
            kind="start_up_phase",
            severity="note",
            cells=identities(concerned),
            sentence=(
                f"The beginning of {context.of_cells(concerned)} was not like the rest and is left "
                f"out of the figures: up to {format_duration_s(max(p.from_s for _, p in cut))}; at "
                f"most {format_iops(_factor(phase))} times {direction} "
                f"({format_cell(worst.cell)}, first {format_duration_s(phase.from_s)})."
            ),
            cause=_FASTER if phase.start_up_ratio > 1 else _SLOWER,
            evidence={
                "cells_count": len(concerned),
                "samples_cut_count": len(cut),
                "start_up_s_max": max(p.from_s for _, p in cut),
                "worst_cell": worst.cell.key,
                "worst_start_up_s": phase.from_s,
                "worst_start_up_ratio": phase.start_up_ratio,
                "worst_running_per_s": phase.completed_per_s,
            },
            next=(
                "Read both: the timeline shows the start. Where it is a cache that a database "
                "would meet too, measure short samples with pauses between them."
            ),
        )
    ]


def _factor(phase: Running) -> float:
    """Return by how many times the start-up phase was faster or slower."""
    ratio = phase.start_up_ratio
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")
