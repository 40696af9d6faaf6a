"""Finding ``not_recovered``: a target did not come back to its first level before a cell."""

from __future__ import annotations

from seatrial.findings.context import NS_PER_S, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_duration_s, format_plural, format_share

RATIO_COUNTER = "guard_probe_ratio"
REST_COUNTER = "guard_rest_ns"
RATIO_MIN = 0.8
"""As ``measure/guard.py`` has it: a probe at less than this share of the first one has fallen."""


@from_samples(rank=290, section="Whose number is it?")
def not_recovered(context: Context) -> list[Finding]:
    """Find samples whose guard gave up waiting: a cache still full, a credit still spent.

    Means:
        In an adaptive matrix, a target did not come back to its first level before a cell was
        measured: a burst credit that was spent, a write cache that was still full, heat.

    Decided:
        Before each cell a probe (the table's first cell for a tenth of its time, at most 0.2 s) is
        compared with the first probe of the run. Below 80 % the target is left alone and probed
        again, for 7.75 s at most; after two waits in vain in a row the new level is taken as
        lasting and no longer waited for. Found when the last probe before a sample was still below
        80 % of the first. Warning.

    Do:
        Read such cells as the lasting level. Measure one cell for some minutes to see both levels.
    """
    fallen = [sample for sample in context.samples if _ratio(sample) < RATIO_MIN]
    if not fallen:
        return []
    worst = min(fallen, key=_ratio)
    rested_s = sum(sample.counters.get(REST_COUNTER, 0.0) for sample in fallen) / NS_PER_S
    keys = {sample.cell.key for sample in fallen}
    concerned: list[CellSummary] = [c for c in context.cells if c.cell.key in keys]
    return [
        Finding(
            kind="not_recovered",
            severity="warning",
            cells=identities(concerned),
            sentence=(
                f"Before {format_plural(len(fallen), 'sample')} of {context.of_cells(concerned)} "
                f"a probe reached as little as {format_share(_ratio(worst))} of its first rate, "
                f"after {format_duration_s(rested_s)} of rest in all."
            ),
            cause=(
                "What came before took something that does not come back so soon: a burst credit, "
                "room in a write cache, a drive's fast region, or it is hot."
            ),
            evidence={
                "probe_ratio_min": _ratio(worst),
                "probe_ratio_allowed": RATIO_MIN,
                "samples_count": len(fallen),
                "rest_s": rested_s,
            },
            next=(
                "Read these cells as the target's lasting level, the first ones as its best; "
                "measure one cell for some minutes to see both: seatrial io TARGET --seconds 300"
            ),
        )
    ]


def _ratio(sample: Sample) -> float:
    return sample.counters.get(RATIO_COUNTER, 1.0)
