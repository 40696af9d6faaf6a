"""Finding ``cache_size``: the predicted gain of a larger cache, or why there is no prediction."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_size
from seatrial.trials.database.analysis.cache_sweep import is_of_sweep
from seatrial.trials.database.analysis.model import CacheSweep, database_of


@from_samples(rank=630, section="Databases", sees_replays=True)
def cache_size(context: Context) -> list[Finding]:
    """Report what the model of each cache size sweep predicts.

    Means:
        The gain of a larger cache for this workload, from tests that differ only in cache size:
        the fitted model and its predicted rate at twice the largest size, or why there is no
        prediction.

    Decided:
        `t = cpu + k * C^-a` is fitted to three or more sizes (docs/method.md, "The law of a
        cache"). There is no prediction if the model does not fit within the variance between
        rounds, if a larger cache has no effect, or if the next size would hold the whole database.
        Note.

    Do:
        Measure the predicted size before buying it.
    """
    sweeps = analysis.sweeps if (analysis := database_of(context)) else []
    return [_finding(context, sweep) for sweep in sweeps]


class CacheSizeFigures(Figures, frozen=True, kw_only=True, tag="cache_size"):
    sizes_bytes: list[int]
    next_size_bytes: int
    predicted_per_s: float | None
    exponent: float | None
    cpu_s: float | None
    others: Annotated[dict[str, float], FLATTENED]
    sweep: Annotated[CacheSweep, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=self.sweep.sentence,
            cause=_cause(self.sweep),
            next=_next(self.sweep),
        )


def _finding(context: Context, sweep: CacheSweep) -> Finding:
    concerned = [
        summary.cell.identity() for summary in context.cells if is_of_sweep(summary.cell, sweep)
    ]
    return Finding(
        severity="note",
        cells=concerned,
        figures=CacheSizeFigures(
            sizes_bytes=sweep.sizes_bytes,
            next_size_bytes=sweep.next_size_bytes,
            predicted_per_s=sweep.predicted_per_s.value if sweep.predicted_per_s else None,
            exponent=sweep.a.value if sweep.fits else None,
            cpu_s=sweep.cpu_s.value if sweep.fits else None,
            others=sweep.evidence,
            sweep=sweep,
        ),
    )


def _cause(sweep: CacheSweep) -> str:
    if sweep.fits:
        return (
            "Cache misses wait for storage, and the miss rate falls as a power of the cache size. "
            "The constant part is CPU time."
        )
    return "The times do not follow a power law of the cache size."


def _next(sweep: CacheSweep) -> str:
    if sweep.fits:
        return (
            f"Measure {format_size(sweep.next_size_bytes)} before buying memory: add it to the "
            "list of sizes."
        )
    return (
        "Use cache sizes well below the size of the database, and a workload that waits for "
        "reads. 'seatrial study cache-sweep' is an example."
    )
