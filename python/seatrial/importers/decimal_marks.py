"""Decimal marks of numbers in tables: ``48,2``, ``12.345`` of thousands, ``1.234,5``.

Three digits after a mark may be decimals or thousands: other numbers of the table show which.
"""

from __future__ import annotations

import re
from typing import Final

_AMBIGUOUS: Final = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")


def _pattern(mark: str, between: str) -> re.Pattern[str]:
    """Return a pattern of numbers that show their decimal mark, or the one between thousands."""
    groups = rf"[1-9]\d{{0,2}}(?:{between}\d{{3}})"
    return re.compile(
        rf"(?:0|\d{{4,}}){mark}\d+|\d{{1,3}}{mark}(?!\d{{3}}$)\d+"
        rf"|{groups}+{mark}\d+|{groups}{{2,}}"
    )


_SHOWING: Final = {",": _pattern(",", r"\."), ".": _pattern(r"\.", ",")}
_GROUPED: Final = {
    ",": re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?"),
    ".": re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?"),
}


def decimal_mark(text: str) -> str:
    """Return the decimal mark that a number shows; empty for 12.345, words and whole numbers."""
    return next((mark for mark, pattern in _SHOWING.items() if pattern.fullmatch(text)), "")


def is_ambiguous(text: str) -> bool:
    """Return whether a number has one mark with three digits after it."""
    return bool(_AMBIGUOUS.fullmatch(text))


def plain_number(text: str, mark: str) -> str:
    """Return a number with a decimal point and without marks between thousands.

    Args:
        text: The number; anything else is returned as it is.
        mark: The decimal mark of its table; empty if unknown.
    """
    own = decimal_mark(text) or (mark if is_ambiguous(text) else "")
    if not own:
        return text
    if _GROUPED[own].fullmatch(text):
        text = text.replace("." if own == "," else ",", "")
    return text.replace(",", ".")
