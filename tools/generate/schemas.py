"""Writes docs/schema: the JSON schema of each document that Seatrial writes.

    python tools/generate/schemas.py [--check]

Every document is a structure (python/seatrial/report/exports/json_document.py), and so are the
figures of each kind of finding. Names and types are from its fields, descriptions from the
``Attributes`` of its docstring. With ``--check`` nothing is written, and a file that differs is a
failure.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec

from seatrial.findings.registry import rules
from seatrial.published import fields, properties
from seatrial.report.exports.json_document import Document
from seatrial.stats.model import Figures

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
MODULES = (
    "seatrial.report.exports.json_document",
    "seatrial.report.by_fact",
    "seatrial.report.comparison_page",
    "seatrial.cli.catalogue_command",
    "seatrial.cli.documents",
    "seatrial.cli.progress_lines",
    "seatrial.trials.cache.documents",
    "seatrial.trials.fleet.documents",
    "seatrial.trials.layouts.documents",
    "seatrial.trials.plan.documents",
    "seatrial.trials.replay.documents",
    "seatrial.trials.watch.documents",
    "seatrial.trials.audit.report.section",
    "seatrial.trials.io.measure.precondition",
    "seatrial.trials.replay.compare.model",
)

ITEMS = ("item_type", "item_types", "value_type")

Schema = dict[str, Any]


def main() -> int:
    """Write what differs, or say that it does; return the exit code."""
    wanted = {f"{kind_of(each)}.schema.json": text_of(schema_of(each)) for each in documents()}
    wanted["figures.schema.json"] = text_of(schema_of_figures())
    there = {path.name: path.read_text() for path in FOLDER.iterdir()}
    differing = sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))
    if "--check" in sys.argv[1:]:
        for name in differing:
            sys.stderr.write(f"docs/schema/{name} is not as its document: run `make generate`\n")
        return 1 if differing else 0
    for name in differing:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name])
        else:
            (FOLDER / name).unlink()
    return 0


def documents() -> list[type[Document]]:
    """Return every document, by kind."""
    for module in MODULES:
        importlib.import_module(module)
    found = [leaf for each in Document.__subclasses__() for leaf in each.__subclasses__() or [each]]
    return sorted(found, key=kind_of)


def kind_of(document: type[Document]) -> str:
    """Return a document's kind."""
    (kind,) = typing.get_args(typing.get_type_hints(document)["kind"])
    return str(kind)


def text_of(schema: Schema) -> str:
    """Return a schema as the file has it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def schema_of(document: type[msgspec.Struct]) -> Schema:
    """Return a document's schema."""
    classes = structures(document)
    references, parts = msgspec.json.schema_components(
        classes, ref_template="#/$defs/{name}", schema_hook=of_any
    )
    names = [name_of(reference) for reference in references]
    for of, name in zip(classes, names, strict=True):
        parts[name] = published(of, parts[name])
    for of, name in zip(classes, names, strict=True):
        parts[name] = parts[names[classes.index(shown(of))]]
    parts = {name: simplified(flattened(part, parts)) for name, part in parts.items()}
    root = parts[names[0]]
    title, _, description = root["description"].partition("\n\n")
    head = {"$schema": DIALECT, "title": title.rstrip("."), "description": description}
    used = {name: parts[name] for name in sorted(reachable(root, parts))}
    return head | without(root, "description") | ({"$defs": used} if used else {})


def schema_of_figures() -> Schema:
    """Return the schema of a finding's evidence, by the kinds of findings."""
    by_kind: dict[str, list[Schema]] = {}
    parts: dict[str, Schema] = {}
    for figures in figures_of_findings():
        schema = schema_of(published_only(figures))
        parts |= schema.pop("$defs", {})
        kind = str(figures.__struct_config__.tag)
        by_kind.setdefault(kind, []).append(without(without(schema, "$schema"), "description"))
    choices = [
        {
            "properties": {
                "kind": {"const": kind},
                "evidence": found[0] if len(found) == 1 else {"anyOf": found},
            }
        }
        for kind, found in sorted(by_kind.items())
    ]
    head = {
        "$schema": DIALECT,
        "title": "The figures of findings",
        "description": "What a finding of each kind has as its evidence.",
        "type": "object",
        "required": ["kind", "evidence"],
    }
    return head | {"anyOf": choices} | ({"$defs": parts} if parts else {})


