"""Finding ``replay_schema_mismatch``: statements fail on a migrated schema."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.replay import ReplayErrorExample
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.model import SchemaErrors, schema_errors
from seatrial.trials.replay.findings.replaying import query_text

WARNING_SHARE: Final = 0.01
"""Of the statements sent; above it the rate is that of a different load."""


@from_samples(rank=100, section="Replays", sees_replays=True)
def replay_schema_mismatch(context: Context) -> list[Finding]:
    """Find schemas of a study on which statements fail that succeeded in the capture.

    Means:
        Statements that succeeded in the capture fail on a migrated schema: a table, column or
        function is missing or has another type. Failing statements are cheap, so the rate is too
        good for this schema.

    Decided:
        New errors of SQLSTATE class 42, except insufficient privilege (42501), in tests whose
        schema is a migration. Warning above 1 % of the statements sent, otherwise note.

    Do:
        Add views or functions with the old names to the migration, or compare only queries that
        work on both schemas.
    """
    by_schema: dict[str, list[tuple[CellSummary, SchemaErrors]]] = {}
    for summary in context.cells:
        found = schema_errors(summary)
        if found and found.is_migrated and found.statements:
            by_schema.setdefault(found.schema, []).append((summary, found))
    return [_finding(schema, found) for schema, found in by_schema.items()]


class ReplaySchemaMismatchFigures(Figures, frozen=True, kw_only=True, tag="replay_schema_mismatch"):
    schema_errors_count: int
    sent_count: int
    schema_error_share: float
    queries_count: int
    schema: Annotated[str, HIDDEN]
    example: Annotated[ReplayErrorExample, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"Schema {self.schema}: {format_plural(self.schema_errors_count, 'statement')} of "
                f"{format_count(self.sent_count)} ({format_share(self.schema_error_share)}) fail "
                "on it. Most frequent: "
                f"{format_count(self.example.count)} with {self.example.sqlstate} "
                f"({self.example.message}), such as {query_text(self.example.text)}."
            ),
            cause=(
                "The migration removed or renamed objects that these statements use, or changed "
                "their types. Failing statements are cheap, and the rest of their transaction is "
                "skipped, so the rate is too good for this schema."
            ),
            next=(
                "Add views or functions with the old names to the migration, or compare only "
                "queries that work on both: see the report's table of queries."
            ),
        )


def _finding(schema: str, found: list[tuple[CellSummary, SchemaErrors]]) -> Finding:
    worst = max((each for _, each in found), key=lambda each: each.statements)
    share = worst.statements / worst.sent if worst.sent else 0.0
    example = worst.examples[0]
    return Finding(
        severity="warning" if share > WARNING_SHARE else "note",
        cells=identities(summary for summary, _ in found),
        figures=ReplaySchemaMismatchFigures(
            schema_errors_count=worst.statements,
            sent_count=worst.sent,
            schema_error_share=share,
            queries_count=len(worst.examples),
            schema=schema,
            example=example,
        ),
    )
