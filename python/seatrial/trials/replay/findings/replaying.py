"""Shared by the findings on replays: which cells have a fault, and in how many rounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import CellSummary, Figures, Finding
from seatrial.stats.wording import format_count
from seatrial.study.cell import FactorValue
from seatrial.trials.replay.analysis.model import replays
from seatrial.trials.replay.analysis.verdict import Fault, judge

_QUERY_CHARACTERS_MAX: Final = 100


@dataclass(frozen=True)
class AffectedCell:
    """A cell that a finding concerns.

    Attributes:
        summary: The cell.
        record: Record of the round that shows it most.
        rounds: Number of rounds that show it.
        fault: The fault of that round; None if the finding is based on figures.
    """

    summary: CellSummary
    record: ReplayRecord
    rounds: int
    fault: Fault | None = None


def affected_cells(context: Context, weight: Callable[[ReplayRecord], float]) -> list[AffectedCell]:
    """Return the replay cells in which a round has a weight above 0."""
    found = []
    for summary in context.cells:
        records = [record for _, record in replays(summary.samples)]
        matching = [record for record in records if weight(record) > 0.0]
        if matching:
            found.append(AffectedCell(summary, max(matching, key=weight), len(matching)))
    return found


@dataclass(frozen=True)
class WorstCell:
    """The replay cell that shows a finding most, and all cells that show it.

    Attributes:
        record: Record of its worst round.
        rounds: Number of its rounds that show it.
        where: All cells that show it, and the rounds if it is one.
        cells: Their factors.
    """

    record: ReplayRecord
    rounds: int
    where: Affected
    cells: list[dict[str, FactorValue]]

    def finding(self, severity: str, figures: Figures) -> list[Finding]:
        """Return the finding on these cells."""
        return [Finding(severity=severity, cells=self.cells, figures=figures)]


def worst_cell(context: Context, weight: Callable[[ReplayRecord], float]) -> WorstCell | None:
    """Return the replay cell with the largest weight; None if no round has one above 0."""
    found = affected_cells(context, weight)
    if not found:
        return None
    worst = max(found, key=lambda each: weight(each.record))
    return WorstCell(
        record=worst.record,
        rounds=worst.rounds,
        where=affected(context, found, worst),
        cells=identities(each.summary for each in found),
    )


def with_faults(context: Context, kinds: Collection[str]) -> list[AffectedCell]:
    """Return the replay cells with one of these faults in any round."""
    found = []
    for summary in context.cells:
        faults = [
            (record, fault)
            for _, record in replays(summary.samples)
            if (fault := _first_fault(record, kinds)) is not None
        ]
        if faults:
            record, fault = faults[0]
            found.append(AffectedCell(summary, record, len(faults), fault))
    return found


def _first_fault(record: ReplayRecord, kinds: Collection[str]) -> Fault | None:
    return next((fault for fault in judge(record).faults if fault.kind in kinds), None)


class Affected(msgspec.Struct, frozen=True):
    """The cells and rounds that a finding concerns; as text, the cells and the rounds of one.

    Attributes:
        cells: The cells.
        rounds_count: Affected rounds of the worst cell.
        of_rounds_count: All rounds of the worst cell.
    """

    cells: AffectedCells
    rounds_count: int
    of_rounds_count: int

    def __str__(self) -> str:
        """Return the cells, and the number of rounds if it is one cell and not all rounds."""
        if self.rounds_count == self.of_rounds_count or self.cells.count > 1:
            return str(self.cells)
        rounds = f"{format_count(self.rounds_count)} of {format_count(self.of_rounds_count)}"
        return f"{self.cells}, in {rounds} rounds"


def affected(context: Context, found: Sequence[AffectedCell], worst: AffectedCell) -> Affected:
    """Return what a finding's sentence is about: ``2 of 8 tests``, or one in 3 of 5 rounds."""
    cells = context.affected_cells([each.summary for each in found])
    return Affected(cells, worst.rounds, len(worst.summary.samples))


def lowered(sentence: str) -> str:
    """Return a sentence as it continues after a colon."""
    return sentence[:1].lower() + sentence[1:]


def query_text(text: str) -> str:
    """Return a query within a sentence: on one line, truncated if it is long."""
    line = " ".join(text.split())
    if len(line) > _QUERY_CHARACTERS_MAX:
        return f"{line[: _QUERY_CHARACTERS_MAX - 1]}…"
    return line
