"""The outcome of all crashes of a trial: whether durability and atomicity held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from seatrial.results.model import Sample
from seatrial.stats.wording import format_count, format_plural
from seatrial.study.cell import Cell

KIND: Final = "crash"


class CrashOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """All crashes of one cell.

    Attributes:
        crashes: Number of crashes.
        acknowledged: Transactions acknowledged to the client, over all crashes.
        lost: Acknowledged transactions that were missing after a crash.
        half: Transactions that were partially applied; a lower bound.
        unsent: Transactions that were visible but never committed.
        altered: Transactions that had another content than was sent.
        gone: Crashes after which the database did not recover.
        index_faults: Crashes after which pg_amcheck reported corrupt tables or indexes.
        in_flight: Transactions whose commit was sent but not answered.
        recovery_s_max: The longest time until the server accepted connections again.
    """

    crashes: int
    acknowledged: int
    lost: int
    half: int
    unsent: int
    altered: int
    gone: int
    index_faults: int
    in_flight: int
    recovery_s_max: float

    @property
    def is_ok(self) -> bool:
        """Whether all acknowledged transactions were present, and nothing else."""
        return not (
            self.lost or self.half or self.unsent or self.altered or self.gone or self.index_faults
        )


def is_crash_trial(cell: Cell) -> bool:
    """Return whether a cell is a crash trial."""
    return cell.kind == KIND


def crash_outcome(samples: Iterable[Sample]) -> CrashOutcome:
    """Return the outcome over all samples of a crash trial."""
    all_samples = list(samples)
    return CrashOutcome(
        crashes=len(all_samples),
        acknowledged=sum(sample.outcome.completed for sample in all_samples),
        lost=_sum(all_samples, "lost"),
        half=_sum(all_samples, "half"),
        unsent=_sum(all_samples, "unsent"),
        altered=_sum(all_samples, "altered"),
        gone=sum(not sample.counters.get("crash_came_back", 0.0) for sample in all_samples),
        index_faults=_sum(all_samples, "index_faults"),
        in_flight=_sum(all_samples, "in_flight"),
        recovery_s_max=max(
            (sample.counters.get("crash_recovery_s", 0.0) for sample in all_samples), default=0.0
        ),
    )


def crash_text(outcome: CrashOutcome) -> str:
    """Return the outcome of a crash trial in one phrase."""
    crashes = format_plural(outcome.crashes, "crash", "crashes")
    if outcome.is_ok:
        acknowledged = format_plural(outcome.acknowledged, "acknowledged transaction")
        return f"none of {acknowledged} lost in {crashes}"
    return f"durability violated: {violations_text(outcome)} in {crashes}"


def violations_text(outcome: CrashOutcome) -> str:
    """Return the violations as a list in words; empty if there were none."""
    counts: Mapping[str, int] = {
        "{} lost": outcome.lost,
        "at least {} partially applied": outcome.half,
        "{} visible but never committed": outcome.unsent,
        "{} with altered content": outcome.altered,
    }
    parts = [text.format(format_count(count)) for text, count in counts.items() if count]
    if outcome.gone:
        parts.append(f"no recovery after {format_plural(outcome.gone, 'crash', 'crashes')}")
    if outcome.index_faults:
        times = format_plural(outcome.index_faults, "crash", "crashes")
        parts.append(f"corrupt tables or indexes after {times}")
    return ", ".join(parts)


def _sum(samples: Iterable[Sample], name: str) -> int:
    return round(sum(sample.counters.get(f"crash_{name}", 0.0) for sample in samples))
