"""Structures with any values of the right types, as far as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=9)
COUNTS = st.integers(-(2**53), 2**53)
FIGURES = st.floats(allow_nan=False, allow_infinity=False)


def made_up(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Any of its fields may be missing, those within it too."""
    fields = msgspec.structs.fields(kind)
    values = {field.name: _values_of(field.type) for field in fields}
    return st.fixed_dictionaries({}, optional=values).map(lambda found: kind(**found))


def _values_of(annotation: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return st.one_of(*map(_values_of, arguments))
    if origin is list:
        return st.lists(_values_of(arguments[0]), max_size=2)
    if origin is tuple:
        return st.tuples(*map(_values_of, arguments))
    if origin is Mapping:
        return st.dictionaries(*map(_values_of, arguments), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return made_up(annotation)
    plain = {str: TEXTS, int: COUNTS, float: FIGURES, object: st.none() | COUNTS | TEXTS}
    return plain[annotation] if annotation in plain else st.from_type(annotation)
