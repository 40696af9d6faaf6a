"""What is known of a whole run: its cells, findings, verdict, and what each topic adds."""

from __future__ import annotations

from typing import Any

import msgspec

from seatrial.results.model import Run
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.steady.model import SteadyState
from seatrial.study.thresholds import Threshold
from seatrial.trials.audit.analysis.model import TableAudit
from seatrial.trials.database.analysis.model import DatabaseAnalysis
from seatrial.trials.layouts.analysis.model import LayoutAnalysis
from seatrial.trials.loadline.analysis.model import LoadLine
from seatrial.trials.replay.analysis.model import ReplayCell


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
        audits: Of each table of block sizes and concurrency that has enough cells.
        steady: Of each cell that was measured for long enough to tell.
        load_lines: Of each workload that sought one.
        database: Of a run's database cells; None where there are none.
        layouts: Of a run's layouts; None where it has none.
        replays: Of each of a run's cells that plays a trace.
        analyses: What further topics make of their cells, by the topic's name.
    """

    run: Run
    cells: list[CellSummary]
    findings: list[Finding]
    verdict: str
    thresholds: list[ThresholdResult] = []
    audits: list[TableAudit] = []
    steady: list[SteadyState] = []
    load_lines: list[LoadLine] = []
    database: DatabaseAnalysis | None = None
    layouts: LayoutAnalysis | None = None
    replays: list[ReplayCell] = []
    analyses: dict[str, Any] = {}
