"""Finding ``mixed_members``: members of one array differ in model, size or speed."""

from __future__ import annotations

import posixpath
from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.fingerprint import Device
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_estimate, format_plural, format_size
from seatrial.trials.layouts.analysis.accounting import LEG
from seatrial.trials.layouts.analysis.model import Accounting, MemberIo, layouts_of

BUSY_RATIO_MIN: Final = 1.25
BYTES_RATIO_MIN: Final = 0.5
"""A drive that transfers less than half of its share is busy with something else."""
BUSY_SHARE_MIN: Final = 0.1
"""Less may be a few clock ticks, the kernel's unit of busy time."""


@from_samples(rank=380, section="Layouts")
def mixed_members(context: Context) -> list[Finding]:
    """Find slow drives by their busy time, and unequal drives by the fingerprint.

    Means:
        The drives of one array are unequal: one of them is slower, or they differ in model or size.

    Decided:
        Slow: over at least two rounds the busy time of a drive was significantly more than 25 %
        above the mean of the other members, and more than its share of the bytes explains. Drives
        that were busy for less than 10 % of the time are not judged. Warning.
        Unequal: by model and size in the fingerprint. Note.

    Do:
        Swap slots: if the same drive stays slow, the cause is the drive.
    """
    return [*_slow(context), *_unequal(context)]


def _slow(context: Context) -> list[Finding]:
    """Find drives that were significantly busier than their share of the bytes explains."""
    found: dict[str, list[tuple[Accounting, MemberIo]]] = {}
    for each in analysis.accounting if (analysis := layouts_of(context)) else []:
        for member in each.members:
            if member.role.startswith(LEG) and _is_slow(member):
                found.setdefault(member.drive, []).append((each, member))
    return [_slow_finding(drive, seen) for drive, seen in found.items()]


def _is_slow(member: MemberIo) -> bool:
    busy, moved, share = member.busy_ratio, member.bytes_ratio, member.busy_share
    if busy is None or moved is None or share is None or busy.low is None:
        return False
    if moved.value < BYTES_RATIO_MIN or share.value < BUSY_SHARE_MIN:
        return False
    return busy.low / max(1.0, moved.value) > BUSY_RATIO_MIN


class SlowMemberFigures(Figures, frozen=True, kw_only=True, tag="mixed_members"):
    """Figures of ``mixed_members``: slow member."""

    drive: str
    cells_count: int
    busy_ratio: float | None
    busy_ratio_low: float | None
    bytes_ratio: float | None
    each: Annotated[Accounting, HIDDEN]
    member: Annotated[MemberIo, HIDDEN]

    def text(self) -> FindingText:
        busy, moved = self.member.busy_ratio, self.member.bytes_ratio
        return FindingText(
            sentence=(
                f"{self.drive} ({self.member.role} of {self.each.variant.label}) is slower than "
                f"the other members: its busy time was {format_estimate(busy) if busy else 'more'} "
                f"of their mean, for {format_estimate(moved) if moved else 'its share'} of their "
                f"bytes, in {format_cell(self.each.cell)}."
            ),
            cause=(
                "The drive is of another model or firmware, worn, hot or failing, or its slot is "
                "slower."
            ),
            next=(
                "Check it with 'smartctl -x', swap its slot with another member and measure again: "
                "if the same drive stays slow, the cause is the drive."
            ),
        )


def _slow_finding(drive: str, seen: list[tuple[Accounting, MemberIo]]) -> Finding:
    each, member = max(seen, key=lambda pair: pair[1].busy_ratio.value if pair[1].busy_ratio else 0)
    ratio = member.busy_ratio
    return Finding(
        severity="warning",
        cells=[other.cell.identity() for other, _ in seen],
        figures=SlowMemberFigures(
            drive=drive,
            cells_count=len(seen),
            busy_ratio=ratio.value if ratio else None,
            busy_ratio_low=ratio.low if ratio else None,
            bytes_ratio=member.bytes_ratio.value if member.bytes_ratio else None,
            each=each,
            member=member,
        ),
    )


def _unequal(context: Context) -> list[Finding]:
    """Find arrays whose drives differ by the fingerprint."""
    found = []
    reported: set[str] = set()
    for summary in context.cells:
        roles = next((s.layout.roles for s in summary.samples if s.layout), {})
        legs = {posixpath.basename(drive) for drive, role in roles.items() if role.startswith(LEG)}
        target = context.before.target_of(summary.cell.target)
        stack = target.stack if target else []
        kinds = {_kind(device) for device in stack if device.name in legs}
        known = {kind for kind in kinds if kind}
        label = summary.cell.target
        if len(known) > 1 and label not in reported:
            reported.add(label)
            found.append(_unequal_finding(label, sorted(known)))
    return found


def _kind(drive: Device) -> str:
    """Return model and size of a drive; empty if its model is unknown."""
    if not drive.model or not drive.size_bytes:
        return drive.model or ""
    return f"{drive.model} of {format_size(drive.size_bytes)}"


class UnequalMembersFigures(Figures, frozen=True, kw_only=True, tag="mixed_members"):
    """Figures of ``mixed_members``: unequal members."""

    layout: str
    drives: list[str]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.layout} has {format_plural(len(self.drives), 'kind')} of drives: "
                f"{', '.join(self.drives)}."
            ),
            cause=(
                "The smallest drive determines the size of an array, the slowest one its speed."
            ),
            next=(
                "Compare layouts on equal drives, or read these figures as those of the slowest "
                "drive."
            ),
        )


def _unequal_finding(label: str, kinds: list[str]) -> Finding:
    return Finding(
        severity="note",
        cells=[],
        figures=UnequalMembersFigures(layout=label, drives=kinds),
    )
