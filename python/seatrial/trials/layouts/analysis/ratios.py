"""Comparison of layouts: pairs that differ in one factor, and the fastest layout for each use.

Rounds are paired: each round builds every layout once. All pairs of a run are tested together with
Holm's correction, as in a comparison (compare/multiplicity.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from seatrial.fingerprint import Target
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import count_resolution_share, counted, rate_unit
from seatrial.stats.compare.comparison import MARGIN_SHARE_DEFAULT
from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.noise import is_same, rounds_more, within_share
from seatrial.stats.compare.ratio import (
    ALPHA,
    Contrast,
    holm,
    overall_contrast,
    p_value,
    ratio_estimate,
)
from seatrial.stats.estimate import Estimate
from seatrial.stats.model import CellSummary
from seatrial.stats.running import RunningPhase, phases_alike, running
from seatrial.stats.wording import format_plural, format_size, operation_phrase
from seatrial.study.cell import Cell, FactorValue
from seatrial.trials.layouts.analysis.accounting import accounting
from seatrial.trials.layouts.analysis.measured_figures import measured_figures
from seatrial.trials.layouts.analysis.model import (
    BestLayout,
    LayoutAnalysis,
    LayoutRatio,
    Variant,
    is_breaking_summary,
    variant_of,
    variants_of,
)
from seatrial.trials.layouts.analysis.recovery import limit_tables, recoveries
from seatrial.trials.layouts.analysis.sweep import sweeps

LAYOUT: Final = "layout"
BACKEND: Final = "backend"
LEGS: Final = "legs"
ABSENT: Final = ""
_OF_PARTS: Final = ("fill", "map")
"""Kinds of cells that create a file or measure a part of one."""


class LayoutCells:
    """The cells of a run's layouts that are compared.

    The running phase of every sample is computed once.
    """

    def __init__(self, cells: Sequence[CellSummary]) -> None:
        self.by_target: dict[str, dict[str, CellSummary]] = {}
        self.variants: dict[str, Variant] = {}
        for summary in cells:
            variant = variant_of(summary)
            if summary.cell.kind in _OF_PARTS or summary.blank:
                continue
            if variant and not is_breaking_summary(summary):
                self.variants[variant.target] = variant
                own = self.by_target.setdefault(variant.target, {})
                own[summary.cell.key_without_target] = summary
        self._phases: dict[int, RunningPhase] = {}

    def common(self, a: str, b: str, operation: str) -> list[str]:
        """Return the keys of cells of one operation that two targets have in common."""
        own, other = self.by_target[a], self.by_target[b]
        return [key for key in own if key in other and own[key].cell.operation == operation]

    def operations(self) -> list[str]:
        """Return the operations that any cell has."""
        every = (each for own in self.by_target.values() for each in own.values())
        return list(dict.fromkeys(each.cell.operation for each in every))

    def contrast(self, a: str, b: str, keys: Sequence[str]) -> tuple[Contrast, int] | None:
        """Return B over A over some of their cells, and how many; None if a round measured 0."""
        pairs = [self._pair(self.by_target[a][key], self.by_target[b][key]) for key in keys]
        return overall_contrast(pairs, paired=True) if pairs else None

    def _pair(self, a: CellSummary, b: CellSummary) -> tuple[Rounds, Rounds]:
        """Return the rates of one cell on both sides, of the same phase of each sample."""
        of_a, of_b = counted(a.samples), counted(b.samples)
        phases = phases_alike([*of_a, *of_b], [self._phase(sample) for sample in (*of_a, *of_b)])
        return self._rounds(of_a, phases[: len(of_a)]), self._rounds(of_b, phases[len(of_a) :])

    def _rounds(self, samples: Sequence[Sample], phases: Sequence[RunningPhase]) -> Rounds:
        return Rounds(
            values={
                sample.round: phase.completed_per_s
                for sample, phase in zip(samples, phases, strict=True)
            },
            unit=rate_unit(samples[0]),
            resolution_share=count_resolution_share(phases),
        )

    def _phase(self, sample: Sample) -> RunningPhase:
        if id(sample) not in self._phases:
            self._phases[id(sample)] = running(sample)
        return self._phases[id(sample)]


class _Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two layouts that differ in one factor, with the contrast of their rates of one operation."""

    factor: str
    a: Variant
    b: Variant
    operation: str
    cells: int
    of: Contrast


