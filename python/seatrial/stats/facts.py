"""Formats names and values of machines, evidence and studies by their unit's suffix."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seatrial.stats.wording import (
    UNKNOWN,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_rate_bytes,
    format_share,
    format_size,
    moment,
)

_EXACT = 0.0  # a reading, not an estimate: all three digits may be shown
_SHORT_MAX = 48
_QUALIFIERS = ("max", "min", "total", "now", "before", "after", "requested", "low", "high",
               "median")  # fmt: skip


def format_number(value: float) -> str:
    """Format a reading: as an integer from 1,000 up or if integral, else with three digits."""
    whole = abs(value) >= 1000 or value == round(value)
    return format_count(round(value)) if whole else f"{value:.3g}"


# Longer suffixes first, as `_bytes_per_s` ends in `_s` too.
_FORMATS: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("unix_s", lambda value: moment(value) if value else UNKNOWN),
    ("_bytes_per_s", lambda value: format_rate_bytes(value, _EXACT)),
    ("_mib_per_s", lambda value: f"{format_number(value)} MiB/s"),
    ("_gt_s", lambda value: f"{format_number(value)} GT/s"),
    ("_gb_s", lambda value: f"{format_number(value)} Gbit/s"),
    ("_per_s", lambda value: f"{format_number(value)} per second"),
    ("_count", format_number),
    ("_bytes", lambda value: format_size(round(value))),
    ("_kib", lambda value: format_size(round(value * 1024))),
    ("_share", format_share),
    ("_ns", lambda value: format_duration_ns(value, _EXACT)),
    ("_us", lambda value: format_duration_ns(value * 1e3, _EXACT)),
    ("_ms", lambda value: format_duration_ns(value * 1e6, _EXACT)),
    ("_s", format_duration_s),
    ("_c", lambda value: f"{format_number(value)} °C"),
    ("_percent", lambda value: f"{format_number(value)} %"),
)


def _split(name: str) -> tuple[str, str, str]:
    """Return a name's words, its unit's suffix and its qualifier: ``length``, ``_s``, ``max``."""
    stem, _, last = name.rpartition("_")
    stem, qualifier = (stem, last) if stem and last in _QUALIFIERS else (name, "")
    suffix = next((known for known, _ in _FORMATS if stem.endswith(known)), "")
    return stem.removesuffix(suffix), suffix, qualifier


def fact_name(name: str) -> str:
    """Return a name as words without its unit: ``length_s_max`` gives ``length max``."""
    words, _, qualifier = _split(name)
    plain = words.replace("_", " ").strip() or "time"
    return f"{plain} {qualifier}" if qualifier else plain


def fact_text(name: str, value: object) -> str:
    """Return a value with the unit that its name ends in; lists as ``a, b``."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        _, suffix, _ = _split(name)
        wording = dict(_FORMATS).get(suffix, format_number)
        return wording(value)
    if isinstance(value, list | tuple):
        return ", ".join(fact_text(name, item) for item in value) or "none"
    return str(value) or "none"


def is_short(value: object) -> bool:
    """Return whether a value fits on a line with others: no mapping, list or long text."""
    if isinstance(value, list | tuple):
        return all(is_short(item) and not isinstance(item, list | tuple) for item in value)
    return not isinstance(value, Mapping) and len(str(value)) <= _SHORT_MAX
