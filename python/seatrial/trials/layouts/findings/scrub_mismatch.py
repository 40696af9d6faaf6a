"""Finding ``scrub_mismatch``: a scrub found copies or parity that do not agree."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_size

SECTOR_BYTES: Final = 512
MEANT: Final = ("rotten", "dropping_writes")


@from_samples(rank=320, section="Of layouts", sees_faults=True)
def scrub_mismatch(context: Context) -> list[Finding]:
    """Find samples whose scrub counted anything; what was made to rot apart from what was not.

    Means:
        A scrub found copies or parity that do not agree.

    Decided:
        What the array counted (md: `mismatch_cnt`) is above 0. Critical; note where data were made
        to rot on purpose, which is what a scrub is to find.

    Do:
        Scrub monthly. A repair makes both sides agree and cannot know which was right; checksums
        can.
    """
    concerned = [summary for summary in context.cells if _mismatch_blocks(summary)]
    meant = [summary for summary in concerned if _has_rotted(summary)]
    others = [summary for summary in concerned if summary not in meant]
    return [_finding(context, part, is_meant=part is meant) for part in (others, meant) if part]


def _mismatch_blocks(summary: CellSummary) -> int:
    records = (sample.layout for sample in summary.samples if sample.layout)
    return sum(record.mismatch_blocks or 0 for record in records)


def _has_rotted(summary: CellSummary) -> bool:
    records = (sample.layout for sample in summary.samples if sample.layout)
    return any(event.what in MEANT for record in records for event in record.events)


def _finding(context: Context, concerned: list[CellSummary], *, is_meant: bool) -> Finding:
    blocks = sum(_mismatch_blocks(summary) for summary in concerned)
    found = "found what had been made to rot" if is_meant else "found copies or parity"
    return Finding(
        kind="scrub_mismatch",
        severity="note" if is_meant else "critical",
        cells=identities(concerned),
        sentence=(
            f"A scrub {found}: {format_size(blocks * SECTOR_BYTES)} do not agree, in "
            f"{context.of_cells(concerned)}."
        ),
        cause=(
            "Some blocks of a drive were changed on purpose, or writes to them dropped, in silence."
            if is_meant
            else "A drive changed data in silence, or a write was cut off between two drives; "
            "on raid1 and raid10 also memory that changed while it was written (swap)."
        ),
        evidence={"mismatch_blocks_count": blocks, "cells_count": len(concerned)},
        next=(
            "Have md compare once a month ('echo check > /sys/block/mdX/md/sync_action') and look "
            "at mismatch_cnt. 'repair' makes them agree, and cannot know which side is right; "
            "checksums (btrfs, ZFS, dm-integrity) can."
        ),
    )
