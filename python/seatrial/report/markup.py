"""HTML as values: text is escaped where an element is made, so that no caller can forget it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

_BEFORE_UNIT = re.compile(r"(\d[kM]?|±) (?=[\d%µA-Za-z])")
_VOID = frozenset({"br", "col", "hr", "input", "meta"})

Attribute = str | int | float | bool | None


class Markup(str):
    """HTML that needs no more escaping; everything else that is put into an element does."""

    __slots__ = ()


def escape(text: object) -> Markup:
    """Return ``text`` as HTML; what is markup already stays as it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(str(text), quote=True))


def unbroken(text: str) -> str:
    """Return a heading whose numbers stay on one line with their units and signs."""
    return _BEFORE_UNIT.sub(rf"\1{NO_BREAK_SPACE}", text)


def join(parts: Iterable[object], separator: str = "") -> Markup:
    """Return the parts, each escaped unless it is markup, one after another."""
    return Markup(escape(separator).join(escape(part) for part in parts))


def element(name: str, /, *children: object, **attributes: Attribute) -> Markup:
    """Return one element.

    Args:
        name: Tag name; a fixed word of ours, never user text.
        children: Text (escaped) or markup (as it is).
        attributes: Python names: ``class_`` gives ``class``, ``data_value`` gives ``data-value``.
            None and False leave the attribute out; True gives it no value.
    """
    opening = f"<{name}{_attributes(attributes)}>"
    return Markup(opening if name in _VOID else f"{opening}{join(children)}</{name}>")


def _attributes(attributes: dict[str, Attribute]) -> str:
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        plain = name.rstrip("_").replace("_", "-")
        parts.append(f" {plain}" if value is True else f' {plain}="{escape(value)}"')
    return "".join(parts)
