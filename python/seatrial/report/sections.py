"""The parts of a page that every run has: findings, machine, study, thresholds, origin."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from seatrial.findings.answer import in_one_line
from seatrial.findings.context import device_name, entries
from seatrial.findings.model import Summary, ThresholdResult
from seatrial.fingerprint import Fingerprint
from seatrial.report.figures.naming import cell_name
from seatrial.report.markup import fill
from seatrial.report.tables import informative, rules_table, steady_table
from seatrial.results.model import Origin, Run, known_duration_s, origin_of
from seatrial.stats.facts import fact_name, is_short
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.steady.phases import SteadyState
from seatrial.stats.wording import (
    capitalized,
    format_count,
    format_duration_s,
    format_plural,
    format_size,
    moment,
)
from seatrial.topic import topic_of

# A quoted part of a sentence; an apostrophe inside a word is not a quote.
_QUOTED = re.compile(r"(?<!\w)['`]([^'`\n]+)['`](?!\w)")


def findings_section(findings: Sequence[Finding]) -> Markup:
    """Return the list of findings in the given order, or a sentence that there are none."""
    listed = finding_list(findings) if findings else ""
    return fill("report/templates/findings_section.html", heading=_heading(findings), listed=listed)


def finding_list(findings: Sequence[Finding], prefix: str = "finding") -> Markup:
    """Return findings in the given order, each with its cause, next step and evidence.

    Notes are collapsed to one line each.

    Args:
        findings: The findings.
        prefix: Prefix of their identifiers; their number from 1 follows.
    """
    return fill(
        "report/templates/findings.html",
        findings=findings,
        prefix=prefix,
        in_one_line=in_one_line,
        capitalized=capitalized,
        cell_name=cell_name,
        evidence=_evidence,
        instruction=instruction,
    )


def _heading(findings: Sequence[Finding]) -> str:
    counts = {
        word: sum(finding.severity == word for finding in findings)
        for word in ("critical", "warning", "note")
    }
    texts = [
        f"{count} critical" if word == "critical" else format_plural(count, word)
        for word, count in counts.items()
        if count
    ]
    return f"Findings: {', '.join(texts)}" if texts else "Findings: none"


def instruction(text: str) -> Markup:
    """Return a next step, with its quoted commands as code that can be copied.

    A quotation of several words is a command; a single word is a name, code without a button.
    """
    return fill("report/templates/instruction.html", parts=_QUOTED.split(text))


def _evidence(finding: Finding) -> tuple[dict[str, object], dict[str, object]]:
    """Return the evidence of a finding: figures that fit on a line, and the others."""
    known = {name: value for name, value in finding.evidence.items() if value is not None}
    short = {name: value for name, value in known.items() if is_short(value)}
    return short, {name: value for name, value in known.items() if name not in short}


def machine_section(run: Run) -> Markup:
    """Return the fingerprint before the run, and what had changed or aged after it."""
    return fill("report/templates/machine.html", run=run, line=machine_phrase(run))


def machine_phrase(run: Run) -> str:
    """Return the machine and the devices of the first target in one line."""
    return fingerprint_phrase(run.fingerprint_before)


def fingerprint_phrase(fingerprint: Fingerprint) -> str:
    """Return machine and devices of a fingerprint in one line; empty if none was taken."""
    machine = fingerprint.machine
    memory = f"{format_size(machine.memory_bytes)} memory" if machine.memory_bytes else ""
    kernel = f"Linux {machine.kernel}" if machine.kernel else ""
    devices = [device_name(each) for each in fingerprint.physical_devices]
    return ", ".join(filter(None, [machine.cpu_model, memory, kernel, *devices]))


def machines_section(runs: Sequence[tuple[str, Run]]) -> Markup:
    """Return the fingerprints of runs by their names, collapsed; empty without any."""
    line = "; ".join(dict.fromkeys(filter(None, (machine_phrase(run) for _, run in runs))))
    return fill("report/templates/machines.html", runs=runs, line=line)


def is_blank(value: object) -> bool:
    """Return whether a fact is unknown or absent."""
    if isinstance(value, Mapping):
        return all(is_blank(item) for item in value.values())
    return value is None or value in ("", [], ())


def blank_names(facts: Mapping[str, object]) -> list[str]:
    """Return the names of the absent facts."""
    return [fact_name(name) for name, value in facts.items() if is_blank(value)]


_LINES_SHOWN_MAX = 120
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def study_section(run: Run) -> Markup:
    """Return the command, seed and plan of the run, and its study."""
    return fill("report/templates/study_section.html", parts=study_parts(run), line=run.command)


def studies_section(runs: Sequence[tuple[str, Run]]) -> Markup:
    """Return the studies of runs by their names, collapsed."""
    studies = [(name, study_parts(run)) for name, run in runs]
    names = dict.fromkeys(run.study_name for _, run in runs)
    return fill("report/templates/studies.html", studies=studies, line=", ".join(names))


def study_parts(run: Run) -> Markup:
    """Return how a run was started, and its study as a file; a long one is collapsed."""
    text = to_toml(run.study)
    lines = text.count("\n")
    is_long = lines > _LINES_SHOWN_MAX
    return fill("report/templates/study.html", run=run, text=text, lines=lines, is_long=is_long)


def to_toml(document: Mapping[str, Any]) -> str:
    """Return a document as TOML 1.0; keys whose value is None are left out, as TOML has no null.

    Raises:
        TypeError: When a value is neither text, number, truth value, list nor mapping.
    """
    return "\n".join(_table(document, ())).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield a table's own values, then the tables inside it under their full names."""
    inner = {}
    for key, value in table.items():
        if isinstance(value, Mapping) or _is_list_of_tables(value):
            inner[key] = value
        elif value is not None:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inner.items():
        name = ".".join(_key(part) for part in (*path, key))
        for item in [value] if isinstance(value, Mapping) else value:
            yield ""
            yield f"[{name}]" if isinstance(value, Mapping) else f"[[{name}]]"
            yield from _table(item, (*path, key))


