"""Before a cell: is the target's performance still that of the first cell?

A write cache that is still draining, or spent burst credit, slows the following cells, and a plan
of few cells does not measure them again. A short probe at one point of the table is measured before
the first cell and again before each one: where it has dropped, the target is left idle until it has
recovered, for a bounded time. A cause that the probe does not detect is not waited for, such as a
cache that serves probes at full speed while half full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from seatrial.measure.budget import RunBudget
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.plan import writes
from seatrial.units import NS_PER_S

CHECK_NS: Final = "recovery_check_ns"
"""Counter: time spent by the check before the sample, in pauses and probes."""
IDLE_NS: Final = "recovery_idle_ns"
"""Counter: the part of it in which the target was idle."""
PROBE_RATIO: Final = "recovery_probe_ratio"
"""Counter: the last probe before the sample relative to the first one of the run."""

LEVEL_SHARE_MIN: Final = 0.8
"""A probe above this share of its level counts as unchanged: below the noise of a short probe."""
RISING_FACTOR: Final = 1.1
AFTER_WRITES_S: Final = 0.1
RESTS_S: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Successive pauses for a slow target: at most 7.75 s before one cell."""
MISSES_MAX: Final = 2
"""After this many unsuccessful waits in a row the new level is taken as permanent."""

PROBE_SHARE: Final = 0.1
PROBE_S_MIN: Final = 0.02
PROBE_S_MAX: Final = 0.2
PROBE_WRITES_BYTES_MAX: Final = 4 << 20

Probed = tuple[str, str]
"""Target and operation, each with its own probe."""


class RecoveryCheck:
    """Ensures that cells find their target at the level of the first probe.

    Args:
        budget: Measures probes and pauses targets.
        cells: Cells of the plan in order of preference: the first of each target and operation is
            used for its probe.
    """

    def __init__(self, budget: RunBudget, cells: Iterable[Cell]) -> None:
        self._budget = budget
        self._probes: dict[Probed, Cell] = {}
        for cell in cells:
            self._probes.setdefault(_probed(cell), _as_probe(cell))
        self._first_per_s: dict[Probed, float] = {}
        self._level_per_s: dict[Probed, float] = {}
        self._misses: dict[Probed, int] = {}
        self._written: set[str] = set()
        self._number = 0
        self._spent_s = 0.0
        self._rested_s = 0.0

    def before(self, cell: Cell) -> dict[str, float]:
        """Wait until a cell's target has recovered; return notes for its sample.

        Raises:
            Interrupted: when the user ended it.
            TargetError: when a target goes away.
        """
        probe = self._probes.get(_probed(cell))
        if probe is None:
            return {}
        spent_before_s, rested_before_s = self._spent_s, self._rested_s
        if cell.target in self._written:
            self._rest(probe, AFTER_WRITES_S)
            self._written.discard(cell.target)
        if _probed(cell) not in self._level_per_s:
            self._find_level(probe)
        rate_per_s = self._measure(probe)
        for rest_s in RESTS_S:
            if self._is_at_level(probe, rate_per_s):
                break
            self._rest(probe, rest_s)
            rate_per_s = self._measure(probe)
        self._judge(probe, rate_per_s)
        first_per_s = self._first_per_s[_probed(probe)]
        return {
            CHECK_NS: (self._spent_s - spent_before_s) * NS_PER_S,
            IDLE_NS: (self._rested_s - rested_before_s) * NS_PER_S,
            PROBE_RATIO: rate_per_s / first_per_s if first_per_s > 0 else 1.0,
        }

    def after(self, sample: Sample) -> None:
        """After a sample that wrote, leave the target idle for a moment."""
        if writes(sample.cell):
            self._written.add(sample.cell.target)

    def _find_level(self, probe: Cell) -> None:
        """Set the level of a probe once it no longer rises."""
        rate_per_s = self._measure(probe)
        for rest_s in RESTS_S:
            self._rest(probe, rest_s)
            before_per_s, rate_per_s = rate_per_s, self._measure(probe)
            if rate_per_s <= before_per_s * RISING_FACTOR:
                break
        self._first_per_s[_probed(probe)] = self._level_per_s[_probed(probe)] = rate_per_s

    def _is_at_level(self, probe: Cell, rate_per_s: float) -> bool:
        return rate_per_s >= LEVEL_SHARE_MIN * self._level_per_s[_probed(probe)]

    def _judge(self, probe: Cell, rate_per_s: float) -> None:
        """Count an unsuccessful wait; after several in a row take the new level as the level."""
        probed = _probed(probe)
        if self._is_at_level(probe, rate_per_s):
            self._misses[probed] = 0
            return
        self._misses[probed] = self._misses.get(probed, 0) + 1
        if self._misses[probed] >= MISSES_MAX:
            self._level_per_s[probed] = rate_per_s
            self._misses[probed] = 0

    def _measure(self, probe: Cell) -> float:
        """Return the requests per second of a probe."""
        self._number += 1
        if writes(probe):
            self._written.add(probe.target)
        sample = self._budget.probe(probe, self._number)
        self._spent_s += sample.duration_s
        return sample.completed_per_s

    def _rest(self, probe: Cell, rest_s: float) -> None:
        rested_s = self._budget.rest(probe, rest_s)
        self._spent_s += rested_s
        self._rested_s += rested_s


def _probed(cell: Cell) -> Probed:
    return cell.target, cell.operation


def _as_probe(cell: Cell) -> Cell:
    """Return a short version of a cell, whose own requests hardly affect what it probes."""
    limit = cell.parsed.limit
    duration_s = min(max(cell.parsed.duration_s * PROBE_SHARE, PROBE_S_MIN), PROBE_S_MAX)
    allowed_bytes = limit.bytes
    if writes(cell):
        # At least one request, whatever its size.
        bound_bytes = max(PROBE_WRITES_BYTES_MAX, cell.block_size_bytes)
        allowed_bytes = min(allowed_bytes or bound_bytes, bound_bytes)
    shorter = cell.spec["limit"] | {"duration_s": duration_s, "bytes": allowed_bytes}
    return msgspec.structs.replace(
        cell, key=f"{cell.key} probe", spec=cell.spec | {"limit": shorter}
    )
