"""What the crashes of a trial say together: whether the database kept its word."""

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
        crashes: How many.
        acknowledged: Transactions that were acknowledged to the client, over all of them.
        lost: Of these, that were not there after a crash.
        half: That were there in part, at least.
        unsent: That were there, and were never to be committed.
        altered: That were there with another content than was sent.
        gone: Crashes after which the database did not come back.
        index_faults: Crashes after which pg_amcheck found fault with tables or indexes.
        in_flight: Whose commit was sent and not answered.
        recovery_s_max: The longest time until the server took connections again.
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
    def is_well(self) -> bool:
        """Whether all that was acknowledged was there, and nothing else."""
        return not (
            self.lost or self.half or self.unsent or self.altered or self.gone or self.index_faults
        )


def is_crash_trial(cell: Cell) -> bool:
    """Tell whether a cell is a crash trial."""
    return cell.kind == KIND


def crash_outcome(samples: Iterable[Sample]) -> CrashOutcome:
    """Return what the samples of a crash trial say together."""
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


def crash_words(outcome: CrashOutcome) -> str:
    """Return what a crash trial showed, as the beginning of a sentence without a subject."""
    crashes = format_plural(outcome.crashes, "crash", "crashes")
    if outcome.is_well:
        acknowledged = format_plural(outcome.acknowledged, "acknowledged transaction")
        return f"kept all of {acknowledged} in {crashes}"
    return f"broke its word in {crashes}"


def wrong_words(outcome: CrashOutcome) -> str:
    """Return what was wrong, in a list; empty where nothing was."""
    reported: Mapping[str, int] = {
        "{} lost": outcome.lost,
        "at least {} there in part": outcome.half,
        "{} there that were never committed": outcome.unsent,
        "{} there with another content": outcome.altered,
    }
    words = [text.format(format_count(count)) for text, count in reported.items() if count]
    if outcome.gone:
        words.append(f"no recovery after {format_plural(outcome.gone, 'crash', 'crashes')}")
    if outcome.index_faults:
        times = format_plural(outcome.index_faults, "crash", "crashes")
        words.append(f"tables or indexes at fault after {times}")
    return ", ".join(words)


def _sum(samples: Iterable[Sample], name: str) -> int:
    return round(sum(sample.counters.get(f"crash_{name}", 0.0) for sample in samples))
