"""Measures I/O cells: one sample each, with counters of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from seatrial import _core
from seatrial.measure.background import NoBackground
from seatrial.measure.descriptors import DescriptorNeed
from seatrial.measure.engine import SampleContext, measure_spec, sample_of
from seatrial.measure.recorder import SystemCounters
from seatrial.results.model import Sample
from seatrial.study.cell import Cell


def measure_cell(cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
    """Measure one cell once.

    Args:
        cell: The cell.
        spec: The complete specification for the engine (docs/engine.md), with paths, seed and
            duration.
        sample_context: Round and position, watcher, and background activity.

    Returns:
        The sample, not stored yet; its status is ``interrupted`` if the user stopped it.

    Raises:
        TargetError: if the target cannot be opened.
        EngineError: if the engine rejects the specification or fails.
    """
    path = spec["target"].get("path")
    target_path = Path(path) if path else None
    with sample_context.background or NoBackground():
        system = SystemCounters(target_path)
        measured = measure_spec(spec, sample_context.watcher, sample_context.opened)
        counters = system.grown()
    return sample_of(cell, sample_context, measured, counters)


_HAS_SEQUENCES: Final = ("commit", "copy")
"""Operations that do not use io_uring."""


def descriptors(cell: Cell) -> DescriptorNeed:
    """Return one descriptor for each thread that has an io_uring."""
    return DescriptorNeed(
        here=cell.threads if _has_rings(cell) else 0,
        why=f"Each of its {cell.threads} threads has its own io_uring",
        takes_fewer="use fewer threads, or --engine psync, which needs no descriptors",
    )


def _has_rings(cell: Cell) -> bool:
    """Return whether each thread of a cell has an io_uring, by the rules of the engine."""
    engine = cell.parsed.engine
    if cell.parsed.target.kind == "simulated" or cell.operation in _HAS_SEQUENCES:
        return False
    if engine == "auto":
        return cell.depth > 1 and not _core.io_uring_status()
    return bool(engine == "io_uring")
