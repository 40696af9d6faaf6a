"""What an analysis yields: estimates, summaries of cells, findings. Pure data."""

from __future__ import annotations

from typing import Any

import msgspec

from seatrial.results.model import Run, Sample
from seatrial.stats.estimate import AtLeast, Estimate, Spread
from seatrial.stats.steady.model import SteadyState
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.thresholds import Threshold
from seatrial.trials.audit.analysis.model import TableAudit
from seatrial.trials.database.analysis.model import DatabaseAnalysis
from seatrial.trials.layouts.analysis.model import LayoutAnalysis
from seatrial.trials.loadline.analysis.model import LoadLine
from seatrial.trials.replay.analysis.model import ReplayCell

__all__ = ["AtLeast", "CellSummary", "Estimate", "Finding", "Spread", "Summary", "ThresholdResult"]


class CellSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One cell over all its rounds.

    Attributes:
        cell: What was measured.
        iops: Completed requests per second.
        bandwidth: Bytes per second.
        latency: Response time by operation kind and percentile name (``p50``, ``p90``, ``p99``,
            ``p99.9``, ``max``, ``mean``), in ns; a percentile is absent when too few requests
            completed to know it.
        latency_at_least: By operation kind and percentile name, the lower bound (ns) of a
            percentile that is absent because requests were skipped or never ended.
        completed: Requests over all rounds.
        failed: Requests over all rounds.
        blank: The sentence that stands in place of a figure when nothing completed; else empty.
        samples: In order of rounds.
        spread: How the rounds' rates lie; None when measured once.
        running_from_s: Where the running phase begins in the round in which it begins last, from
            the sample's start; the figures rest on it. 0 where no start-up phase was left out.
    """

    cell: Cell
    iops: Estimate
    bandwidth: Estimate
    latency: dict[str, dict[str, Estimate]]
    completed: int
    failed: int
    blank: str = ""
    samples: list[Sample]
    spread: Spread | None = None
    running_from_s: float = 0.0
    latency_at_least: dict[str, dict[str, AtLeast]] = {}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One statement drawn from samples.

    Attributes:
        kind: Stable name, one section of docs/findings.md each, such as ``stall``.
        severity: ``critical`` (do not trust or do not run a database on it), ``warning`` or
            ``note``.
        cells: Factors of the cells concerned; empty when it concerns the machine or the run.
        sentence: What was seen, with figures.
        cause: The likely cause.
        evidence: The figures behind it, by name with unit last.
        next: The next command to try or thing to do.
    """

    kind: str
    severity: str
    cells: list[dict[str, FactorValue]]
    sentence: str
    cause: str
    evidence: dict[str, Any]
    next: str


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
