"""Whether a replay met the right rows: ids and their evidence, sequences, what it began with."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.report.markup import Markup, element, unbroken
from seatrial.report.sections.tables import plain_table
from seatrial.report.table import Table
from seatrial.results.replay_content import ReplayContent
from seatrial.results.replay_ids import ReplayIds
from seatrial.stats.model import CellSummary
from seatrial.trials.replay.analysis.content import content_sentence
from seatrial.trials.replay.analysis.ids import ids_sentence, not_followed_sentence
from seatrial.trials.replay.analysis.model import ReplayCell
from seatrial.trials.replay.report.evidence_tables import (
    columns_table,
    content_table,
    divergence_table,
    id_examples_table,
    ids_table,
    means_sentence,
    patterns_table,
    sequences_table,
    start_table,
    unresolved_table,
    volatile_sentence,
)
from seatrial.trials.replay.report.words import reported_of

HEADING = "Right rows"


def evidence_part(reported: ReplayCell, part: CellSummary, number: int) -> Markup:
    """Return what shows that a replay met the right rows; nothing where nothing is known.

    Args:
        reported: The replay.
        part: Its cell.
        number: Of its tables.
    """
    sample, record = reported_of(reported, part)
    start = sample.database.start if sample.database else None
    body = [
        *(_ids(record.ids, number) if record.ids else ()),
        *(_content(record.content, number) if record.content else ()),
        _shown(divergence_table(record, number)),
        _folded(start_table(start, number)) if start else "",
    ]
    if not any(body):
        return Markup("")
    return element("div", element("h3", HEADING), *body, class_="evidence-of-rows")


def _ids(ids: ReplayIds, number: int) -> Iterator[Markup]:
    """Yield what became of ids in a sentence, then by column, then why."""
    yield element("p", unbroken(f"{ids_sentence(ids)}."), class_="verdict")
    if ids.mode == "off":
        return
    followed = not_followed_sentence(ids)
    told_of_ids = (f"{followed}." if followed else "", means_sentence(ids), volatile_sentence(ids))
    sentences = (reported for reported in told_of_ids if reported)
    yield from (element("p", unbroken(reported), class_="lead") for reported in sentences)
    yield _shown(ids_table(ids, number))
    yield _shown(unresolved_table(ids, number))
    yield _shown(sequences_table(ids, number))
    for table in (
        id_examples_table(ids, number),
        patterns_table(ids, number),
        columns_table(ids, number),
    ):
        yield _folded(table, is_of_texts=table.id.startswith(("replay-id-e", "replay-id-p")))


def _content(content: ReplayContent, number: int) -> Iterator[Markup]:
    """Yield what the tables hold against the captured ones, then which differ."""
    yield element("p", unbroken(f"{content_sentence(content)}."), class_="verdict")
    yield _shown(content_table(content, number))


def _shown(table: Table) -> Markup:
    return plain_table(table) if table.rows else Markup("")


def _folded(table: Table, *, is_of_texts: bool = False) -> Markup:
    """Return a table under its title; nothing where it has no row."""
    if not table.rows:
        return Markup("")
    shown = plain_table(table, captioned=False)
    body = element("div", shown, class_="queries") if is_of_texts else shown
    return element("details", element("summary", table.title), body)
