"""The JSON document of ``seatrial sql compare``."""

from __future__ import annotations

from typing import Literal

from seatrial.report.json_documents import Document, as_text
from seatrial.trials.replay.compare.model import Batch, BeforeAfter, Table


class BeforeAfterDocument(Document, frozen=True, kw_only=True):
    """Before and after.

    ``seatrial sql compare``: queries, pages and batches before a change and after it.

    Attributes:
        verdict: The sentences, such as ``Average query 6.1x faster (5.8 to 6.4).``
        queries: None where no queries were compared.
        pages: None where no web access logs were.
        batches: In the order in which they were named.
        warnings: What concerns all of it, as sentences.
    """

    kind: Literal["before_after"] = "before_after"
    verdict: list[str]
    queries: Table | None
    pages: Table | None
    batches: list[Batch]
    warnings: list[str]


def before_after_document(found: BeforeAfter) -> str:
    """Return all that was compared; what is not known is null."""
    return as_text(
        BeforeAfterDocument(
            verdict=found.verdict,
            queries=found.queries,
            pages=found.pages,
            batches=found.batches,
            warnings=found.warnings,
        )
    )
