"""What pure functions over samples yield: summaries of cells, and findings. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

import msgspec

from seatrial.published import one_of
from seatrial.results.model import Sample
from seatrial.stats.estimate import AtLeast, Estimate, Spread
from seatrial.study.cell import Cell, FactorValue

__all__ = ["AtLeast", "CellSummary", "Estimate", "Finding", "Spread"]


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
    severity: Annotated[str, one_of("critical", "warning", "note")]
    cells: list[dict[str, FactorValue]]
    sentence: str
    cause: str
    evidence: dict[str, Any]
    next: str


class Analysed(Protocol):
    """A run, or a part of one, with what the topics make of it."""

    @property
    def analyses(self) -> Mapping[str, Any]:
        """What each topic makes of its cells, by the topic's name."""
