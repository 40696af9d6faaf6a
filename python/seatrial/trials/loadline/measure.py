"""Measures load lines: one offered rate after the other, each chosen from the earlier samples."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from seatrial.measure.budget import RunBudget
from seatrial.measure.recorder import COMPLETE, Recorder, RoundsResult, Strategy
from seatrial.study.cell import Cell
from seatrial.study.cost import after_rounds_s
from seatrial.trials.loadline.study import (
    LOADLINE,
    SAMPLES_MAX,
    Decide,
    Loadline,
    RateStep,
    SearchEnd,
    at_rate,
    template_key,
)

Decider = Callable[[Loadline, int], Decide]
"""Creates the ``Decide`` of one load line from its workload and the study's seed."""


def load_lines(decider: Decider, before: Strategy | None = None) -> Strategy:
    """Return the strategy that measures the load lines of a plan one after the other.

    Args:
        decider: Chooses the rates by the rules of the analysis.
        before: The strategy for all other cells, which are measured first.
    """

    def conduct(recorder: Recorder) -> RoundsResult:
        reasons, began_s = [], time.monotonic()
        if before is not None:
            reasons.append(before(recorder).reason)
        reasons += _all_lines(recorder, decider, began_s)
        return RoundsResult(status=COMPLETE, reason=" ".join(reasons))

    return conduct


def _all_lines(recorder: Recorder, decider: Decider, began_s: float) -> list[str]:
    """Measure every load line of the plan; return why each ended."""
    plan = recorder.plan
    workloads = {each.label: each for each in plan.study.workloads}
    templates = [cell for cell in plan.cells if cell.kind == LOADLINE]
    budget = RunBudget(recorder, began_s)
    reasons = []
    for number, template in enumerate(templates, start=1):
        workload = workloads[template.workload]
        if isinstance(workload, Loadline):
            later_s = sum(after_rounds_s(plan, each) for each in templates[number:])
            line = _Line(recorder, budget, template, workload, later_s=later_s)
            reason = line.measure(decider(workload, plan.study.seed))
            reasons.append(reason if len(templates) == 1 else f"{template.key}: {reason}")
    return reasons


class _Line:
    """Measures one load line and stores each sample; ``later_s`` is the time of later lines."""

    def __init__(
        self,
        recorder: Recorder,
        budget: RunBudget,
        template: Cell,
        workload: Loadline,
        *,
        later_s: float,
    ) -> None:
        self._budget = budget
        self._later_s = later_s
        self._template = template
        self._workload = workload
        self._deadline_s = time.monotonic() + workload.budget_s
        self._samples = [
            sample
            for sample in recorder.earlier()
            if sample.cell.kind == LOADLINE and template_key(sample.cell) == template.key
        ]
        self._rounds = Counter(sample.cell.key for sample in self._samples)

    def measure(self, decide: Decide) -> str:
        """Measure until a decision is reached or a budget ends; return the reason.

        Raises:
            Interrupted: if the user stops it.
        """
        if not self._rounds[self._template.key]:
            self._measure(self._template)
        while True:
            step = decide(self._samples)
            if isinstance(step, SearchEnd):
                return step.reason
            cell = at_rate(self._template, self._workload.arrival, step.rate_per_s, step.sample_s)
            if exhausted := self._exhausted(step, cell):
                return f"{exhausted} was used up after {len(self._samples)} samples."
            if step.rest_s > 0:
                self._budget.rest(cell, step.rest_s)
            self._measure(cell)

    def _exhausted(self, step: RateStep, cell: Cell) -> str:
        needed_s = 0.0 if _is_virtual(cell) else step.rest_s + step.sample_s
        if time.monotonic() + needed_s > self._deadline_s:
            return f"The load line's budget of {self._workload.budget_s:g} s"
        return self._budget.exhausted(cell)

    def _measure(self, cell: Cell) -> None:
        round_number = self._rounds[cell.key]
        position = sum(sample.round == round_number for sample in self._samples)
        expected_s = self._budget.expected_s(cell)
        own_s = max(expected_s, self._deadline_s - time.monotonic())
        if _is_virtual(cell):
            own_s = expected_s * max(1, SAMPLES_MAX - len(self._samples))
        left = self._budget.time_left(
            cell, own_s + self._later_s, certain_s=expected_s, may_end_sooner=True
        )
        sample = self._budget.measure(cell, round_number, position, time_left=left)
        self._samples.append(sample)
        self._rounds[cell.key] += 1


def _is_virtual(cell: Cell) -> bool:
    """Return whether a cell runs on the clock of a simulated device."""
    return cell.parsed.target.kind == "simulated"
