"""The fingerprint: the machine and the target before the run, and what changed after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seatrial.report.facts import fact_list
from seatrial.report.markup import Markup, element
from seatrial.results.model import Run


def machine_section(run: Run) -> Markup:
    """Return the fingerprint taken before the run, and what had changed or aged after it."""
    return element(
        "section",
        element("h2", "Machine and target"),
        *fingerprints(run),
        id="machine",
        class_="machine",
        aria_label="Machine and target",
    )


def fingerprints(run: Run) -> list[Markup]:
    """Return both fingerprints of a run under their headings; further targets' are folded."""
    before = dict(run.fingerprint_before)
    after = run.fingerprint_after
    others: Mapping[str, Any] = before.pop("other_targets", None) or {}
    return [
        element("h3", "Before the run"),
        fact_list(before) if before else element("p", "No fingerprint was taken."),
        *(
            element("details", element("summary", f"Target {label}"), fact_list(found))
            for label, found in others.items()
        ),
        element("h3", "After the run: what changed or aged"),
        fact_list(after) if after else element("p", "No fingerprint was taken."),
    ]
