"""Writes a mapping as TOML, as needed for a study file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping


def toml_text(mapping: Mapping[str, object]) -> str:
    """Return a mapping as TOML: plain keys first, then a ``[[table]]`` for each list of mappings.

    Args:
        mapping: Text, numbers, booleans, lists of them, and lists of mappings of these.
    """
    plain = {key: value for key, value in mapping.items() if not _is_tables(value)}
    parts = ["\n".join(_lines(plain))]
    for key, value in mapping.items():
        if isinstance(value, list) and _is_tables(value):
            parts += ["\n".join([f"[[{key}]]", *_lines(table)]) for table in value]
    return "\n\n".join(parts) + "\n"


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _lines(table: Mapping[str, object]) -> Iterator[str]:
    for key, value in table.items():
        yield f"{key} = {_value(value)}"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(_lines(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON's spelling of text and numbers is also TOML's, except characters beyond 16 bits.
    return json.dumps(value, ensure_ascii=False)
