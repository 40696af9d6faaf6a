"""The JSON documents of caps, risk, plans and certificates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from seatrial.report.exports.json_document import Document, as_text
from seatrial.trials.plan.analysis.caps import CapsFound
from seatrial.trials.plan.measure.recognise import Recognised


class CapsDocument(Document, frozen=True, kw_only=True):
    """What limits storage.

    ``seatrial caps --json``.

    Attributes:
        verdict: What limits now, in one line.
        notes: What else matters, in a sentence each.
        machine: What this machine is rented as.
        found: The figures.
    """

    kind: Literal["caps"] = "caps"
    verdict: str
    notes: list[str]
    machine: Recognised
    found: CapsFound


def caps_document(verdict: str, notes: Sequence[str], machine: Recognised, found: CapsFound) -> str:
    """Return what limits storage, as JSON."""
    return as_text(CapsDocument(verdict=verdict, notes=list(notes), machine=machine, found=found))
