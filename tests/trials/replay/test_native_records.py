"""What crosses from Rust as JSON has the fields and types of the structures that read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from seatrial import _core
from seatrial.results.replay import ReplayRecord
from seatrial.trials.database.measure.preflight import TraceSequence
from seatrial.trials.replay.commands.compare_sides import _TraceTimeline
from seatrial.trials.replay.reading import Reading
from seatrial.trials.replay.trace import Trace
from seatrial.trials.watch.recording import StoredMetadata

READ_BY: dict[str, Any] = {
    "capture": Reading,
    "reading": Reading,
    "recording": StoredMetadata,
    "replay": ReplayRecord,
    "sequences": tuple[TraceSequence, ...],
    "timeline": _TraceTimeline,
    "trace": Trace,
}
OF_PYTHON = {
    "replay": {"end", "words", "trace", "queries_server", "content"},
    "reading": {"capture"},
    "trace.origin": {"capture"},
}
"""Fields that are stored with what crosses, or that one of two records has."""
NOT_READ = {
    "timeline.others": {"timed", "total_us", "fingerprints", "let_go"},
    "trace.mix": {"others"},
    "trace.mix.transactions.length": {"histogram"},
    "trace.mix.queries[].latency": {"histogram"},
    "trace.mix.think.between": {"histogram"},
    "trace.mix.think.inside": {"histogram"},
}
"""Fields that nobody asks for."""
SCALARS = {
    "integer": (inspect.IntType,),
    "number": (inspect.FloatType,),
    "string": (inspect.StrType, inspect.LiteralType, inspect.EnumType),
    "boolean": (inspect.BoolType,),
}


@pytest.mark.parametrize("name", READ_BY)
def test_a_record_is_read_whole(name):
    """A field that only one side knows would be lost, or refused, after hours of work."""
    schema = json.loads(_core.record_schemas()[name])
    assert list(differences(schema, inspect.type_info(READ_BY[name]), schema, name)) == []


def test_all_records_are_looked_at():
    assert set(_core.record_schemas()) == set(READ_BY)


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "string"}, "of.a: string, read as IntType"),
        ({"type": ["integer", "null"]}, "of.a: null, not read as such"),
        (None, "of.a: not in the record"),
    ],
)
def test_a_difference_is_seen(schema, wanted):
    class One(msgspec.Struct):
        a: int

    record = {"type": "object", "properties": {"a": schema} if schema else {}}
    assert list(differences(record, inspect.type_info(One), record, "of")) == [wanted]


def differences(
    schema: dict[str, Any], read_as: inspect.Type, root: dict[str, Any], path: str
) -> Iterator[str]:
    """Yield where a schema and the type that reads it differ."""
    schema, is_optional = resolved(schema, root)
    read_as, reads_none = known(read_as)
    if is_optional and not reads_none:
        yield f"{path}: null, not read as such"
    kind = schema.get("type")
    if set(schema) <= {"description"}:
        return  # JSON that was stored, and is handed on as it is
    if isinstance(read_as, inspect.StructType) and "properties" in schema:
        yield from of_structure(schema, read_as, root, path)
    elif isinstance(read_as, inspect.DictType) and kind == "object":
        of_any = schema.get("additionalProperties")
        values = list(schema.get("properties", {}).values()) + ([of_any] if of_any else [])
        for value in values:
            yield from differences(value, read_as.value_type, root, f"{path}{{}}")
    elif isinstance(read_as, inspect.TupleType) and "prefixItems" in schema:
        pairs = zip(schema["prefixItems"], read_as.item_types, strict=True)
        for place, (item, item_type) in enumerate(pairs):
            yield from differences(item, item_type, root, f"{path}[{place}]")
    elif isinstance(read_as, (inspect.ListType, inspect.VarTupleType)) and kind == "array":
        yield from differences(schema["items"], read_as.item_type, root, f"{path}[]")
    elif not isinstance(read_as, SCALARS.get(str(kind), ())):
        yield f"{path}: {kind}, read as {type(read_as).__name__}"


def of_structure(
    schema: dict[str, Any], read_as: inspect.StructType, root: dict[str, Any], path: str
) -> Iterator[str]:
    """Yield where the fields of a record and of a structure differ."""
    fields = {field.encode_name: field for field in read_as.fields}
    crossing = schema["properties"]
    for name in sorted(crossing.keys() - fields.keys() - NOT_READ.get(path, set())):
        yield f"{path}.{name}: not read"
    for name in sorted(fields.keys() - crossing.keys() - OF_PYTHON.get(path, set())):
        yield f"{path}.{name}: not in the record"
    for name in fields.keys() & crossing.keys():
        yield from differences(crossing[name], fields[name].type, root, f"{path}.{name}")


def resolved(schema: dict[str, Any], root: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a schema without references and null, and whether it may be null."""
    choices = schema.get("anyOf", [])
    if {"type": "null"} in choices:
        (schema,) = (choice for choice in choices if choice != {"type": "null"})
        return resolved(schema, root)[0], True
    if "$ref" in schema:
        return resolved(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    if "oneOf" in schema:  # the words of an enumeration, each explained
        assert all(each["type"] == "string" for each in schema["oneOf"])
        return {"type": "string"}, False
    kinds = schema.get("type")
    if isinstance(kinds, list):
        (kind,) = (each for each in kinds if each != "null")
        return schema | {"type": kind}, True
    return schema, False


def known(read_as: inspect.Type) -> tuple[inspect.Type, bool]:
    """Return a type without None, and whether it takes None."""
    while isinstance(read_as, inspect.Metadata):
        read_as = read_as.type
    if isinstance(read_as, inspect.UnionType):
        (kind,) = (each for each in read_as.types if not isinstance(each, inspect.NoneType))
        return known(kind)[0], len(read_as.types) > 1
    return read_as, False
