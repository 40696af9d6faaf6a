"""Finding ``data_lost``: after a failure data were wrong, or could not be read."""

from __future__ import annotations

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_cell
from seatrial.study.layouts.layout import FILESYSTEMS
from seatrial.trials.layouts.analysis.model import Recovery, layouts_of
from seatrial.trials.layouts.analysis.narrative import checked_words, lost_words


@from_samples(rank=10, section="Of layouts", sees_faults=True)
def data_lost(context: Context) -> list[Finding]:
    """Find what verification missed in the end, one finding for each cell that lost anything.

    Means:
        After something was broken, blocks came back wrong or could not be read.

    Decided:
        All data of the trial file were read and checked in the end (`verify`); one block is enough.
        The sentence names how much of how much, to 4 KiB; where all was right in the end, how many
        reads of the load got wrong data. Critical, even where more was broken than the level
        survives.

    Do:
        Scrub on a schedule, so that unreadable sectors are found while there is redundancy; take a
        level that survives one loss more; against rot use checksums (btrfs, ZFS, dm-integrity).
    """
    recoveries = analysis.recoveries if (analysis := layouts_of(context)) else []
    return [_finding(each) for each in recoveries if lost_words(each)]


def _finding(recovery: Recovery) -> Finding:
    return Finding(
        kind="data_lost",
        severity="critical",
        cells=[recovery.cell.identity()],
        sentence=(
            f"{format_cell(recovery.cell)} {lost_words(recovery)}, of {checked_words(recovery)}, "
            f"after: {'; '.join(recovery.faults)}."
        ),
        cause=_cause(recovery),
        evidence={
            "unreadable_bytes": recovery.unreadable_bytes,
            "wrong_bytes": recovery.wrong_bytes,
            "checked_bytes": recovery.checked_bytes,
            "wrong_reads_count": recovery.wrong_reads,
            "checked_blocks_count": recovery.checked_blocks,
            "sums_differ_count": recovery.sums_differ_count,
            "array_failed_count": recovery.array_failed_count,
            "losses_survived_count": recovery.variant.losses_survived,
            "faults": recovery.faults,
        },
        next=(
            "Scrub on a schedule, so that unreadable sectors are found while there still is "
            "redundancy; take a level that survives one loss more; against rot a file system with "
            "checksums (btrfs, ZFS) or dm-integrity below the array."
        ),
    )


def _cause(recovery: Recovery) -> str:
    if recovery.array_failed_count:
        return "More drives were gone at the same time than the level survives."
    if recovery.sums_differ_count and not recovery.unreadable_bytes:
        return (
            "Some of the pages that a transaction had written came back as they were before, or "
            "not at all: the storage said that they were safe, and they were not."
        )
    if recovery.corrupt_blocks and recovery.variant.factors["backend"] in FILESYSTEMS:
        return (
            "Blocks came back as they had been before writes that were said to be done, or as "
            "nobody had written them: its checksums agree with them, so that it cannot tell. "
            "btrfs advises against its parity levels for this (btrfs(5), RAID56)."
        )
    if recovery.corrupt_blocks:
        return (
            "Blocks came back that nobody had written so: an array without checksums cannot tell "
            "which of two copies, or which part of a stripe, is the right one."
        )
    return (
        "Where a drive was missing the rest could not be read in these places, so that nothing was "
        "left to compute them from. The array goes on without them."
    )
