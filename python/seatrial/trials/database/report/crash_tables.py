"""Crash trials in tables: what was acknowledged, and what of it was there after each crash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.report.table import NO_FIGURE, Table, latency_text
from seatrial.results.model import Sample
from seatrial.stats.estimates import estimate_of_rounds
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_count, format_duration_s
from seatrial.trials.database.analysis.crashes import CrashOutcome, crash_outcome

_POWER: Final = {
    "none": "server killed",
    "honest": "power cut",
    "lying": "power cut, lying",
}


def crash_tables(workload: str, cells: Sequence[CellSummary]) -> list[Table]:
    """Return what crash trials showed, and each of their crashes.

    Args:
        workload: Name.
        cells: Of kind ``crash``, at least one.
    """
    return [_trials(workload, cells), _crashes(workload, cells)]


def _trials(workload: str, cells: Sequence[CellSummary]) -> Table:
    """Return a row for each trial: how often it was crashed, and whether all was kept."""
    return Table(
        id=f"database-crash-{workload}",
        title="Crash trial: what was acknowledged, and what was there after each crash",
        labels=2,
        headers=["Target", "Crash", "Crashes", "Acknowledged", "Lost", "Half", "Wrong",
                 "Recovery", "Answer"],
        rows=[[*_labels(part), *_trial_texts(part.samples)] for part in cells],
    )  # fmt: skip


def _trial_texts(samples: Sequence[Sample]) -> list[str]:
    outcome = crash_outcome(samples)
    counts = (
        outcome.crashes,
        outcome.acknowledged,
        outcome.lost,
        outcome.half,
        outcome.unsent + outcome.altered,
    )
    return [*map(format_count, counts), _recovery(samples), _answer(outcome)]


def _labels(part: CellSummary) -> list[str]:
    kind = str(part.cell.factors.get("power_cut", "none"))
    scale = f", scale {part.cell.factors['scale']}" if "scale" in part.cell.factors else ""
    return [part.cell.target, _POWER.get(kind, kind) + scale]


def _recovery(samples: Sequence[Sample]) -> str:
    """Return how long recovery took: the mean of the crashes with its interval."""
    lengths_s = [
        sample.counters["crash_recovery_s"]
        for sample in samples
        if sample.counters.get("crash_came_back") and "crash_recovery_s" in sample.counters
    ]
    if not lengths_s:
        return NO_FIGURE
    mean = estimate_of_rounds(lengths_s, "s")
    return latency_text({"mean": _nanoseconds(mean)}, "mean")


def _nanoseconds(mean_s: Estimate) -> Estimate:
    return mean_s.scaled(1e9, "ns")


def _answer(outcome: CrashOutcome) -> str:
    """Return whether the database kept its word, as far as these crashes tell."""
    return "kept its word" if outcome.is_well else "broke its word"


def _crashes(workload: str, cells: Sequence[CellSummary]) -> Table:
    """Return a row for each crash."""
    return Table(
        id=f"database-crashes-{workload}",
        title="Each crash",
        labels=3,
        headers=["Target", "Crash", "Round", "After", "Acknowledged", "In flight",
                 "of these there", "Lost", "Half", "Unsent", "Altered", "Recovery"],
        rows=[
            [*_labels(part), str(sample.round + 1), *_crash_texts(sample)]
            for part in cells
            for sample in part.samples
        ],
    )  # fmt: skip


def _crash_texts(sample: Sample) -> list[str]:
    outcome = crash_outcome([sample])
    kept = round(sample.counters.get("crash_in_flight_kept", 0.0))
    counts = (
        *(outcome.acknowledged, outcome.in_flight, kept),
        *(outcome.lost, outcome.half, outcome.unsent, outcome.altered),
    )
    recovery_s = sample.counters.get("crash_recovery_s", 0.0)
    came_back = bool(sample.counters.get("crash_came_back"))
    return [
        format_duration_s(sample.duration_s),
        *map(format_count, counts),
        format_duration_s(recovery_s) if came_back and recovery_s else "did not come back",
    ]
