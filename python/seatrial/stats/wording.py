"""Formats figures for the terminal, the report and the findings.

A number has no more digits than its interval allows: its last digit is at the position of the first
digit of the interval's half width, three digits at most; a number that was measured once has two,
as the variation between rounds is unknown. Rates of bytes are decimal (1 MB/s = 1,000,000 bytes per
second, as in specifications of drives and links); sizes of blocks and files are binary (1 KiB =
1,024 bytes, as they are specified).
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from seatrial.stats.estimate import AtLeast, Estimate
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.thresholds import Threshold
from seatrial.study.units import format_seconds, format_size
from seatrial.study.wrapping import NO_BREAK_SPACE, unbroken
from seatrial.units import MB

__all__ = [
    "NO_BREAK_SPACE",
    "format_cell",
    "format_count",
    "format_duration_ns",
    "format_duration_s",
    "format_estimate",
    "format_first",
    "format_half_width",
    "format_identity",
    "format_interval",
    "format_iops",
    "format_list",
    "format_plural",
    "format_rate_bytes",
    "format_share",
    "format_size",
    "format_value",
    "half_width_of",
    "is_on_database",
    "is_vague",
    "moment",
    "unbroken",
]


DIGITS_MAX = 3
DIGITS_WITHOUT_INTERVAL = 2
PLUS_MINUS_SHARE_MAX = 0.25  # wider intervals are asymmetric; their two ends are shown instead
ABSURD_FACTOR = 10
UNKNOWN = "unknown"
DATABASE_OPERATIONS = ("transaction", "batch", "statement")
"""Operations of a database's cell."""
STATEMENT = "statement"
"""Operation of a replay's cell."""
FILES = "files"
"""Operation of a cell whose requests are calls on files, in place of reads and writes."""
POWER_CUT = "power_cut"
"""A factor of our own; others of a database's cell are settings, or are words already."""

_BYTE_RATE_UNITS = (("B/s", 1.0), ("kB/s", 1e3), ("MB/s", MB))
_DURATION_UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))


def digits_allowed(value: float, half_width: float | None) -> int:
    """Return how many significant digits a value may show, 1 to 3.

    Args:
        value: The figure.
        half_width: Half of its interval's width in the same unit; None if absent.
    """
    if half_width is None:
        return DIGITS_WITHOUT_INTERVAL
    if value == 0 or half_width <= 0 or not math.isfinite(half_width):
        return DIGITS_MAX if half_width == 0 else 1
    return max(1, min(DIGITS_MAX, _exponent(value) - _exponent(half_width) + 1))


def _exponent(value: float) -> int:
    """Return the power of ten of a value's first digit."""
    return math.floor(math.log10(abs(value)))


def _number(value: float, digits: int) -> str:
    """Format a value with significant digits and thousands separators, without an exponent."""
    if value == 0:
        return "0"
    decimals = digits - 1 - _exponent(value)
    if _exponent(float(f"{value:.{digits - 1}e}")) > _exponent(value):
        decimals -= 1  # 9.96 at two digits is 10, not 10.0
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def _scaled(value: float, digits: int, units: tuple[tuple[str, float], ...]) -> tuple[str, str]:
    """Return number and unit, in the first unit in which the rounded number is below 1,000."""
    rounded = float(f"{value:.{digits - 1}e}")
    for unit, scale in units[:-1]:
        if abs(rounded) < 1000 * scale * (1 - 1e-12):
            return _number(value / scale, digits), unit
    unit, scale = units[-1]
    return _number(value / scale, digits), unit


def format_count(count: int) -> str:
    """Format an exact count with thousands separators, such as ``12,345``."""
    return f"{count:,}"


def format_iops(per_s: float, half_width: float | None = None) -> str:
    """Return requests per second without a unit, such as ``1,240``, ``74k`` or ``1.2M``."""
    if not math.isfinite(per_s):
        return UNKNOWN
    digits = digits_allowed(per_s, half_width)
    if abs(float(f"{per_s:.{digits - 1}e}")) < 10_000:
        return _number(per_s, digits)
    number, prefix = _scaled(per_s, digits, (("k", 1e3), ("M", 1e6)))
    return number + prefix


