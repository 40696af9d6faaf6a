"""Measures an adaptive matrix: a few cells first, then where the model is most uncertain.

The analysis decides which cells are next, and when the others are known well enough; here the cells
are measured, in interleaved rounds like any others, each with a recovery check before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from seatrial.measure.budget import RunBudget
from seatrial.measure.progress import TimeLeft
from seatrial.measure.recorder import COMPLETE, FILL, Recorder, RoundsResult, Strategy
from seatrial.measure.recovery import RecoveryCheck
from seatrial.measure.rounds import Outlier, Settled, measure_again
from seatrial.results.model import Run, Sample
from seatrial.study.cell import Cell
from seatrial.study.cost import cell_time_s
from seatrial.study.plan import order
from seatrial.study.units import format_seconds
from seatrial.trials.audit.study import (
    Guidance,
    adaptive_cells,
    predicted_within_share,
    spent_and_full_s,
)
from seatrial.trials.loadline.study import LOADLINE

STEPS_MAX: Final = 1000


Guide = Callable[[Run, Sequence[Cell], Sequence[Sample], float], Guidance]
"""Arguments: the run, the candidate cells, the samples so far, and the requested precision."""


def adaptive(settled: Settled, guide: Guide, outlier: Outlier | None = None) -> Strategy:
    """Return the strategy for a plan with adaptive matrices.

    Args:
        settled: Decides when a cell needs no more rounds, by the rule of the analysis.
        guide: Selects the next cells of the adaptive matrices.
        outlier: Identifies outliers to be measured again at the end; optional.
    """
    return lambda recorder: Adaptive(recorder, settled, guide, outlier).measure()


class Adaptive:
    """Measures the plain cells of a plan and the selected ones of its adaptive matrices.

    Args:
        recorder: Measures and stores.
        settled: Decides when a cell needs no more rounds.
        guide: Selects the next cells.
        outlier: Identifies outliers to be measured again at the end.
    """

    def __init__(
        self, recorder: Recorder, settled: Settled, guide: Guide, outlier: Outlier | None = None
    ) -> None:
        self._plan = recorder.plan
        self._settled = settled
        self._guide = guide
        self._outlier = outlier
        self._budget = RunBudget(recorder)
        self._matrix = adaptive_cells(self._plan)
        matrix_keys = {cell.key for cell in self._matrix}
        self._plain_keys = [c.key for c in self._plan.cells if c.key not in matrix_keys]
        self._recovery = RecoveryCheck(self._budget, [])

    def measure(self) -> RoundsResult:
        """Measure until the other cells are known well enough.

        Raises:
            Interrupted: when the user ended it; the cell in flight is left out.
            TargetError: when a target goes away; the samples before it are stored.
        """
        exhausted = self._steps()
        matrix = self._matrix_sentence()
        again = "" if exhausted else measure_again(self._budget, self._outlier)
        text = f"{exhausted} was used up." if exhausted else ""
        return RoundsResult(status=COMPLETE, reason=" ".join(filter(None, (matrix, text, again))))

    def _steps(self) -> str:
        """Measure until no cell is requested; return the budget that ended it, or empty."""
        first = list(self._next().keys)
        self._recovery = RecoveryCheck(
            self._budget, self._cells(first or [c.key for c in self._matrix])
        )
        keys = self._plain_keys + self._resumed_keys() + first
        for _ in range(STEPS_MAX):
            if exhausted := self._rounds(keys):
                return exhausted
            keys = [key for key in self._next().keys if not self._budget.of(key)]
            if not keys:
                break
        return ""

    def _next(self) -> Guidance:
        requested_share = predicted_within_share(self._plan.study)
        return self._guide(self._budget.run, self._matrix, self._budget.all(), requested_share)

    def _resumed_keys(self) -> list[str]:
        """Return the cells of the matrices that a resumed run has samples of."""
        return [cell.key for cell in self._matrix if self._budget.of(cell.key)]

    def _cells(self, keys: Iterable[str]) -> list[Cell]:
        by_key = {cell.key: cell for cell in self._plan.cells}
        return [by_key[key] for key in dict.fromkeys(keys)]

    def _rounds(self, keys: Sequence[str]) -> str:
        """Measure cells in interleaved rounds, until settled; return the budget that ended it."""
        rounds = self._plan.study.rounds
        for done in range(rounds.max):
            due = [key for key in keys if self._is_due(key, done)]
            number = self._budget.next_round
            # The first round is always finished: every plain cell, and enough cells for a model.
            is_first = number == 0
            cells = order(self._plan, number, due)
            for position, cell in enumerate(cells):
                if not is_first and (exhausted := self._budget.exhausted(cell)):
                    return exhausted
                notes = self._recovery.before(cell)
                left = self._time_left(cells, position, keys, done, is_first=is_first)
                sample = self._budget.measure(cell, number, position, time_left=left, notes=notes)
                self._recovery.after(sample)
        return ""

    def _is_due(self, key: str, done: int) -> bool:
        """Return whether a cell takes part in a pass after the given number of others."""
        rounds, samples = self._plan.study.rounds, self._budget.of(key)
        if len(samples) > done:
            return False
        return done < rounds.min or not self._settled(samples, rounds.precision)

    def _time_left(
        self,
        cells: Sequence[Cell],
        position: int,
        keys: Sequence[str],
        done: int,
        *,
        is_first: bool,
    ) -> TimeLeft:
        """Return the most time left: with every cell, and every round that it may have."""
        rounds, due = self._plan.study.rounds, cells[position:]
        now, passing = {cell.key for cell in due}, {cell.key for cell in cells}
        needed_s = self._budget.load_lines_s()
        for cell in (each for each in self._plan.cells if each.kind != LOADLINE):
            measured = len(self._budget.of(cell.key))
            times = 0
            if cell.key in passing:
                times = rounds.max - done - 1 + (cell.key in now)
            elif not measured or (cell.key in keys and measured > done):
                # Others may be selected later; and a resumed run has some already.
                times = max(0, rounds.max - measured)
            again = rounds.remeasure if self._outlier and cell.kind != FILL else 0
            needed_s += (times + again) * cell_time_s(cell)
        certain_s = sum(map(cell_time_s, due)) if is_first else 0.0
        return self._budget.time_left(due[0], needed_s, certain_s=certain_s, may_end_sooner=True)

    def _matrix_sentence(self) -> str:
        """Return how many cells were measured, the time saved, and the precision of the others."""
        measured = [cell for cell in self._matrix if self._budget.of(cell.key)]
        left = len(self._matrix) - len(measured)
        if not left:
            return f"All {len(measured)} tests of the matrix were measured."
        samples = [sample for cell in measured for sample in self._budget.of(cell.key)]
        spent_s, full_s = spent_and_full_s(samples, len(measured), len(self._matrix))
        guidance = self._next()
        text = (
            f"Measured {len(measured)} of {len(self._matrix)} tests: {format_seconds(spent_s)} "
            f"instead of {format_seconds(full_s)}"
        )
        if not guidance.predicted_count or guidance.within_share is None:
            return f"{text}; {left} tests are not known."
        unknown = left - guidance.predicted_count
        also = f", {unknown} are not known" if unknown else ""
        return (
            f"{text}; {guidance.predicted_count} are predicted within "
            f"{100 * guidance.within_share:.0f} %{also}."
        )
