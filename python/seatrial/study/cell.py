"""The cell: one workload with one value for every factor on one target."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Final

import msgspec

from seatrial.study.spec import Spec

CELL_OPERATIONS: Final = ("read", "write", "mixed", "commit", "copy")
"""Operations of block I/O, in order of presentation."""

FactorValue = str | int | float | bool

SpecDocument = dict[str, Any]
"""A specification as a JSON document for the engine (docs/engine.md), read as ``Cell.parsed``."""


class Cell(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One workload with one value for every factor on one target.

    Attributes:
        key: Unique within a plan and stable between runs, such as ``matrix/read/4096B/10t/1d``;
            used by resume and compare.
        target: Label of the target in the study.
        workload: Name of the workload in the study.
        kind: The kind of its workload, or one of a topic's ``recorded_kinds``.
        operation: A word for what it does, such as ``read``, ``commit`` or ``transaction``.
        block_size_bytes: Size of one operation; 0 where the workload has a distribution.
        threads: Concurrent workers; of a database, clients of each process; 0 if that is
            unknown, as others did it.
        depth: Requests that each worker keeps in flight.
        factors: All other factors, such as ``pattern``, ``file``, ``zone``, ``method``.
        spec: The engine's specification for ``_core.start``, without the target's path, the seed
            and the duration, which are added when it is measured; for a database, with a
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
    spec: SpecDocument = {}

    @cached_property
    def parsed(self) -> Spec:
        """The specification as a typed structure."""
        return msgspec.convert(self.spec, Spec)

    def identity(self) -> dict[str, FactorValue]:
        """Return the cell's factors as one flat mapping, without the engine's specification."""
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
        """The key without the target's label, which a plan with several targets puts first."""
        prefix = f"{self.target}/"
        has_prefix = self.key.startswith(f"{prefix}{self.workload}/")
        return self.key.removeprefix(prefix) if has_prefix else self.key


NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAME_RULE: Final = (
    "A name has at most 64 letters, digits, '-' and '_', and begins with a letter or digit"
)