def format_rate_bytes(bytes_per_s: float, half_width: float | None = None) -> str:
    """Return bytes per second in decimal units: such as ``410 MB/s``, ``12 kB/s``, ``9 B/s``."""
    if not math.isfinite(bytes_per_s):
        return UNKNOWN
    digits = digits_allowed(bytes_per_s, half_width)
    if bytes_per_s == 0:
        return "0 MB/s"
    return " ".join(_scaled(bytes_per_s, digits, _BYTE_RATE_UNITS))


def format_duration_ns(value_ns: float, half_width: float | None = None) -> str:
    """Return a duration given in ns, such as ``850 ns``, ``18 µs``, ``2.1 ms`` or ``3.1 s``."""
    if not math.isfinite(value_ns):
        return UNKNOWN
    return " ".join(_scaled(value_ns, digits_allowed(value_ns, half_width), _DURATION_UNITS))


def format_duration_s(value_s: float) -> str:
    """Return a duration given in s, such as ``50 ms``, ``4.2 s``, ``2 min 5 s``, ``1 h 3 min``."""
    if not math.isfinite(value_s):
        return UNKNOWN
    return format_duration_ns(value_s * 1e9) if round(value_s) < 60 else format_seconds(value_s)


def format_share(share: float) -> str:
    """Return a share of 1 in percent: ``0.4 %`` below one percent, else whole percents."""
    percent = share * 100
    if not math.isfinite(percent):
        return UNKNOWN
    if 0 < abs(percent) < 0.1:
        return "< 0.1 %"
    return f"{percent:.1f} %" if abs(percent) < 0.95 and percent else f"{percent:.0f} %"


def format_interval(estimate: Estimate) -> str:
    """Return the interval of an estimate: ``± 3 %``, ``11k to 25k`` or ``measured once``.

    The interval of a single round is marked: ``± 3 % within one round``. A figure of another tool
    is ``as reported``, with the smallest and the largest of several rounds.

    The share is rounded up, so that the interval is never shown narrower than computed. An interval
    wider than ten times the value is only reported as such, without its ends. Rounds that differ by
    more than a factor of two have no interval: ``median of 4 rounds: 660 to 11k``.
    """
    estimate = estimate.shown
    if estimate.over == "range":
        ends = _ends(estimate.unit, estimate.low, estimate.high)
        return f"median of {format_plural(estimate.rounds, 'round')}: {ends}"
    if estimate.over == "reported":
        ends = _ends(estimate.unit, estimate.low, estimate.high)
        return f"{ends} by round, as reported" if ends else "as reported"
    if estimate.is_lower_bound:
        return "no upper end"
    if estimate.low is None or estimate.high is None:
        if estimate.rounds <= 1:
            return "measured once"
        # A ratio has none where a round measured 0; of other figures only a maximum has none.
        is_ratio = estimate.unit == "ratio"
        return "no interval" if is_ratio else f"largest of {estimate.rounds} rounds"
    text = _interval(estimate, estimate.low, estimate.high)
    return f"{text} within one round" if estimate.over == "timeline" else text


def _interval(estimate: Estimate, low: float, high: float) -> str:
    """Return the ends of an interval, or its half width if narrow."""
    share = estimate.half_width_share
    if share is not None and math.isfinite(share) and share <= PLUS_MINUS_SHARE_MAX:
        return f"± {format_half_width(share)}"
    if high > ABSURD_FACTOR * estimate.value > 0:
        return f"95 % CI wider than {ABSURD_FACTOR}x"
    return _ends(estimate.unit, low, high)


def _ends(unit: str, low: float | None, high: float | None) -> str:
    """Return the ends of a range; empty without one."""
    if low is None or high is None:
        return ""
    low_phrase, _ = _figure(low, unit, None)
    high_phrase, _ = _figure(high, unit, None)
    if unit == "B/s":
        low_phrase = low_phrase.removesuffix(f" {high_phrase.rpartition(' ')[2]}")
    return f"{low_phrase} to {high_phrase}"


def format_half_width(share: float) -> str:
    """Return half of an interval's width as a share of its value, in percent, never rounded down.

    One digit is shown, or two from 10 % up.
    """
    percent = share * 100 - 1e-9
    if percent <= 0.1:
        return "0.1 %"
    if percent <= 0.9:
        return f"{math.ceil(percent * 10) / 10:.1f} %"
    return f"{math.ceil(percent)} %"


