"""Error messages for study files.

Every message names the file, the line if it is known, and the key; reports the actual and the
expected value; and suggests the nearest valid spelling.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from seatrial.errors import StudyError

KeyPath = tuple[str | int, ...]
"""Keys and list indices (from 0) from the top of the file to a value."""


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of every table and key of a valid TOML text.

    A key within a list of several lines gets the line on which its item ends; a key within any
    other value of several lines gets the line on which the value begins.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    tables_seen: dict[KeyPath, int] = {}
    for start, piece in _pieces(text):
        if piece.lstrip().startswith("["):
            table = _enter(piece, tables_seen)
            lines.setdefault(table, start)
            continue
        for path, offset in _offsets(piece):
            lines.setdefault(table + path, start + offset)
    return lines


def line_of(path: KeyPath, lines: dict[KeyPath, int]) -> int | None:
    """Return the line of a key, or of the closest table around it; None if absent.

    A dotted key is found whether it was quoted or written as nested keys.
    """
    if path in lines:
        return lines[path]
    nested: KeyPath = ()
    for part in path:
        nested += tuple(part.split(".")) if isinstance(part, str) else (part,)
    for length in range(len(nested), 0, -1):
        if nested[:length] in lines:
            return lines[nested[:length]]
    return None


def format_path(path: KeyPath) -> str:
    """Return a key path as a person reads it, such as ``workload[1].block_sizes``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each header and each key with its whole value."""
    start, piece = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not piece:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            start = number
        piece += line + "\n"
        if _is_whole(piece):
            yield start, piece
            piece = ""


def _is_whole(piece: str) -> bool:
    """Return whether the value is complete: an open list, table or string does not parse."""
    return _parsed(piece) is not None


def _parsed(text: str) -> dict[str, object] | None:
    """Return a parsed text; None if it is not valid TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _offsets(piece: str) -> Iterator[tuple[KeyPath, int]]:
    """Yield every path within the value of a key, with its line offset from the key.

    An open list is parsed with an added bracket, to find the items on each line.
    """
    lines = piece.splitlines()
    for offset in range(len(lines) - 1):
        begun = _parsed("\n".join([*lines[: offset + 1], "]"]))
        for path in _paths_within(begun):
            yield path, offset
    for path in _paths_within(tomllib.loads(piece)):
        yield path, 0 if len(path) == 1 else len(lines) - 1


def _enter(header: str, tables_seen: dict[KeyPath, int]) -> KeyPath:
    """Return the path of the table that a header opens, counting the tables of a list."""
    keys = _header_keys(tomllib.loads(header))
    path: KeyPath = ()
    for key in keys[:-1]:
        path += (key,)
        if path in tables_seen:
            path += (tables_seen[path],)
    path += (keys[-1],)
    if header.lstrip().startswith("[["):
        tables_seen[path] = tables_seen.get(path, -1) + 1
        path += (tables_seen[path],)
    return path


def _header_keys(parsed: dict[str, object]) -> list[str]:
    """Return the keys of a parsed header, from the outermost to the innermost."""
    keys: list[str] = []
    here: Any = parsed
    while here:
        keys.append(next(iter(here)))
        here = here[keys[-1]]
        here = here[0] if isinstance(here, list) else here
    return keys


def _paths_within(value: object) -> Iterator[KeyPath]:
    """Yield the path of every key and list item within a parsed value."""
    items: Iterator[tuple[str | int, object]]
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        return
    for key, inner in items:
        yield (key,)
        for path in _paths_within(inner):
            yield (key, *path)


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
    """A value that does not fit the schema, found by one of our checks.

    Attributes:
        path: Key path below the checked table; empty for the table itself.
        seen: The actual state, as the end of a sentence that begins with the key.
        expected: The valid values, as a sentence.
    """

    def __init__(self, seen: str, expected: str, *path: str | int) -> None:
        self.path: KeyPath = path
        self.seen = seen
        self.expected = expected
        super().__init__(f"{seen}; {expected}")


def no_effect(expected: str, *path: str | int) -> ConstraintError:
    """Return the violation for a key that has no effect, and the reason."""
    return ConstraintError("has no effect here", expected, *path)


