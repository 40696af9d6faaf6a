"""A plan measured round by round, until every cell is known well enough or the budget ends."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from seatrial.measure.io import measure_cell
from seatrial.measure.limits import OwnLimits
from seatrial.measure.progress import Watcher
from seatrial.measure.stage import Stage
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.study.cell import Cell
from seatrial.study.estimate import cell_time_s, cell_write_bytes, prefill_bytes
from seatrial.study.model import Plan
from seatrial.study.plan import order

Settled = Callable[[Sequence[Sample], float], bool]
"""Tells from a cell's samples whether its interval is within the asked share."""

COMPLETE: Final = "complete"
INTERRUPTED: Final = "interrupted"


class RoundsEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the rounds ended.

    Attributes:
        status: ``complete`` or ``interrupted``.
        reason: Why it ended, as a sentence.
    """

    status: str
    reason: str


class Rounds:
    """Measures a plan's cells in interleaved rounds and stores each sample as it ends.

    Args:
        plan: What to measure.
        stage: Where it goes; open and prepared.
        store: Where samples go.
        run: The stored run that they belong to.
        watcher: Told of the progress.
        settled: Tells when a cell needs no more rounds; the analysis's own rule.
    """

    def __init__(
        self,
        plan: Plan,
        stage: Stage,
        store: ResultsFile,
        run: Run,
        *,
        watcher: Watcher,
        settled: Settled,
    ) -> None:
        self._plan = plan
        self._stage = stage
        self._store = store
        self._run = run
        self._watcher = watcher
        self._settled = settled
        self._limits = OwnLimits()
        self._samples: dict[str, list[Sample]] = defaultdict(list)
        self._written_bytes = prefill_bytes(plan)
        self._began_s = time.monotonic()
        for sample in store.samples(run.id):
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
                if not self._measure(cell, round_number, position):
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

    def _measure(self, cell: Cell, round_number: int, position: int) -> bool:
        """Measure and store one cell; return False when the user interrupted it."""
        self._watcher.cell_started(cell, round_number, self._time_left_s(round_number))
        sample = measure_cell(
            cell,
            self._stage.spec(cell, round_number),
            round_number=round_number,
            position=position,
            watcher=self._watcher,
        )
        is_only_cell = len(self._plan.cells) == 1
        if sample.status == INTERRUPTED and not is_only_cell:
            return False
        goes_on = sample.status != INTERRUPTED
        try:
            limited = self._with_limit(sample)
        except KeyboardInterrupt:
            # The sample is whole and is kept, though the engine's own limit is not known.
            limited, goes_on = sample, False
        stored = self._store.add_sample(self._run.id, limited)
        self._take_in(stored)
        self._watcher.cell_ended(stored)
        return goes_on

    def _with_limit(self, sample: Sample) -> Sample:
        """Add what the engine could do without the target; a simulated device has no such limit."""
        if sample.engine not in ("psync", "io_uring"):
            return sample
        cell = sample.cell
        limit_per_s = self._limits.null_limit_per_s(sample.engine, cell.threads, cell.depth)
        counters = sample.counters | {"null_limit_per_s": limit_per_s}
        return msgspec.structs.replace(sample, counters=counters)

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