def _figure(value: float, unit: str, half_width: float | None) -> tuple[str, str]:
    """Return a formatted value and the unit that is to follow it."""
    if unit == "B/s":
        return format_rate_bytes(value, half_width), ""
    if unit == "ns":
        return format_duration_ns(value, half_width), ""
    if unit == "ratio":
        # At least two digits, as in a sentence: 1.1x with a wide interval is not 1x.
        is_wide = digits_allowed(value, half_width) < DIGITS_WITHOUT_INTERVAL
        return f"{format_iops(value, None if is_wide else half_width)}x", ""
    return format_iops(value, half_width), unit


def format_value(estimate: Estimate, limits: Sequence[Threshold] = ()) -> str:
    """Return an estimate's value and unit without its interval, such as ``74k IOPS``.

    A value that rounding would put on the wrong side of one of the limits has more digits and the
    unit of that limit: 10.09 s is not ``10 s`` next to ``<= 10000`` ms, but ``10,100 ms``. Next to
    a limit in MiB/s or GiB/s, it has that unit.
    """
    if estimate.is_lower_bound:
        return format_at_least(estimate)
    half_width = half_width_of(estimate)
    if half_width is not None and estimate.over == "timeline":
        half_width = max(half_width, _two_digits(estimate.value))
    for limit in limits:
        if number := _in_unit_of(limit, estimate.value, half_width):
            return f"{number} {limit.unit}"
    return " ".join(filter(None, _figure(estimate.value, estimate.unit, half_width)))


def _in_unit_of(limit: Threshold, value: float, half_width: float | None) -> str:
    """Return a value in the unit of a limit that rounding would put it across; else empty.

    Next to a limit in MiB/s always: 60.7 MB/s seem to be more than ``>= 58``, and are not.
    """
    digits = usual = digits_allowed(value, half_width)
    is_binary = "iB" in limit.unit and limit.value > 0
    scale = limit.value / limit.base_value if is_binary else 1.0
    while limit.holds(float(f"{value * scale:.{digits - 1}e}") / scale) != limit.holds(value):
        digits += 1
    if digits == usual and not is_binary:
        return ""
    return _number(value * limit.value / limit.base_value, digits)


def half_width_of(estimate: Estimate) -> float | None:
    """Return half of the width of the interval that is shown; None if absent."""
    estimate = estimate.shown
    if estimate.low is None or estimate.high is None or estimate.over in ("reported", "range"):
        return None
    return (estimate.high - estimate.low) / 2


def format_at_least(bound: AtLeast | Estimate) -> str:
    """Return a lower bound, ``at least 1.2 s``; rounded down, to three digits if proven."""
    digits = DIGITS_MAX if isinstance(bound, Estimate) else DIGITS_WITHOUT_INTERVAL
    step = 10.0 ** (_exponent(bound.value) - digits + 1) if bound.value else 1.0
    floor = math.floor(bound.value / step + 1e-9) * step  # 17.9 / 0.1 is less than 179
    half_width = step if digits == DIGITS_MAX else None
    return f"at least {' '.join(filter(None, _figure(floor, bound.unit, half_width)))}"


def format_reported(estimate: Estimate) -> str:
    """Return a figure of another tool: ``36 ms``, of several rounds ``36 ms to 41 ms``."""
    return _ends(estimate.unit, estimate.low, estimate.high) or format_value(estimate)


def _two_digits(value: float) -> float:
    """Return the half width at which a value shows two digits."""
    return float(10.0 ** (_exponent(value) - 1)) if value else 0.0


def format_estimate(estimate: Estimate, limits: Sequence[Threshold] = ()) -> str:
    """Return a figure with its interval, such as ``74k IOPS (± 3 %)``.

    Args:
        estimate: The figure.
        limits: Limits that are shown with it (``format_value``).
    """
    about = "about " if is_vague(estimate.shown) else ""
    return f"{about}{format_value(estimate, limits)} ({format_interval(estimate)})"


def is_vague(estimate: Estimate) -> bool:
    """Return whether the interval extends beyond ten times the value."""
    if estimate.high is None or estimate.over in ("reported", "range"):
        return False
    return estimate.high > ABSURD_FACTOR * estimate.value > 0


