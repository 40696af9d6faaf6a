"""Pure functions over stored samples: estimates, summaries, findings, verdict, wording.

Nothing here measures, reads files or writes them, so any report can be made again from the
results file, on another machine, years later. scipy is imported by the first function that needs
it, never by importing this room.
"""

from seatrial.analysis.estimates import estimate_of_rounds, settled
from seatrial.analysis.findings import KINDS, preflight
from seatrial.analysis.model import CellSummary, Estimate, Finding, Summary, ThresholdResult
from seatrial.analysis.summary import summarise, summarise_cell
from seatrial.analysis.thresholds import evaluate
from seatrial.analysis.verdict import verdict

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
