"""Whether preconditioning has reached steady state, from the stored samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from seatrial.results.model import Sample
from seatrial.stats.wording import format_plural

if TYPE_CHECKING:
    from seatrial.findings.model import Summary

PRECONDITION: Final = "precondition"
"""Name of the study."""


def rate_per_s(sample: Sample) -> float:
    """Return the completed requests per second, which SNIA's rule judges round by round."""
    return sample.completed_per_s


def conditioning_phrase(summary: Summary) -> str:
    """Return whether every proof of preconditioning is steady; empty for any other run."""
    proofs = [part for part in summary.cells if part.cell.kind != "fill"]
    if summary.run.study_name != PRECONDITION:
        return ""
    from seatrial.stats.steady.phases import snia  # noqa: PLC0415 - loads the analysis

    rounds = max((len(part.samples) for part in proofs), default=0)
    if not rounds:
        return "steady state not verified"
    met = [snia([rate_per_s(sample) for sample in part.samples]).met for part in proofs]
    counted = format_plural(rounds, "round")
    if all(met):
        return f"steady state reached within {counted}"
    return f"steady state not reached after {counted}"
