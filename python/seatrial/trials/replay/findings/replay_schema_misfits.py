"""Finding ``replay_schema_misfits``: statements do not fit the schema that a study tries."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.schemas import Misfits, misfits
from seatrial.trials.replay.findings.replaying import query_words

WARNING_SHARE: Final = 0.01
"""Of the statements sent: where more fail, the rate is that of another load."""


@from_samples(rank=100, section="Of a replay", sees_replays=True)
def replay_schema_misfits(context: Context) -> list[Finding]:
    """Find schemas of a study on which statements fail that had not when they were captured.

    Means:
        Statements fail on a schema that a study tries and had not failed in the capture: a table,
        column or function is gone, or has another type. A failing statement costs next to nothing,
        so the rate flatters the schema.

    Decided:
        New errors of SQLSTATE class 42, rights (42501) excepted, of cells whose schema is a
        migration. Warning above 1 % of the statements sent, else note.

    Do:
        Give the migration views or functions of the old names, or compare only queries that both
        schemas answer.
    """
    by_schema: dict[str, list[tuple[CellSummary, Misfits]]] = {}
    for summary in context.cells:
        found = misfits(summary)
        if found and found.is_migrated and found.statements:
            by_schema.setdefault(found.schema, []).append((summary, found))
    return [_finding(schema, found) for schema, found in by_schema.items()]


def _finding(schema: str, found: list[tuple[CellSummary, Misfits]]) -> Finding:
    worst = max((each for _, each in found), key=lambda each: each.statements)
    share = worst.statements / worst.sent if worst.sent else 0.0
    example = worst.examples[0]
    return Finding(
        kind="replay_schema_misfits",
        severity="warning" if share > WARNING_SHARE else "note",
        cells=identities(summary for summary, _ in found),
        sentence=(
            f"Schema {schema}: {format_plural(worst.statements, 'statement')} of "
            f"{format_count(worst.sent)} ({format_share(share)}) no longer fit it; most of all "
            f"{format_count(example.count)} of {example.sqlstate} ({example.message}), as of "
            f"{query_words(example.text)}."
        ),
        cause=(
            "The migration took away or renamed what these name, or gave it another type. A "
            "statement that fails costs next to nothing, and what followed in its transaction "
            "was not done: the rate flatters the schema."
        ),
        evidence={
            "misfits_count": worst.statements,
            "sent_count": worst.sent,
            "misfit_share": share,
            "queries_count": len(worst.examples),
        },
        next=(
            "Give the migration views or functions of the old names, or compare only queries that "
            "are answered on both: the report's table of queries has them."
        ),
    )
