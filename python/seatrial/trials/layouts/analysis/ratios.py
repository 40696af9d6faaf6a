"""Layouts against each other: those that differ in one factor, and which is best for what.

Rounds are paired: each round builds every layout once. All questions of a run are judged together
by Holm's method, as a comparison judges them (compare/multiplicity.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.results.model import Sample
from seatrial.stats.compare.comparison import MARGIN_SHARE_DEFAULT
from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.multiplicity import ALPHA, holm
from seatrial.stats.compare.overall import overall_contrast
from seatrial.stats.compare.ratio import Contrast, p_value, ratio_estimate
from seatrial.stats.compare.settle import is_same, rounds_more, within_share
from seatrial.stats.estimates import counted, rate_unit
from seatrial.stats.model import CellSummary
from seatrial.stats.running import Running, running, running_from
from seatrial.study.cell import FactorValue
from seatrial.trials.layouts.analysis.model import LayoutRatio, Variant
from seatrial.trials.layouts.analysis.samples import is_breaking_summary, variant_of

LAYOUT: Final = "layout"
BACKEND: Final = "backend"
LEGS: Final = "legs"
ABSENT: Final = ""


class LayoutCells:
    """The cells of a run's layouts, with the running phase of every sample taken once."""

    def __init__(self, cells: Sequence[CellSummary]) -> None:
        self.by_target: dict[str, dict[str, CellSummary]] = {}
        self.variants: dict[str, Variant] = {}
        for summary in cells:
            variant = variant_of(summary)
            if variant and not summary.blank and not is_breaking_summary(summary):
                self.variants[variant.target] = variant
                own = self.by_target.setdefault(variant.target, {})
                own[summary.cell.key_without_target] = summary
        self._phases: dict[int, Running] = {}

    def common(self, a: str, b: str, operation: str) -> list[str]:
        """Return the keys of cells of one operation that two targets have in common."""
        own, other = self.by_target[a], self.by_target[b]
        return [key for key in own if key in other and own[key].cell.operation == operation]

    def operations(self) -> list[str]:
        """Return the operations that any cell has."""
        every = (each for own in self.by_target.values() for each in own.values())
        return list(
            dict.fromkeys(each.cell.operation for each in every if each.cell.kind != "fill")
        )

    def contrast(self, a: str, b: str, keys: Sequence[str]) -> tuple[Contrast, int] | None:
        """Return B over A over some of their cells, and how many; None if a round measured 0."""
        pairs = [self._pair(self.by_target[a][key], self.by_target[b][key]) for key in keys]
        return overall_contrast(pairs, paired=True) if pairs else None

    def _pair(self, a: CellSummary, b: CellSummary) -> tuple[Rounds, Rounds]:
        """Return the rates of one cell on both sides, from the same moment of each sample on."""
        sides = [counted(a.samples), counted(b.samples)]
        start_s = max(self._phase(sample).from_s for side in sides for sample in side)
        first, second = (self._rounds(side, start_s) for side in sides)
        return first, second

    def _rounds(self, samples: Sequence[Sample], start_s: float) -> Rounds:
        phases = [self._phase(s) if start_s == 0 else running_from(s, start_s) for s in samples]
        completed_mean = sum(phase.completed for phase in phases) / len(phases)
        return Rounds(
            values={
                sample.round: phase.completed_per_s
                for sample, phase in zip(samples, phases, strict=True)
            },
            unit=rate_unit(samples[0]),
            resolution_share=min(1.0, 0.5 / completed_mean) if completed_mean else 0.0,
        )

    def _phase(self, sample: Sample) -> Running:
        if id(sample) not in self._phases:
            self._phases[id(sample)] = running(sample)
        return self._phases[id(sample)]


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """Whether two layouts that differ in one factor differ in the rate of one operation."""

    factor: str
    a: Variant
    b: Variant
    operation: str
    cells: int
    of: Contrast


def layout_ratios(measured: LayoutCells) -> list[LayoutRatio]:
    """Return every pair of layouts that differ in one factor, with what is certain of it."""
    asked = list(_questions(measured))
    known = [(place, p) for place, each in enumerate(asked) if (p := p_value(each.of)) is not None]
    adjusted = dict(zip([place for place, _ in known], holm([p for _, p in known]), strict=True))
    still_open = sum(p > ALPHA for p in adjusted.values())
    alpha = ALPHA / max(1, still_open)
    return [_judged(each, adjusted.get(place), alpha) for place, each in enumerate(asked)]


def _questions(measured: LayoutCells) -> Iterator[_Question]:
    for a, b in itertools.combinations(measured.variants.values(), 2):
        factor = one_difference(a.factors, b.factors)
        if not factor or a.label == b.label:
            continue
        for operation in measured.operations():
            keys = measured.common(a.target, b.target, operation)
            found = measured.contrast(a.target, b.target, keys)
            if found:
                of, cells = found
                yield _Question(factor=factor, a=a, b=b, operation=operation, cells=cells, of=of)


def one_difference(a: Mapping[str, FactorValue], b: Mapping[str, FactorValue]) -> str:
    """Return the one factor in which two layouts differ; empty where it is none or several.

    The name counts where nothing else differs. That stripes over legs need a backend that makes
    them is no difference of its own. Numbers of drives are compared by the sweep.
    """
    names = dict.fromkeys([*a, *b])
    differing = {name for name in names if a.get(name) != b.get(name) and name != LAYOUT}
    if LEGS in differing and _base(a) == _base(b):
        differing.discard(BACKEND)
    if not differing:
        return LAYOUT if a.get(LAYOUT) != b.get(LAYOUT) else ""
    factor = next(iter(differing))
    return factor if len(differing) == 1 and factor not in ("drives", "size_bytes") else ""


def _base(factors: Mapping[str, FactorValue]) -> str:
    """Return the backend of the legs."""
    return str(factors.get(BACKEND)).partition("+")[0]


def _judged(question: _Question, p_adjusted: float | None, alpha: float) -> LayoutRatio:
    ratio = ratio_estimate(question.of, alpha)
    reported = LayoutRatio(
        factor=question.factor,
        a=question.a.target,
        b=question.b.target,
        value_a=question.a.factors.get(question.factor, ABSENT),
        value_b=question.b.factors.get(question.factor, ABSENT),
        drives=question.a.drives,
        operation=question.operation,
        cells=question.cells,
        ratio=ratio,
        p_adjusted=p_adjusted,
        answer="undecided",
    )
    if p_adjusted is not None and p_adjusted <= ALPHA:
        answer = "higher" if ratio.value > 1 else "lower"
        return msgspec.structs.replace(reported, answer=answer)
    if p_adjusted is not None and is_same(ratio, MARGIN_SHARE_DEFAULT):
        return msgspec.structs.replace(reported, answer="same", within_share=within_share(ratio))
    (more,) = rounds_more([question.of], alpha, MARGIN_SHARE_DEFAULT)
    return msgspec.structs.replace(reported, rounds_more=more)
