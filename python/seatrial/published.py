"""How a structure is published in a document: which of its fields, under which names.

A document is one ``msgspec`` structure (:class:`seatrial.report.exports.json_document.Document`),
and its schema is generated from it (tools/generate/schemas.py). The same structure is analysed and
published; a field that differs between the two has one of the marks below.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

HIDDEN: Final = msgspec.Meta(extra={"publish": "hidden"})
"""``Annotated[Owner, HIDDEN]``: the field is in no document."""

FLATTENED: Final = msgspec.Meta(extra={"publish": "flattened"})
"""``Annotated[dict[str, int], FLATTENED]``: its keys become keys of the structure itself."""

AS_KEPT: Final = msgspec.Meta(extra={"publish": "as kept"})
"""``Annotated[Fingerprint, AS_KEPT]``: published whole; the schema says that it is an object."""

Count = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0})]
Positive = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1})]
Amount = Annotated[float, msgspec.Meta(extra_json_schema={"minimum": 0})]
"""Numbers of at least 0, or 1. Documents are checked for it when written, not when read."""

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})

S = TypeVar("S", bound=msgspec.Struct)
How = Literal["plain", "hidden", "flattened", "named", "as kept"]


def named(name: str) -> msgspec.Meta:
    """Mark a field that is published as one field of its value, a text, under that field's name.

    ``cell: Annotated[Cell, named("key")]`` is ``"key": cell.key`` in a document.

    Args:
        name: The field of the value.
    """
    return msgspec.Meta(extra={"publish": "named", "name": name})


def one_of(*values: str) -> msgspec.Meta:
    """Mark a text that has one of a few values.

    ``Annotated[str, one_of("read", "write")]`` is an enumeration in the schema of a document.
    Documents are checked for it when written, not when read, so that old files still open.
    """
    return msgspec.Meta(extra_json_schema={"enum": list(values)})


class Field(msgspec.Struct, frozen=True):
    """One field of a structure.

    Attributes:
        attribute: Its name in Python.
        name: As it is encoded.
        how: How it is published.
        inner: For ``named``, the field of the value that is published instead.
    """

    attribute: str
    name: str
    how: How = "plain"
    inner: str = ""


@functools.cache
def fields(of: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the fields of a structure in order, including hidden ones."""
    hints = typing.get_type_hints(of, include_extras=True)
    names = zip(of.__struct_fields__, of.__struct_encode_fields__, strict=True)
    return tuple(_field(attribute, name, hints[attribute]) for attribute, name in names)


def _field(attribute: str, name: str, hint: object) -> Field:
    for meta in getattr(hint, "__metadata__", ()):
        extra = getattr(meta, "extra", None) or {}
        if "publish" in extra:
            return Field(attribute, name, extra["publish"], extra.get("name", ""))
    return Field(attribute, name)


def filled(kind: type[S], *sources: object, **own: object) -> S:
    """Return a structure of the given values, and of the sources' attributes named as its fields.

    The first source that has the attribute is used.

    Raises:
        AttributeError: when no source has it, even if the field has a default.
    """
    for name in kind.__struct_fields__:
        if name not in own:
            own[name] = first_attribute(name, sources)
    return kind(**own)


def first_attribute(name: str, sources: Sequence[object]) -> object:
    """Return an attribute of the first source that has it.

    Raises:
        AttributeError: when none has it.
    """
    having = (source for source in sources if hasattr(source, name))
    return getattr(next(having, None), name)


@functools.cache
def properties(of: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the properties that documents have in addition to the fields: its ``PUBLISHED``."""
    found: tuple[str, ...] = getattr(of, "PUBLISHED", ())
    return found


def publish(value: object) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return a value as a document contains it, as builtins.

    A structure with a property ``shown`` is published as that returns.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, msgspec.Struct):
        return _structure(getattr(value, "shown", value))
    if isinstance(value, Mapping):
        return {publish(name): publish(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [publish(item) for item in typing.cast("Iterable[object]", value)]
    return msgspec.to_builtins(value)


def _structure(value: msgspec.Struct) -> dict[str, object]:
    content: dict[str, object] = {}
    for field in fields(type(value)):
        item = getattr(value, field.attribute)
        if field.how == "flattened":
            content |= publish(item)
        elif field.how == "named":
            content[field.inner] = getattr(item, field.inner)
        elif field.how in ("plain", "as kept") and item is not msgspec.UNSET:
            content[field.name] = publish(item)
    return content | {name: publish(getattr(value, name)) for name in properties(type(value))}
