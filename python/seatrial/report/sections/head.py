"""The top of the page: the verdict, and what was measured when."""

from __future__ import annotations

from seatrial.analysis.findings.context import (
    device_name,
    entries,
    lookup,
    physical_devices,
)
from seatrial.analysis.model import Summary
from seatrial.analysis.wording import format_count, format_duration_s, format_plural
from seatrial.report.document import page_head
from seatrial.report.markup import Markup
from seatrial.report.table import moment
from seatrial.results.model import Run

_STATUS = {
    "running": "Not ended: the run is still going on, or was killed. ",
    "interrupted": "Interrupted: what was measured until then is shown. ",
    "failed": "Failed before its end: what was measured until then is shown. ",
}


def head(summary: Summary) -> Markup:
    """Return the masthead, the verdict in large type, and the run's particulars."""
    run = summary.run
    name = run.label or run.study_name
    status = _STATUS.get(run.status, "")
    return page_head(name, summary.verdict, _particulars(summary), status)


def _particulars(summary: Summary) -> dict[str, str]:
    """Return run, targets, extent and time."""
    run = summary.run
    samples = [sample for part in summary.cells for sample in part.samples]
    labels = dict.fromkeys(part.cell.target for part in summary.cells)
    rounds = max((len(part.samples) for part in summary.cells), default=0)
    measured_s = sum(sample.duration_s for sample in samples)
    requests = sum(sample.outcome.offered for sample in samples)
    return {
        "Target": "; ".join(_target(run, label) for label in labels) or "none",
        "Study": run.study_name,
        "Measured": f"{format_plural(len(summary.cells), 'cell')}, "
        f"up to {format_plural(rounds, 'round')}, {format_duration_s(measured_s)}, "
        f"{format_count(requests)} requests",
        "Started": moment(run.started_at),
        "Run": run.id,
    }


def _target(run: Run, label: str) -> str:
    """Return a target's label and what it is: path, file system and the devices at the bottom."""
    placed = {each.get("label"): each.get("path") for each in entries(run.study, "target")}
    others = lookup(run.fingerprint_before, "other_targets", label)
    found = {"target": others} if isinstance(others, dict) else run.fingerprint_before
    path = placed.get(label)
    if not path:
        return label
    kind = lookup(found, "target", "filesystem", "type")
    devices = ", ".join(device_name(device) for device in physical_devices(found))
    parts = [path, " on ".join(str(part) for part in (kind, devices) if part)]
    return f"{label}: {', '.join(part for part in parts if part)}"
