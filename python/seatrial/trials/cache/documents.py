"""The JSON document of a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from seatrial.report.exports.json_document import Document, as_text
from seatrial.trials.cache.analysis.prediction import CachePrediction


class CacheDocument(Document, frozen=True, kw_only=True):
    """What caches would do for a recorded load.

    ``seatrial cache predict --json``.

    Attributes:
        verdict: What memory would do, in one line.
        notable: What stands out, in a sentence each.
        doubts: What limits all this, in a sentence each.
        prediction: The figures.
    """

    kind: Literal["cache"] = "cache"
    verdict: str
    notable: list[str]
    doubts: list[str]
    prediction: CachePrediction


def cache_document(
    prediction: CachePrediction, verdict: str, notable: Sequence[str], doubts: Sequence[str]
) -> str:
    """Return what caches would do, as JSON."""
    return as_text(
        CacheDocument(verdict=verdict, notable=[*notable], doubts=[*doubts], prediction=prediction)
    )
