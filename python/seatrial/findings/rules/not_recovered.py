"""Finding ``not_recovered``: a target did not return to its initial rate before a cell."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_s, format_plural, format_share
from seatrial.units import NS_PER_S

RATIO_COUNTER = "recovery_probe_ratio"
IDLE_COUNTER = "recovery_idle_ns"
RATIO_MIN = 0.8
"""As in ``measure/recovery.py``: a probe below this share of the first probe is degraded."""


class NotRecoveredFigures(Figures, frozen=True, kw_only=True, tag="not_recovered"):
    probe_ratio_min: float
    probe_ratio_allowed: float
    samples_count: int
    rest_s: float
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                "The target had not recovered before "
                f"{format_plural(self.samples_count, 'sample')} of {self.concerned}: a probe "
                f"reached {format_share(self.probe_ratio_min)} of its initial rate after "
                f"{format_duration_s(self.rest_s)} of idle time in total."
            ),
            cause=(
                "Earlier tests used up a resource that recovers slowly: burst credit, write cache, "
                "the SLC cache of a drive, or its temperature margin."
            ),
            next=(
                "Read these tests as the sustained rate and the first ones as the burst rate. "
                "Measure one test for some minutes to see both: seatrial io TARGET --seconds 300"
            ),
        )


@from_samples(rank=290, section="Validity of the figures")
def not_recovered(context: Context) -> list[Finding]:
    """Find samples before which the target did not recover in time.

    Means:
        In an adaptive matrix, a target did not return to its initial rate before a test was
        measured: burst credit was exhausted, a write cache was still full, or the drive was hot.

    Decided:
        Before each test a probe (the table's first test for a tenth of its time, at most 0.2 s) is
        compared with the first probe of the run. Below 80 %, the target stays idle and is probed
        again, for up to 7.75 s; after two consecutive waits without recovery, the new rate is
        accepted and there are no further waits. Found if the last probe before a sample was still
        below 80 % of the first. Warning.

    Do:
        Read such tests as the sustained rate. Measure one test for some minutes to see both rates.
    """
    fallen = [sample for sample in context.samples if _ratio(sample) < RATIO_MIN]
    if not fallen:
        return []
    worst = min(fallen, key=_ratio)
    rested_s = sum(sample.counters.get(IDLE_COUNTER, 0.0) for sample in fallen) / NS_PER_S
    keys = {sample.cell.key for sample in fallen}
    concerned: list[CellSummary] = [c for c in context.cells if c.cell.key in keys]
    figures = NotRecoveredFigures(
        probe_ratio_min=_ratio(worst),
        probe_ratio_allowed=RATIO_MIN,
        samples_count=len(fallen),
        rest_s=rested_s,
        concerned=context.affected_cells(concerned),
    )
    return [Finding(severity="warning", cells=identities(concerned), figures=figures)]


def _ratio(sample: Sample) -> float:
    return sample.counters.get(RATIO_COUNTER, 1.0)
