"""Sums of units: what a side did together, and on the average."""

from __future__ import annotations

import math
from collections.abc import Iterable

from seatrial.trials.replay.compare.entered import Entrant, Unit
from seatrial.trials.replay.compare.model import CallFigures

Sums = dict[str, tuple[float, float]]
"""Calls and their time in s, by key."""


def summed(units: Iterable[Unit]) -> Sums:
    """Return calls and time of each query in all of some units."""
    found: Sums = {}
    for unit in units:
        for key, measured in unit.measured.items():
            calls, total_s = found.get(key, (0.0, 0.0))
            found[key] = (calls + measured.calls, total_s + measured.total_s)
    return found


def mean_measured(side: Entrant, key: str) -> CallFigures:
    """Return a query's sums on the average of a side's units, those without it counted as 0."""
    found = [unit.measured[key] for unit in side.units if key in unit.measured]
    units = len(side.units)
    return CallFigures(
        calls=math.fsum(each.calls for each in found) / units,
        total_s=math.fsum(each.total_s for each in found) / units,
        errors=math.fsum(each.errors for each in found) / units,
    )
