"""Reads Rust as far as the rules need it: where functions and tests begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tidy.sources import Source

# What may hold braces and words that are not code. A lifetime ('a) has no closing quote and is
# left alone; block comments nest, so their end is sought by hand.
OPAQUE = re.compile(
    r"""
    //[^\n]*
  | /\*
  | \b[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)
  | (?:\b[bc])?"(?:\\.|[^"\\])*"
  | (?:\bb)?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])'
    """,
    re.VERBOSE | re.DOTALL,
)
FUNCTION = re.compile(r"\bfn\s+(?P<name>\w+)")
TEST_ATTRIBUTE = re.compile(r"#\[(?:cfg\((?:test|all\(test\b[^\]]*)\)|test)\]")
TEST_FILE = re.compile(
    r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;"
)


@dataclass(frozen=True)
class Function:
    """A function with a body: its name, signature and lines (from 1, both ends included)."""

    name: str
    signature: str
    first_line: int
    last_line: int


@cache
def code(text: str) -> str:
    """The text with comments, strings and characters blanked; every position stays the same."""
    parts = []
    at = 0
    while match := OPAQUE.search(text, at):
        end = match.end() if match.group() != "/*" else comment_end(text, match.end())
        parts += [text[at : match.start()], blank(text[match.start() : end])]
        at = end
    return "".join([*parts, text[at:]])


def blank(text: str) -> str:
    """Spaces in place of the text, line by line."""
    return re.sub(r"[^\n]", " ", text)


def comment_end(text: str, inside: int) -> int:
    """The position behind a block comment, given one inside it; block comments nest."""
    open_count = 1
    for match in re.compile(r"/\*|\*/").finditer(text, inside):
        open_count += 1 if match.group() == "/*" else -1
        if open_count == 0:
            return match.end()
    return len(text)


def body_start(masked: str, after: int) -> int | None:
    """The position of an item's opening brace; None where a semicolon ends it first."""
    open_count = 0
    for position in range(after, len(masked)):
        character = masked[position]
        if character in "([":
            open_count += 1
        elif character in ")]":
            open_count -= 1
        elif open_count == 0 and character in "{;":
            return position if character == "{" else None
    return None


def brace_end(masked: str, opening: int) -> int:
    """The position of the brace that closes the one at ``opening``."""
    open_count = 0
    for match in re.compile(r"[{}]").finditer(masked, opening):
        open_count += 1 if match.group() == "{" else -1
        if open_count == 0:
            return match.start()
    return len(masked) - 1


def functions(source: Source) -> Iterator[Function]:
    """Every function that has a body, nested ones and those of tests too."""
    masked = code(source.text)
    for match in FUNCTION.finditer(masked):
        opening = body_start(masked, match.end())
        if opening is not None:
            yield Function(
                name=match["name"],
                signature=masked[match.end() : opening],
                first_line=source.line_at(match.start()),
                last_line=source.line_at(brace_end(masked, opening)),
            )


def without_tests(source: Source) -> str:
    """The code less what is compiled for tests only; every line stays where it is."""
    masked = code(source.text)
    parts = []
    at = 0
    for match in TEST_ATTRIBUTE.finditer(masked):
        opening = body_start(masked, match.end())
        if opening is not None and match.start() >= at:
            end = brace_end(masked, opening) + 1
            parts += [masked[at : match.start()], blank(masked[match.start() : end])]
            at = end
    return "".join([*parts, masked[at:]])


def outside_tests(sources: list[Source]) -> list[Source]:
    """The files that are more than tests: not under tests/, not declared by a test-only mod."""
    test_only = set()
    for source in sources:
        folder, _, name = source.path.rpartition("/")
        inner = folder if name in ("lib.rs", "main.rs", "mod.rs") else source.path[: -len(".rs")]
        for module in TEST_FILE.findall(code(source.text)):
            test_only |= {f"{inner}/{module}.rs", f"{inner}/{module}/mod.rs"}
    return [
        source
        for source in sources
        if source.path not in test_only and not re.search(r"/(tests|benches)/", source.path)
    ]
