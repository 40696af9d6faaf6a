"""The JSON objects that fio printed, found in a text that holds more than them.

``--output-format=json,normal`` puts the human-readable print beside the JSON, warnings and a
shell's prompt stand before it, and a log puts its own prefix before every line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from seatrial.errors import UsageError
from seatrial.importers.document import Document

MARK: Final = '"fio version"'
_BEGIN: Final = re.compile(rf"\{{(?=\s*{MARK})")
_LINE_BEGIN: Final = re.compile(r"^\{", re.MULTILINE)
_PART: Final = re.compile(r"(?P<digits>\d+)|(?P<blank>\s+)|[^\d\s]+")


def is_fio(text: str) -> bool:
    """Tell whether a text holds a JSON document of fio, be it whole or cut off."""
    return MARK in text


def contents(document: Document) -> list[dict[str, Any]]:
    """Return every JSON object of fio in a text.

    Raises:
        UsageError: One is cut off or damaged, or none begins where one can begin.
    """
    found = list(_objects(document, document.text))
    if not found and (plain := _without_prefixes(document.text)):
        found = list(_objects(document, plain))
    if not found:
        raise UsageError(
            seen=f"{document.path} has the words {MARK}, and no JSON of fio begins in it",
            cause="Its beginning was cut off, or something was put before its lines",
            next_step="Cut everything from the file that fio did not print",
        )
    return found


def _objects(document: Document, text: str) -> Iterator[dict[str, Any]]:
    """Yield what has fio's version first, as fio prints it, else what begins a line."""
    beginning = _BEGIN if _BEGIN.search(text) else _LINE_BEGIN
    decoder = json.JSONDecoder(parse_constant=_no_number)
    at = 0
    while begin := beginning.search(text, at):
        try:
            content, at = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError) as error:
            raise _cut_off(document, error) from None
        if isinstance(content, dict) and "fio version" in content:
            yield content


def _without_prefixes(text: str) -> str:
    """Return the lines of a log that bear the prefix of fio's first line, without it.

    The prefix may hold a time and the number of a process, so its digits may differ from line to
    line. Lines of others are left out. Empty where fio's JSON does not begin so.
    """
    lines = text.splitlines()
    for first, second in pairwise(lines):
        if MARK in second and first.rstrip().endswith("{"):
            prefix = _prefix(first.rstrip()[:-1])
            found = [prefix.match(line) for line in lines]
            return "\n".join(each.string[each.end() :] for each in found if each)
    return ""


def _prefix(first: str) -> re.Pattern[str]:
    """Return what fits a prefix with other digits and other blanks."""
    parts = (
        r"\d+" if part["digits"] else r"\s*" if part["blank"] else re.escape(part[0])
        for part in _PART.finditer(first)
    )
    return re.compile("".join(parts))


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


def _cut_off(document: Document, error: Exception) -> UsageError:
    line = error.lineno if isinstance(error, json.JSONDecodeError) else 0
    where = f" at line {line}" if line else ""
    reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return UsageError(
        seen=f"The JSON in {document.path} ends or breaks off{where}: {reason}",
        cause="fio was stopped before it had printed all of it, or the file was cut or edited",
        next_step="Run fio again with --output=FILE --output-format=json+ and wait for its end",
    )
