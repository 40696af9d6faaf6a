"""The parts of a comparison's page: what differs, what weakens it, its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from seatrial.report.comparison_tables import comparison_table, differences_table, overall_table
from seatrial.report.markup import Markup, element
from seatrial.report.sections.findings import finding_list
from seatrial.report.sections.tables import plain_table
from seatrial.stats.compare.model import Comparison
from seatrial.stats.wording import format_plural


def differences_section(comparison: Comparison, identifier: str) -> Markup:
    """Return what differs between the two machines and targets, the likeliest reasons first."""
    a, b = comparison.a, comparison.b
    unknown = [side.name for side in (a, b) if not side.run.fingerprint_before]
    if comparison.differences:
        body = plain_table(differences_table(comparison), captioned=False)
    elif unknown:
        body = element("p", "What differs between the two is not known.")
    else:
        body = element("p", "Nothing that the two fingerprints tell differs.")
    missing = (element("p", f"No fingerprint was taken of {name}.") for name in unknown)
    heading = f"What differs between {a.name} and {b.name}"
    return element(
        "section",
        element("h2", heading),
        *missing,
        body,
        id=f"{identifier}-differences",
        aria_label=heading,
    )


def warnings_section(comparison: Comparison, identifier: str) -> Markup:
    """Return what weakens the comparison; nothing where nothing does."""
    if not comparison.warnings:
        return Markup("")
    items = (
        element(
            "li",
            element("p", "Warning", class_="severity"),
            element("div", element("h3", warning)),
            class_="finding warning",
        )
        for warning in comparison.warnings
    )
    return element(
        "section",
        element("h2", "What weakens the comparison"),
        element("ol", *items, class_="findings"),
        id=f"{identifier}-warnings",
        aria_label="What weakens the comparison",
    )


def comparison_findings(comparison: Comparison, identifier: str) -> Markup:
    """Return the findings of the comparison; nothing where there is none."""
    if not comparison.findings:
        return Markup("")
    return element(
        "section",
        element("h2", f"Findings: {comparison.b.name} against {comparison.a.name}"),
        finding_list(comparison.findings),
        id=f"{identifier}-findings",
        aria_label="Findings",
    )


def comparison_numbers(comparison: Comparison, identifier: str, rows_max: int) -> Markup:
    """Return the tables of a comparison, at most so many figures of cells, and what is left out."""
    table = comparison_table(shortened(comparison, rows_max))
    overall = overall_table(comparison)
    return element(
        "section",
        element("h3", f"{comparison.b.name} against {comparison.a.name}"),
        plain_table(overall) if overall.rows else "",
        plain_table(table) if table.rows else "",
        _left_out(len(comparison.comparands) - rows_max),
        _lacking(comparison.b.name, comparison.only_a),
        _lacking(comparison.a.name, comparison.only_b),
        id=f"table-{identifier}",
    )


def shortened(comparison: Comparison, rows_max: int) -> Comparison:
    """Return the comparison with its first figures of cells only."""
    kept = comparison.comparands[:rows_max]
    return msgspec.structs.replace(comparison, comparands=kept)


def _left_out(rows: int) -> Markup:
    if rows <= 0:
        return Markup("")
    reported = f"{format_plural(rows, 'figure')} more would make this page too large; "
    return element("p", reported, element("code", "seatrial compare --json"), " writes all.")


def _lacking(name: str, keys: Sequence[str]) -> Markup:
    """Return the cells that one side lacks; nothing where it has all."""
    if not keys:
        return Markup("")
    heading = f"{format_plural(len(keys), 'cell')} that {name} lacks"
    return element("details", element("summary", heading), _list(keys))


def _list(texts: Iterable[str]) -> Markup:
    return element("ul", *(element("li", element("code", text)) for text in texts))
