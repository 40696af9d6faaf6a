"""The exact study, as TOML that can be saved and measured again, and how it was run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seatrial.report.markup import Markup, element
from seatrial.results.model import Run

_LINES_SHOWN_MAX = 120
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def study_section(run: Run) -> Markup:
    """Return the command, seed and plan of the run, and its study."""
    return element(
        "section", element("h2", "Study"), *study_parts(run), id="study", aria_label="Study"
    )


def study_parts(run: Run) -> list[Markup]:
    """Return how a run was started, and its study as a file."""
    facts = {
        "Command": element("code", run.command, class_="command"),
        "Seed": str(run.seed),
        "Plan": run.plan_hash,
        "Seatrial": run.seatrial_version,
    }
    rows = [part for term, text in facts.items() for part in
            (element("dt", term), element("dd", text))]  # fmt: skip
    return [
        element("dl", *rows, class_="facts"),
        _as_file(run.study),
    ]


def _as_file(study: Mapping[str, Any]) -> Markup:
    """Return a study as a file; a long one is folded."""
    text = to_toml(study)
    shown = element("pre", element("code", text), tabindex=0)
    lines = text.count("\n")
    if lines <= _LINES_SHOWN_MAX:
        return shown
    return element("details", element("summary", f"The study, {lines} lines"), shown)


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
    """Return a basic string: TOML's escapes are those of JSON, and it wants DEL escaped too."""
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
    raise TypeError(f"a study holds a {type(value).__name__}, which TOML cannot say")
