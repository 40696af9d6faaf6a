"""Finding ``flushes_not_durable``: commits acknowledged faster than a medium can keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from seatrial.findings.context import (
    Context,
    entries,
    identities,
    is_of_a_device,
    lookup,
    median_over_samples,
    number,
    physical_devices,
)
from seatrial.findings.rule import from_samples
from seatrial.findings.traffic import is_direct, writes_are_flushed
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.stats.wording import format_cell, format_estimate, format_share, format_value
from seatrial.trials.database.analysis.samples import records_of

REVOLUTIONS_PER_S: Final = 250.0
"""15,000 in a minute; no disk that is sold turns faster."""
REVOLUTIONS_FACTOR: Final = 2.0
FLUSHES_SHARE_MIN: Final = 0.5
"""Of the commits of one session, those that must show as a flush at the device."""
COMMITS_MIN: Final = 100
FLUSH_RATIO_MAX: Final = 1.5
"""A commit writes and flushes; flash that empties its cache for it takes several times as long as
for the write alone, and a disk takes a revolution."""
VOLATILE: Final = "write back"
_LOSES: Final = "a power cut loses commits"
_INNOCENT: Final = (
    "The innocent explanation is protection against loss of power: capacitors or a battery, as "
    "server drives and RAID controllers have, make a cache as safe as the medium."
)


@from_samples(rank=140, section="Of a database", sees_replays=True, holds_in_lab=False)
def flushes_not_durable(context: Context) -> list[Finding]:
    """Find commits that were acknowledged without having reached a medium, as far as that shows.

    On disks that rotate by their rate, where flushes are counted by their number, and else by what
    a flush adds to a write. Of one session at a time: several share a flush.

    Means:
        Commits were acknowledged without having reached a medium, as far as that shows from
        outside: a power cut would lose them.

    Decided:
        Of one session at a time, as several share a flush, and on each target by the first of:

        1. the device below is a hard disk, and commits of the workload `commit` are surely faster
           than 500 a second: twice the revolutions of the fastest disk that is sold (15,000 a
           minute). Critical; in a virtual machine, whose disks call themselves rotational at will,
           warning;
        2. the kernel drives the device as `write back`, that is with a volatile cache, and it
           counted fewer than half as many flushes as there were commits with fdatasync (of a
           database: as the server synced its WAL). Critical;
        3. such a device without rotation, where the median commit takes less than 1.5 times as long
           as a plain write of the same size in sequence past the page cache. Warning, as protection
           against loss of power looks the same: its capacitors make a flush cheap and safe.

        A device that is driven as `write through` promises that what it acknowledged is safe;
        nothing here can tell whether it lies.

    Do:
        Read the data sheet (power-loss protection). Without it turn the cache off and measure
        again. Only pulling the plug proves a drive.
    """
    cells = [summary for summary in context.cells if is_of_a_device(summary) and not summary.blank]
    commits = [c for c in cells if c.cell.operation == "commit" and c.cell.threads == 1]
    found = []
    for target in dict.fromkeys(summary.cell.target for summary in cells):
        own = [c for c in commits if c.cell.target == target]
        # A write with O_DSYNC may reach the medium by itself (FUA), without a flush after it.
        counted = [c for c in own if lookup(c.cell.spec, "target", "dsync") is not True]
        counted += [c for c in cells if c.cell.target == target and _keeps_wal(c)]
        found += (
            _faster_than_it_turns(context, own)
            or _not_sent(context, counted)
            or _adds_nothing(context, own, [c for c in cells if c.cell.target == target])
        )
    return found


def _faster_than_it_turns(context: Context, commits: Sequence[CellSummary]) -> list[Finding]:
    """Return commits faster than a disk passes its head: the same place comes once a turn."""
    limit_per_s = REVOLUTIONS_FACTOR * REVOLUTIONS_PER_S
    concerned = [
        c for c in commits if _low(c.iops) > limit_per_s and _rotates(context.before_of(c))
    ]
    if not concerned:
        return []
    fastest = max(concerned, key=lambda c: c.iops.value)
    virtual = bool(lookup(context.before, "machine", "virtualisation"))
    return [
        Finding(
            kind="flushes_not_durable",
            severity="warning" if virtual else "critical",
            cells=identities(concerned),
            sentence=(
                f"{format_cell(fastest.cell)}: {format_estimate(fastest.iops)} of one session on a "
                f"disk that turns at most {REVOLUTIONS_PER_S:.0f} times a second. A volatile write "
                f"cache acknowledges flushes: {_LOSES}."
            ),
            cause=(
                "Each commit writes the next block of a log, which passes the head once a turn; "
                "who is faster did not wait for the medium. "
                f"{_OF_VIRTUAL if virtual else ''}{_INNOCENT}"
            ),
            evidence={
                "commits_per_s": fastest.iops.value,
                "commits_per_s_low": fastest.iops.low,
                "revolutions_per_s_max": REVOLUTIONS_PER_S,
                "virtual": virtual,
            },
            next=_NEXT,
        )
    ]


def _not_sent(context: Context, cells: Sequence[CellSummary]) -> list[Finding]:
    """Return commits of which the device, whose cache is volatile, saw no flush."""
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
            kind="flushes_not_durable",
            severity="critical",
            cells=identities(concerned),
            sentence=(
                f"{format_cell(worst.cell)}: of {format_value(worst.iops)}, "
                f"{format_share(share)} sent a flush to the device, whose write cache is volatile: "
                f"{_LOSES}."
            ),
            cause=(
                "Something between the database and the device drops flushes: a mount option "
                "(nobarrier), a layer that does not hand them on, a virtual disk whose host "
                "ignores them (cache=unsafe), or fsync = off."
            ),
            evidence={
                "flushes_share": share,
                "flushes_share_allowed": FLUSHES_SHARE_MIN,
                "commits_per_s": worst.iops.value,
                "cells_count": len(concerned),
            },
            next=(
                "Look at the mount options ('findmnt -o TARGET,OPTIONS') and at the layers "
                "('lsblk'); mend that and measure again. What such a power cut does to a database "
                "shows 'seatrial db DIR --crash --power-cut=lying'."
            ),
        )
    ]


def _adds_nothing(
    context: Context, commits: Sequence[CellSummary], cells: Sequence[CellSummary]
) -> list[Finding]:
    """Return commits that take hardly longer than a write alone, on a volatile cache."""
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
            kind="flushes_not_durable",
            severity="warning",
            cells=identities(concerned),
            sentence=(
                f"{format_cell(worst.cell)}: {format_estimate(worst.iops)}, where plain writes do "
                f"{format_estimate(write.iops)}: a flush adds next to nothing to a write "
                f"(a commit takes {ratio:.2f} times as long). A volatile write cache likely "
                f"acknowledges flushes: then {_LOSES}."
            ),
            cause=(
                "The device says that its cache is volatile, so a flush should empty it onto the "
                f"medium, which takes flash a good part of a millisecond. {_INNOCENT}"
            ),
            evidence={
                "commit_over_write_ratio": ratio,
                "commit_over_write_ratio_allowed": FLUSH_RATIO_MAX,
                "commits_per_s": worst.iops.value,
                "writes_per_s": write.iops.value,
                "write_cache": VOLATILE,
            },
            next=_NEXT,
        )
    ]


_OF_VIRTUAL: Final = "Or the disk is a virtual one that only says that it rotates. "
_NEXT: Final = (
    "See the drive's data sheet for power-loss protection. Without it turn the cache off ('hdparm "
    "-W0 DEVICE', 'nvme set-feature -f 6 -v 0 DEVICE') and measure again; only pulling the plug "
    "proves a drive."
)


def _low(estimate: Estimate) -> float:
    return estimate.value if estimate.low is None else estimate.low


def _rotates(fingerprint: dict[str, Any]) -> bool:
    """Tell whether all that lies below are hard disks."""
    devices = physical_devices(fingerprint)
    return bool(devices) and all(
        device.get("rotational") is True and device.get("kind") == "disk" for device in devices
    )


def _is_volatile(fingerprint: dict[str, Any]) -> bool:
    """Tell whether the kernel takes every device below to hold writes in a volatile cache."""
    devices = physical_devices(fingerprint)
    return bool(devices) and all(device.get("write_cache") == VOLATILE for device in devices)


def _keeps_wal(summary: CellSummary) -> bool:
    """Tell whether a cell is one of a database that flushes its WAL at each commit."""
    records = records_of(summary.samples)
    return bool(records) and all(
        record.settings.get("fsync", "on") != "off"
        and record.settings.get("wal_sync_method", "fdatasync") in ("fdatasync", "fsync")
        for record in records
    )


def _flushes_a_commit(sample: Sample) -> float | None:
    """Return flushes that the device counted over those that were asked of it."""
    flushes = sample.counters.get("device_flushes")
    asked = sample.counters.get("wal_syncs")
    if sample.cell.operation == "commit":
        asked = float(sample.outcome.completed)
    if flushes is None or asked is None or asked < COMMITS_MIN:
        return None
    return flushes / asked


def _is_plain_write(write: CellSummary, commit: CellSummary) -> bool:
    """Tell whether a cell does what a commit does but for the flush."""
    mine, own = write.cell, commit.cell
    kinds = {lookup(each, "address", "kind") for each in entries(mine.spec, "accesses")}
    return (
        mine.operation == "write"
        and (mine.block_size_bytes, mine.threads, mine.depth) == (own.block_size_bytes, 1, 1)
        and kinds == {"sequential"}
        and is_direct(write)
        and not writes_are_flushed(write)
    )


def _time_ratio(commit: CellSummary, write: CellSummary) -> float | None:
    """Return the median time of a commit over that of a write; None where one is not known."""
    medians = [
        number({name: each.value for name, each in part.latency.get(kind, {}).items()}, "p50")
        for part, kind in ((commit, "commit"), (write, "write"))
    ]
    if medians[0] is None or not medians[1]:
        return None
    return medians[0] / medians[1]