def _is_list_of_tables(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(item, Mapping) for item in value)
    )


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    """Return a basic string: TOML has the escapes of JSON, and requires one for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(_value(item) for item in value if item is not None)}]"
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return f"{{ {', '.join(pairs)} }}"
    raise TypeError(f"a study holds a {type(value).__name__}, which TOML cannot express")


_FORMATS: Final = {
    "fio-json": "JSON of fio",
    "fio-json+": "JSON+ of fio, with histograms",
    "fio-log": "logs of fio",
    "bm-flash": "printed tables of bm-flash",
    "csv": "a table of comma-separated values",
}


def origin_section(origin: Origin) -> Markup:
    """Return the source, its format, and what could not be imported."""
    facts = {
        "File": origin.file,
        "Written by": origin.tool,
        "Format": _FORMATS.get(origin.format, origin.format),
        "Size under test": format_size(origin.file_bytes) if origin.file_bytes else "not reported",
        "Absent in it": _blank_text(len(origin.blank_cells)),
    }
    return fill("report/templates/origin.html", facts=facts, notes=origin.notes, line=origin.file)


def _blank_text(count: int) -> str:
    if not count:
        return "nothing"
    return f"{format_plural(count, 'test')} listed without a figure, not shown as measured"


_STATUS = {
    "running": "Not finished: the run is still in progress, or was killed. ",
    "interrupted": "Interrupted: what was measured until then is shown. ",
    "failed": "Failed before its end: what was measured until then is shown. ",
}


def status_phrase(run: Run) -> str:
    """Return the status of an incomplete run as a sentence; empty for a complete one."""
    return _STATUS.get(run.status, "")


def particulars(summary: Summary) -> dict[str, str]:
    """Return run, targets, extent and time."""
    run = summary.run
    origin = origin_of(run)
    labels = dict.fromkeys(part.cell.target for part in summary.cells)
    rows = {"Target": "; ".join(_target(run, label) for label in labels) or "none"}
    if origin is None:
        rows |= {"Study": run.study_name}
    else:
        rows |= {"Imported from": f"{origin.file}, written by {origin.tool}"}
    return (
        rows
        | {
            "Measured": _extent(summary),
            "Started" if origin is None else "Dated": moment(run.started_at),
            "Run": run.id,
        }
        | ({"Note": run.note} if run.note else {})
    )


def _extent(summary: Summary) -> str:
    """Return how much was measured, for an imported run as far as its source states it."""
    samples = [sample for part in summary.cells for sample in part.samples]
    rounds = max((len(part.samples) for part in summary.cells), default=0)
    texts = [format_plural(len(summary.cells), "test")]
    texts.append("one round" if rounds == 1 else f"up to {format_plural(rounds, 'round')}")
    durations_s = [known_duration_s(sample) for sample in samples]
    if None not in durations_s:
        requests = sum(sample.offered_requests for sample in samples)
        nouns = {topic_of(part.cell).request_noun(part.cell) for part in summary.cells}
        noun = nouns.pop() if len(nouns) == 1 else "requests"
        texts.append(format_duration_s(sum(filter(None, durations_s))))
        texts.append(f"{format_count(requests)} {noun}")
    return ", ".join(texts)


def _target(run: Run, label: str) -> str:
    """Return a target's label, path, file system and physical devices."""
    targets = entries(run.study, "target")
    placed = {each.get("label"): str(each.get("path") or "") for each in targets}
    found = run.fingerprint_before.target_of(label)
    path = placed.get(label)
    if not path:
        return label
    kind = found.filesystem.type if found and found.filesystem else None
    devices = ", ".join(device_name(device) for device in found.physical_devices) if found else ""
    parts = [path, " on ".join(part for part in (kind, devices) if part)]
    return f"{label}: {', '.join(part for part in parts if part)}"


_RULES_SHOWN_MAX = 60


def steady_section(states: Sequence[SteadyState], cells: Sequence[CellSummary]) -> list[Markup]:
    """Return the tables on steady state; empty without any states.

    Timelines with changes are shown with the results of every rule, the others are only counted.
    """
    if not states:
        return []
    changed = informative(states)
    still = len(states) - len(changed)
    return [
        fill(
            "report/templates/steady.html",
            table=steady_table(changed, cells) if changed else None,
            rules=rules_table(changed[:_RULES_SHOWN_MAX], cells) if changed else None,
            still=format_plural(still, "timeline") if still else "",
        )
    ]


def thresholds_section(results: Sequence[ThresholdResult]) -> Markup:
    """Return one line for each threshold, in the study's order; empty without thresholds."""
    return fill(
        "report/templates/thresholds.html", results=results, heading=_thresholds_heading(results)
    )


def _thresholds_heading(results: Sequence[ThresholdResult]) -> str:
    if len(results) == 1:
        return f"Threshold: {results[0].mark}"
    missed = Counter(result.mark for result in results if not result.met)
    if not missed:
        return f"Thresholds: all {len(results)} kept"
    parts = [f"{missed[mark]} of {len(results)} {mark}" for mark in sorted(missed)]
    return f"Thresholds: {', '.join(parts)}"
