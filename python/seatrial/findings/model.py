"""The summary of a run: cells, findings, verdict and the analyses of the topics."""

from __future__ import annotations

from typing import Any

import msgspec

from seatrial.results.model import Run
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.steady.phases import SteadyState
from seatrial.study.thresholds import Threshold

Analyses = dict[str, Any]
"""The topics' analyses of a run, by the topic's name; see ``Topic.analyse``."""


class ThresholdResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one threshold.

    Attributes:
        threshold: The threshold.
        met: Whether every selected cell meets it.
        doubtful: Whether the interval of the worst cell includes the limit, or of any cell if all
            meet it, so that another run might give the opposite result.
        worst: The worst cell's figure in ``threshold.base_unit``; None if absent. Cells that
            certainly miss the limit are worse than those that may meet it.
        cell: Key of the worst cell; empty if there is none.
        sentence: Condition, figure with its interval and cell, or why it cannot be judged.
    """

    threshold: Threshold
    met: bool
    doubtful: bool
    worst: Estimate | None
    cell: str
    sentence: str

    @property
    def mark(self) -> str:
        """``kept``, ``breached``, or ``not shown`` by an unknown figure or a lower bound."""
        if self.met:
            return "kept"
        is_open = self.worst is None or (self.doubtful and self.worst.is_lower_bound)
        return "not shown" if is_open else "breached"


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report or a terminal prints about one run.

    Attributes:
        run: The run as stored.
        cells: In the order of the plan.
        findings: Worst first.
        verdict: One sentence: speed and the worst finding.
        thresholds: Results of the study's thresholds, in their order.
        steady: For each cell that was measured for long enough.
        analyses: The analysis of each topic, by the topic's name; read by the topic's own
            function, such as ``audits_of``.
    """

    run: Run
    cells: list[CellSummary]
    findings: list[Finding]
    verdict: str
    thresholds: list[ThresholdResult] = []
    steady: list[SteadyState] = []
    analyses: Analyses = {}
