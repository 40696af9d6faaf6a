"""Data of an audit: tables of cells, fitted models, gaps.

A *table* contains the cells of one operation on one target that differ only in block size and
concurrency, as printed by bm-flash and measured by the workload ``matrix``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from seatrial.stats.estimate import Estimate
from seatrial.stats.model import AnalysedRun

Form = Literal["read", "locked_write", "parity_write", "none"]
"""The equation of docs/method.md that fits a table; ``none`` if no form fits."""

GapKind = Literal["bound_broken", "start_transient", "collapse", "too_fast", "absent", "noise"]

GapStatus = Literal["seen_once", "persistent", "transient"]
"""``seen_once``: one round only (always so in an imported table); ``persistent``: in every round;
``transient``: in some rounds, not in others."""


class TablePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of a table.

    Attributes:
        key: Key of the cell, as in ``CellSummary.cell.key``; for an absent cell the key that it
            would have.
        block_size_bytes: Size of one request.
        threads: Concurrent workers.
        depth: Requests in flight per worker.
        iops: The figure; None if the cell is absent or completed nothing.
        rounds_per_s: Rate of each round, in order of rounds; empty if absent.
        position: Position in the order of first measurements, from 0.
        duration_s: Mean duration of its samples; None if unknown.
        measured: Whether a measurement was attempted; False for a cell that an adaptive plan
            leaves to prediction, which is not a gap.
    """

    key: str
    block_size_bytes: int
    threads: int
    depth: int
    iops: Estimate | None
    rounds_per_s: list[float]
    position: int
    duration_s: float | None
    measured: bool = True

    @property
    def concurrency(self) -> int:
        """Requests in flight: threads times depth."""
        return self.threads * self.depth


class CellTable(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of one operation that differ only in block size and concurrency.

    Attributes:
        target: Label of the target.
        workload: Name of the workload.
        operation: ``read`` or ``write``.
        factors: All other factors, which the cells have in common.
        imported: Whether it was imported, so that it cannot be measured again.
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
        low: Lower end of the 95 % interval; None if the table does not determine it.
        high: Upper end of the 95 % interval; None if the table does not determine it.
        unit: ``us``, ``MiB/s``, ``us/MiB``, ``KiB``, ``ratio`` or ``count``.
        sentence: Its meaning in words, with figures; empty if there is nothing to report.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    unit: str
    sentence: str


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction of a model for one cell.

    Attributes:
        iops: Requests per second.
        low: Lower end of the 95 % interval of a new measurement.
        high: Upper end of the 95 % interval of a new measurement.
    """

    iops: float
    low: float
    high: float

    @property
    def half_width_share(self) -> float:
        """Half of the interval's width over the rate."""
        return (self.high - self.low) / 2 / self.iops


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that belong together and deviate strongly from the rest of the table.

    Attributes:
        kind: Its class.
        keys: Keys of the cells, in the table's order.
        status: In how many rounds it occurred.
        ratio: Observed over predicted for the worst cell, in the round farthest off; 0 if the cells
            are absent.
        sentence: Description with figures.
        cause: The likely cause.
        drain_mib_per_s: For a start transient, the implied drain rate of the data written before;
            None if unknown.
    """

    kind: GapKind
    keys: list[str]
    status: GapStatus
    ratio: float
    sentence: str
    cause: str
    drain_mib_per_s: float | None = None


class TableAudit(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of one table.

    Attributes:
        table: The table.
        form: The equation with the lowest cross-validation error.
        holds: Whether the model fits the table; if not, ``gaps`` come from monotonicity and there
            are not predictions.
        sentence: Whether the model fits, with its errors and the difference between rounds.
        parameters: Parameters of the model; empty if it does not fit.
        predictions: By key, for every point of the table, including absent ones; empty if the
            model does not fit.
        error_share_median: Median relative error over the cells that are not gaps.
        error_share_p90: Their 90th percentile.
        held_out_share_median: Median relative cross-validation error.
        scale_log: 1.4826 times the median absolute residual of the logarithms.
        rounds_share_median: Median difference between two rounds of one cell; None if each was
            measured once.
        gaps: Worst first.
        limits: Sentences on the range in which the model is valid.
        rests_on: Keys of the cells used for the fit: all with a figure, except those that others
            contradict by order; empty if the model does not fit.
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


def audits_of(analysed: AnalysedRun) -> list[TableAudit]:
    """Return the audits of a run, one for each table of block sizes and concurrency."""
    found: list[TableAudit] = analysed.analyses.get("audit", [])
    return found
