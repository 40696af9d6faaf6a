"""Finding ``scrub_mismatch``: a scrub found inconsistent copies or parity."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_size
from seatrial.units import SECTOR_BYTES

CORRUPTING: Final = ("rotten", "dropping_writes", "faltering")
"""Faults that leave old or wrong data; a drive that falters misses writes while it is away."""


@from_samples(rank=320, section="Layouts", sees_faults=True)
def scrub_mismatch(context: Context) -> list[Finding]:
    """Find samples whose scrub counted mismatches; injected corruption is reported separately.

    Means:
        A scrub found inconsistent copies or parity.

    Decided:
        The array counted mismatches (md: `mismatch_cnt`). Critical; note if corruption was
        injected, which a scrub is expected to find.

    Do:
        Scrub monthly. A repair makes both sides consistent but cannot know which one was correct;
        checksums can.
    """
    concerned = [summary for summary in context.cells if _mismatch_blocks(summary)]
    injected = [summary for summary in concerned if _has_injected(summary)]
    others = [summary for summary in concerned if summary not in injected]
    return [
        _finding(context, part, is_injected=part is injected) for part in (others, injected) if part
    ]


def _mismatch_blocks(summary: CellSummary) -> int:
    records = (sample.layout for sample in summary.samples if sample.layout)
    return sum(record.mismatch_blocks or 0 for record in records)


def _has_injected(summary: CellSummary) -> bool:
    records = (sample.layout for sample in summary.samples if sample.layout)
    return any(event.what in CORRUPTING for record in records for event in record.events)


class ScrubMismatchFigures(Figures, frozen=True, kw_only=True, tag="scrub_mismatch"):
    mismatch_blocks_count: int
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    is_injected: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        what = "the injected corruption" if self.is_injected else "inconsistent copies or parity"
        return FindingText(
            sentence=(
                f"A scrub found {what}: "
                f"{format_size(self.mismatch_blocks_count * SECTOR_BYTES)} in {self.concerned}."
            ),
            cause=(
                "The study silently changed blocks of a drive, dropped writes to it, or made them "
                "fail."
                if self.is_injected
                else "A drive silently corrupted data, or a write was interrupted between two "
                "drives; on raid1 and raid10 also memory that changed during the write (swap)."
            ),
            next=(
                "Run a check every month ('echo check > /sys/block/mdX/md/sync_action') and read "
                "mismatch_cnt. 'repair' makes the copies consistent but cannot know which one is "
                "correct; checksums (btrfs, ZFS, dm-integrity) can."
            ),
        )


def _finding(context: Context, concerned: list[CellSummary], *, is_injected: bool) -> Finding:
    blocks = sum(_mismatch_blocks(summary) for summary in concerned)
    return Finding(
        severity="note" if is_injected else "critical",
        cells=identities(concerned),
        figures=ScrubMismatchFigures(
            mismatch_blocks_count=blocks,
            cells_count=len(concerned),
            concerned=context.affected_cells(concerned),
            is_injected=is_injected,
        ),
    )
