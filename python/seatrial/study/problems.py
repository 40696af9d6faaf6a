"""What is wrong with a study file, said so that it can be mended at once.

Every message names the file, the line where it can be told, and the key; says what was found and
what was expected; and proposes the nearest right spelling.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import inspect

from seatrial.errors import StudyError
from seatrial.study.keylines import KeyPath, format_path, key_lines, line_of

DOCS: Final = "docs/study-file.md"

_LOCATION: Final = re.compile(r"(?s)(.*) - at `\$?(.*)`")
_STEP: Final = re.compile(r"\.([A-Za-z0-9_]+)|\[([0-9]+)\]")
_TOML_PLACE: Final = re.compile(r"(.*) \(at (?:line ([0-9]+), column [0-9]+|end of document)\)")
_WRONG_TYPE: Final = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_OUT_OF_BOUNDS: Final = re.compile(r"Expected `([a-z]+)` (.+)")
_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


class ConstraintError(ValueError):
    """One thing that does not fit the schema, found by a check of ours.

    Attributes:
        path: Key path below the table in which it was found; empty for that table itself.
        seen: What was found there, as the end of a sentence that begins with the key.
        expected: What may stand there, as a sentence.
    """

    def __init__(self, seen: str, expected: str, *path: str | int) -> None:
        self.path: KeyPath = path
        self.seen = seen
        self.expected = expected
        super().__init__(f"{seen}; {expected}")


class Source:
    """Where a study comes from: its name, and its text where it has one."""

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        self.text = text

    def error(self, path: KeyPath, seen: str, cause: str) -> StudyError:
        """Return the error that says what was seen at a key, and why it cannot stand."""
        line = line_of(path, key_lines(self.text)) if self.text else None
        place = self.name if line is None else f"{self.name}, line {line}"
        key = format_path(path)
        dry = f"; 'seatrial study {self.name} --plan' checks the file and touches nothing else"
        return StudyError(
            seen=f"{place}: {key} {seen}" if key else f"{place}: {seen}",
            cause=cause,
            next_step=f"{DOCS} explains every key{dry if self.text else ''}",
        )

    def not_toml(self, error: tomllib.TOMLDecodeError) -> StudyError:
        """Return the error for a text that is no TOML at all."""
        parts = _TOML_PLACE.fullmatch(str(error))
        problem, line = (parts[1], parts[2]) if parts else (str(error), None)
        line = line or len(self.text.splitlines())
        return StudyError(
            seen=f"{self.name}, line {line}: this is not valid TOML: {problem}",
            cause="Usually a missing quote, bracket or equals sign there or on the line before",
            next_step=f"Mend the line; {DOCS} has examples that can be copied",
        )


class CommandLine(Source):
    """The command line as the source of a study, or of what was changed in one.

    Args:
        options: Of one command, the options whose name is not that of the study's key.
    """

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        super().__init__("the command line")
        self._options = {**_OPTIONS, **(options or {})}

    def error(self, path: KeyPath, seen: str, cause: str) -> StudyError:
        """Return the error that names the option in place of the key."""
        keys = [part for part in path if isinstance(part, str) and part not in _TABLES]
        what = f"--{self._options.get(keys[0], keys[0].replace('_', '-'))}" if keys else self.name
        below = f": {'.'.join(keys[1:])}" if len(keys) > 1 else ""
        return StudyError(
            seen=f"{what}{below} {seen}",
            cause=cause,
            next_step=f"--help after the command lists its options; {DOCS} explains each key",
        )


_TABLES: Final = ("workload", "target", "layout", "drives", "rounds", "budget")
_OPTIONS: Final = {
    "operations": "operation",
    "block_sizes": "block-size",
    "depths": "depth",
    "direct": "buffered",
    "folder": "loop-dir",
    "min": "rounds",
    "max": "rounds",
    "time_s": "budget",
    "write_bytes": "write-budget",
}
"""Options whose name is not that of the study's key."""


def nearest(wrong: str, right: Iterable[str]) -> str:
    """Return the right spelling that is nearest to a wrong one; empty when none is near."""
    return next(iter(difflib.get_close_matches(wrong, list(right), n=1, cutoff=0.6)), "")


def suggestion(wrong: str, right: Iterable[str]) -> str:
    """Return ``Did you mean '...'?``, or the list of right spellings when none is near."""
    choices = list(right)
    if near := nearest(wrong, choices):
        return f"Did you mean '{near}'?"
    return f"Known are {', '.join(choices)}" if choices else "None is known here"