def figures_of_findings() -> list[type[Figures]]:
    """Return the figures of every rule of ours, by kind."""
    rules()
    found, waiting = [], [Figures]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found += [each for each in below if not each.__subclasses__()]
    own = [each for each in found if each.__module__.startswith("seatrial.")]
    return sorted(own, key=lambda each: (str(each.__struct_config__.tag), each.__name__))


def published_only(figures: type[Figures]) -> type[msgspec.Struct]:
    """Return figures without those that are in the words only."""
    hints = typing.get_type_hints(figures, include_extras=True)
    seen = [
        (each.attribute, hints[each.attribute], msgspec.field(name=each.name))
        for each in fields(figures)
        if each.how != "hidden"
    ]
    # Figures that say no more than their tag have no docstring.
    tag = figures.__struct_config__.tag
    namespace = {"__doc__": figures.__doc__ or f"Figures of ``{tag}``."}
    return msgspec.defstruct(figures.__name__, seen, kw_only=True, namespace=namespace)


def of_any(of: type) -> Schema:
    """Return the schema of a field that may be anything."""
    if of is not object:
        raise TypeError(f"{of} has no JSON schema")
    return {"description": "Anything."}  # msgspec takes an empty one for none


def structures(of: type) -> list[type]:
    """Return a structure and every one that its fields are made of, each once."""
    found: dict[type, None] = {of: None}
    waiting: list[Any] = [msgspec.inspect.type_info(of)]
    while waiting:
        info = waiting.pop()
        if isinstance(info, tuple):
            waiting += info
        elif isinstance(info, msgspec.inspect.StructType):
            found.setdefault(info.cls)
            waiting += [field.type for field in info.fields]
            waiting += [msgspec.inspect.type_info(shown(info.cls))] * (shown(info.cls) not in found)
            waiting += [
                msgspec.inspect.type_info(returned(info.cls, name)) for name in properties(info.cls)
            ]
        elif isinstance(info, msgspec.inspect.Type):
            waiting += [getattr(info, name, ()) for name in ("type", "types", *ITEMS)]
    return list(found)


def shown(of: type) -> type:
    """Return what a structure is published as: what its property ``shown`` returns, or itself."""
    getter = inspect.getattr_static(of, "shown", None)
    return typing.get_type_hints(getter.fget)["return"] if isinstance(getter, property) else of


def returned(of: type, name: str) -> Any:  # noqa: ANN401 - a type
    """Return the type of a property."""
    getter = inspect.getattr_static(of, name).fget
    return typing.get_type_hints(getter, include_extras=True)["return"]


def published(of: type, part: Schema) -> Schema:
    """Return the schema of a structure as it is published, but for what is to be flattened.

    Args:
        of: The structure, or an enumeration.
        part: Its schema as msgspec has it.
    """
    if "properties" not in part:
        return part
    description, explained = documentation(of)
    content: Schema = {}
    for field in fields(of):
        schema = without(part["properties"][field.name], "default")
        text = {"description": explained[field.attribute]} if field.attribute in explained else {}
        if field.how == "plain":
            content[field.name] = schema | text
        elif field.how == "as kept":
            content[field.name] = {"type": "object"} | text
        elif field.how == "named":
            content[field.inner] = {"type": "string"} | text
        elif field.how == "flattened":
            content[field.name] = {"flattened": schema}
    for name in properties(of):
        (schema,), _ = msgspec.json.schema_components(
            [returned(of, name)], ref_template="#/$defs/{name}", schema_hook=of_any
        )
        text = inspect.getdoc(inspect.getattr_static(of, name))
        content[name] = schema | {"description": as_json_has_it(text)}
    defaults = {each.encode_name: each.default for each in msgspec.structs.fields(of)}
    required = [name for name in content if defaults.get(name) is not msgspec.UNSET]
    rest = {"required": required, "properties": content}
    return {"type": "object", "description": description} | rest