def layout_ratios(measured: LayoutCells) -> list[LayoutRatio]:
    """Return every pair of layouts that differ in one factor, with its ratio and result."""
    pairs = list(_pairs(measured))
    known = {index: p for index, each in enumerate(pairs) if (p := p_value(each.of)) is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    undecided = sum(p > ALPHA for p in adjusted.values())
    alpha = ALPHA / max(1, undecided)
    return [_ratio(each, adjusted.get(index), alpha) for index, each in enumerate(pairs)]


def _pairs(measured: LayoutCells) -> Iterator[_Pair]:
    for a, b in itertools.combinations(measured.variants.values(), 2):
        factor = one_difference(a.factors, b.factors)
        if not factor or a.label == b.label:
            continue
        for operation in measured.operations():
            keys = measured.common(a.target, b.target, operation)
            found = measured.contrast(a.target, b.target, keys)
            if found:
                of, cells = found
                yield _Pair(factor=factor, a=a, b=b, operation=operation, cells=cells, of=of)


def one_difference(a: Mapping[str, FactorValue], b: Mapping[str, FactorValue]) -> str:
    """Return the single factor in which two layouts differ; empty if there are none or several.

    The name counts only if nothing else differs. A backend that is needed to stripe over legs is
    not a separate difference. Numbers of drives are compared by the sweep.
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


def _ratio(pair: _Pair, p_adjusted: float | None, alpha: float) -> LayoutRatio:
    ratio = ratio_estimate(pair.of, alpha)
    layout_ratio = LayoutRatio(
        factor=pair.factor,
        a=pair.a.target,
        b=pair.b.target,
        value_a=pair.a.factors.get(pair.factor, ABSENT),
        value_b=pair.b.factors.get(pair.factor, ABSENT),
        drives=pair.a.drives,
        operation=pair.operation,
        cells=pair.cells,
        ratio=ratio,
        p_adjusted=p_adjusted,
        answer="undecided",
    )
    if p_adjusted is not None and p_adjusted <= ALPHA:
        answer = "higher" if ratio.value > 1 else "lower"
        return msgspec.structs.replace(layout_ratio, answer=answer)
    if p_adjusted is not None and is_same(ratio, MARGIN_SHARE_DEFAULT):
        return msgspec.structs.replace(
            layout_ratio, answer="same", within_share=within_share(ratio)
        )
    (more,) = rounds_more([pair.of], alpha, MARGIN_SHARE_DEFAULT)
    return msgspec.structs.replace(layout_ratio, rounds_more=more)


BLOCK_SIZES_BYTES: Final = (8192, 4096, 16384)
"""Page sizes of databases: 8 KiB, else the nearest size measured."""
Among = Literal["all", "redundant"]


@dataclass(frozen=True)
class UseCase:
    """One use that layouts are compared for.

    Attributes:
        words: Its name.
        key: Key of the cell, without its target.
    """

    words: str
    key: str


def best_layouts(measured: LayoutCells) -> list[BestLayout]:
    """Return the fastest layout for each use that two or more layouts have in common.

    Since the fastest is selected among many, it is significantly faster than another layout only
    at 5 % divided by all pairs and uses (Bonferroni). If the fastest tolerates no drive failure,
    the fastest layout with redundancy is returned as well.
    """
    uses = list(_uses(measured))
    found = []
    for use in uses:
        fitting = [t for t, own in measured.by_target.items() if use.key in own]
        alpha = ALPHA / (len(fitting) * (len(fitting) - 1) / 2 * len(uses))
        first = _best(measured, use, fitting, alpha, "all")
        found.append(first)
        redundant = [t for t in fitting if measured.variants[t].losses_survived > 0]
        if redundant and first.target not in redundant:
            found.append(_best(measured, use, redundant, alpha, "redundant"))
    return found


def _best(
    measured: LayoutCells, use: UseCase, targets: Sequence[str], alpha: float, among: Among
) -> BestLayout:
    ordered = sorted(targets, key=lambda t: -measured.by_target[t][use.key].iops.value)
    first, others = ordered[0], ordered[1:]
    slower: dict[str, Estimate] = {}
    for other in others:
        found = measured.contrast(other, first, [use.key])
        ratio = ratio_estimate(found[0], alpha) if found else None
        if ratio and ratio.low is not None and ratio.low > 1:
            slower[other] = ratio
    runner_up = next(iter(slower), "")
    return BestLayout(
        use=use.words,
        among=among,
        target=first,
        figure=_figure(measured.by_target[first][use.key]),
        runner_up=runner_up,
        ratio=slower.get(runner_up),
        equals=[other for other in others if other not in slower],
    )


def _figure(summary: CellSummary) -> Estimate:
    """Return the usual figure: bandwidth for sequential requests, otherwise the rate."""
    is_in_sequence = summary.cell.parsed.address_kinds == {"sequential"}
    return summary.bandwidth if is_in_sequence else summary.iops


def _uses(measured: LayoutCells) -> Iterator[UseCase]:
    for operation in ("read", "write"):
        for size_bytes in BLOCK_SIZES_BYTES:
            wanted = _random(operation, size_bytes)
            use = _use(measured, wanted, f"random {operation}s of {format_size(size_bytes)}")
            if use:
                yield use
                break
    for operation in ("read", "write"):
        use = _use(measured, _sequential(operation), f"sequential {operation}s")
        if use:
            yield use
    for operation in ("commit", "transaction", "copy"):
        use = _use(measured, _operation(operation), operation_phrase(operation))
        if use:
            yield use


def _random(operation: str, size_bytes: int) -> Callable[[Cell], bool]:
    return lambda cell: (
        cell.operation == operation
        and cell.block_size_bytes == size_bytes
        and cell.parsed.address_kinds == {"random"}
    )


def _operation(operation: str) -> Callable[[Cell], bool]:
    return lambda cell: cell.operation == operation


def _sequential(operation: str) -> Callable[[Cell], bool]:
    return lambda cell: cell.operation == operation and cell.parsed.address_kinds == {"sequential"}


def _use(measured: LayoutCells, wanted: Callable[[Cell], bool], words: str) -> UseCase | None:
    """Return the matching cell that most layouts have; among several the fastest.

    For commits it is the cell with the fewest threads, since a single session waits for each one.
    """
    found: dict[str, list[CellSummary]] = {}
    for own in measured.by_target.values():
        for key, summary in own.items():
            if wanted(summary.cell):
                found.setdefault(key, []).append(summary)
    shared = {key: cells for key, cells in found.items() if len(cells) > 1}
    if not shared:
        return None
    # Cells of the kind are preferred to those that are sequential only by their addresses.
    sequential = {key: cells for key, cells in shared.items() if cells[0].cell.kind == "sequential"}
    shared = sequential or shared
    key = max(shared, key=lambda each: _weight(shared[each]))
    cell = shared[key][0].cell
    size = f" of {format_size(cell.block_size_bytes)}" if words.startswith("sequential") else ""
    return UseCase(f"{words}{size}{_concurrency(cell)}", key)


def _weight(cells: Sequence[CellSummary]) -> tuple[float, ...]:
    cell = cells[0].cell
    if cell.operation == "commit":
        return len(cells), -cell.threads
    fastest = max(cells, key=lambda each: (each.bandwidth.value, each.iops.value))
    return len(cells), fastest.bandwidth.value, fastest.iops.value


def _concurrency(cell: Cell) -> str:
    if cell.operation == "transaction":
        return f" of {format_plural(cell.threads, 'client')}"
    in_flight = cell.threads * cell.depth
    return f", {in_flight} in flight" if in_flight > 1 else ""


def analyse_layouts(
    cells: Sequence[CellSummary], targets: Mapping[str, Target]
) -> LayoutAnalysis | None:
    """Return the analysis of a run's layouts; None if it has none.

    Args:
        cells: All cells of the run, in the order of the plan.
        targets: The fingerprints of the layouts, by label.
    """
    own = [summary for summary in cells if any(sample.layout for sample in summary.samples)]
    variants = variants_of(own)
    if not variants:
        return None
    measured = LayoutCells(own)
    series, broken = sweeps(own), recoveries(own, targets)
    return LayoutAnalysis(
        variants=variants,
        accounting=accounting(own),
        sweeps=series,
        ratios=layout_ratios(measured),
        best=best_layouts(measured),
        recoveries=broken,
        limits=limit_tables(broken),
        figures=measured_figures(own, series),
    )
