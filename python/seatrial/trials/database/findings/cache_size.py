"""Finding ``cache_size``: what a larger cache is worth, or why that cannot be told."""

from __future__ import annotations

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_size
from seatrial.trials.database.analysis.cache_sweep import is_of_sweep
from seatrial.trials.database.analysis.model import CacheSweep, database_of


@from_samples(rank=630, section="Of a database", sees_replays=True)
def cache_size(context: Context) -> list[Finding]:
    """Tell of each sweep over the size of a cache what the law through it predicts.

    Means:
        What a larger cache is worth to the workload, from cells that differ in its size alone: the
        law through them, and the rate that it predicts at twice the largest; or why nothing is
        predicted.

    Decided:
        `t = cpu + k * C^-a` is fitted to three sizes or more (docs/method.md, "The law of a
        cache"). Nothing is predicted where the law does not hold within the scatter of the rounds,
        where a larger cache gains nothing, or where the next size would hold the whole database.
        Note.

    Do:
        Measure the predicted size before buying it.
    """
    sweeps = analysis.sweeps if (analysis := database_of(context)) else []
    return [_finding(context, sweep) for sweep in sweeps]


def _finding(context: Context, sweep: CacheSweep) -> Finding:
    concerned = [
        summary.cell.identity() for summary in context.cells if is_of_sweep(summary.cell, sweep)
    ]
    return Finding(
        kind="cache_size",
        severity="note",
        cells=concerned,
        sentence=sweep.sentence,
        cause=_cause(sweep),
        evidence={
            "sizes_bytes": sweep.sizes_bytes,
            "next_size_bytes": sweep.next_size_bytes,
            "predicted_per_s": sweep.predicted_per_s.value if sweep.predicted_per_s else None,
            "exponent": sweep.a.value if sweep.fits else None,
            "cpu_s": sweep.cpu_s.value if sweep.fits else None,
            **sweep.evidence,
        },
        next=_next(sweep),
    )


def _cause(sweep: CacheSweep) -> str:
    if sweep.fits:
        return (
            "What misses the cache waits for the storage, and misses become rarer by a power of "
            "its size; what is left is the processor's part."
        )
    return "The times do not follow the law by which misses become rarer with a cache's size."


def _next(sweep: CacheSweep) -> str:
    if sweep.fits:
        return (
            f"Measure {format_size(sweep.next_size_bytes)} before you buy it: add it to the list."
        )
    return (
        "Sweep sizes well below the database's, by a workload that waits for reads; 'seatrial "
        "study cache-sweep' shows one."
    )
