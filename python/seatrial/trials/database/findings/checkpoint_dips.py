"""Finding ``checkpoint_dips``: fewer or slower transactions while a checkpoint runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import (
    format_cell,
    format_duration_ns,
    format_estimate,
    format_plural,
    format_share,
)
from seatrial.trials.database.analysis.cells import rounds_of
from seatrial.trials.database.analysis.checkpoints import CheckpointEffect, checkpoint_effect
from seatrial.trials.database.study.workloads import is_of_database

RATE_RATIO_MAX: Final = 0.9
RATE_RATIO_ONCE_MAX: Final = 0.7
"""Of one round, whose scatter is not known."""
RATE_RATIO_WARNING: Final = 0.5
P99_RATIO_MIN: Final = 2.0
P99_RATIO_WARNING: Final = 5.0
SECONDS_MIN: Final = 5
"""Of either kind, over all rounds."""


@dataclass(frozen=True)
class Dip:
    """What checkpoints cost a cell."""

    summary: CellSummary
    effect: CheckpointEffect

    @property
    def is_reported(self) -> bool:
        """Whether it surely has a tenth fewer transactions, or a p99 twice as long."""
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
        """Whether the rate is halved, or p99 five times as long."""
        effect = self.effect
        return (
            effect.rate_ratio.value < RATE_RATIO_WARNING
            or (effect.p99_ratio or 1.0) >= P99_RATIO_WARNING
        )


@from_samples(rank=410, section="Of a database")
def checkpoint_dips(context: Context) -> list[Finding]:
    """Find cells that do worse in the seconds in which a checkpoint runs.

    Means:
        While a checkpoint runs there are fewer transactions, or some take far longer: a mean over
        both tells of neither.

    Decided:
        Seconds of the running phase in which a checkpoint was seen in at least half of the looks,
        against those with at most a tenth; two of either in a round, and five over all. The rate's
        ratio over the rounds is surely below 0.9 (seen in one round only: below 0.7), or p99 is
        twice as long. Warning where the rate is halved or p99 is five times as long; else note.

    Do:
        Make checkpoints fewer and spread them: `max_wal_size`, `checkpoint_timeout`,
        `checkpoint_completion_target`. Then measure for longer than a whole cycle.
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
            kind="checkpoint_dips",
            severity="warning" if any(dip.is_grave for dip in reported) else "note",
            cells=identities(dip.summary for dip in reported),
            sentence=(
                f"While a checkpoint ran, {_concerned(worst, reported)} did "
                f"{format_estimate(effect.rate_ratio)} of its other seconds' rate{_tail(effect)}; "
                f"checkpoints cost it {format_share(max(0.0, effect.lost_share))} of its rate."
            ),
            cause=(
                "A checkpoint writes and syncs all changed pages beside the transactions, and "
                "after its start each page that changes goes whole into the WAL once "
                "(full_page_writes)."
            ),
            evidence={
                "cells_count": len(reported),
                "worst_cell": worst.summary.cell.key,
                "rate_ratio": effect.rate_ratio.value,
                "rate_ratio_high": effect.rate_ratio.high,
                "lost_share": effect.lost_share,
                "p99_during_ns": effect.p99_during_ns,
                "p99_else_ns": effect.p99_else_ns,
                "seconds_during_count": effect.seconds_during,
                "seconds_else_count": effect.seconds_else,
            },
            next=(
                "Spread checkpoints and make them fewer: checkpoint_timeout = 15min, max_wal_size "
                "several times the WAL written in that time, checkpoint_completion_target = 0.9; "
                "measure for longer than one such cycle. wal_compression makes full pages smaller."
            ),
        )
    ]


def _concerned(worst: Dip, reported: list[Dip]) -> str:
    if len(reported) == 1:
        return format_cell(worst.summary.cell)
    return (
        f"the worst of {format_plural(len(reported), 'cell')} ({format_cell(worst.summary.cell)})"
    )


def _tail(effect: CheckpointEffect) -> str:
    if not effect.p99_during_ns or not effect.p99_else_ns:
        return ""
    return (
        f", with p99 {format_duration_ns(effect.p99_during_ns)} against "
        f"{format_duration_ns(effect.p99_else_ns)}"
    )
