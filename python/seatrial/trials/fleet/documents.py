"""The JSON documents of many hosts."""

from __future__ import annotations

from typing import Literal

from seatrial.report.exports.json_document import Document
from seatrial.stats.model import Finding
from seatrial.trials.fleet.analysis.hosts import FleetFacts


class FleetCheckDocument(Document, frozen=True, kw_only=True):
    """A check of the hosts of a cluster.

    ``seatrial fleet check --json``: what would distort results. Nothing was written.

    Attributes:
        verdict: Whether a study could run on them, in one line.
        facts: The hosts, their clocks, the network between them and what they reach.
        findings: About several hosts, the gravest first; those of one host are with it.
    """

    kind: Literal["fleet_check"] = "fleet_check"
    verdict: str
    facts: FleetFacts
    findings: list[Finding]
