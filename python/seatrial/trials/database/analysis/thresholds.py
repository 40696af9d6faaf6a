"""Figures that thresholds hold a database to, and nothing else."""

from __future__ import annotations

from seatrial.stats.estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_plural


def database_figure(quantity: str, summary: CellSummary) -> Estimate | str | None:
    """Return the transactions per second of a cell, or a batch's time, or why there is none."""
    if quantity not in ("tps", "real"):
        return None
    if summary.blank:
        return summary.blank
    return summary.iops if quantity == "tps" else _real(summary)


def _real(summary: CellSummary) -> Estimate | str:
    """Return how long a batch took from start to end, or why that is not known of every round."""
    times_ns = [
        sample.database.batch_s["real"] * 1e9
        for sample in counted(summary.samples)
        if sample.outcome.completed and sample.database and "real" in sample.database.batch_s
    ]
    rounds = len(counted(summary.samples))
    if len(times_ns) < rounds:
        reported = format_plural(rounds, "round")
        return f"it did not end well in {rounds - len(times_ns)} of {reported}"
    return estimate_of_rounds(times_ns, "ns")