def format_list(names: Sequence[str]) -> str:
    """Return one or more names as a list, such as ``raid0, raid5 and raid6``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def format_plural(count: int, singular: str, plural: str = "") -> str:
    """Return a count and its noun, such as ``1 stall`` or ``14 stalls``."""
    return f"{format_count(count)} {singular if count == 1 else plural or singular + 's'}"


def format_first(texts: Sequence[str], most: int, *, between: str = ", ") -> str:
    """Return the first of some texts, and how many more there are: ``a, b, c and 4 more``."""
    more = len(texts) - most
    return between.join(texts[:most]) + (f" and {format_count(more)} more" if more > 0 else "")


_SMALL_NAMES: Final = re.compile(r"tps|fsync|fdatasync|pgbench|p\d|\w+_\w")
"""What keeps its small letter at the beginning of a sentence."""


def capitalized(text: str) -> str:
    """Return a text with its first letter in upper case, unless it begins with a name or unit."""
    return text if _SMALL_NAMES.match(text) else text[:1].upper() + text[1:]


def operation_phrase(operation: str) -> str:
    """Return the plural of an operation, such as ``copies``, ``mixed requests``."""
    return {"mixed": "mixed requests", "copy": "copies"}.get(operation, f"{operation}s")


def format_cell(cell: Cell) -> str:
    """Return a cell's name for readers: ``matrix: random read 8 KiB, 10 threads``.

    If the study has several targets, it includes the target: ``matrix on ssd: random read ...``.
    """
    identity = cell.identity()
    if cell.key == cell.key_without_target:
        del identity["target"]
    return format_identity(identity)


def format_identity(identity: Mapping[str, FactorValue]) -> str:
    """Return the factors of a cell (``Cell.identity``) in words, as in ``format_cell``.

    Missing factors, such as the target, are omitted.
    """
    size_bytes = int(identity.get("block_size_bytes", 0))
    on_database = is_on_database(identity)
    is_replay = identity.get("operation") == STATEMENT
    named = () if on_database else ("pattern", "operation")
    words = [str(identity[name]) for name in named if name in identity]
    words += [format_size(size_bytes)] if size_bytes else []
    parts = [" ".join(words)] if words else []
    if int(identity.get("threads", 0)):  # 0 of what others did
        noun = "client" if on_database else "thread"
        noun = "connection" if is_replay else noun
        parts.append(format_plural(int(identity["threads"]), noun))
    if int(identity.get("depth", 1)) > 1:
        parts.append(f"depth {identity['depth']}")
    parts += [
        _format_factor(identity, name, value)
        for name, value in identity.items()
        if name not in _DISTINGUISHED and not (is_replay and USUAL_OF_REPLAY.get(name) == value)
    ]
    heading = " on ".join(
        str(identity[name]) for name in ("workload", "target") if name in identity
    )
    return ": ".join(filter(None, [heading, ", ".join(parts)]))


def is_on_database(identity: Mapping[str, FactorValue]) -> bool:
    """Return whether factors are of a database's cell, whose workers are clients."""
    return identity.get("operation") in DATABASE_OPERATIONS


def _format_factor(identity: Mapping[str, FactorValue], name: str, value: FactorValue) -> str:
    """Return one factor, such as ``method fdatasync``, ``zone 3 of 16`` or ``stride 64 KiB``."""
    if name == "zone" and "zones" in identity:
        return f"zone {value} of {identity['zones']}"
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{name.removesuffix('_bytes').replace('_', ' ')} {format_size(value)}"
    if name.endswith("_kib_per_s"):
        return f"{name.removesuffix('_kib_per_s').replace('_', ' ')} {value} KiB/s"
    if isinstance(value, bool):
        return _FLAGS.get((name, value), f"{name} {str(value).lower()}")
    if isinstance(value, str) and is_on_database(identity) and name != POWER_CUT:
        return f"{name} {value}"  # a setting of the server keeps its own name
    number = f"{value:,g}" if isinstance(value, float) else str(value)
    return f"{name.replace('_', ' ')} {number}"


_DISTINGUISHED = frozenset(
    {"target", "workload", "pattern", "operation", "block_size_bytes", "threads", "depth", "zones"}
)
_FLAGS = {
    ("direct", False): "buffered",
    ("direct", True): "direct",
    ("read_only", True): "read only",
}
USUAL_OF_REPLAY = {"pace": "arrivals", "order": "session", "read_only": False}
"""Factors of a replay that are shown only if they differ from this value."""


def moment(unix_s: float) -> str:
    """Return a wall clock time in UTC, such as ``2026-11-21 07:45 UTC``."""
    return datetime.datetime.fromtimestamp(unix_s, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
