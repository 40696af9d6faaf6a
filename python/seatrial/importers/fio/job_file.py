"""fio's job files taken apart: sections, what they inherit, comments, variables.

The rules are those of fio's own reader (init.c of its source): ``[global]`` holds for the jobs
below it, a later one adds to it; ``;`` and ``#`` begin a comment anywhere in a line; a word alone
sets a flag; ``${NAME}`` is a variable of the environment.
"""

from __future__ import annotations

import os
import re
from typing import Final

import msgspec

from seatrial.errors import UsageError
from seatrial.importers.document import Document
from seatrial.importers.fio.options import plain_name

JOBS_MAX: Final = 1000
_SECTION: Final = re.compile(r"\[([^\[\]]+)\]")
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_SIGN: Final = re.compile(
    r"^\s*(?:rw|readwrite|ioengine|iodepth|numjobs)\s*=\s*[a-z0-9]", re.MULTILINE
)
_TABLE: Final = re.compile(r"^\s*\[[^\[\]]+\]\s*(?:[;#].*)?$", re.MULTILINE)


class JobSection(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a file.

    Attributes:
        name: Its section's name.
        line: Number of the section's line, from 1.
        options: By usual name, those of ``[global]`` among them; a flag has an empty value.
    """

    name: str
    line: int
    options: dict[str, str]


def is_job_file(text: str) -> bool:
    """Tell whether a text is a job file of fio."""
    return bool(_TABLE.search(text)) and bool(_SIGN.search(text)) and "[[" not in text


def job_sections(document: Document) -> list[JobSection]:
    """Return the jobs of a file, in its order.

    Raises:
        UsageError: An option stands outside of a section, a variable is not set, another file is
            included, or there is no job.
    """
    shared: dict[str, str] = {}
    current: dict[str, str] | None = None
    found: list[JobSection] = []
    for line, raw in enumerate(document.text.splitlines(), start=1):
        text = re.split("[;#]", raw, maxsplit=1)[0].strip()
        if not text:
            continue
        if section := _SECTION.fullmatch(text):
            current = _begin(section[1].strip(), line, shared, found)
            continue
        if text.split()[0] == "include":
            raise _wrong(document, line, f"{text!r} includes another file", "Put its content here")
        if current is None:
            raise _wrong(
                document, line, f"{text!r} stands above the first section", "Put it below [global]"
            )
        name, _, value = text.partition("=")
        current[plain_name(name)] = _expanded(document, line, value.strip())
    if not found or len(found) > JOBS_MAX:
        raise _wrong(document, 1, f"there are {len(found)} jobs", f"A file has 1 to {JOBS_MAX}")
    return found


def _begin(name: str, line: int, shared: dict[str, str], found: list[JobSection]) -> dict[str, str]:
    """Return the options that the lines below a section's heading go to."""
    if name.lower() == "global":
        return shared
    found.append(JobSection(name=name, line=line, options=dict(shared)))
    return found[-1].options


def _expanded(document: Document, line: int, value: str) -> str:
    for name in _VARIABLE.findall(value):
        if name not in os.environ:
            raise _wrong(
                document, line, f"the variable {name} is not set", f"Say {name}=... seatrial study"
            )
    return _VARIABLE.sub(lambda found: os.environ[found[1]], value)


def _wrong(document: Document, line: int, seen: str, next_step: str) -> UsageError:
    return UsageError(
        seen=f"{document.path}, line {line}: {seen}",
        cause="A job of fio is carried out by Seatrial only where all of it is known",
        next_step=next_step,
    )
