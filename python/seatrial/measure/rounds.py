"""A plan measured round by round, until every cell is known well enough or the budget ends."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from seatrial.measure.recorder import (
    COMPLETE,
    INTERRUPTED,
    Conductor,
    Interrupted,
    Recorder,
    RoundsEnd,
)
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.estimate import cell_time_s, cell_write_bytes, prefill_bytes
from seatrial.study.plan import order

Settled = Callable[[Sequence[Sample], float], bool]
"""Tells from a cell's samples whether its interval is within the asked share."""


def interleaved(settled: Settled) -> Conductor:
    """Return the usual way through a plan: interleaved rounds until every cell is settled.

    Args:
        settled: Tells when a cell needs no more rounds; the analysis's own rule.
    """
    return lambda recorder: Rounds(recorder, settled).measure()


class Rounds:
    """Measures a plan's cells in interleaved rounds and stores each sample as it ends.

    Args:
        recorder: Measures and stores.
        settled: Tells when a cell needs no more rounds.
    """

    def __init__(self, recorder: Recorder, settled: Settled) -> None:
        self._recorder = recorder
        self._plan = recorder.plan
        self._settled = settled
        self._samples: dict[str, list[Sample]] = defaultdict(list)
        self._written_bytes = prefill_bytes(self._plan)
        self._began_s = time.monotonic()
        for sample in recorder.earlier():
            self._take_in(sample)

    def measure(self) -> RoundsEnd:
        """Measure until done; an interrupt ends it in order, without the cell in flight.

        Raises:
            TargetError: when a target goes away; the samples before it are stored.
        """
        for round_number in range(self._plan.study.rounds.max):
            cells = self._due(round_number)
            for position, cell in enumerate(cells):
                if self._has_sample(cell, round_number):
                    continue
                if exhausted := self._exhausted(cell, round_number):
                    return RoundsEnd(status=COMPLETE, reason=exhausted)
                try:
                    self._measure(cell, round_number, position)
                except Interrupted:
                    return RoundsEnd(status=INTERRUPTED, reason="It was interrupted.")
            if not cells:
                reason = (
                    f"Every cell is known to {self._precision:.0%} after {round_number} rounds."
                )
                return RoundsEnd(status=COMPLETE, reason=reason)
        rounds = self._plan.study.rounds.max
        told = "Its one round was" if rounds == 1 else f"All {rounds} rounds were"
        return RoundsEnd(status=COMPLETE, reason=f"{told} measured.")

    @property
    def _precision(self) -> float:
        return self._plan.study.rounds.precision

    def _due(self, round_number: int) -> list[Cell]:
        """Return a round's cells in their order: those whose interval is still too wide."""
        keys = [
            cell.key
            for cell in self._plan.cells
            if round_number < self._plan.study.rounds.min
            or not self._settled(self._earlier(cell, round_number), self._precision)
        ]
        return order(self._plan, round_number, keys)

    def _earlier(self, cell: Cell, round_number: int) -> list[Sample]:
        return [sample for sample in self._samples[cell.key] if sample.round < round_number]

    def _has_sample(self, cell: Cell, round_number: int) -> bool:
        return any(sample.round == round_number for sample in self._samples[cell.key])

    def _exhausted(self, cell: Cell, round_number: int) -> str:
        """Say which budget the next cell would exceed; the first round is always finished."""
        if round_number == 0:
            return ""
        budget = self._plan.study.budget
        spent_s = time.monotonic() - self._began_s
        if budget.time_s is not None and spent_s + cell_time_s(cell) > budget.time_s:
            return f"The budget of {budget.time_s:.0f} s ended in round {round_number + 1}."
        would_write_bytes = self._written_bytes + cell_write_bytes(cell)
        if budget.write_bytes is not None and would_write_bytes > budget.write_bytes:
            return f"The budget of bytes to write ended in round {round_number + 1}."
        return ""

    def _measure(self, cell: Cell, round_number: int, position: int) -> None:
        left_s = self._time_left_s(round_number)
        self._take_in(self._recorder.measure(cell, round_number, position, time_left_s=left_s))

    def _take_in(self, sample: Sample) -> None:
        # The decision to go on needs counts and durations only: timelines would fill memory.
        slim = msgspec.structs.replace(
            sample, timeline=msgspec.structs.replace(sample.timeline, slices=[])
        )
        self._samples[sample.cell.key].append(slim)
        if sample.cell.spec["target"]["kind"] == "file":
            self._written_bytes += sum(
                part.transferred_bytes for name, part in sample.operations.items() if name != "read"
            )

    def _time_left_s(self, round_number: int) -> float:
        """Return how long the run will take: the fewest rounds, or what is left of the budget."""
        fewest = max(self._plan.study.rounds.min, round_number + 1)
        due_s = sum(
            cell_time_s(cell)
            for number in range(round_number, fewest)
            for cell in self._plan.cells
            if not self._has_sample(cell, number)
        )
        budget_s = self._plan.study.budget.time_s
        if budget_s is None:
            return due_s
        left_s = max(0.0, budget_s - (time.monotonic() - self._began_s))
        return min(due_s, left_s) if round_number > 0 else due_s
