"""Finding ``mixed_members``: drives of one array differ in model or size, or one is slower."""

from __future__ import annotations

import posixpath
from typing import Any, Final

from seatrial.findings.context import Context, entries
from seatrial.findings.rule import from_samples
from seatrial.stats.compare.fingerprints import target_facts
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_cell, format_estimate, format_plural, format_size
from seatrial.trials.layouts.analysis.accounting import LEG
from seatrial.trials.layouts.analysis.model import Accounting, MemberWork, layouts_of

BUSY_RATIO_MIN: Final = 1.25
BYTES_RATIO_MIN: Final = 0.5
"""A drive that moves less than half of its share has its busy time from something else."""


@from_samples(rank=380, section="Of layouts")
def mixed_members(context: Context) -> list[Finding]:
    """Find slow drives by what they needed for their part, and unequal ones by the fingerprint.

    Means:
        The drives of one array are unequal: one of them is slower, or they differ in model or size.

    Decided:
        Slow: over at least two rounds a drive was surely busy for a quarter longer than the mean of
        its peers, and more so than by its share of the bytes. Warning. Unequal: what the
        fingerprint knows of model and size. Note.

    Do:
        Swap slots: what moves with the drive is the drive's.
    """
    return [*_slow(context), *_unequal(context)]


def _slow(context: Context) -> list[Finding]:
    """Find drives that surely were busy for longer than their peers with the same work."""
    found: dict[str, list[tuple[Accounting, MemberWork]]] = {}
    for each in analysis.accounting if (analysis := layouts_of(context)) else []:
        for member in each.members:
            if member.role.startswith(LEG) and _is_slow(member):
                found.setdefault(member.drive, []).append((each, member))
    return [_slow_finding(drive, seen) for drive, seen in found.items()]


def _is_slow(member: MemberWork) -> bool:
    busy, moved = member.busy_ratio, member.bytes_ratio
    if busy is None or moved is None or busy.low is None or moved.value < BYTES_RATIO_MIN:
        return False
    return busy.low / max(1.0, moved.value) > BUSY_RATIO_MIN


def _slow_finding(drive: str, seen: list[tuple[Accounting, MemberWork]]) -> Finding:
    each, member = max(seen, key=lambda pair: pair[1].busy_ratio.value if pair[1].busy_ratio else 0)
    ratio = member.busy_ratio
    return Finding(
        kind="mixed_members",
        severity="warning",
        cells=[other.cell.identity() for other, _ in seen],
        sentence=(
            f"{drive} ({member.role} of {each.variant.label}) was busy for "
            f"{format_estimate(ratio) if ratio else 'more'} of the mean of its peers for the same "
            f"work, in {format_cell(each.cell)}: it is the slow one that the rest waits for."
        ),
        cause=(
            "A drive of another model or firmware, one that is worn, hot or about to fail, or a "
            "slower slot."
        ),
        evidence={
            "drive": drive,
            "cells_count": len(seen),
            "busy_ratio": ratio.value if ratio else None,
            "busy_ratio_low": ratio.low if ratio else None,
            "bytes_ratio": member.bytes_ratio.value if member.bytes_ratio else None,
        },
        next=(
            "Look at it with 'smartctl -x', swap it with a peer's slot and measure again: what "
            "moves with it is the drive's."
        ),
    )


def _unequal(context: Context) -> list[Finding]:
    """Find arrays whose drives the fingerprint knows to differ."""
    found = []
    reported: set[str] = set()
    for summary in context.cells:
        roles = next((s.layout.roles for s in summary.samples if s.layout), {})
        legs = {posixpath.basename(drive) for drive, role in roles.items() if role.startswith(LEG)}
        stack = entries(target_facts(context.before, summary.cell.target), "stack")
        kinds = {_kind(node) for node in stack if node.get("name") in legs}
        known = {kind for kind in kinds if kind}
        label = summary.cell.target
        if len(known) > 1 and label not in reported:
            reported.add(label)
            found.append(_unequal_finding(label, sorted(known)))
    return found


def _kind(node: dict[str, Any]) -> str:
    """Return model and size of a drive; empty where its model is not known."""
    if not node.get("model"):
        return ""
    size_bytes = node.get("size_bytes")
    return (
        f"{node['model']} of {format_size(int(size_bytes))}" if size_bytes else str(node["model"])
    )


def _unequal_finding(label: str, kinds: list[str]) -> Finding:
    return Finding(
        kind="mixed_members",
        severity="note",
        cells=[],
        sentence=f"The drives of {label} are of {format_plural(len(kinds), 'kind')}: "
        f"{', '.join(kinds)}.",
        cause="An array is as large as its smallest drive allows, and as fast as its slowest.",
        evidence={"layout": label, "drives": kinds},
        next="Compare layouts on equal drives, or read these figures as those of the slowest.",
    )
