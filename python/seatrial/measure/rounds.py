"""Measures a plan in rounds, until every cell is precise enough or the budget ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from seatrial.measure.budget import RunBudget
from seatrial.measure.progress import TimeLeft
from seatrial.measure.recorder import COMPLETE, INTERRUPTED, Recorder, RoundsResult, Strategy
from seatrial.results.model import Run, Sample
from seatrial.study.cell import Cell
from seatrial.study.plan import is_done_once, is_due, order

REMEASURED: Final = "remeasured"
"""Counter with value 1 in samples that were taken because the cell was an outlier."""
REMEASURED_ROUNDS: Final = 2
"""One round cannot distinguish a real gap from a random one: of two runs of the same 42 cells on a
shared disk, a cell at 0.14 of its prediction in one was as predicted in the other (docs/method.md,
"Model and gaps")."""

Outlier = Callable[[Run, Sequence[Sample]], Sequence[str]]
"""Returns the keys of outliers: cells far from what the rest of their table predicts."""


def remeasuring(outlier: Outlier) -> Strategy:
    """Return the strategy that measures only the outliers of a stored run again."""

    def conduct(recorder: Recorder) -> RoundsResult:
        budget = RunBudget(recorder, keeps_load_lines=False)
        # A run that was incomplete remains so: its other cells still lack rounds.
        status = COMPLETE if recorder.run.status == COMPLETE else INTERRUPTED
        reason = measure_again(budget, outlier, REMEASURED_ROUNDS)
        return RoundsResult(
            status=status, reason=reason or "There are no outliers; nothing was measured."
        )

    return conduct


def measure_again(budget: RunBudget, outlier: Outlier | None, rounds: int | None = None) -> str:
    """Measure outliers in further rounds as far as the budget allows; return a sentence on it.

    Args:
        budget: The budget of the run.
        outlier: Identifies them; the sentence is empty without any.
        rounds: How often each is measured again; by default as often as the study requests.

    Raises:
        Interrupted: when the user ended it.
        TargetError: when a target goes away.
    """
    if rounds is None:
        rounds = budget.plan.study.rounds.remeasure
    if outlier is None or rounds == 0:
        return ""
    wanted = set(outlier(budget.run, budget.all()))
    cells = [cell for cell in budget.plan.cells if cell.key in wanted]
    if not cells:
        return ""
    outliers = "1 outlier was" if len(cells) == 1 else f"{len(cells)} outliers were"
    for again in range(rounds):
        number = budget.next_round
        due = order(budget.plan, number, wanted)
        for position, cell in enumerate(due):
            if exhausted := budget.exhausted(cell):
                return f"{exhausted} was used up while {outliers} measured again."
            left = [*due[position:], *cells * (rounds - again - 1)]
            budget.measure(
                cell,
                number,
                position,
                time_left=budget.time_left(cell, sum(map(budget.expected_s, left))),
                notes={REMEASURED: 1.0},
            )
    rounds_phrase = "1 further round" if rounds == 1 else f"{rounds} further rounds"
    return f"{outliers} measured again in {rounds_phrase}."


KINDS_IN_TABLES: Final = ("matrix", "io")
"""Kinds of cells whose table allows a prediction."""
TABLE_CELLS_MIN: Final = 4
"""Fewer cells contain no outlier by any rule."""

Settled = Callable[[Sequence[Sample], float], bool]
"""Returns from a cell's samples whether its interval is within the requested precision."""


def interleaved(settled: Settled, outlier: Outlier | None = None) -> Strategy:
    """Return the usual strategy: interleaved rounds until every cell is settled.

    Args:
        settled: Decides when a cell needs no more rounds, by the rule of the analysis.
        outlier: Identifies outliers, which are then measured again as often as the study requests.
    """
    return lambda recorder: Rounds(recorder, settled, outlier).measure()


class Rounds:
    """Measures a plan's cells in interleaved rounds and stores each sample as it ends.

    Args:
        recorder: Measures and stores.
        settled: Decides when a cell needs no more rounds.
        outlier: Identifies outliers to be measured again at the end; optional.
    """

    def __init__(
        self, recorder: Recorder, settled: Settled, outlier: Outlier | None = None
    ) -> None:
        self._plan = recorder.plan
        self._settled = settled
        self._outlier = outlier
        self._budget = RunBudget(recorder)

    def measure(self) -> RoundsResult:
        """Measure until done.

        Raises:
            Interrupted: when the user ended it; the cell in flight is left out.
            TargetError: when a target goes away; the samples before it are stored.
        """
        reason = self._rounds()
        again = measure_again(self._budget, self._outlier)
        return RoundsResult(status=COMPLETE, reason=f"{reason} {again}".rstrip())

    def _rounds(self) -> str:
        """Measure the rounds; return why they ended."""
        for round_number in range(self._plan.study.rounds.max):
            cells = self._due(round_number)
            if not cells:
                return self._settled_after(round_number)
            for position, cell in enumerate(cells):
                if self._budget.has(cell.key, round_number) or not self._budget.is_available(cell):
                    continue
                # The first round is always finished.
                if round_number > 0 and (exhausted := self._budget.exhausted(cell)):
                    return f"{exhausted} was used up in round {round_number + 1}."
                left = self._time_left(cell, round_number, cells)
                self._budget.measure(cell, round_number, position, time_left=left)
        rounds = self._plan.study.rounds.max
        few = {1: "The only round was", 2: "Both rounds were"}
        which = few.get(rounds, f"All {rounds} rounds were")
        return f"{which} measured."

    def _settled_after(self, rounds: int) -> str:
        """Say why no further round measures anything."""
        if all(is_done_once(self._plan, cell) for cell in self._plan.cells):
            return "Every test is measured once only."
        precision = f"{100 * self._precision:g} %"
        after = "1 round" if rounds == 1 else f"{rounds} rounds"
        return f"All tests reached a precision of {precision} after {after}."

    @property
    def _precision(self) -> float:
        return self._plan.study.rounds.precision

    def _due(self, round_number: int) -> list[Cell]:
        """Return a round's cells in order: those whose interval is still too wide.

        A cell continues as long as it is unsettled on any target: rounds of one target alone cannot
        be paired, and a comparison would not count them.
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
        """Return the most time left: what is due now may be due in every round to come."""
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
        """Return the duration of a round, and of later ones ``times`` times, including building."""
        cells_s = sum(map(self._budget.expected_s, now))
        cells_s += times * sum(map(self._budget.expected_s, later))
        return cells_s + self._budget.builds_s([*self._groups(now), *times * self._groups(later)])

    def _groups(self, cells: Sequence[Cell]) -> list[str]:
        return [*{self._plan.target(cell.target).group for cell in cells}]

    def _again_s(self) -> float:
        """Return the most time to measure outliers again, as far as one round has measured them."""
        rounds = self._plan.study.rounds
        if self._outlier is None or rounds.max > 1:
            return 0.0
        in_tables = [cell for cell in self._plan.cells if cell.kind in KINDS_IN_TABLES]
        sizes = Counter((cell.target, cell.workload) for cell in in_tables)
        may_be_outlier = [
            cell for cell in in_tables if sizes[cell.target, cell.workload] >= TABLE_CELLS_MIN
        ]
        return rounds.remeasure * sum(map(self._budget.expected_s, may_be_outlier))
