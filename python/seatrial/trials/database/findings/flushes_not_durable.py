"""Finding ``flushes_not_durable``: commits acknowledged before they are on stable storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from seatrial.findings.context import (
    Context,
    identities,
    is_of_a_device,
    median_over_samples,
    number,
)
from seatrial.findings.rule import from_samples
from seatrial.findings.traffic import is_direct, writes_are_flushed
from seatrial.fingerprint import Fingerprint
from seatrial.published import HIDDEN
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary, Estimate, Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_estimate, format_share, format_value
from seatrial.trials.database.analysis.model import records_of

REVOLUTIONS_PER_S: Final = 250.0
"""15,000 rpm; no disk on the market rotates faster."""
REVOLUTIONS_FACTOR: Final = 2.0
FLUSHES_SHARE_MIN: Final = 0.5
"""Of the commits of one session, the share that must appear as a flush at the device."""
COMMITS_MIN: Final = 100
FLUSH_RATIO_MAX: Final = 1.5
"""A commit writes and flushes; flash that empties its cache for a flush takes several times as long
as for the write alone, and a disk takes a revolution."""
VOLATILE: Final = "write back"
_LOSES: Final = "a power cut loses commits"
_INNOCENT: Final = (
    "The harmless explanation is power-loss protection: server drives and RAID controllers have "
    "capacitors or a battery, which make a cache as safe as the medium."
)


@from_samples(rank=140, section="Databases", sees_replays=True, holds_in_lab=False)
def flushes_not_durable(context: Context) -> list[Finding]:
    """Find commits that were probably acknowledged before they were on stable storage.

    Judged by the commit rate on hard disks, by the number of flushes where they are counted, and
    otherwise by the time that a flush adds to a write. With one session only, since several
    sessions share a flush.

    Means:
        Commits were probably acknowledged before they reached stable storage: a power failure
        would lose them.

    Decided:
        With one session, since several share a flush; on each target by the first of:

        1. the device is a hard disk, and the rate of the workload `commit` is significantly above
           500 per second: twice the rotation rate of the fastest disks (15,000 rpm). Critical; in
           a virtual machine, whose disks may be reported as rotational although they are not,
           warning;
        2. the device has a volatile write cache (`write back`), and counted fewer than half as many
           flushes as there were commits with fdatasync (for a database: WAL syncs by the server).
           Critical;
        3. the device has a volatile write cache and does not rotate, and the median commit takes
           less than 1.5 times as long as a direct sequential write of the same size. Warning,
           because power-loss protection looks the same: capacitors make a flush fast and safe.

        A `write through` device promises that acknowledged writes are safe; this test cannot
        verify that.

    Do:
        Look for power-loss protection in the data sheet. Without it, turn the cache off and
        measure again. Only a real power failure proves a drive.
    """
    cells = [summary for summary in context.cells if is_of_a_device(summary) and not summary.blank]
    commits = [c for c in cells if c.cell.operation == "commit" and c.cell.threads == 1]
    found = []
    for target in dict.fromkeys(summary.cell.target for summary in cells):
        own = [c for c in commits if c.cell.target == target]
        # A write with O_DSYNC may reach the medium by itself (FUA), without a flush after it.
        counted = [c for c in own if not c.cell.parsed.target.dsync]
        counted += [c for c in cells if c.cell.target == target and _keeps_wal(c)]
        found += (
            _faster_than_it_turns(context, own)
            or _not_sent(context, counted)
            or _adds_nothing(context, own, [c for c in cells if c.cell.target == target])
        )
    return found


class FasterThanItTurnsFigures(Figures, frozen=True, kw_only=True, tag="flushes_not_durable"):
    """Figures of ``flushes_not_durable``: faster than it turns."""

    commits_per_s: float
    commits_per_s_low: float | None
    revolutions_per_s_max: float
    virtual: bool
    fastest: Annotated[CellSummary, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{format_cell(self.fastest.cell)}: {format_estimate(self.fastest.iops)} in one "
                f"session, but a disk rotates at most {REVOLUTIONS_PER_S:.0f} times per second. A "
                f"volatile write cache acknowledges flushes: {_LOSES}."
            ),
            cause=(
                "Each commit writes the next block of a log, which passes the head once per "
                "revolution. Faster commits did not wait for the medium. "
                f"{_OF_VIRTUAL if self.virtual else ''}{_INNOCENT}"
            ),
            next=_NEXT,
        )


def _faster_than_it_turns(context: Context, commits: Sequence[CellSummary]) -> list[Finding]:
    """Return commits faster than the disk rotates: a position passes the head once per turn."""
    limit_per_s = REVOLUTIONS_FACTOR * REVOLUTIONS_PER_S
    concerned = [
        c for c in commits if _low(c.iops) > limit_per_s and _rotates(context.before_of(c))
    ]
    if not concerned:
        return []
    fastest = max(concerned, key=lambda c: c.iops.value)
    virtual = bool(context.before.machine.virtualisation)
    return [
        Finding(
            severity="warning" if virtual else "critical",
            cells=identities(concerned),
            figures=FasterThanItTurnsFigures(
                commits_per_s=fastest.iops.value,
                commits_per_s_low=fastest.iops.low,
                revolutions_per_s_max=REVOLUTIONS_PER_S,
                virtual=virtual,
                fastest=fastest,
            ),
        )
    ]


class FlushesNotSentFigures(Figures, frozen=True, kw_only=True, tag="flushes_not_durable"):
    """Figures of ``flushes_not_durable``: flushes not sent."""

    flushes_share: float
    flushes_share_allowed: float
    commits_per_s: float
    cells_count: int
    worst: Annotated[CellSummary, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{format_cell(self.worst.cell)}: only {format_share(self.flushes_share)} of the "
                f"commits ({format_value(self.worst.iops)}) sent a flush to the device, whose "
                f"write cache is volatile: {_LOSES}."
            ),
            cause=(
                "A layer between the database and the device drops flushes: a mount option "
                "(nobarrier), a block layer that does not pass them on, a virtual disk whose host "
                "ignores them (cache=unsafe), or fsync = off."
            ),
            next=(
                "Check the mount options ('findmnt -o TARGET,OPTIONS') and the layers ('lsblk'), "
                "fix the cause and measure again. 'seatrial db DIR --crash --power-cut=lying' "
                "shows what such a power failure does to a database."
            ),
        )


def _not_sent(context: Context, cells: Sequence[CellSummary]) -> list[Finding]:
    """Return commits for which the device, whose cache is volatile, received no flush."""
    shares = {
        c.cell.key: share
        for c in cells
        if _is_volatile(context.before_of(c))
        and (share := median_over_samples(c.samples, _flushes_a_commit)) is not None
    }
    concerned = [c for c in cells if shares.get(c.cell.key, 1.0) < FLUSHES_SHARE_MIN]
    if not concerned:
        return []
    worst = min(concerned, key=lambda c: shares[c.cell.key])
    share = shares[worst.cell.key]
    return [
        Finding(
            severity="critical",
            cells=identities(concerned),
            figures=FlushesNotSentFigures(
                flushes_share=share,
                flushes_share_allowed=FLUSHES_SHARE_MIN,
                commits_per_s=worst.iops.value,
                cells_count=len(concerned),
                worst=worst,
            ),
        )
    ]


class FlushesAddNothingFigures(Figures, frozen=True, kw_only=True, tag="flushes_not_durable"):
    """Figures of ``flushes_not_durable``: flushes add nothing."""

    commit_over_write_ratio: float
    commit_over_write_ratio_allowed: float
    commits_per_s: float
    writes_per_s: float
    write_cache: str
    worst: Annotated[CellSummary, HIDDEN]
    write: Annotated[CellSummary, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{format_cell(self.worst.cell)}: {format_estimate(self.worst.iops)}, compared "
                f"with {format_estimate(self.write.iops)} for writes without a flush. A flush "
                f"takes almost no time (a commit takes {self.commit_over_write_ratio:.2f} times "
                "as long as a write). A volatile write cache probably acknowledges flushes: then "
                f"{_LOSES}."
            ),
            cause=(
                "The device reports a volatile cache, so a flush should write it to the medium, "
                f"which takes flash a large part of a millisecond. {_INNOCENT}"
            ),
            next=_NEXT,
        )


def _adds_nothing(
    context: Context, commits: Sequence[CellSummary], cells: Sequence[CellSummary]
) -> list[Finding]:
    """Return commits that take about as long as a write alone, on a volatile cache."""
    ratios = {
        c.cell.key: (ratio, write)
        for c in commits
        if _is_volatile(context.before_of(c)) and not _rotates(context.before_of(c))
        for write in cells
        if _is_plain_write(write, c) and (ratio := _time_ratio(c, write)) is not None
    }
    concerned = [c for c in commits if ratios.get(c.cell.key, (9.0, c))[0] < FLUSH_RATIO_MAX]
    if not concerned:
        return []
    worst = min(concerned, key=lambda c: ratios[c.cell.key][0])
    ratio, write = ratios[worst.cell.key]
    return [
        Finding(
            severity="warning",
            cells=identities(concerned),
            figures=FlushesAddNothingFigures(
                commit_over_write_ratio=ratio,
                commit_over_write_ratio_allowed=FLUSH_RATIO_MAX,
                commits_per_s=worst.iops.value,
                writes_per_s=write.iops.value,
                write_cache=VOLATILE,
                worst=worst,
                write=write,
            ),
        )
    ]


_OF_VIRTUAL: Final = "Or the disk is virtual and only reports that it rotates. "
_NEXT: Final = (
    "Look for power-loss protection in the drive's data sheet. Without it, turn the cache off "
    "('hdparm -W0 DEVICE', 'nvme set-feature -f 6 -v 0 DEVICE') and measure again. Only a real "
    "power failure proves a drive."
)


def _low(estimate: Estimate) -> float:
    return estimate.value if estimate.low is None else estimate.low


def _rotates(fingerprint: Fingerprint) -> bool:
    """Return whether all physical devices are hard disks."""
    devices = fingerprint.physical_devices
    return bool(devices) and all(
        device.rotational is True and device.kind == "disk" for device in devices
    )


def _is_volatile(fingerprint: Fingerprint) -> bool:
    """Return whether every physical device has a volatile write cache, as the kernel sees it."""
    devices = fingerprint.physical_devices
    return bool(devices) and all(device.write_cache == VOLATILE for device in devices)


def _keeps_wal(summary: CellSummary) -> bool:
    """Return whether a cell is of a database that flushes its WAL at each commit."""
    records = records_of(summary.samples)
    return bool(records) and all(
        record.settings.get("fsync", "on") != "off"
        and record.settings.get("wal_sync_method", "fdatasync") in ("fdatasync", "fsync")
        for record in records
    )


def _flushes_a_commit(sample: Sample) -> float | None:
    """Return flushes that the device counted over those that were requested."""
    flushes = sample.counters.get("device_flushes")
    requested = sample.counters.get("wal_syncs")
    if sample.cell.operation == "commit":
        requested = float(sample.outcome.completed)
    if flushes is None or requested is None or requested < COMMITS_MIN:
        return None
    return flushes / requested


def _is_plain_write(write: CellSummary, commit: CellSummary) -> bool:
    """Return whether a cell does the same as a commit, without the flush."""
    mine, own = write.cell, commit.cell
    kinds = mine.parsed.address_kinds
    return (
        mine.operation == "write"
        and (mine.block_size_bytes, mine.threads, mine.depth) == (own.block_size_bytes, 1, 1)
        and kinds == {"sequential"}
        and is_direct(write)
        and not writes_are_flushed(write)
    )


def _time_ratio(commit: CellSummary, write: CellSummary) -> float | None:
    """Return the median time of a commit over that of a write; None if one is unknown."""
    medians = [
        number({name: each.value for name, each in part.latency.get(kind, {}).items()}, "p50")
        for part, kind in ((commit, "commit"), (write, "write"))
    ]
    if medians[0] is None or not medians[1]:
        return None
    return medians[0] / medians[1]
