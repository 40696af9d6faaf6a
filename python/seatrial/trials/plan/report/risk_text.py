"""The risk of an array as text: the answer with its main cause, figures, origins."""

from __future__ import annotations

from seatrial.report.table import Table
from seatrial.stats.wording import format_duration_s, format_share
from seatrial.trials.plan.analysis.array import Array
from seatrial.trials.plan.analysis.figure import Figure
from seatrial.trials.plan.analysis.risk import MeanInterval, Risk, RiskAssumptions
from seatrial.trials.plan.analysis.wear import Wear
from seatrial.units import DAY_S

_PERCENT_MIN = 1e-4
SHARE_MIN = 1e-15
"""A computed smaller probability, as of drives that never fail, is 0 but for the arithmetic."""
_STEPS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def chance_phrase(share: float, high: float = 0.0) -> str:
    """Return a probability as people read it: ``1.2 %``, or ``1 in 4,100`` where it is small.

    Args:
        share: The probability.
        high: The upper end of its interval; both ends and the mean are in the notation of this one.
    """
    if share < SHARE_MIN:
        return "none"
    if share >= 0.01 or (high >= 0.01 and share >= _PERCENT_MIN):
        return f"{share * 100:.2g} %" if share < 0.995 else "nearly certain"
    one_in = 1 / share
    digits = 10 ** max(0, len(str(int(one_in))) - 2)
    return f"1 in {round(one_in / digits) * digits:,}"


def bytes_phrase(amount_bytes: float) -> str:
    """Return decimal bytes to two digits, as drives are sold."""
    for unit, scale in _STEPS:
        if amount_bytes >= scale:
            return (
                f"{amount_bytes / scale:.2g} {unit}"
                if amount_bytes < 100 * scale
                else (f"{amount_bytes / scale:,.0f} {unit}")
            )
    return f"{amount_bytes:.2g} bytes"


def figure_phrase(figure: Figure, unit: str = "") -> str:
    """Return a figure with its unit, its interval and its origin."""
    mid = f"{figure.mid:.3g} {unit}".rstrip()
    if figure.low == figure.high:
        return f"{mid} ({figure.origin})"
    return f"{mid} ({figure.low:.3g} to {figure.high:.3g}; {figure.origin})"


def years_phrase(years: float) -> str:
    """Return a time in years."""
    return "1 year" if years == 1 else f"{years:.3g} years"


def verdict_line(risk: Risk) -> str:
    """Return the probability of losing the array, with the cause that matters most."""
    lost, years = risk.lost, years_phrase(risk.assumed.years)
    mean, low, high = _chance_cells(lost)
    head = f"{risk.array.name}: lost within {years} with a probability of {mean} ({low} to {high})"
    return f"{head}; {cause_phrase(risk)}."


def cause_phrase(risk: Risk) -> str:
    """Return the main cause, such as ``80 % of that by a common cause``."""
    parts = {
        "by more failed drives than it tolerates": risk.by_drives.mean,
        "by a common cause, such as firmware, power or a mistake": risk.by_common.mean,
        "by unreadable sectors during a rebuild": risk.by_unreadable.mean,
    }
    name, largest = max(parts.items(), key=lambda item: item[1])
    total = sum(parts.values())
    if total <= 0:
        return "nothing that is known loses it"
    share = largest / total
    return f"{format_share(share)} of that {name}" if share < 0.995 else f"all of that {name}"


def risk_table(risk: Risk) -> Table:
    """Return probabilities of loss and the time in degraded state."""
    rows = [
        ("Array lost", _chance_cells(risk.lost)),
        ("by failed drives", _chance_cells(risk.by_drives)),
        ("by a common cause", _chance_cells(risk.by_common)),
        ("by unreadable sectors", _chance_cells(risk.by_unreadable)),
        ("Sectors unreadable, array kept", _chance_cells(risk.unreadable)),
        ("Bytes lost, expected", _mean_and_ends(risk.lost_bytes, bytes_phrase)),
        ("Drives that fail", _mean_and_ends(risk.failed_drives, lambda value: f"{value:.2g}")),
        (
            "Time without full redundancy",
            _mean_and_ends(risk.degraded_days, lambda value: format_duration_s(value * DAY_S)),
        ),
    ]
    return Table(
        id="table-risk",
        title=f"{risk.array.name}, {years_phrase(risk.assumed.years)}",
        labels=1,
        headers=["What", "Mean", "5 %", "95 %"],
        rows=[[name, *words] for name, words in rows],
    )


def _chance_cells(found: MeanInterval) -> list[str]:
    return [chance_phrase(share, found.high) for share in (found.mean, found.low, found.high)]


def _mean_and_ends(found: MeanInterval, words: object) -> list[str]:
    assert callable(words)  # noqa: S101 - for the type
    return [str(words(value)) for value in (found.mean, found.low, found.high)]


def assumed_lines(assumed: RiskAssumptions, array: Array) -> list[str]:
    """Return the assumptions, each with its origin."""
    unreadable = {
        "hardware": "loses the array",
        "md": "costs the block, and the array continues",
        "btrfs": "costs the block, and the array continues",
        "zfs": "costs the record, and the array continues",
    }[assumed.on_unreadable]
    return [
        f"Failures: {assumed.failures.origin}",
        f"Rebuild: {figure_phrase(assumed.rebuild_h, 'hours')}",
        f"A failed drive is replaced after {figure_phrase(assumed.replace_h, 'hours')}"
        + (
            f"; a spare takes over after {figure_phrase(assumed.detect_h, 'hours')}"
            if array.spares
            else ""
        ),
        f"Unreadable bits per bit read: {figure_phrase(assumed.unreadable_per_bit)}; one "
        f"{unreadable} ({assumed.on_unreadable})",
        f"Share of failures with a common cause: {figure_phrase(assumed.common_share)}",
    ]


def wear_line(wear: Wear) -> str:
    """Return how long a drive lasts, in a sentence."""
    years = wear.years
    share = _ends(format_share(wear.per_drive_low), format_share(wear.per_drive_high))
    times = _ends(f"{wear.over_rated.low:.2g}", f"{wear.over_rated.high:.2g}")
    return (
        f"At {bytes_phrase(wear.written_per_day.mid)} written per day "
        f"({wear.written_per_day.origin}), each drive lasts {years.mid:.2g} years "
        f"({years.low:.2g} to {years.high:.2g}): {share} of that is written to each drive, with "
        f"{times} times the write amplification of its rating ({wear.over_rated.origin}); it is "
        f"rated for {bytes_phrase(wear.endurance.mid)} ({wear.endurance.origin})"
        + (f", {format_share(wear.used_share)} used already" if wear.used_share else "")
        + "."
    )


def _ends(low: str, high: str) -> str:
    """Return both ends of an interval, or one of them if they are equal."""
    return low if low == high else f"{low} to {high}"
