"""Runs side by side by host, kernel, drive or firmware: table, sentences and JSON document."""

from __future__ import annotations

from typing import Final, Literal

from seatrial.report.exports.json_document import Document
from seatrial.report.table import NO_FIGURE, Table
from seatrial.stats.compare.by_fact import ByFact, FactRow
from seatrial.stats.compare.verdict import figure_phrase
from seatrial.stats.estimate import Estimate
from seatrial.stats.set_up import UNKNOWN
from seatrial.stats.wording import format_estimate, format_identity, format_plural

DIFFERS: Final = " *"
"""Mark of a group that differs significantly from the first one."""
OTHERS_SHOWN_MAX: Final = 8
_VALUE_MAX: Final = 20
"""If any value of the fact is longer, columns have numbers, so that more of them fit."""


class FactDocument(Document, frozen=True, kw_only=True):
    """Runs side by side.

    ``seatrial compare --by FACT``.

    Attributes:
        by_fact: Groups, tests and other differences between the groups.
        warnings: Why some runs should not be compared, if they were compared anyway.
    """

    kind: Literal["by_fact"] = "by_fact"
    by_fact: ByFact
    warnings: list[str]


def common_rows(found: ByFact) -> list[FactRow]:
    """Return the tests that at least two groups have; all of them if there is one group."""
    wanted = min(2, len(found.groups))
    return [row for row in found.rows if sum(map(bool, row.values)) >= wanted]


def fact_table(found: ByFact, rows_max: int) -> Table:
    """Return a row per common test and figure, and a column per value of the fact.

    Args:
        found: The groups.
        rows_max: The most rows.
    """
    headers = [
        f"{name} ({format_plural(len(group.run_ids), 'run')})"
        for name, group in zip(_columns(found), found.groups, strict=True)
    ]
    return Table(
        id="by_fact",
        title=f"Tests by {found.fact}",
        labels=2,
        headers=["Test", "Figure", *headers],
        rows=[_row(each) for each in common_rows(found)[:rows_max]],
    )


def _columns(found: ByFact) -> list[str]:
    """Return the names of the columns: the values, or numbers where a value is long."""
    values = [group.value for group in found.groups]
    if len(values) == 1 or max(map(len, values)) <= _VALUE_MAX:
        return values
    return [f"{found.fact} {number}" for number in range(1, len(values) + 1)]


def _row(row: FactRow) -> list[str]:
    cells = [
        (_over_runs(value) + (DIFFERS if differs else "")) if value else NO_FIGURE
        for value, differs in zip(row.values, row.differs, strict=True)
    ]
    return [format_identity(row.test), figure_phrase(row.figure), *cells]


def _over_runs(value: Estimate) -> str:
    """Return a figure in words; what is called a round elsewhere is a run here."""
    return format_estimate(value).replace("measured once", "1 run").replace(" rounds", " runs")


def fact_sentences(found: ByFact) -> list[str]:
    """Return how to read the table: what is significant, and other possible causes."""
    judged = [each for row in found.rows for each in row.differs if each is not None]
    if len(found.groups) == 1 and found.groups[0].value == UNKNOWN:
        return [f"The {found.fact} of these runs is unknown: there is nothing to compare."]
    if len(found.groups) == 1:
        return [f"All runs have the same {found.fact}: there is nothing to compare."]
    columns = list(zip(_columns(found), found.groups, strict=True))
    once = [name for name, group in columns if len(group.run_ids) == 1]
    sentences = [f"{name}: {group.value}." for name, group in columns if name != group.value]
    sentences += ["Intervals are over runs; a figure of one run has none."]
    if judged:
        sentences.append(
            f"* differs significantly from {columns[0][0]}: {sum(judged)} of "
            f"{format_plural(len(judged), 'comparison')} (Welch's t over runs, 5 % for all of "
            "them together)."
        )
    if once or not judged:
        which = f" of {', '.join(once)}" if once else ""
        sentences.append(
            f"No difference{which} is called significant: this needs two runs per {found.fact} "
            "with the same test."
        )
    if found.others:
        named = [
            f"{each.words} ({' | '.join(each.values)})" for each in found.others[:OTHERS_SHOWN_MAX]
        ]
        left_out = len(found.others) - len(named)
        more = f", and {left_out} more" if left_out > 0 else ""
        sentences.append(
            f"Apart from the {found.fact}, these differ between the columns, and each may be the "
            f"cause of a difference: {', '.join(named)}{more}."
        )
    else:
        sentences.append(
            f"No other usual cause of a difference in speed differs between the columns, as far "
            f"as the fingerprints show, but runs of different {found.fact} were not interleaved."
        )
    return sentences
