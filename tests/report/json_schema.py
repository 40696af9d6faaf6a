"""As much of JSON Schema (2020-12) as docs/schema/ uses, to check documents against it.

Stricter than the standard in one thing: an object may hold no name that its schema does not
list, so that nothing is published unexplained.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "schema"
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
KNOWN = {
    "$schema", "$id", "$ref", "$defs", "title", "description", "type", "properties", "required",
    "additionalProperties", "items", "enum", "const", "minimum",
}  # fmt: skip


def load(name: str) -> dict[str, Any]:
    schema = json.loads((FOLDER / name).read_text())
    assert isinstance(schema, dict)
    return schema


def breaches(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> Iterator:
    """Yield a sentence for each place where a value is not as its schema says."""
    assert set(schema) <= KNOWN, f"{at}: the checker does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        schema = resolve(schema["$ref"], root)
    if "type" in schema and not any(is_of(value, kind) for kind in listed(schema["type"])):
        yield f"{at} is {json.dumps(value)[:60]}, not {schema['type']}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{at} is {value!r}, not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is {value!r}, not one of {schema['enum']}"
    if "minimum" in schema and isinstance(value, int | float) and value < schema["minimum"]:
        yield f"{at} is {value}, below {schema['minimum']}"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from breaches(item, schema.get("items", {}), root, f"{at}[{index}]")
    if isinstance(value, dict):
        yield from breaches_of_object(value, schema, root, at)


def breaches_of_object(
    value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], at: str
) -> Iterator:
    for name in schema.get("required", []):
        if name not in value:
            yield f"{at} lacks {name}"
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", False)
    for name, item in value.items():
        if name in known:
            yield from breaches(item, known[name], root, f"{at}.{name}")
        elif others is False:
            yield f"{at} holds {name}, which the schema does not know"
        elif isinstance(others, dict):
            yield from breaches(item, others, root, f"{at}.{name}")


def listed(kinds: str | list[str]) -> list[str]:
    return [kinds] if isinstance(kinds, str) else kinds


def is_of(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def resolve(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    assert isinstance(found, dict)
    return found
