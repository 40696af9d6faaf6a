"""The JSON document of ``seatrial compare``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from seatrial.report.json_documents import Document, as_text
from seatrial.stats.compare.model import Comparison, Side


class ComparisonDocument(Document, frozen=True, kw_only=True):
    """A comparison.

    ``seatrial compare``: one or more results, each against A.

    Attributes:
        a: What all of them are compared to.
        comparisons: Each of the others against A, in the order in which they were named; judged
            together, so that everything that is compared counts in the adjustment.
    """

    kind: Literal["comparison"] = "comparison"
    a: Side
    comparisons: list[Comparison]


def comparison_document(comparisons: Sequence[Comparison]) -> str:
    """Return comparisons with one and the same A."""
    return as_text(ComparisonDocument(a=comparisons[0].a, comparisons=list(comparisons)))
