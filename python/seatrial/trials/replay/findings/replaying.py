"""What the findings on replays share: which cells have a fault, and in how many rounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.findings.context import Context
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_count
from seatrial.trials.replay.analysis.judgement import Fault, judge
from seatrial.trials.replay.analysis.samples import replays

_QUERY_CHARACTERS_MAX: Final = 100


@dataclass(frozen=True)
class AffectedCell:
    """A cell that a finding concerns.

    Attributes:
        summary: The cell.
        record: Of its round that shows most of it.
        rounds: How many rounds show it.
        fault: What was judged of that round; None where the finding rests on figures.
    """

    summary: CellSummary
    record: ReplayRecord
    rounds: int
    fault: Fault | None = None


def seen_where(
    context: Context, weight: Callable[[ReplayRecord], float], *, above: float = 0.0
) -> list[AffectedCell]:
    """Return the cells that play a trace with a weight above a bound in any round.

    Args:
        context: The run.
        weight: How much a round shows of what is sought.
        above: What it must exceed.
    """
    found = []
    for summary in context.cells:
        records = [record for _, record in replays(summary.samples)]
        showing = [record for record in records if weight(record) > above]
        if showing:
            found.append(AffectedCell(summary, max(showing, key=weight), len(showing)))
    return found


def with_faults(context: Context, kinds: Collection[str]) -> list[AffectedCell]:
    """Return the cells that play a trace in any round of which one of these faults is judged."""
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


def opening(context: Context, found: Sequence[AffectedCell], worst: AffectedCell) -> str:
    """Return whom a finding's sentence is about: ``2 of 8 cells, in 3 of 5 rounds``."""
    cells = context.of_cells([each.summary for each in found])
    rounds = len(worst.summary.samples)
    if worst.rounds == rounds or len(found) > 1:
        return cells
    return f"{cells}, in {format_count(worst.rounds)} of {format_count(rounds)} rounds"


def lowered(sentence: str) -> str:
    """Return a sentence as it goes on after a colon."""
    return sentence[:1].lower() + sentence[1:]


def query_words(text: str) -> str:
    """Return a query within a sentence: on one line, cut where it is long."""
    line = " ".join(text.split())
    if len(line) > _QUERY_CHARACTERS_MAX:
        return f"{line[: _QUERY_CHARACTERS_MAX - 1]}…"
    return line
