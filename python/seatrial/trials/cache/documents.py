"""The JSON document of a prediction."""

from __future__ import annotations

from typing import Literal

from seatrial.report.exports.json_document import Document
from seatrial.trials.cache.analysis.prediction import CachePrediction
from seatrial.trials.cache.analysis.sweep import CacheSweepResult
from seatrial.trials.cache.analysis.sweep_bound import CacheBound
from seatrial.trials.cache.report import sweep_phrases


class CacheAnswer(Document, frozen=True, kw_only=True):
    """The answer of a prediction, before the figures.

    Attributes:
        verdict: The effect of more memory, in one line; for a running server, a bound.
        notable: Notable facts, in a sentence each.
        doubts: Limits of the prediction, in a sentence each.
    """

    verdict: str
    notable: list[str]
    doubts: list[str]


class CacheDocument(CacheAnswer, frozen=True, kw_only=True):
    """Predicted caches for a recorded load.

    ``seatrial cache predict --json``.

    Attributes:
        prediction: The figures.
    """

    kind: Literal["cache"] = "cache"
    prediction: CachePrediction


class CacheSweepDocument(CacheAnswer, frozen=True, kw_only=True):
    """Predicted shared buffers of every size for a load that was replayed once.

    ``seatrial cache sweep DIR --json``.

    Attributes:
        sweep: The figures.
    """

    kind: Literal["cache_sweep"] = "cache_sweep"
    sweep: CacheSweepResult


class CacheBoundDocument(CacheAnswer, frozen=True, kw_only=True):
    """Bounds for other sizes of the shared buffers of a running server.

    ``seatrial cache sweep URL --json``.

    Attributes:
        bound: The figures.
    """

    kind: Literal["cache_bound"] = "cache_bound"
    bound: CacheBound


def sweep_document(found: CacheSweepResult) -> str:
    """Return what one replay says of every size, as JSON."""
    return CacheSweepDocument(
        verdict=sweep_phrases.verdict_line(found),
        notable=sweep_phrases.notable(found),
        doubts=sweep_phrases.doubts(found),
        sweep=found,
    ).as_text()


def bound_document(found: CacheBound) -> str:
    """Return what a server that runs bounds, as JSON."""
    return CacheBoundDocument(
        verdict=sweep_phrases.bound_verdict(found),
        notable=sweep_phrases.bound_notable(found),
        doubts=sweep_phrases.bound_doubts(found),
        bound=found,
    ).as_text()
