"""Where each key of a TOML text stands: the line numbers that tomllib does not tell."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

KeyPath = tuple[str | int, ...]
"""Keys and list indices (from 0) from the top of the file to a value."""


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of every table and key of a valid TOML text.

    What stands within a list of several lines counts to the line on which its item ends; what
    stands within any other value of several lines, to the line on which the value begins.
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
    """Return the line of a key, or of the closest table around it; None when there is none.

    A key with dots is found both where it was quoted and where it was written as nested keys.
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
    """Return whether the value has ended: an open list, table or text does not parse."""
    return _parsed(piece) is not None


def _parsed(text: str) -> dict[str, object] | None:
    """Return what a text says; None where it is not valid TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _offsets(piece: str) -> Iterator[tuple[KeyPath, int]]:
    """Yield every path within a key's piece, and its line counted from the key's.

    A list that is still open parses once it is closed by hand, so that the items of each line
    can be told.
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


def _header_keys(parsed: dict[str, Any]) -> list[str]:
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
