"""Samples in which something was broken on purpose: their figures are those of a failure."""

from __future__ import annotations

from typing import Final

from seatrial.results.model import Sample
from seatrial.study.cell import Cell

FAIL: Final = "fail"
"""In a cell's specification: what is broken meanwhile."""


def is_breaking(cell: Cell) -> bool:
    """Tell whether a cell asks for something to be broken."""
    return bool(cell.spec.get(FAIL))


def is_broken(sample: Sample) -> bool:
    """Tell whether something was done to the array while a sample lasted, or was to be."""
    return is_breaking(sample.cell) or bool(sample.layout and sample.layout.events)
