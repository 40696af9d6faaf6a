"""The plain tables of a comparison: terminal, Markdown and the page all show these."""

from __future__ import annotations

import math

from seatrial.report.figures.naming import cell_name
from seatrial.report.table import NO_FIGURE, ONCE, Group, Table, doubt_text
from seatrial.stats.compare.fingerprints import value_words
from seatrial.stats.compare.model import Comparand, Comparison, Overall
from seatrial.stats.compare.words import figure_words
from seatrial.stats.model import Estimate
from seatrial.stats.wording import format_plural, format_share, format_value


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Return the tables of a comparison in the order in which they are read; none is empty."""
    found = [
        differences_table(comparison),
        overall_table(comparison),
        comparison_table(comparison),
    ]
    return [table for table in found if table.rows]


def comparison_table(comparison: Comparison) -> Table:
    """Return a row for each figure of each common cell: both sides, ratio, answer."""
    a, b = comparison.a.name, comparison.b.name
    return Table(
        id="comparison",
        title=f"{b} against {a}, cell by cell",
        labels=2,
        headers=["Cell", "Figure", "Value", "±", "Value", "±", "Ratio", "95 %", "Answer"],
        groups=[Group("", 2), Group(a, 2), Group(b, 2), Group("B over A", 3)],
        rows=[_comparand_row(each) for each in comparison.comparands],
    )


def overall_table(comparison: Comparison) -> Table:
    """Return the geometric mean ratio of each figure over all common cells."""
    return Table(
        id="overall",
        title=f"{comparison.b.name} against {comparison.a.name}, all common cells together",
        labels=1,
        headers=["Figure", "Ratio", "95 %", "Answer"],
        rows=[
            [
                figure_words(figure),
                ratio_text(ratio),
                ratio_doubt(ratio),
                overall_answer(comparison, figure),
            ]
            for figure, ratio in comparison.overall.items()
        ],
    )


def differences_table(comparison: Comparison) -> Table:
    """Return what differs in the two fingerprints, the likeliest reasons first."""
    return Table(
        id="differences",
        title="What differs in machine and target",
        labels=4,
        headers=["What", comparison.a.name, comparison.b.name, "Weight"],
        rows=[
            [
                each.words,
                value_words(each.path, each.a),
                value_words(each.path, each.b),
                {"likely": "likely reason", "minor": "minor"}[each.weight],
            ]
            for each in comparison.differences
        ],
    )


def ratio_text(ratio: Estimate) -> str:
    """Return a ratio such as ``1.8x``; of what was measured once, two digits."""
    return format_value(ratio)


def ratio_doubt(ratio: Estimate) -> str:
    """Return the interval of a ratio, such as ``1.7x to 1.9x``, or that there is none."""
    if ratio.low is None or ratio.high is None:
        return ONCE
    return doubt_text(ratio)


def answer_text(answered: Comparand | Overall) -> str:
    """Return what is certain of one figure, such as ``same within 3 %``."""
    if answered.answer == "same" and answered.within_share is not None:
        whole_percents = math.ceil(answered.within_share * 100 - 1e-9)  # never told narrower
        return f"same within {format_share(whole_percents / 100)}"
    if answered.below_noise:
        return "undecided, below the noise"
    if answered.answer == "undecided" and answered.rounds_more is not None:
        return f"undecided, {format_plural(answered.rounds_more, 'more round')} would settle it"
    return answered.answer


def overall_answer(comparison: Comparison, figure: str) -> str:
    """Return what is certain of a figure over all cells; a dash where nobody asked."""
    known = comparison.overall_answers.get(figure)
    return NO_FIGURE if known is None else answer_text(known)


def _comparand_row(comparand: Comparand) -> list[str]:
    return [
        cell_name(comparand.identity),
        figure_words(comparand.figure),
        format_value(comparand.a),
        doubt_text(comparand.a),
        format_value(comparand.b),
        doubt_text(comparand.b),
        ratio_text(comparand.ratio),
        ratio_doubt(comparand.ratio),
        answer_text(comparand),
    ]
