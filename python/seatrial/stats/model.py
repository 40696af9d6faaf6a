"""Summaries of cells, and findings: results of the analysis. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import msgspec

from seatrial.published import HIDDEN, one_of, publish
from seatrial.results.model import Sample
from seatrial.stats.estimate import AtLeast, Estimate, Spread
from seatrial.study.cell import CELL_OPERATIONS, Cell, FactorValue

__all__ = ["AtLeast", "CellSummary", "Estimate", "Finding", "Spread"]


class CellSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One cell over all its rounds.

    Attributes:
        cell: The measured cell.
        iops: Completed requests per second.
        bandwidth: Bytes per second.
        latency: Response time by operation kind and percentile name (``p50``, ``p90``, ``p99``,
            ``p99.9``, ``max``, ``mean``), in ns; a percentile is absent when too few requests
            completed to know it.
        latency_at_least: By operation kind and percentile name, the lower bound (ns) of a
            percentile that is absent because requests were skipped or never ended.
        completed: Requests over all rounds.
        failed: Requests over all rounds.
        blank: The sentence shown instead of a figure when nothing completed; else empty.
        samples: In order of rounds.
        spread: Distribution of the rounds' rates; None when measured once.
        running_from_s: Latest beginning of the running phase among the rounds, from the sample's
            start; figures are of the running phase. 0 where no start-up phase was excluded.
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


class FindingText(NamedTuple):
    """The text of a finding.

    Attributes:
        sentence: What was observed, with figures.
        cause: The likely cause.
        next: The next command to try or thing to do.
    """

    sentence: str
    cause: str
    next: str


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a finding, by name with unit last; its text is derived from these alone.

    The published ones are the finding's ``evidence`` (docs/schema/figures.schema.json); hidden ones
    are in the text only. The tag of each is the kind of its findings.
    """

    def text(self) -> FindingText:
        """Return sentence, cause and next step.

        Raises:
            RuntimeError: when the kind of finding has no text, a defect of its rule.
        """
        raise RuntimeError(f"{type(self).__name__} has no text")

    def in_short(self, cells_count: int) -> str:
        """Return its short form for a verdict where it is the most severe; empty for its sentence.

        Args:
            cells_count: How many cells the finding concerns.
        """
        del cells_count
        return ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One statement derived from samples.

    Attributes:
        severity: ``critical`` (do not trust or do not run a database on it), ``warning`` or
            ``note``.
        cells: Factors of the affected cells; empty when it is about the machine or the run.
        figures: What was observed.
    """

    PUBLISHED: ClassVar = ("kind", "sentence", "cause", "evidence", "next")

    severity: Annotated[str, one_of("critical", "warning", "note")]
    cells: list[dict[str, FactorValue]]
    figures: Annotated[Figures, HIDDEN]

    @property
    def kind(self) -> str:
        """Stable name, with its own section in docs/findings.md, such as `stall`."""
        return str(self.figures.__struct_config__.tag)

    @property
    def sentence(self) -> str:
        """What was observed, with figures."""
        return self.figures.text().sentence

    @property
    def cause(self) -> str:
        """The likely cause."""
        return self.figures.text().cause

    @property
    def evidence(self) -> dict[str, Any]:
        """The figures behind it; `figures.schema.json` lists them by kind."""
        evidence: dict[str, Any] = publish(self.figures)
        return evidence

    @property
    def next(self) -> str:
        """The next command to try or thing to do."""
        return self.figures.text().next


class AnalysedRun(Protocol):
    """A run, or a part of one, with the topics' analyses."""

    @property
    def analyses(self) -> Mapping[str, Any]:
        """Analysis of each topic's cells, by the topic's name."""


def is_breaking(cell: Cell) -> bool:
    """Return whether a cell injects a fault."""
    return bool(cell.parsed.fail)


def is_broken(sample: Sample) -> bool:
    """Return whether a fault was injected into the array during a sample, or was to be."""
    return is_breaking(sample.cell) or bool(sample.layout and sample.layout.events)


def natural_order(cell: Cell) -> tuple[object, ...]:
    """Return a key that sorts cells by workload and target, reads first, small blocks first."""
    known = cell.operation in CELL_OPERATIONS
    rank = CELL_OPERATIONS.index(cell.operation) if known else len(CELL_OPERATIONS)
    factors = tuple(
        (name, isinstance(value, str), value) for name, value in sorted(cell.factors.items())
    )
    size_bytes = cell.block_size_bytes
    return (cell.workload, cell.target, rank, size_bytes, cell.threads, cell.depth, factors)
