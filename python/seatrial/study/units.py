"""Sizes and durations as a study writes them and as a plan prints them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from seatrial import _core

_STEPS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SCALES: Final = {
    spelling: 1024**power
    for power, spellings in enumerate(
        (("", "b"), ("k", "kib"), ("m", "mib"), ("g", "gib"), ("t", "tib"), ("p", "pib"))
    )
    for spelling in spellings
}
_DECIMAL: Final = {"kb": "KiB", "mb": "MiB", "gb": "GiB", "tb": "TiB", "pb": "PiB"}
_SIZE: Final = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) *([A-Za-z]*)")

SIZE_EXPECTED: Final = "a size such as 512, 4KiB, 1.5MiB or 1GiB (k, M, G and T mean KiB to TiB)"


def parse_size_bytes(written: object) -> int:
    """Return a size in bytes.

    All units are binary: ``4k``, ``4K`` and ``4KiB`` are 4,096 bytes. ``4kB`` is refused, as it is
    ambiguous: some tools read it as 4,000 bytes, others as 4,096.

    Args:
        written: Bytes as an integer, or text with a unit.

    Raises:
        ValueError: with a sentence, when it is not a size, not whole bytes, zero, or too large.
    """
    parts = None if isinstance(written, bool) else _SIZE.fullmatch(str(written).strip())
    if parts is None:
        raise ValueError(f"{written!r} is not a size")
    number, unit = parts[1], parts[2].lower()
    if unit in _DECIMAL:
        clear = f"{number}{_DECIMAL[unit]}"
        raise ValueError(f"{written!r} is ambiguous (powers of 1000 or of 1024); write {clear!r}")
    if unit not in _SCALES:
        raise ValueError(f"{written!r} is not a size: {parts[2]!r} is not a unit")
    size_bytes = Fraction(number) * _SCALES[unit]
    if size_bytes.denominator != 1:
        raise ValueError(f"{written!r} is not a whole number of bytes")
    if not 0 < size_bytes <= _core.OFFSET_BYTES_MAX:
        raise ValueError(f"{written!r} is not between 1 byte and 8 EiB")
    return int(size_bytes)


def format_size(size_bytes: int) -> str:
    """Return a size in binary units to three digits, such as ``512 B`` or ``1.5 GiB``."""
    power = 0
    while power < len(_STEPS) - 1 and size_bytes >= 1024 ** (power + 1):
        power += 1
    amount = size_bytes / 1024**power
    digits = 0 if amount >= 100 else 1 if amount >= 10 else 2
    text = f"{amount:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {_STEPS[power]}"


def format_seconds(duration_s: float) -> str:
    """Return a planned duration, such as ``0.35 s``, ``42 s``, ``1 min 24 s`` or ``2 h 5 min``."""
    if duration_s < 10:
        return f"{duration_s:.2f}".rstrip("0").rstrip(".") + " s"
    whole_s = round(duration_s)
    if whole_s < 60:
        return f"{whole_s} s"
    minutes, seconds = divmod(whole_s, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(round(whole_s / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def format_factor(value: str | float | bool) -> str:
    """Return a factor's value as spelled in a study: ``true``, ``0.99``, ``fdatasync``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
