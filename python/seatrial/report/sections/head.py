"""The top of the page: the verdict, and what was measured when."""

from __future__ import annotations

from seatrial.findings.context import device_name, entries, lookup, physical_devices
from seatrial.findings.model import Summary
from seatrial.report.document import page_head
from seatrial.report.lab import lab_notice
from seatrial.report.markup import Markup
from seatrial.results.model import Run
from seatrial.results.origin import known_duration_s, origin_of
from seatrial.stats.wording import format_count, format_duration_s, format_plural, moment
from seatrial.topic import topic_of

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
    return page_head(name, summary.verdict, _particulars(summary), status, lab_notice(run))


def _particulars(summary: Summary) -> dict[str, str]:
    """Return run, targets, extent and time."""
    run = summary.run
    origin = origin_of(run)
    labels = dict.fromkeys(part.cell.target for part in summary.cells)
    reported = {"Target": "; ".join(_target(run, label) for label in labels) or "none"}
    if origin is None:
        reported |= {"Study": run.study_name}
    else:
        reported |= {"Imported from": f"{origin.file}, written by {origin.tool}"}
    return reported | {
        "Measured": _extent(summary),
        "Started" if origin is None else "Dated": moment(run.started_at),
        "Run": run.id,
    }


def _extent(summary: Summary) -> str:
    """Return how much was measured; of an imported run as much as its source tells."""
    samples = [sample for part in summary.cells for sample in part.samples]
    rounds = max((len(part.samples) for part in summary.cells), default=0)
    reported = [format_plural(len(summary.cells), "cell")]
    reported.append("each once" if rounds == 1 else f"up to {format_plural(rounds, 'round')}")
    durations_s = [known_duration_s(sample) for sample in samples]
    if None not in durations_s:
        requests = sum(sample.outcome.offered for sample in samples)
        nouns = {topic_of(part.cell).request_noun(part.cell) for part in summary.cells}
        noun = nouns.pop() if len(nouns) == 1 else "requests"
        reported.append(format_duration_s(sum(filter(None, durations_s))))
        reported.append(f"{format_count(requests)} {noun}")
    return ", ".join(reported)


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
