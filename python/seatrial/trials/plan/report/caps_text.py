"""The limits of storage as text: the answer first, then a table and notes."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.catalogue.units import format_money
from seatrial.report.table import Table
from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.plan.analysis.caps import AT_LIMIT_SHARE, Cap, CapReport, WastedPerformance

_NOTHING = "–"


def rate_phrase(quantity: str, per_s: float) -> str:
    """Return a rate in the unit of its quantity, such as ``12,000 IOPS`` or ``312 MB/s``."""
    if quantity == "throughput":
        return format_rate_bytes(per_s, per_s * 0.005)
    exact = format_count(round(per_s)) if per_s >= 10 else format_iops(per_s)
    return f"{exact} {'IOPS' if quantity == 'IOPS' else 'commits/s'}"


def verdict_line(found: CapReport) -> str:
    """Return the binding limits, in one line."""
    if not found.caps:
        return "No limit is known for this storage."
    if found.load and found.binding[0].share is not None:
        return _with_load(found) + _not_judged(found)
    subjects = {each.subject for each in found.binding}
    is_of_both = not any(each.operation for each in found.binding)  # reads and writes
    if len(found.binding) == 2 and len(subjects) == 1 and is_of_both:
        rates = " and ".join(rate_phrase(each.quantity, each.per_s) for each in found.binding)
        return f"The {subjects.pop()} limits both: {rates}.{_not_judged(found)}"
    parts = [
        f"{each.limited} by the {each.subject}, {rate_phrase(each.quantity, each.per_s)}"
        for each in found.binding
    ]
    return f"What limits: {'; '.join(parts)}.{_not_judged(found)}"


def _not_judged(found: CapReport) -> str:
    """Return that the limits of this machine's instance are unknown; empty if they are known."""
    if not found.not_judged:
        return ""
    return f" {found.not_judged} is not in the catalogue, so its limits were not judged."


def _with_load(found: CapReport) -> str:
    cap = found.binding[0]
    limit = f"the {cap.subject}'s {cap.limited}"
    rate = rate_phrase(cap.quantity, cap.per_s)
    load = rate_phrase(cap.quantity, cap.load_per_s or 0.0)
    if cap.is_broken and _is_above_burst(cap):
        burst = rate_phrase(cap.quantity, cap.burst_per_s or 0.0)
        return (
            f"The load exceeds {limit} even in a burst: it peaks at {load}, the burst is {burst}."
        )
    if cap.is_broken and cap.dry_after_s is not None:
        return (
            f"The load exceeds {limit}: credits run out after "
            f"{format_duration_s(cap.dry_after_s)}, and then it has {rate}."
        )
    if cap.is_broken:
        return f"The load exceeds {limit}: it peaks at {load}, the limit is {rate}."
    if (cap.share or 0.0) >= AT_LIMIT_SHARE:
        return f"The load is at {limit}: it peaks at {load}, the limit is {rate}."
    if found.throttled:
        times = format_plural(found.throttled, "time")
        return (
            f"A limit of the control group stalled the load {times}. As counted here, without "
            f"flushes, it comes nearest to {limit}: it peaks at {load}, "
            f"{format_share(cap.share or 0.0)} of {rate}."
        )
    every = "every known limit" if found.not_judged else "every limit"
    if any(each.share is None for each in found.caps):
        every += " of IOPS and throughput"
    return (
        f"The load stays within {every}; it comes nearest to {limit}: it peaks at {load}, "
        f"{format_share(cap.share or 0.0)} of {rate}."
    )


def merging_sentence(unit_bytes: int) -> str:
    """Return how a volume that merges sequential requests counts the others, in two sentences."""
    return (
        f"The volume counts a random request as {format_size(unit_bytes)}, and merges only "
        "sequential ones. Requests count as random unless they are known to be sequential."
    )


def loads_of(found: CapReport) -> dict[str, str]:
    """Return the source of the load, or of the load of each limited quantity; empty without one."""
    limited: dict[str, dict[str, None]] = {}
    for each in found.caps:
        if each.load_per_s:
            limited.setdefault(each.load, {})[each.limited] = None
    if len(limited) > 1:
        return {f"Load of {' and '.join(names)}": load for load, names in limited.items()}
    return {"Load": found.load} if found.load else {}


def _is_above_burst(cap: Cap) -> bool:
    return cap.burst_per_s is not None and (cap.load_per_s or 0.0) > cap.burst_per_s


def wasted_sentence(wasted: WastedPerformance, instance: str) -> str:
    """Return the performance that is paid for and cannot be used for long, in a sentence."""
    parts = []
    if wasted.iops:
        parts.append(f"{format_count(round(wasted.iops))} IOPS")
    if wasted.bytes_per_s:
        parts.append(rate_phrase("throughput", wasted.bytes_per_s))
    return (
        f"{' and '.join(parts)} of the volume exceed what {instance} can sustain: they cost "
        f"{format_money(wasted.month)} per month and help only while the instance has credits."
    )


def caps_table(found: CapReport) -> Table:
    """Return all caps."""
    with_load = bool(found.load)
    load = ["Busiest", "Share", "Credits last"] if with_load else []
    return Table(
        id="table-caps",
        title="Limits, the tightest first",
        labels=1,
        headers=["Limit", "Sustained", "Burst", *load, "Origin"],
        rows=[_row(each, with_load=with_load) for each in found.caps],
    )


def _row(cap: Cap, *, with_load: bool) -> list[str]:
    burst = _NOTHING
    if cap.burst_per_s is not None and cap.burst_s is not None:
        lasts = format_duration_s(cap.burst_s)
        burst = f"{rate_phrase(cap.quantity, cap.burst_per_s)}, {lasts}"
    load = []
    if with_load:
        busiest = cap.load_per_s
        load = [
            _NOTHING if busiest is None else rate_phrase(cap.quantity, busiest),
            _NOTHING if cap.share is None else format_share(cap.share),
            _dry(cap),
        ]
    return [
        f"{cap.subject} {cap.name}",
        rate_phrase(cap.quantity, cap.per_s),
        burst,
        *load,
        cap.origin,
    ]


def _dry(cap: Cap) -> str:
    if cap.burst_per_s is None or cap.share is None or _is_above_burst(cap):
        return _NOTHING
    return "indefinitely" if cap.dry_after_s is None else f"{format_duration_s(cap.dry_after_s)}"


def caps_notes(found: CapReport, rules: Sequence[str]) -> list[str]:
    """Return notes to the table."""
    notes = list(rules)
    if any(each.burst_per_s is not None for each in found.caps):
        notes.append(
            "A burst lasts as long as a full bucket of credits does at its rate."
            + (" Credits last until the load has used them up." if found.load else "")
        )
    if found.load and found.repeated:
        notes.append(
            f"The load of {format_duration_s(found.load_s)} is repeated to fill a day, from full "
            "buckets."
        )
    old = [each for each in found.caps if ", old" in each.origin or "contradicted" in each.origin]
    if old:
        notes.append(
            "Facts that are old or contradicted may have changed: measure them, or see "
            "`seatrial catalogue show WORD`."
        )
    return notes