def flattened(part: Schema, parts: dict[str, Schema]) -> Schema:
    """Return a structure with the names of what is flattened among its own."""
    if "properties" not in part:
        return part
    content: Schema = {}
    required: list[str] = []
    rest: Schema = {}
    for name, schema in part["properties"].items():
        if "flattened" not in schema:
            content[name] = schema
            required += [name] if name in part["required"] else []
            continue
        inner = schema["flattened"]
        if "$ref" in inner:
            inner = flattened(parts[name_of(inner)], parts)
        content |= inner.get("properties", {})
        required += inner.get("required", [])
        if "additionalProperties" in inner:
            rest = {"additionalProperties": inner["additionalProperties"]}
    return part | {"required": required, "properties": content} | rest


def documentation(of: type) -> tuple[str, dict[str, str]]:
    """Return what a structure is, and what each of its attributes is."""
    explained: dict[str, str] = {}
    for each in reversed(of.__mro__):
        text, _, attributes = inspect.cleandoc(each.__doc__ or "").partition("\nAttributes:\n")
        for entry in re.split(r"\n(?=    \w)", "\n" + attributes.split("\n\n")[0])[1:]:
            name, _, meaning = entry.partition(":")
            explained[name.strip()] = as_json_has_it(" ".join(meaning.split()))
    paragraphs = [" ".join(each.split()) for each in text.strip().split("\n\n")]
    return as_json_has_it("\n\n".join(paragraphs)), explained


def as_json_has_it(text: str) -> str:
    """Return a docstring's text in JSON's words, without markup and paths of the source."""
    text = re.sub(r" \(crates/[^)]*\)", "", text)
    text = re.sub(r":\w+:`~?\.?([\w.]+)`", lambda found: found[1].rpartition(".")[2], text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    for python, word in (("None", "null"), ("True", "true"), ("False", "false")):
        text = re.sub(rf"\b{python}\b", word, text)
    return text[:1].upper() + text[1:] if text.startswith(("null", "true", "false")) else text


def simplified(schema: Any) -> Any:  # noqa: ANN401 - a schema, or a part of one
    """Return a schema with a list of types where alternatives differ in nothing else."""
    if isinstance(schema, list):
        return [simplified(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: simplified(each) for name, each in schema.items()}
    if len(schema.get("enum", ())) == 1:
        schema = {"const": schema["enum"][0]} | without(schema, "enum")
    choices = schema.get("anyOf", [])
    special = [each for each in choices if set(each) != {"type"}]
    if not choices or len(special) > 1 or any("type" not in each for each in special):
        return schema
    types = [kind for each in choices for kind in listed(each["type"])]
    if "number" in types:
        types = [kind for kind in types if kind != "integer"]
    rest = without(special[0], "type") if special else {}
    return {"type": types} | rest | without(schema, "anyOf")


def listed(kinds: str | list[str]) -> list[str]:
    """Return the types that a schema names."""
    return [kinds] if isinstance(kinds, str) else kinds


def reachable(schema: object, parts: dict[str, Schema]) -> set[str]:
    """Return the names of the parts that a schema refers to, be it through others."""
    found: set[str] = set()
    waiting: list[Any] = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()
            if "$ref" in each and name_of(each) not in found:
                found.add(name_of(each))
                waiting.append(parts[name_of(each)])
    return found


def name_of(reference: Schema) -> str:
    """Return the name of the part that is referred to."""
    return str(reference["$ref"]).removeprefix("#/$defs/")


def without(schema: Schema, name: str) -> Schema:
    """Return a schema without one of its names."""
    return {key: value for key, value in schema.items() if key != name}


if __name__ == "__main__":
    sys.exit(main())
