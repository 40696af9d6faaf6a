"""The JSON document of ``seatrial sql compare``: docs/schema/before_after.schema.json."""

from __future__ import annotations

from typing import Any

import msgspec

from seatrial.report.exports.json_document import as_text, document
from seatrial.trials.replay.compare.model import BeforeAfter, Change, Table


def before_after_document(found: BeforeAfter) -> str:
    """Return all that was compared; what is not known is null."""
    return as_text(
        document(
            "before_after",
            verdict=found.verdict,
            queries=None if found.queries is None else _table(found.queries),
            pages=None if found.pages is None else _table(found.pages),
            batches=[msgspec.to_builtins(batch) for batch in found.batches],
            warnings=found.warnings,
        )
    )


def _table(table: Table) -> dict[str, Any]:
    """Return a table with the means beside the sums, and what is slower by its key."""
    return {
        **msgspec.to_builtins(table),
        "changes": [_change(change) for change in table.changes],
        "slower": [change.key for change in table.regressions],
    }


def _change(change: Change) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(change)
    told["before"]["mean_s"] = change.before.mean_s
    told["after"]["mean_s"] = change.after.mean_s
    return told
