"""Pure functions over stored samples: estimates, summaries, findings, verdict, wording.

Nothing here measures, reads files or writes them, so any report can be made again from the
results file, on another machine, years later. scipy is imported by the first function that needs
it, never by importing this room.
"""

from seatrial.findings.model import Summary, ThresholdResult
from seatrial.findings.registry import (
    KINDS,
    preflight,
)
from seatrial.findings.summary import summarise, summarise_cell
from seatrial.findings.thresholds import evaluate
from seatrial.findings.verdict import verdict
from seatrial.stats.estimates import estimate_of_rounds, settled
from seatrial.stats.model import CellSummary, Estimate, Finding

__all__ = [
    "KINDS",
    "CellSummary",
    "Estimate",
    "Finding",
    "Summary",
    "ThresholdResult",
    "estimate_of_rounds",
    "evaluate",
    "preflight",
    "settled",
    "summarise",
    "summarise_cell",
    "verdict",
]
