"""Checks documents against docs/schema, by jsonschema.

Stricter than what is published in two things: an object may hold no name that its schema does not
list, so that nothing leaves the program unexplained, and 3.0 is not a whole number.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, validators

FOLDER = Path(__file__).parents[2] / "docs" / "schema"
STRICT = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def load(kind: str) -> dict[str, Any]:
    schema = json.loads((FOLDER / f"{kind}.schema.json").read_text())
    assert isinstance(schema, dict)
    return schema


def tightened(schema: Any) -> Any:
    """The same, without other names in any object that lists its own."""
    if isinstance(schema, list):
        return [tightened(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return closed | {name: tightened(each) for name, each in schema.items()}


@functools.cache
def validator(kind: str) -> Draft202012Validator:
    schema = load(kind)
    STRICT.check_schema(schema)
    return STRICT(tightened(schema))


def breaches(document: dict[str, Any]) -> list[str]:
    """A sentence for each place where a document is not as the schema of its kind says."""
    found = validator(document["kind"]).iter_errors(document)
    return [f"{each.json_path}: {each.message[:200]}" for each in found]


def assert_published(document: dict[str, Any]) -> None:
    assert breaches(document) == []
