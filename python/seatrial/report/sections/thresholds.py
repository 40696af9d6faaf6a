"""Thresholds: what the study demanded of its results, and whether they keep it."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.model import ThresholdResult
from seatrial.report.markup import Markup, element, unbroken


def thresholds_section(results: Sequence[ThresholdResult]) -> Markup:
    """Return one line for each threshold, in the study's order; nothing where it has none."""
    if not results:
        return Markup("")
    return element(
        "section",
        element("h2", _heading(results)),
        element("ol", *(_line(result) for result in results), class_="findings"),
        id="thresholds",
        aria_label="Thresholds",
    )


def _heading(results: Sequence[ThresholdResult]) -> str:
    breached = sum(not result.met for result in results)
    if not breached:
        return f"Thresholds: all {len(results)} kept" if len(results) > 1 else "Threshold: kept"
    if len(results) == 1:
        return "Threshold: breached"
    return f"Thresholds: {breached} of {len(results)} breached"


def _line(result: ThresholdResult) -> Markup:
    return element(
        "li",
        element("p", "Kept" if result.met else "Breached", class_="severity"),
        element("div", element("h3", unbroken(result.sentence))),
        class_=f"finding {'note' if result.met else 'critical'}",
    )
