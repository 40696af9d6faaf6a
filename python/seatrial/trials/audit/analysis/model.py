"""What an audit takes and gives: tables of cells, fitted models, gaps, bounds. Pure data.

A *table* is the cells of one operation on one target that differ in block size and concurrency
alone: what bm-flash prints, and what the workload ``matrix`` measures.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from seatrial.stats.estimate import Estimate
from seatrial.stats.model import Analysed

Form = Literal["read", "locked_write", "parity_write", "none"]
"""Which equation of docs/method.md describes a table; ``none`` where no form holds."""

GapKind = Literal["bound_broken", "start_transient", "collapse", "too_fast", "absent", "noise"]

GapStatus = Literal["seen_once", "persistent", "transient"]
"""``seen_once``: one round only (always so in an imported table); ``persistent``: in every round;
``transient``: in some rounds, not in others."""


class TablePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of a table.

    Attributes:
        key: Key of the cell, as in ``CellSummary.cell.key``; of an absent cell the key that it
            would have.
        block_size_bytes: Size of one request.
        threads: Concurrent workers.
        depth: Requests that each keeps in flight.
        iops: The figure; None where the cell is absent (nothing was told of it) or completed
            nothing.
        rounds_per_s: Each round's rate, in order of rounds; empty where absent.
        place: Place in the order in which the cells were first measured, from 0.
        duration_s: Mean length of its samples; None where it is not known.
        measured: Whether anybody tried to measure it; not so for a cell that an adaptive plan
            leaves to be predicted, which is no gap.
    """

    key: str
    block_size_bytes: int
    threads: int
    depth: int
    iops: Estimate | None
    rounds_per_s: list[float]
    place: int
    duration_s: float | None
    measured: bool = True

    @property
    def concurrency(self) -> int:
        """Requests in flight: threads times depth."""
        return self.threads * self.depth


class CellTable(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of one operation that differ in block size and concurrency alone.

    Attributes:
        target: Label of the target.
        workload: Name of the workload.
        operation: ``read`` or ``write``.
        factors: What else all of the cells have in common.
        imported: Whether it comes from a foreign result, which nobody here can measure again.
        points: By block size, then concurrency.
    """

    target: str
    workload: str
    operation: str
    factors: dict[str, str | int | float | bool]
    imported: bool
    points: list[TablePoint]


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One fitted parameter of a model.

    Attributes:
        name: Stable name with its unit last, such as ``host_service_us``.
        value: Its value.
        low: Lower end of the 95 % interval; None where the table does not determine it.
        high: Upper end of the 95 % interval; None where the table does not determine it.
        unit: ``us``, ``MiB/s``, ``us/MiB``, ``KiB``, ``ratio`` or ``count``.
        sentence: What it means, in words with figures; empty where it says nothing to a reader.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    unit: str
    sentence: str


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says of one cell.

    Attributes:
        iops: Requests per second.
        low: Lower end of the 95 % interval of a new measurement.
        high: Upper end of the 95 % interval of a new measurement.
    """

    iops: float
    low: float
    high: float


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that belong together and are far from what the rest of the table says.

    Attributes:
        kind: Its class.
        keys: Keys of the cells, in the table's order.
        status: How often it was seen.
        ratio: Observed over predicted, of the worst cell; 0 where the cells are absent.
        sentence: What was seen, with figures.
        cause: The likely cause.
        drain_mib_per_s: Of a start transient, the rate at which what was written before must
            have drained; None where nothing tells.
    """

    kind: GapKind
    keys: list[str]
    status: GapStatus
    ratio: float
    sentence: str
    cause: str
    drain_mib_per_s: float | None = None


class TableAudit(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit of one table found.

    Attributes:
        table: The table.
        form: The equation that was chosen, by held-out error.
        holds: Whether the model describes the table; where not, ``gaps`` come from monotonicity
            and nothing is predicted.
        sentence: Whether it holds, with its error beside the difference between rounds.
        parameters: Of the model; empty where it does not hold.
        predictions: By key, of every point of the table, absent ones included; empty where the
            model does not hold.
        error_share_median: Median of the relative errors over the cells that are not gaps.
        error_share_p90: Their 90th percentile.
        held_out_share_median: Median relative error of cells that the fit had not seen.
        scale_log: 1.4826 times the median absolute residual of the logarithms.
        rounds_share_median: By how much two rounds of one cell differ, typically; None when each
            was measured once.
        gaps: The gravest first.
        limits: Sentences on where the model must not be asked.
        rests_on: Keys of the cells that the model was fitted to: all that have a figure, but for
            those that others contradict by order; empty where it does not hold.
    """

    table: CellTable
    form: Form
    holds: bool
    sentence: str
    parameters: list[Parameter]
    predictions: dict[str, Prediction]
    error_share_median: float | None
    error_share_p90: float | None
    held_out_share_median: float | None
    scale_log: float | None
    rounds_share_median: float | None = None
    gaps: list[Gap]
    limits: list[str] = []
    rests_on: list[str] = []


def audits_of(analysed: Analysed) -> list[TableAudit]:
    """Return the audits of a run, one of each table of block sizes and concurrency."""
    found: list[TableAudit] = analysed.analyses.get("audit", [])
    return found
