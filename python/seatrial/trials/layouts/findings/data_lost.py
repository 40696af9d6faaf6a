"""Finding ``data_lost``: after a fault data were corrupt or unreadable."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_plural
from seatrial.study.layouts.layout import FILESYSTEMS
from seatrial.trials.layouts.analysis.figures import checked_phrase, lost_phrase
from seatrial.trials.layouts.analysis.model import Recovery, layouts_of


@from_samples(rank=10, section="Layouts", sees_faults=True)
def data_lost(context: Context) -> list[Finding]:
    """Find data lost according to the final verification, one finding per cell.

    Means:
        After a fault, blocks were corrupt or unreadable.

    Decided:
        All data of the trial file are read and verified at the end (`verify`); one block is enough.
        The sentence gives the amount, in steps of 4 KiB, and the number of reads that returned
        corrupt data under load. Critical, even if more drives failed than the level tolerates.

    Do:
        Scrub on a schedule, to find unreadable sectors while there is redundancy; use a level that
        tolerates one more failure; against silent corruption use checksums (btrfs, ZFS,
        dm-integrity), but not btrfs's parity levels.
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    return [_finding(each) for each in recoveries if lost_phrase(each)]


class DataLostFigures(Figures, frozen=True, kw_only=True, tag="data_lost"):
    unreadable_bytes: int | None
    wrong_bytes: int | None
    checked_bytes: int
    wrong_reads_count: int
    checked_blocks_count: int
    sums_differ_count: int | None
    array_failed_count: int
    losses_survived_count: int
    faults: list[str]
    recovery: Annotated[Recovery, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{format_cell(self.recovery.cell)} {lost_phrase(self.recovery)}, of "
                f"{checked_phrase(self.recovery)}{_wrong_reads_text(self.recovery)}, "
                f"after: {'; '.join(self.faults)}."
            ),
            cause=_cause(self.recovery),
            next=(
                "Scrub on a schedule, to find unreadable sectors while there is redundancy; use a "
                f"level that tolerates one more failure{_advice(self.recovery)}."
            ),
        )


def _wrong_reads_text(recovery: Recovery) -> str:
    """Return the corrupt data that the load got, unless they are all that was lost."""
    if not recovery.wrong_reads or not (recovery.unreadable_bytes or recovery.wrong_bytes):
        return ""
    return f", and returned corrupt data to {format_plural(recovery.wrong_reads, 'read')}"


def _advice(recovery: Recovery) -> str:
    """Return what to do against corruption; btrfs and ZFS have checksums already."""
    backend = recovery.variant.factors["backend"]
    if backend == "btrfs":
        return "; on btrfs use raid1 or raid10, not its parity levels"
    if backend in FILESYSTEMS:
        return ""
    return (
        "; against silent corruption use a file system with checksums (btrfs, ZFS) or dm-integrity "
        "below the array"
    )


def _finding(recovery: Recovery) -> Finding:
    return Finding(
        severity="critical",
        cells=[recovery.cell.identity()],
        figures=DataLostFigures(
            unreadable_bytes=recovery.unreadable_bytes,
            wrong_bytes=recovery.wrong_bytes,
            checked_bytes=recovery.checked_bytes,
            wrong_reads_count=recovery.wrong_reads,
            checked_blocks_count=recovery.checked_blocks,
            sums_differ_count=recovery.sums_differ_count,
            array_failed_count=recovery.array_failed_count,
            losses_survived_count=recovery.variant.losses_survived,
            faults=recovery.faults,
            recovery=recovery,
        ),
    )


def _cause(recovery: Recovery) -> str:
    if recovery.array_failed_count:
        return "More drives had failed at the same time than the level tolerates."
    if recovery.sums_differ_count and not recovery.unreadable_bytes:
        return (
            "Some pages of committed transactions have their old content or are unreadable: the "
            "storage acknowledged writes that were not durable."
        )
    if recovery.corrupt_blocks and recovery.variant.factors["backend"] in FILESYSTEMS:
        return (
            "Blocks have their content from before acknowledged writes, or content that was never "
            "written; their checksums match, so the file system cannot detect it. btrfs advises "
            "against its parity levels for this reason (btrfs(5), RAID56)."
        )
    if recovery.corrupt_blocks:
        return (
            "Blocks have content that was never written: an array without checksums cannot detect "
            "which of two copies, or which part of a stripe, is correct."
        )
    return _cause_of_unreadable(recovery)


def _cause_of_unreadable(recovery: Recovery) -> str:
    if not recovery.variant.losses_survived:
        return (
            "Sectors were unreadable, and the level has no copies or parity to reconstruct them "
            "from."
        )
    if not recovery.exposed:
        return (
            "The same data were unreadable on more drives than the level tolerates, so that they "
            "could not be reconstructed."
        )
    return (
        "While a drive was missing, sectors on the remaining drives were unreadable, so the data "
        "could not be reconstructed. The array continues without them."
    )
