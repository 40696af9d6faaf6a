"""A plan measured round by round, until every cell is known well enough or the budget ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from seatrial.measure.budget import RunBudget
from seatrial.measure.progress import TimeLeft
from seatrial.measure.recorder import COMPLETE, Recorder, RoundsEnd, Strategy
from seatrial.measure.remeasure import Odd, measure_again
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.plan import is_due, order

KINDS_IN_TABLES: Final = ("matrix", "io")
"""Kinds of cells that the others of their table tell something of."""
TABLE_CELLS_MIN: Final = 4
"""Of fewer no cell is odd, whatever rule tells it."""

Settled = Callable[[Sequence[Sample], float], bool]
"""Tells from a cell's samples whether its interval is within the asked share."""


def interleaved(settled: Settled, odd: Odd | None = None) -> Strategy:
    """Return the usual way through a plan: interleaved rounds until every cell is settled.

    Args:
        settled: Tells when a cell needs no more rounds; the analysis's own rule.
        odd: Tells which cells are far from what the rest of their table says; these are then
            measured again, as often as the study asks for.
    """
    return lambda recorder: Rounds(recorder, settled, odd).measure()


class Rounds:
    """Measures a plan's cells in interleaved rounds and stores each sample as it ends.

    Args:
        recorder: Measures and stores.
        settled: Tells when a cell needs no more rounds.
        odd: Tells which cells are to be measured again in the end; none are unless given.
    """

    def __init__(self, recorder: Recorder, settled: Settled, odd: Odd | None = None) -> None:
        self._plan = recorder.plan
        self._settled = settled
        self._odd = odd
        self._budget = RunBudget(recorder)

    def measure(self) -> RoundsEnd:
        """Measure until done.

        Raises:
            Interrupted: when the user ended it; the cell in flight is left out.
            TargetError: when a target goes away; the samples before it are stored.
        """
        reason = self._rounds()
        again = self._again()
        return RoundsEnd(status=COMPLETE, reason=f"{reason} {again}".rstrip())

    def _rounds(self) -> str:
        """Measure the rounds; return why they ended."""
        for round_number in range(self._plan.study.rounds.max):
            cells = self._due(round_number)
            if not cells:
                reported = f"{100 * self._precision:g} %"
                return f"Every cell is known to {reported} after {round_number} rounds."
            for position, cell in enumerate(cells):
                if self._budget.has(cell.key, round_number):
                    continue
                # The first round is always finished.
                if round_number > 0 and (exhausted := self._budget.exhausted(cell)):
                    return f"{exhausted} ended in round {round_number + 1}."
                left = self._time_left(cell, round_number, cells)
                self._budget.measure(cell, round_number, position, time_left=left)
        rounds = self._plan.study.rounds.max
        reported = "Its one round was" if rounds == 1 else f"All {rounds} rounds were"
        return f"{reported} measured."

    def _again(self) -> str:
        """Measure the odd cells again; return a sentence on it, empty where there are none."""
        rounds = self._plan.study.rounds.remeasure
        if self._odd is None or rounds == 0:
            return ""
        return measure_again(self._budget, self._odd(self._budget.run, self._budget.all()), rounds)

    @property
    def _precision(self) -> float:
        return self._plan.study.rounds.precision

    def _due(self, round_number: int) -> list[Cell]:
        """Return a round's cells in their order: those whose interval is still too wide.

        A cell goes on as long as it is unsettled on any target: rounds that one target alone has
        cannot be paired, and a comparison would not count them.
        """
        unsettled = {
            cell.key_without_target
            for cell in self._plan.cells
            if round_number < self._plan.study.rounds.min
            or not self._settled(self._before(cell, round_number), self._precision)
        }
        keys = [cell.key for cell in self._plan.cells if cell.key_without_target in unsettled]
        return order(self._plan, round_number, keys)

    def _before(self, cell: Cell, round_number: int) -> list[Sample]:
        return [sample for sample in self._budget.of(cell.key) if sample.round < round_number]

    def _time_left(self, cell: Cell, round_number: int, cells: Sequence[Cell]) -> TimeLeft:
        """Return how long it takes at most: what is due now may be due in every round to come."""
        rounds = self._plan.study.rounds
        now = [
            each
            for each in cells
            if is_due(self._plan, each, round_number)
            and not self._budget.has(each.key, round_number)
        ]
        later_count = rounds.max - round_number - 1
        later = [each for each in cells if is_due(self._plan, each, round_number + 1)]
        more_s = self._again_s() + self._budget.load_lines_s()
        return self._budget.time_left(
            cell,
            self._due_s(now, later, later_count) + more_s,
            certain_s=self._due_s(now) if round_number == 0 else 0.0,
            may_end_sooner=more_s > 0 or (rounds.min < rounds.max and later_count > 0),
        )

    def _due_s(self, now: Sequence[Cell], later: Sequence[Cell] = (), times: int = 0) -> float:
        """Return what a round takes, and others as often, with what they are built on."""
        cells_s = sum(map(self._budget.expected_s, now))
        cells_s += times * sum(map(self._budget.expected_s, later))
        return cells_s + self._budget.builds_s([*self._groups(now), *times * self._groups(later)])

    def _groups(self, cells: Sequence[Cell]) -> list[str]:
        return [*{self._plan.target(cell.target).group for cell in cells}]

    def _again_s(self) -> float:
        """Return what measuring odd cells again may take: of those that one round has measured."""
        rounds = self._plan.study.rounds
        if self._odd is None or rounds.max > 1:
            return 0.0
        in_tables = [cell for cell in self._plan.cells if cell.kind in KINDS_IN_TABLES]
        sizes = Counter((cell.target, cell.workload) for cell in in_tables)
        may_be_odd = [
            cell for cell in in_tables if sizes[cell.target, cell.workload] >= TABLE_CELLS_MIN
        ]
        return rounds.remeasure * sum(map(self._budget.expected_s, may_be_odd))
