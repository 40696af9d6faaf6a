"""Statements of a trace that do not fit the schema that they were played on."""

from __future__ import annotations

import msgspec

from seatrial.results.replay import ReplayErrorExample, ReplayRecord
from seatrial.stats.model import CellSummary
from seatrial.trials.replay.analysis.judgement import is_migrated, is_misfit
from seatrial.trials.replay.analysis.samples import played, replays


class Misfits(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one replay that do not fit its schema, in the round with the most of them.

    Attributes:
        schema: What the schema is called.
        is_migrated: Whether it was made of the snapshot's by a migration.
        statements: How many failed so, that had not when they were captured; at least so many,
            for of very many kinds of errors only the most frequent are told apart.
        sent: Statements that were sent.
        examples: The most frequent first.
    """

    schema: str
    is_migrated: bool
    statements: int
    sent: int
    examples: list[ReplayErrorExample]


def misfits(summary: CellSummary) -> Misfits | None:
    """Return what does not fit in a cell; None of a cell that names no schema, or has no record."""
    schema = played(summary.cell).get("schema")
    records = [record for _, record in replays(summary.samples)]
    if not schema or not records:
        return None
    worst = max(records, key=misfit_count)
    return Misfits(
        schema=str(schema),
        is_migrated=is_migrated(worst),
        statements=misfit_count(worst),
        sent=worst.total.sent,
        examples=sorted(_misfitting(worst), key=lambda each: -each.count),
    )


def misfit_count(record: ReplayRecord) -> int:
    """Return how many statements of a replay do not fit its schema."""
    return sum(each.count for each in _misfitting(record))


def _misfitting(record: ReplayRecord) -> list[ReplayErrorExample]:
    return [
        each
        for each in record.errors.examples
        if each.kind in ("new", "other") and is_misfit(each.sqlstate)
    ]
