"""Finding ``checkpoint_dips``: fewer or slower transactions while a checkpoint runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import (
    format_cell,
    format_duration_ns,
    format_estimate,
    format_plural,
    format_share,
)
from seatrial.study.cell import Cell
from seatrial.trials.database.analysis.cells import rounds_of
from seatrial.trials.database.analysis.checkpoints import CheckpointEffect, checkpoint_effect
from seatrial.trials.database.study.workloads import is_of_database

RATE_RATIO_MAX: Final = 0.9
RATE_RATIO_ONCE_MAX: Final = 0.7
"""Of one round, whose variance is not known."""
RATE_RATIO_WARNING: Final = 0.5
P99_RATIO_MIN: Final = 2.0
P99_RATIO_WARNING: Final = 5.0
SECONDS_MIN: Final = 5
"""With a checkpoint and without one, each over all rounds."""


@dataclass(frozen=True)
class Dip:
    """The effect of checkpoints on a cell."""

    summary: CellSummary
    effect: CheckpointEffect

    @property
    def is_reported(self) -> bool:
        """Whether the rate is significantly below 90 %, or p99 is at least doubled."""
        effect = self.effect
        if min(effect.seconds_during, effect.seconds_else) < SECONDS_MIN:
            return False
        high = effect.rate_ratio.high
        slower = effect.rate_ratio.value if high is None else high
        return (
            slower < (RATE_RATIO_ONCE_MAX if high is None else RATE_RATIO_MAX)
            or (effect.p99_ratio or 1.0) >= P99_RATIO_MIN
        )

    @property
    def is_grave(self) -> bool:
        """Whether the rate is halved, or p99 is five times as long."""
        effect = self.effect
        return (
            effect.rate_ratio.value < RATE_RATIO_WARNING
            or (effect.p99_ratio or 1.0) >= P99_RATIO_WARNING
        )


class CheckpointDipsFigures(Figures, frozen=True, kw_only=True, tag="checkpoint_dips"):
    cells_count: int
    worst_cell: str
    rate_ratio: float
    rate_ratio_high: float | None
    lost_share: float
    p99_during_ns: int | None
    p99_else_ns: int | None
    seconds_during_count: int
    seconds_else_count: int
    worst_summary_cell: Annotated[Cell, HIDDEN]
    effect: Annotated[CheckpointEffect, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{_concerned(self.worst_summary_cell, self.cells_count)}: the rate during "
                f"checkpoints was {format_estimate(self.effect.rate_ratio)} of the rate between "
                f"them{_tail(self.effect)}. Checkpoints reduced the overall rate by "
                f"{format_share(max(0.0, self.lost_share))}."
            ),
            cause=(
                "A checkpoint writes and syncs all dirty pages while transactions run. After it "
                "starts, the first change to each page writes a full-page image to the WAL "
                "(full_page_writes)."
            ),
            next=(
                "Make checkpoints rarer and spread their writes: checkpoint_timeout = 15min, "
                "max_wal_size several times the WAL written in that time, "
                "checkpoint_completion_target = 0.9. Measure for longer than one checkpoint "
                "cycle. wal_compression makes full-page images smaller."
            ),
        )


@from_samples(rank=410, section="Databases")
def checkpoint_dips(context: Context) -> list[Finding]:
    """Find cells that are slower in the seconds in which a checkpoint runs.

    Means:
        While a checkpoint runs, the rate falls or the tail latency rises. An average over the
        whole run hides this.

    Decided:
        Seconds of the running phase in which at least half of the observations saw a checkpoint,
        compared with seconds in which at most 10 % did; at least two of each in a round, and five
        over all rounds. The ratio of the rates is significantly below 0.9 (with one round: below
        0.7), or p99 is twice as long. Warning if the rate is halved or p99 is five times as long,
        otherwise note.

    Do:
        Make checkpoints rarer and spread their writes: `max_wal_size`, `checkpoint_timeout`,
        `checkpoint_completion_target`. Then measure for longer than one checkpoint cycle.
    """
    own = [c for c in context.cells if is_of_database(c.cell)]
    dips = [Dip(c, effect) for c in own if (effect := checkpoint_effect(rounds_of(c)))]
    reported = [dip for dip in dips if dip.is_reported]
    if not reported:
        return []
    worst = min(reported, key=lambda dip: dip.effect.rate_ratio.value)
    effect = worst.effect
    return [
        Finding(
            severity="warning" if any(dip.is_grave for dip in reported) else "note",
            cells=identities(dip.summary for dip in reported),
            figures=CheckpointDipsFigures(
                cells_count=len(reported),
                worst_cell=worst.summary.cell.key,
                rate_ratio=effect.rate_ratio.value,
                rate_ratio_high=effect.rate_ratio.high,
                lost_share=effect.lost_share,
                p99_during_ns=effect.p99_during_ns,
                p99_else_ns=effect.p99_else_ns,
                seconds_during_count=effect.seconds_during,
                seconds_else_count=effect.seconds_else,
                worst_summary_cell=worst.summary.cell,
                effect=effect,
            ),
        )
    ]


def _concerned(worst: Cell, count: int) -> str:
    if count == 1:
        return format_cell(worst)
    return f"{format_cell(worst)} (the worst of {format_plural(count, 'test')})"


def _tail(effect: CheckpointEffect) -> str:
    if not effect.p99_during_ns or not effect.p99_else_ns:
        return ""
    return (
        f", and p99 was {format_duration_ns(effect.p99_during_ns)} instead of "
        f"{format_duration_ns(effect.p99_else_ns)}"
    )
