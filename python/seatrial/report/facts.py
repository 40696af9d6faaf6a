"""Facts of machines, evidence and studies as nested lists of a page."""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.report.markup import Markup, element, escape
from seatrial.stats.facts import fact_name, fact_text, is_short


def fact_list(facts: Mapping[str, object]) -> Markup:
    """Return nested facts as a nested description list, in the mapping's order.

    What could not be read or is not there is named on one line at the end, not row by row.
    """
    rows = []
    for name, value in facts.items():
        if not _is_blank(value):
            rows.append(element("dt", fact_name(name)))
            rows.append(element("dd", _fact_value(name, value)))
    if blank := [fact_name(name) for name, value in facts.items() if _is_blank(value)]:
        rows.append(element("dt", "not known or none"))
        rows.append(element("dd", ", ".join(blank), class_="absent"))
    return element("dl", *rows, class_="facts")


def _is_blank(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_blank(item) for item in value.values())
    return value is None or value in ("", [], ())


def _fact_value(name: str, value: object) -> Markup:
    if isinstance(value, Mapping):
        return fact_list(value)
    if isinstance(value, list | tuple) and not is_short(value):
        return element("ul", *(element("li", _fact_value(name, item)) for item in value))
    return escape(fact_text(name, value))
