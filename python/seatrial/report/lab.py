"""The notice on every run that was measured inside the lab."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from seatrial.findings.context import is_of_lab
from seatrial.results.model import Run

LAB_NOTICE: Final = "lab: ratios and counts are valid, absolute speed is not"
"""Shown with every figure of the lab."""


def lab_notice(run: Run) -> str:
    """Return the notice if a run was measured inside the lab's kernel; else None."""
    return LAB_NOTICE if is_of_lab(run) else ""


def notices_of(runs: Iterable[Run]) -> dict[str, str]:
    """Return the notices of those runs that have one, by the runs' identifiers."""
    return {run.id: notice for run in runs if (notice := lab_notice(run))}
