"""Exactly the odd cells measured again, so that a gap is known to be there or to have passed.

One round tells a gap from a hiccup as little as one toss tells a coin's sides: of two runs of the
same 42 cells on a shared disk, a cell at 0.14 of its prediction in one was as predicted in the
other (docs/method.md, "Model and gaps").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from seatrial.measure.budget import RunBudget
from seatrial.measure.recorder import COMPLETE, INTERRUPTED, Recorder, RoundsEnd, Strategy
from seatrial.results.model import Run, Sample
from seatrial.study.plan import order

REMEASURED: Final = "remeasured"
"""Counter of samples that were taken because the cell was odd: 1."""
ROUNDS: Final = 2

Odd = Callable[[Run, Sequence[Sample]], Sequence[str]]
"""Tells the keys of the cells that are far from what the rest of their table says."""


def remeasuring(odd: Odd, rounds: int = ROUNDS) -> Strategy:
    """Return the way through a stored run's plan that measures its odd cells only.

    Args:
        odd: Tells which cells are odd.
        rounds: How often each is measured again.
    """

    def conduct(recorder: Recorder) -> RoundsEnd:
        budget = RunBudget(recorder)
        # A run that was incomplete stays so: its other cells still lack rounds.
        status = COMPLETE if recorder.run.status == COMPLETE else INTERRUPTED
        reported = measure_again(budget, odd(recorder.run, budget.all()), rounds)
        return RoundsEnd(status=status, reason=reported or "No cell is odd; nothing was measured.")

    return conduct


def measure_again(budget: RunBudget, keys: Sequence[str], rounds: int) -> str:
    """Measure cells in further rounds, as far as the budget goes; return a sentence on it.

    Args:
        budget: Of the run.
        keys: The odd cells; the sentence is empty where there are none.
        rounds: How often each is measured again.

    Raises:
        Interrupted: when the user ended it.
        TargetError: when a target goes away.
    """
    wanted = set(keys)
    cells = [cell for cell in budget.plan.cells if cell.key in wanted]
    if not cells:
        return ""
    reported = "1 odd cell was" if len(cells) == 1 else f"{len(cells)} odd cells were"
    for again in range(rounds):
        number = budget.next_round
        due = order(budget.plan, number, wanted)
        for position, cell in enumerate(due):
            if exhausted := budget.exhausted(cell):
                return f"{exhausted} ended while {reported} measured again."
            left = [*due[position:], *cells * (rounds - again - 1)]
            budget.measure(
                cell,
                number,
                position,
                time_left=budget.time_left(cell, sum(map(budget.expected_s, left))),
                notes={REMEASURED: 1.0},
            )
    rounds_told = "1 further round" if rounds == 1 else f"{rounds} further rounds"
    return f"{reported} measured again in {rounds_told}."