class Source:
    """The source of a study: its name, and its text if available."""

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        self.text = text

    def error(self, path: KeyPath, seen: str, cause: str) -> StudyError:
        """Return the error for a key, with the actual state and the reason."""
        line = line_of(path, key_lines(self.text)) if self.text else None
        location = self.name if line is None else f"{self.name}, line {line}"
        key = format_path(path)
        dry = f"; 'seatrial study {self.name} --plan' checks the file without running it"
        return StudyError(
            seen=f"{location}: {key} {seen}" if key else f"{location}: {seen}",
            cause=cause,
            next_step=f"{DOCS} explains every key{dry if self.text else ''}",
        )

    def not_toml(self, error: tomllib.TOMLDecodeError) -> StudyError:
        """Return the error for a text that is not valid TOML."""
        parts = _TOML_PLACE.fullmatch(str(error))
        problem, line = (parts[1], parts[2]) if parts else (str(error), None)
        line = line or len(self.text.splitlines())
        return StudyError(
            seen=f"{self.name}, line {line}: invalid TOML: {problem}",
            cause="Usually a missing quote, bracket or equals sign on this or the previous line",
            next_step=f"Correct the line; {DOCS} has examples to copy",
        )


class CommandLine(Source):
    """The command line as the source of a study, or of changes to one.

    Args:
        options: Options of a command with another name than the study's key.
    """

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        super().__init__("the command line")
        self._options = {**_OPTIONS, **(options or {})}

    def error(self, path: KeyPath, seen: str, cause: str) -> StudyError:
        """Return the error with the option in place of the key."""
        keys = [part for part in path if isinstance(part, str) and part not in _TABLES]
        what = f"--{self._options.get(keys[0], keys[0].replace('_', '-'))}" if keys else self.name
        below = f": {'.'.join(keys[1:])}" if len(keys) > 1 else ""
        return StudyError(
            seen=f"{what}{below} {seen}",
            cause=cause,
            next_step=f"--help lists the options of the command; {DOCS} explains each key",
        )


_TABLES: Final = ("workload", "target", "layout", "drives", "rounds", "budget", "hosts")
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
"""Options with another name than the study's key."""


def nearest(wrong: str, right: Iterable[str]) -> str:
    """Return the most similar valid spelling; empty if there is none."""
    return next(iter(difflib.get_close_matches(wrong, list(right), n=1, cutoff=0.6)), "")


def suggestion(wrong: str, right: Iterable[str]) -> str:
    """Return ``Did you mean '...'?``, or the list of valid spellings if none is similar."""
    choices = list(right)
    if near := nearest(wrong, choices):
        return f"Did you mean '{near}'?"
    return f"Valid values: {', '.join(choices)}" if choices else "No value is valid here"


def explain(
    error: msgspec.ValidationError, data: Mapping[str, object], schema: type, source: Source
) -> StudyError:
    """Return the error for data that does not fit the schema.

    Args:
        error: The error of msgspec.
        data: The parsed data.
        schema: The expected structure.
        source: The source of the data.
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
    found = "has a value that does not fit" if "[...]" in str(error) else f"is {_reported(value)}"
    return source.error(path, found, f"Expected {_wanted_phrase(message)}")


def _unknown_key(
    name: str, path: KeyPath, wanted: inspect.Type | None, source: Source
) -> StudyError:
    """Return the error for an unknown key."""
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
    """Return the value at a path; None if there is none."""
    for part in path:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def _type_at(path: KeyPath, data: object, wanted: inspect.Type) -> inspect.Type | None:
    """Return the schema's type at a path, with tagged unions resolved by the data."""
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
    """Return the member of a union that matches the data, or the union itself."""
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
    """Return the tags that distinguish the members of a union, if the key is that tag."""
    structs = [each for each in union.types if isinstance(each, inspect.StructType)]
    tags = tuple(str(each.tag) for each in structs if each.tag_field == key)
    return inspect.LiteralType(tags) if tags else None


def _choices(wanted: inspect.Type | None) -> list[str]:
    """Return the valid words, if only certain words are valid."""
    if isinstance(wanted, inspect.LiteralType):
        return [str(value) for value in wanted.values]
    if isinstance(wanted, inspect.UnionType):
        return [choice for member in wanted.types for choice in _choices(member)]
    return []


def _reported(value: object) -> str:
    """Return a value as spelled in a study."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return repr(value) if isinstance(value, str | int | float) else str(value)


def _wanted_phrase(message: str) -> str:
    """Return the type that msgspec expected, in plain words."""
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
