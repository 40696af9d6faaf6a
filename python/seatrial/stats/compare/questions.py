"""The questions of a comparison: each figure of each common cell, and all together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from seatrial.stats.compare.figures import RATES, Rounds, figures_of_both
from seatrial.stats.compare.model import OneSidedFigure
from seatrial.stats.compare.pairing import CommonCell
from seatrial.stats.compare.ratio import (
    ALPHA,
    AdjustedTests,
    Contrast,
    contrast,
    judge,
    overall_contrast,
    p_value,
)


class CellQuestion(msgspec.Struct, kw_only=True):
    """Whether one figure of one cell differs.

    Attributes:
        cell: The cell.
        figure: As in a FigureComparison.
        a: The figure on side A.
        b: The figure on side B.
        of: B over A; None where a round measured 0, or where a start-up phase weighs more in
            some samples.
        p_value: P-value for no difference; None if unknown.
        p_adjusted: After adjustment.
        alpha: Its interval has level 1 - alpha.
    """

    cell: CommonCell
    figure: str
    a: Rounds
    b: Rounds
    of: Contrast | None
    p_value: float | None
    p_adjusted: float | None = None
    alpha: float = ALPHA


class OverallQuestion(msgspec.Struct, kw_only=True):
    """Whether one figure differs over all cells; as of a cell.

    Attributes:
        figure: As in a FigureComparison.
        cells: Number of cells.
        of: Geometric mean of B over A.
        p_value: P-value for no difference; None if unknown.
        p_adjusted: After adjustment.
        alpha: Its interval has level 1 - alpha.
    """

    figure: str
    cells: int
    of: Contrast
    p_value: float | None
    p_adjusted: float | None = None
    alpha: float = ALPHA


class Questions(msgspec.Struct, kw_only=True):
    """All questions about one B and A.

    Attributes:
        cells: Rates first, those of databases before others, then latencies, each in the order of
            the plan.
        overall: By figure, in the same order.
        unlike_starts: Keys of cells of which some samples have a start-up phase and others none.
        included_starts: Keys of cells that are compared with their start-up phase.
        one_sided: Percentiles that are known on one side only.
    """

    cells: list[CellQuestion]
    overall: list[OverallQuestion]
    unlike_starts: list[str]
    included_starts: list[str]
    one_sided: list[OneSidedFigure]


def ask(
    cells: Sequence[CommonCell], *, paired: bool, wanted: Collection[str] | None = None
) -> Questions:
    """Return the questions about common cells, not yet judged.

    Args:
        cells: The common cells.
        paired: Whether both sides of a round were measured close to each other.
        wanted: Names of figures; by default all.
    """
    by_figure: dict[str, list[CellQuestion]] = defaultdict(list)
    unlike_starts: list[str] = []
    included_starts: list[str] = []
    one_sided: list[OneSidedFigure] = []
    unfair: set[str] = set()
    for cell in cells:
        both = figures_of_both(cell.a, cell.b, wanted)
        if not both.has_fair_lengths:
            unfair.add(cell.key)
        if both.has_unlike_starts:
            unlike_starts.append(cell.key)
        if both.includes_starts:
            included_starts.append(cell.key)
        one_sided += [
            msgspec.structs.replace(each, key=cell.key, identity=cell.identity)
            for each in both.one_sided
        ]
        for figure, a in both.a.items():
            b = both.b.get(figure)
            if b is not None and any(a.values.values()):
                found = contrast(a, b, paired=paired) if both.has_fair_lengths else None
                p = None if found is None else p_value(found)
                question = CellQuestion(cell=cell, figure=figure, a=a, b=b, of=found, p_value=p)
                by_figure[figure].append(question)
    rates = [figure for figure in RATES if figure in by_figure]
    ordered = {figure: by_figure[figure] for figure in dict.fromkeys([*rates, *by_figure])}
    overall = [
        _overall(figure, [q for q in requested if q.cell.key not in unfair], paired=paired)
        for figure, requested in ordered.items()
    ]
    return Questions(
        cells=[question for requested in ordered.values() for question in requested],
        overall=[question for question in overall if question],
        unlike_starts=unlike_starts,
        included_starts=included_starts,
        one_sided=one_sided,
    )


def _overall(
    figure: str, requested: Sequence[CellQuestion], *, paired: bool
) -> OverallQuestion | None:
    found = overall_contrast([(each.a, each.b) for each in requested], paired=paired)
    if found is None:
        return None
    of, cells = found
    return OverallQuestion(figure=figure, cells=cells, of=of, p_value=p_value(of))


def judge_all(requested: Iterable[Questions]) -> None:
    """Set the adjusted p values and the levels of the intervals of all simultaneous questions.

    An overall question about a single cell takes over the answer of the cell.
    """
    everything = list(requested)
    cells = [q for each in everything for q in each.cells if q.p_value is not None]
    overall = [q for each in everything for q in each.overall if q.p_value is not None]
    several = [question for question in overall if question.cells > 1]
    of_overall, of_cells = judge(
        [q.p_value for q in several if q.p_value is not None],
        [q.p_value for q in cells if q.p_value is not None],
    )
    _store_p_values(several, of_overall)
    _store_p_values(cells, of_cells)
    for each in everything:
        for question in each.overall:
            if question.cells == 1:
                _copy_answer(question, each.cells)


def _store_p_values(
    questions: Sequence[CellQuestion | OverallQuestion], judged: AdjustedTests
) -> None:
    for question, p_adjusted in zip(questions, judged.p_adjusted, strict=True):
        question.p_adjusted, question.alpha = p_adjusted, judged.alpha


def _copy_answer(overall: OverallQuestion, cells: Sequence[CellQuestion]) -> None:
    """Give an overall of one cell that cell's answer: its contrast is the same but for rounding."""
    for own in cells:
        if own.figure == overall.figure and own.of and bool(own.of.parts) == bool(overall.of.parts):
            overall.of, overall.p_value = own.of, own.p_value
            overall.p_adjusted, overall.alpha = own.p_adjusted, own.alpha
