"""What a run has spent so far, and whether the budget allows another cell."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from seatrial.measure.progress import TimeLeft
from seatrial.measure.recorder import Recorder
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.cost import after_rounds_s, cell_time_s, cell_write_bytes, prefill_bytes
from seatrial.study.layouts import cost as layout_cost
from seatrial.topic import topic_of

NOTHING: Final[Mapping[str, float]] = {}


class RunBudget:
    """Samples, time and bytes written of a run; except for time, including those before a resume.

    Args:
        recorder: Measures and stores.
        began_s: When this execution began to measure, by the monotonic clock; None for now.
        keeps_load_lines: Whether load lines follow the rounds, which leave them their time.
    """

    def __init__(
        self, recorder: Recorder, began_s: float | None = None, *, keeps_load_lines: bool = True
    ) -> None:
        self.plan = recorder.plan
        self.run = recorder.run
        self._recorder = recorder
        self._keeps_load_lines = keeps_load_lines
        self._samples: dict[str, list[Sample]] = defaultdict(list)
        self._written_bytes = prefill_bytes(self.plan)
        self._built = ""
        self._began_s = time.monotonic() if began_s is None else began_s
        for sample in recorder.earlier():
            self._take_in(sample)

    @property
    def spent_s(self) -> float:
        """Seconds since this execution began to measure."""
        return time.monotonic() - self._began_s

    def within_budget_s(self, needed_s: float) -> float:
        """Return the needed seconds, or what is left of the time budget if that is less."""
        budget_s = self.plan.study.budget.time_s
        return needed_s if budget_s is None else min(needed_s, max(0.0, budget_s - self.spent_s))

    def time_left(
        self, cell: Cell, needed_s: float, *, certain_s: float = 0.0, may_end_sooner: bool = False
    ) -> TimeLeft:
        """Return the remaining time of the run, for the watcher.

        Args:
            cell: The cell that begins.
            needed_s: The most time that the rest needs, including the cell.
            certain_s: The part of it that is independent of the budget.
            may_end_sooner: Whether parts may be left out.
        """
        most_s = max(certain_s, self.within_budget_s(needed_s))
        return TimeLeft(
            most_s=most_s,
            cell_s=min(most_s, self.expected_s(cell)),
            may_end_sooner=may_end_sooner or most_s < needed_s,
        )

    def load_lines_s(self) -> float:
        """Return the time that the plan's load lines, after all rounds, may take (s)."""
        return sum(after_rounds_s(self.plan, cell) for cell in self.plan.cells)

    @property
    def next_round(self) -> int:
        """The first round without any sample."""
        return 1 + max((sample.round for sample in self.all()), default=-1)

    def all(self) -> list[Sample]:
        """Return every sample, by cell, without its timeline."""
        return [sample for samples in self._samples.values() for sample in samples]

    def of(self, key: str) -> list[Sample]:
        """Return the samples of a cell, without their timelines."""
        return list(self._samples[key])

    def has(self, key: str, round_number: int) -> bool:
        """Return whether a cell was measured in a round."""
        return any(sample.round == round_number for sample in self._samples[key])

    def is_available(self, cell: Cell) -> bool:
        """Return whether a cell can still be measured."""
        return self._recorder.is_available(cell)

    def expected_s(self, cell: Cell) -> float:
        """Return how many seconds the next sample of a cell is expected to take.

        A batch, or a replay, takes as long as it takes: once measured, as long as its longest
        sample so far; until then the plan knows only when a batch would be ended, and what it
        assumed of a replay.
        """
        planned_s = cell_time_s(cell)
        if self.plan.target(cell.target).layout:
            planned_s += layout_cost.RESTING_S
        lasted_s = [sample.duration_s for sample in self._samples[cell.key]]
        if not topic_of(cell).has_fixed_work(cell) or not lasted_s:
            return planned_s
        return planned_s - cell.parsed.duration_s + max(lasted_s)

    def builds_s(self, groups: Iterable[str]) -> float:
        """Return the time to build groups of targets (s); the one built now is free once."""
        due = [group for group in groups if group]
        if self._built in due:
            due.remove(self._built)
        return sum(layout_cost.build_s(self.plan, group) for group in due)

    def exhausted(self, cell: Cell) -> str:
        """Say which budget a cell would exceed, as the subject of "ended"; empty where none."""
        budget = self.plan.study.budget
        build_s, build_bytes = self._build_before(cell)
        needed_s = self.spent_s + build_s + self.expected_s(cell)
        keeps = self._keeps_load_lines and topic_of(cell).in_rounds
        kept_s = self.load_lines_s() if keeps else 0.0
        if budget.time_s is not None and needed_s + kept_s > budget.time_s:
            less = f", less {kept_s:.0f} s for load lines," if kept_s else ""
            return f"The time budget of {budget.time_s:.0f} s{less}"
        would_write_bytes = self._written_bytes + build_bytes + cell_write_bytes(cell)
        if budget.write_bytes is not None and would_write_bytes > budget.write_bytes:
            return "The write budget"
        return ""

    def measure(
        self,
        cell: Cell,
        round_number: int,
        position: int,
        *,
        time_left: TimeLeft,
        notes: Mapping[str, float] = NOTHING,
    ) -> Sample:
        """Measure a cell, store its sample and count its cost.

        Args:
            cell: A cell of the plan.
            round_number: The round, from 0.
            position: Its position in the round's order, from 0.
            time_left: The remaining time of the run; for the watcher.
            notes: Stored among the sample's counters; names end in the unit.

        Raises:
            Interrupted: when the user ended it.
            TargetError: when a target goes away.
        """
        sample = self._recorder.measure(
            cell, round_number, position, time_left=time_left, notes=notes
        )
        self._take_in(sample)
        return sample

    def probe(self, cell: Cell, number: int) -> Sample:
        """Measure a cell without storing it; its writes count as spent.

        Raises:
            Interrupted: when the user ended it.
            TargetError: when a target goes away.
        """
        sample = self._recorder.probe(cell, number)
        self._count_written(sample)
        return sample

    def rest(self, cell: Cell, rest_s: float) -> float:
        """Leave the target of a cell idle for ``rest_s``, and on until it is quiet.

        Returns the seconds that it took.

        Raises:
            Interrupted: when the user ended the run.
        """
        return self._recorder.rest(cell, rest_s)

    def _take_in(self, sample: Sample) -> None:
        # Decisions need counts and durations only: timelines would fill memory.
        slim = msgspec.structs.replace(
            sample, timeline=msgspec.structs.replace(sample.timeline, slices=[]), series=None
        )
        self._samples[sample.cell.key].append(slim)
        self._count_built(sample.cell)
        self._count_written(sample)

    def _count_built(self, cell: Cell) -> None:
        """Count the writes of building an array, and of a rebuild to a spare."""
        target = self.plan.target(cell.target)
        self._written_bytes += self._build_before(cell)[1]
        # A degraded array is rebuilt from scratch before the next cell.
        self._built = "" if cell.parsed.fail else target.group
        if target.layout:
            self._written_bytes += layout_cost.rebuilt_write_bytes(target, cell)

    def _build_before(self, cell: Cell) -> tuple[float, int]:
        """Return the assumed cost of building before a cell (s, bytes); 0 where it exists."""
        group = self.plan.target(cell.target).group
        if not group or group == self._built:
            return 0.0, 0
        build_s = layout_cost.build_s(self.plan, group)
        return build_s, layout_cost.build_write_bytes(self.plan, group)

    def _count_written(self, sample: Sample) -> None:
        topic = topic_of(sample.cell)
        # The sample of a fleet has the bytes of the common window only: hosts wrote more.
        is_part = sample.fleet is not None and topic.loads_storage
        self._written_bytes += (
            cell_write_bytes(sample.cell) if is_part else topic.written_bytes(sample)
        )
