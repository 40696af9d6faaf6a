"""Text wrapped at a width: a figure stays on one line with its unit and its ``±``."""

from __future__ import annotations

import re
import textwrap
from typing import Final

NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT: Final = re.compile(r"((?<![\w=./])[\d.,]*\d[kM]?|[±<≈]) (?=[\d%µA-Za-z])")


def unbroken(text: str) -> str:
    """Return a text whose numbers stay on one line with their units and signs."""
    return _BEFORE_UNIT.sub(rf"\1{NO_BREAK_SPACE}", text)


def wrap(
    text: str,
    width: int,
    *,
    initial: str = "",
    subsequent: str | None = None,
    lines_max: int | None = None,
) -> list[str]:
    """Return the lines of a paragraph; only a single word or figure may make one longer.

    Args:
        text: One paragraph; line breaks count as spaces.
        width: Columns.
        initial: What the first line begins with.
        subsequent: What the others begin with; blanks as wide as ``initial`` unless given.
        lines_max: The most lines, the last then ends with ``…``; None for all.
    """
    lines = textwrap.wrap(
        unbroken(text),
        width,
        initial_indent=initial,
        subsequent_indent=" " * len(initial) if subsequent is None else subsequent,
        max_lines=lines_max,
        placeholder=" …",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace(NO_BREAK_SPACE, " ") for line in lines]
