"""The JSON documents of caps, risk, plans and certificates."""

from __future__ import annotations

from typing import Literal

from seatrial.report.exports.json_document import Document
from seatrial.trials.plan.analysis.answer import StoragePlan
from seatrial.trials.plan.analysis.caps import CapReport
from seatrial.trials.plan.analysis.certificate import Certificate
from seatrial.trials.plan.analysis.rented_machine import RentedMachine
from seatrial.trials.plan.analysis.risk import Risk
from seatrial.trials.plan.analysis.wear import Wear


class CapsDocument(Document, frozen=True, kw_only=True):
    """The limits of storage.

    ``seatrial caps --json``.

    Attributes:
        verdict: The binding limits, in one line.
        notes: Other facts, in a sentence each.
        machine: The rented type of this machine.
        found: The figures.
    """

    kind: Literal["caps"] = "caps"
    verdict: str
    notes: list[str]
    machine: RentedMachine
    found: CapReport


class RiskDocument(Document, frozen=True, kw_only=True):
    """The risk of an array.

    ``seatrial risk --json``.

    Attributes:
        verdict: The probability of losing it, and the dominating cause, in one line.
        assumed: The assumptions, each with its origin, in a sentence each.
        risk: The figures.
        wear: The life of its drives; null if their writes are unknown.
    """

    kind: Literal["risk"] = "risk"
    verdict: str
    assumed: list[str]
    risk: Risk
    wear: Wear | None


class StoragePlanDocument(Document, frozen=True, kw_only=True):
    """What to buy or rent.

    ``seatrial plan --json``.

    Attributes:
        verdict: The answer, in one line.
        notes: Overlaps, reasons of refusal and the proof, in a sentence each.
        steps: Every step to the first candidate, with the origin of each figure.
        plan: The figures.
    """

    kind: Literal["storage_plan"] = "storage_plan"
    verdict: str
    notes: list[str]
    steps: list[str]
    plan: StoragePlan


class CertificateDocument(Document, frozen=True, kw_only=True):
    """Promised against delivered, and the price of what was sustained.

    ``seatrial certify --json``.

    Attributes:
        verdict: How many promises were kept, and the price, in one line.
        notes: The basis of the figures, in a sentence each.
        certificate: The figures.
    """

    kind: Literal["certificate"] = "certificate"
    verdict: str
    notes: list[str]
    certificate: Certificate
