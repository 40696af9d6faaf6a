"""The words of a workload file: names, numbers, texts, variables and signs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from seatrial.errors import UsageError

SCALES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
CHARACTERS_MAX: Final = 4 << 20

_WORD: Final = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+ | \#[^\n]*)
  | (?P<line>\n)
  | "(?P<text>(?:[^"\\]|\\.)*)"
  | \$(?P<variable>[({]?[A-Za-z_][A-Za-z0-9_]*[)}]?)
  | (?P<number>[0-9]+(?:\.[0-9]+)?[kKmMgGtT]?)(?![A-Za-z0-9_.])
  | (?P<name>[/A-Za-z_][/A-Za-z0-9._:;-]*)
  | (?P<sign>[{}(),=*+/-])
    """,
    re.VERBOSE,
)


class Word(NamedTuple):
    """One word.

    Attributes:
        kind: ``text``, ``variable``, ``number``, ``name``, ``sign``, or ``end``.
        text: As written; of a text without quotes, of a variable without the sign.
        line: Its line, from 1.
    """

    kind: str
    text: str
    line: int


class WorkloadFileError(UsageError):
    """A workload file is malformed or has an unsupported statement; names the line."""


def file_error(
    file_name: str, line: int, seen: str, cause: str, next_step: str = ""
) -> WorkloadFileError:
    """Return the error for a line of a workload file.

    Args:
        file_name: The file, or the name of a personality.
        line: From 1; 0 for the file as a whole.
        seen: What is there, as a phrase without file and line.
        cause: Why it is an error, as a sentence.
        next_step: What to do; by default to correct the line.
    """
    where = f"{file_name}, line {line}" if line else file_name
    return WorkloadFileError(
        seen=f"{where}: {seen}",
        cause=cause,
        next_step=next_step or "Correct the line; docs/filebench.md lists what is supported",
    )


def words_of(file_name: str, text: str) -> list[Word]:
    """Return the words of a workload file, and one of kind ``end``.

    Raises:
        WorkloadFileError: when a character begins no word, or the file is too large.
    """
    if len(text) > CHARACTERS_MAX:
        raise file_error(file_name, 0, f"it has {len(text)} characters", "At most 4 MiB are read")
    words, at, line = [], 0, 1
    while at < len(text):
        found = _WORD.match(text, at)
        if found is None:
            cause = "A text without its second quotation mark" if text[at] == '"' else _NO_WORD
            raise file_error(file_name, line, f"{text[at]!r} begins no word", cause)
        kind = str(found.lastgroup)
        if kind not in ("space", "line"):
            words.append(Word(kind, _strip_brackets(kind, found[kind]), line))
        line += found[0].count("\n")
        at = found.end()
    return [*words, Word("end", "", line)]


_NO_WORD: Final = "The language has names, numbers, texts, variables and the signs {}(),=*+/-"


def _strip_brackets(kind: str, written: str) -> str:
    return written.strip("(){}") if kind == "variable" else written


def number_of(written: str) -> float:
    """Return a number as written: ``10``, ``2k``, ``5g``, ``1.5``."""
    last = written[-1].lower()
    if last in SCALES:
        return float(written[:-1]) * SCALES[last]
    return float(written)
