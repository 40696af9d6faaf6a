"""A plan measured round by round, until every cell is known well enough or the budget ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seatrial.measure.recorder import (
    COMPLETE,
    Conductor,
    Recorder,
    RoundsEnd,
)
from seatrial.measure.remeasure import Odd, measure_again
from seatrial.measure.tally import Tally
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.plan import is_due, order

Settled = Callable[[Sequence[Sample], float], bool]
"""Tells from a cell's samples whether its interval is within the asked share."""


def interleaved(settled: Settled, odd: Odd | None = None) -> Conductor:
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
        self._tally = Tally(recorder)

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
                told = f"{100 * self._precision:g} %"
                return f"Every cell is known to {told} after {round_number} rounds."
            for position, cell in enumerate(cells):
                if self._tally.has(cell.key, round_number):
                    continue
                # The first round is always finished.
                if round_number > 0 and (exhausted := self._tally.exhausted(cell)):
                    return f"{exhausted} ended in round {round_number + 1}."
                left_s = self._time_left_s(round_number)
                self._tally.measure(cell, round_number, position, time_left_s=left_s)
        rounds = self._plan.study.rounds.max
        told = "Its one round was" if rounds == 1 else f"All {rounds} rounds were"
        return f"{told} measured."

    def _again(self) -> str:
        """Measure the odd cells again; return a sentence on it, empty where there are none."""
        rounds = self._plan.study.rounds.remeasure
        if self._odd is None or rounds == 0:
            return ""
        return measure_again(self._tally, self._odd(self._tally.run, self._tally.all()), rounds)

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
        return [sample for sample in self._tally.of(cell.key) if sample.round < round_number]

    def _time_left_s(self, round_number: int) -> float:
        """Return how long the run will take: the fewest rounds, or what is left of the budget."""
        fewest = max(self._plan.study.rounds.min, round_number + 1)
        due = [
            (number, cell)
            for number in range(round_number, fewest)
            for cell in self._plan.cells
            if is_due(self._plan, cell, number) and not self._tally.has(cell.key, number)
        ]
        due_s = sum(self._tally.expected_s(cell) for _, cell in due)
        in_rounds = {(number, self._plan.target(cell.target).group) for number, cell in due}
        due_s += self._tally.builds_s(group for _, group in in_rounds)
        return due_s if round_number == 0 else self._tally.within_budget_s(due_s)
