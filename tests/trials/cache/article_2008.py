"""The article of 2008 on an SSD in front of 24 disks, recalculated by the model of warming caches.

The rate of one disk follows from that of the striped disks without the SSD. The share of the
reads that reached the disks of one raid-z row predicts the other. The time to warm up follows from
the rates of each row with and without the SSD, and from the feed of that version of ZFS.

Source: Jing Zhang, "Performance Improvements Using Read Optimized Solid State Disks", 10 November
2008; its table is reference/l2arc-2008.csv.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.units import GB, GIB, MB
from trials.cache.warming_model import WarmingModel

DISKS: Final = 24
RAID_Z_DISKS: Final = 4
"""Of one group, which serves one read at a time: three with data, one with parity (assumed)."""
WORKING_SET_BYTES: Final = 50 * GIB
MEMORY_BYTES: Final = 12 * GIB
"""Of 16 GiB, what the ARC holds (assumed)."""
FEED_BYTES_PER_S: Final = 8 << 20
"""ZFS of November 2008: 8 MiB once a second."""
COLD_SHARE: Final = 0.001
"""An SSD is called warm when it lacks so much of the working set (assumed)."""
FILEBENCH_BYTES: Final = 300 * GB
FILEBENCH_FILLED_BYTES: Final = 167 * GB
_S_PER_H: Final = 3600


class PublishedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the article's table.

    Attributes:
        record_size_kib: Size of a record.
        layout: ``striped`` or ``raid-z``.
        direct_io: Whether clients read around their own caches.
        warmup_hours: As published, in whole hours.
        with_ssd_mb_s: With the SSD, warm (MB/s).
        without_ssd_mb_s: Without it (MB/s).
    """

    record_size_kib: int
    layout: str
    direct_io: bool
    warmup_hours: float
    with_ssd_mb_s: float
    without_ssd_mb_s: float


class RecalculatedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A recalculated row.

    A figure is null where it is an input, or where the clients' own caches decide it.

    Attributes:
        published: The row.
        without_ssd_mb_s: Without the SSD (MB/s).
        with_ssd_mb_s: With it, warm (MB/s).
        warmup_hours: Until it is warm (h).
    """

    published: PublishedRow
    without_ssd_mb_s: float | None
    with_ssd_mb_s: float | None
    warmup_hours: float


def recalculated(rows: Sequence[PublishedRow]) -> list[RecalculatedRow]:
    """Return the article's table, recalculated.

    Raises:
        ValueError: if the rows are not those of the article.
    """
    striped = _only(rows, "striped", 8)
    disk_per_s = striped.without_ssd_mb_s * MB * _missed_share() / DISKS / _record_bytes(striped)
    return [_row(each, rows, disk_per_s) for each in rows]


def _row(row: PublishedRow, rows: Sequence[PublishedRow], disk_per_s: float) -> RecalculatedRow:
    is_raid_z = row.layout == "raid-z"
    without = with_ssd = None
    if is_raid_z and row.direct_io:
        groups = DISKS / RAID_Z_DISKS
        without = groups * disk_per_s * _record_bytes(row) / _missed_share() / MB
        other = _only(rows, row.layout, 40 - row.record_size_kib)
        with_ssd = row.without_ssd_mb_s * other.with_ssd_mb_s / other.without_ssd_mb_s
    model = WarmingModel(
        working_set_bytes=WORKING_SET_BYTES,
        storage_bytes_per_s=row.without_ssd_mb_s * MB,
        path_bytes_per_s=row.with_ssd_mb_s * MB,
        feed_bytes_per_s=FEED_BYTES_PER_S,
    )
    hours = model.warm_s(COLD_SHARE) / _S_PER_H
    return RecalculatedRow(
        published=row, without_ssd_mb_s=without, with_ssd_mb_s=with_ssd, warmup_hours=hours
    )


def served_by_ssd_share() -> float:
    """Return the share of the requests that the SSDs serve in the article's pie chart.

    Memory holds any of the records, and serves them whether the SSDs have them or not.
    """
    memory_share = MEMORY_BYTES / FILEBENCH_BYTES
    return (1 - memory_share) * FILEBENCH_FILLED_BYTES / FILEBENCH_BYTES


def _missed_share() -> float:
    """Return the share of the reads that memory does not serve."""
    return 1 - MEMORY_BYTES / WORKING_SET_BYTES


def _record_bytes(row: PublishedRow) -> int:
    return row.record_size_kib << 10


def _only(rows: Sequence[PublishedRow], layout: str, record_size_kib: int) -> PublishedRow:
    found = [
        each
        for each in rows
        if (each.layout, each.record_size_kib, each.direct_io) == (layout, record_size_kib, True)
    ]
    if len(found) != 1:
        raise ValueError(f"the article has one {layout} row of {record_size_kib} KiB, direct")
    return found[0]
