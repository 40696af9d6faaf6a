"""Exactly the odd cells measured again, so that a gap is known to be there or to have passed.

One round tells a gap from a hiccup as little as one toss tells a coin's sides: of two runs of the
same 42 cells on a shared disk, a cell at 0.14 of its prediction in one was as predicted in the
other (docs/method.md, "Model and gaps").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from seatrial.measure.recorder import (
    COMPLETE,
    INTERRUPTED,
    Conductor,
    Interrupted,
    Recorder,
    RoundsEnd,
)
from seatrial.measure.tally import Tally
from seatrial.results.model import Run, Sample
from seatrial.study.cell import Cell
from seatrial.study.estimate import cell_time_s
from seatrial.study.plan import order

REMEASURED: Final = "remeasured"
"""Counter of samples that were taken because the cell was odd: 1."""
ROUNDS: Final = 2

Odd = Callable[[Run, Sequence[Sample]], Sequence[str]]
"""Tells the keys of the cells that are far from what the rest of their table says."""


def remeasuring(odd: Odd, rounds: int = ROUNDS) -> Conductor:
    """Return the way through a stored run's plan that measures its odd cells only.

    Args:
        odd: Tells which cells are odd.
        rounds: How often each is measured again.
    """

    def conduct(recorder: Recorder) -> RoundsEnd:
        tally = Tally(recorder)
        # A run that was incomplete stays so: its other cells still lack rounds.
        status = COMPLETE if recorder.run.status == COMPLETE else INTERRUPTED
        try:
            told = measure_again(tally, odd(recorder.run, tally.all()), rounds)
        except Interrupted:
            return RoundsEnd(status=INTERRUPTED, reason="It was interrupted.")
        return RoundsEnd(status=status, reason=told or "No cell is odd; nothing was measured.")

    return conduct


def measure_again(tally: Tally, keys: Sequence[str], rounds: int) -> str:
    """Measure cells in further rounds, as far as the budget goes; return a sentence on it.

    A cell that was measured again before a resume has that many rounds less to go.

    Args:
        tally: Of the run.
        keys: The odd cells; the sentence is empty where there are none.
        rounds: How often each is measured again.

    Raises:
        Interrupted: when the user ended it.
        TargetError: when a target goes away.
    """
    cells = [cell for cell in tally.plan.cells if cell.key in set(keys)]
    if not cells:
        return ""
    told = "1 odd cell was" if len(cells) == 1 else f"{len(cells)} odd cells were"
    for _ in range(rounds):
        due = [cell.key for cell in cells if _times_again(tally, cell) < rounds]
        number = tally.next_round
        for position, cell in enumerate(order(tally.plan, number, due)):
            if exhausted := tally.exhausted(cell):
                return f"{exhausted} ended while {told} measured again."
            left_s = _time_left_s(tally, cells, rounds)
            notes = {REMEASURED: 1.0}
            tally.measure(cell, number, position, time_left_s=left_s, notes=notes)
    rounds_told = "1 further round" if rounds == 1 else f"{rounds} further rounds"
    return f"{told} measured again in {rounds_told}."


def _times_again(tally: Tally, cell: Cell) -> int:
    return sum(REMEASURED in sample.counters for sample in tally.of(cell.key))


def _time_left_s(tally: Tally, cells: Sequence[Cell], rounds: int) -> float:
    """Return how long the rest takes, or what is left of the budget if that is less."""
    due_s = sum(cell_time_s(cell) * (rounds - _times_again(tally, cell)) for cell in cells)
    left_s = tally.budget_left_s
    return due_s if left_s is None else min(due_s, left_s)
