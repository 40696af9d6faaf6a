"""What is known of a whole run: its cells, findings, verdict, and what each topic adds."""

from __future__ import annotations

from typing import Any

import msgspec

from seatrial.results.model import Run
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.steady.model import SteadyState
from seatrial.study.thresholds import Threshold


class ThresholdResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one threshold.

    Attributes:
        threshold: The demand.
        met: Whether every cell that it selects keeps it.
        doubtful: Whether the worst cell's interval reaches across the limit, so that another run
            might judge otherwise.
        worst: The worst cell's figure in ``threshold.base_unit``; None where there is none.
        cell: Key of the worst cell; empty where there is none.
        sentence: Demand, figure with its doubt, and cell, or why it cannot be judged.
    """

    threshold: Threshold
    met: bool
    doubtful: bool
    worst: Estimate | None
    cell: str
    sentence: str


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report or a terminal prints of one run.

    Attributes:
        run: The run as stored.
        cells: In the order of the plan.
        findings: The gravest first.
        verdict: One sentence: how fast, and the gravest finding.
        thresholds: What became of the study's thresholds, in their order.
        steady: Of each cell that was measured for long enough to tell.
        analyses: What each topic makes of its cells, by the topic's name; read by the topic's own
            function, such as ``audits_of``.
    """

    run: Run
    cells: list[CellSummary]
    findings: list[Finding]
    verdict: str
    thresholds: list[ThresholdResult] = []
    steady: list[SteadyState] = []
    analyses: dict[str, Any] = {}
