"""The HTML page of before and after: how much faster, what became slower, and every number.

Like the report of a run it is one file that asks no network for anything and says all it knows
with scripts off.
"""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.registry import (
    find_in_before_after,
)
from seatrial.report.document import BYTES_MAX, chapters, page_document, page_head
from seatrial.report.markup import Markup, element
from seatrial.report.sections.findings import finding_list
from seatrial.report.sections.machine import fingerprints
from seatrial.results.model import Run
from seatrial.stats.model import Finding
from seatrial.trials.replay.compare.model import BeforeAfter, Table
from seatrial.trials.replay.compare.report.figures import before_after_figures
from seatrial.trials.replay.compare.report.sections import (
    BATCHES_HEADING,
    HEADINGS,
    batches_part,
    compared_part,
    warnings_part,
)
from seatrial.trials.replay.compare.report.words import (
    Subject,
    compared_words,
    floor_words,
    page_verdict,
    side_words,
    tables_of,
)

_ROWS_MAX = (2_000, 500, 100)
"""How many rows a table of a page has; the first that keeps it within its bound is taken."""


def render(found: BeforeAfter, runs: Sequence[tuple[str, Run]] = ()) -> str:
    """Return the page of a comparison of before and after.

    Args:
        found: What was compared.
        runs: Names and runs of the sides that come from one: their machines are told.

    Raises:
        AssetError: When the installation's ECharts is not the one that was pinned.
        ValueError: When there is nothing in it.
    """
    if not tables_of(found) and not found.batches:
        raise ValueError("a page of before and after needs something that was compared")
    page = ""
    for rows_max in _ROWS_MAX:
        page = _rendered(found, runs, rows_max)
        if len(page.encode()) <= BYTES_MAX:
            break
    return page


def _rendered(found: BeforeAfter, runs: Sequence[tuple[str, Run]], rows_max: int) -> str:
    tables = tables_of(found)
    drawn = {subject: before_after_figures(table, subject) for table, subject in tables}
    warnings = _warnings(found, tables)
    findings = find_in_before_after(found)
    name = _name(found)
    there = {
        "findings": ("Findings", bool(findings)),
        "warnings": ("What weakens it", bool(warnings)),
        "query": (HEADINGS["query"], "query" in drawn),
        "page": (HEADINGS["page"], "page" in drawn),
        "batches": (BATCHES_HEADING, bool(found.batches)),
        "machine": ("Machines", bool(runs)),
    }
    parts = {identifier: heading for identifier, (heading, is_there) in there.items() if is_there}
    body = [
        element("a", "Skip to the figures", href=f"#{next(iter(parts))}", class_="skip"),
        page_head(name, page_verdict(found), _particulars(tables)),
        chapters(parts),
        element(
            "main",
            _findings(findings),
            warnings_part(warnings),
            *(compared_part(table, subject, drawn[subject], rows_max) for table, subject in tables),
            batches_part(found.batches),
            _machines(runs),
        ),
    ]
    figures = [figure for subject in drawn for figure in drawn[subject]]
    return page_document(f"{name}: Seatrial before and after", body, figures, f"Seatrial, {name}")


def _findings(findings: Sequence[Finding]) -> Markup:
    """Return the findings; nothing where there is none."""
    if not findings:
        return Markup("")
    return element(
        "section",
        element("h2", "Findings"),
        finding_list(findings),
        id="findings",
        aria_label="Findings",
    )


def _warnings(found: BeforeAfter, tables: Sequence[tuple[Table, Subject]]) -> list[str]:
    """Return all warnings, each once: those of the whole first."""
    reported = [*found.warnings, *(warning for table, _ in tables for warning in table.warnings)]
    return list(dict.fromkeys(reported))


def _name(found: BeforeAfter) -> str:
    """Return what was compared: the names of the two sides, else of the batches."""
    tables = tables_of(found)
    if tables:
        table, _ = tables[0]
        return f"{table.before.name} and {table.after.name}"
    return ", ".join(batch.name for batch in found.batches)


def _particulars(tables: Sequence[tuple[Table, Subject]]) -> dict[str, str]:
    """Return what the sides are, how they were compared, and what counts as noise."""
    reported: dict[str, str] = {}
    for table, subject in tables:
        kind = f" ({HEADINGS[subject].lower()})" if len(tables) > 1 else ""
        reported[f"Before{kind}: {table.before.name}"] = side_words(table.before)
        reported[f"After{kind}: {table.after.name}"] = side_words(table.after)
        reported[f"Compared{kind}"] = compared_words(table, subject)
        if noise := floor_words(table.floor):
            reported[f"Noise floor{kind}"] = noise
    return reported


def _machines(runs: Sequence[tuple[str, Run]]) -> Markup:
    """Return the fingerprints of the runs that take part, folded."""
    if not runs:
        return Markup("")
    parts = (
        element("details", element("summary", name), *fingerprints(run), class_="machine")
        for name, run in runs
    )
    return element(
        "section", element("h2", "Machines"), *parts, id="machine", aria_label="Machines"
    )