def explain(
    error: msgspec.ValidationError, data: Mapping[str, object], schema: type, source: Source
) -> StudyError:
    """Return the error for data that do not fit the schema.

    Args:
        error: What msgspec found.
        data: What was read.
        schema: The struct that it should have become.
        source: Where it was read from.
    """
    message, path = _located(str(error))
    cause = error.__cause__
    if isinstance(cause, ConstraintError):
        return source.error(path + cause.path, cause.seen, cause.expected)
    value = _value_at(path, data)
    wanted = _type_at(path, data, inspect.type_info(schema))
    name = message.partition("`")[2].rpartition("`")[0]
    if message.startswith("Object contains unknown field"):
        return _unknown_key(name, path, wanted, source)
    if message.startswith("Object missing required field"):
        return source.error(path, f"has no {name!r}", f"The key {name!r} is required")
    if message.startswith("Invalid"):
        right = suggestion(str(value), _choices(wanted))
        return source.error(path, f"is {_reported(value)}", right)
    found = "holds a value that does not fit" if "[...]" in str(error) else f"is {_reported(value)}"
    return source.error(path, found, f"Expected {_wanted_words(message)}")


def _unknown_key(
    name: str, path: KeyPath, wanted: inspect.Type | None, source: Source
) -> StudyError:
    """Return the error for a key that the table does not have."""
    known: list[str] = []
    kind = ""
    if isinstance(wanted, inspect.StructType):
        known = [field.encode_name for field in wanted.fields]
        if wanted.tag_field:
            known.append(wanted.tag_field)
            kind = f" of a {wanted.tag} workload"
    return source.error((*path, name), f"is not a key{kind}", suggestion(name, known))


def _located(message: str) -> tuple[str, KeyPath]:
    """Return msgspec's message without its location, and the location."""
    parts = _LOCATION.fullmatch(message)
    if parts is None:
        return message, ()
    steps = _STEP.finditer(parts[2])
    return parts[1], tuple(step[1] if step[1] else int(step[2]) for step in steps)


def _value_at(path: KeyPath, data: object) -> object:
    """Return what was read at a path; None when there is nothing."""
    for part in path:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def _type_at(path: KeyPath, data: object, wanted: inspect.Type) -> inspect.Type | None:
    """Return what the schema wants at a path, its tagged unions resolved by the data."""
    here: inspect.Type | None = _resolved(wanted, data)
    for part in path:
        data = _value_at((part,), data)
        if isinstance(part, int):
            here = here.item_type if isinstance(here, inspect.ListType) else None
        elif isinstance(here, inspect.UnionType):
            here = _tags(here, part)
        elif isinstance(here, inspect.StructType):
            fields = {field.encode_name: field.type for field in here.fields}
            here = fields.get(part)
        else:
            here = None
        if here is None:
            return None
        here = _resolved(here, data)
    return here


def _resolved(wanted: inspect.Type, data: object) -> inspect.Type:
    """Return the member of a union that the data are meant to be, or the union itself."""
    while isinstance(wanted, inspect.Metadata):
        wanted = wanted.type
    if not isinstance(wanted, inspect.UnionType):
        return wanted
    for member in wanted.types:
        if isinstance(member, inspect.StructType) and isinstance(data, dict):
            if member.tag_field is None or data.get(member.tag_field) == member.tag:
                return member
        elif isinstance(member, inspect.ListType) and isinstance(data, list):
            return member
    return wanted


def _tags(union: inspect.UnionType, key: str) -> inspect.Type | None:
    """Return the words that tell the structs of a union apart, where the key is that word."""
    structs = [each for each in union.types if isinstance(each, inspect.StructType)]
    tags = tuple(str(each.tag) for each in structs if each.tag_field == key)
    return inspect.LiteralType(tags) if tags else None


def _choices(wanted: inspect.Type | None) -> list[str]:
    """Return the words that may stand where only certain words may."""
    if isinstance(wanted, inspect.LiteralType):
        return [str(value) for value in wanted.values]
    if isinstance(wanted, inspect.UnionType):
        return [choice for member in wanted.types for choice in _choices(member)]
    return []


def _reported(value: object) -> str:
    """Return a value as a study spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return repr(value) if isinstance(value, str | int | float) else str(value)


def _wanted_words(message: str) -> str:
    """Return what msgspec expected, in plain words."""
    bounds = _OUT_OF_BOUNDS.fullmatch(message)
    wrong = _WRONG_TYPE.fullmatch(message)
    if wrong:
        types = [part.strip() for part in wrong[1].split("|")]
        return " or ".join(_WORDS.get(part, part) for part in types if part != "null")
    if bounds:
        limit = bounds[2].replace("of length >= 1", "with at least one item")
        limit = limit.replace(">=", "of at least").replace("<=", "of at most")
        return f"{_WORDS.get(bounds[1], bounds[1])} {limit.replace('> ', 'above ')}"
    return message
