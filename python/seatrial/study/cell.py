"""The cell: one workload with one value for every factor on one target."""

from __future__ import annotations

from typing import Any

import msgspec

FactorValue = str | int | float | bool


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One workload with one value for every factor on one target.

    Attributes:
        key: Unique within a plan and stable between runs, such as
            ``matrix/read/4096B/10t/1d``; what resume and compare pair by.
        target: Label of the target in the study.
        workload: Name of the workload in the study.
        kind: One of ``fill``, ``matrix``, ``sequential``, ``copy``, ``map``, ``commit``,
            ``four``, ``mix``, ``io``, ``loadline``, ``pgbench``, ``telemetry``, ``batch``,
            ``crash``, ``replay``.
        operation: ``read``, ``write``, ``mixed``, ``commit``, ``copy``, ``transaction``,
            ``batch`` or ``statement``.
        block_size_bytes: Size of one operation; 0 where the workload has a distribution.
        threads: Concurrent workers; of a database, clients of each process.
        depth: Requests that each worker keeps in flight.
        factors: Everything else that varies, such as ``pattern``, ``file``, ``zone``, ``method``.
        spec: What the engine is told, ready for ``_core.start`` but for the target's path,
            the seed and the duration, which the measuring room fills in; of a database, with a
            ``DatabaseSpec`` under ``database``.
    """

    key: str
    target: str
    workload: str
    kind: str
    operation: str
    block_size_bytes: int
    threads: int
    depth: int = 1
    factors: dict[str, FactorValue] = {}
    spec: dict[str, Any] = {}

    def identity(self) -> dict[str, FactorValue]:
        """Return the cell's factors as one flat mapping, without what the engine is told."""
        fixed: dict[str, FactorValue] = {
            "target": self.target,
            "workload": self.workload,
            "operation": self.operation,
            "block_size_bytes": self.block_size_bytes,
            "threads": self.threads,
            "depth": self.depth,
        }
        return fixed | self.factors

    @property
    def key_without_target(self) -> str:
        """The key that the same cell has on any target; a plan of several puts the label first."""
        prefix = f"{self.target}/"
        has_prefix = self.key.startswith(f"{prefix}{self.workload}/")
        return self.key.removeprefix(prefix) if has_prefix else self.key
