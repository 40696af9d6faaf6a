"""The workload ``l2arc``: reads of a ZFS file system, with and without a cache device.

docs/study-file.md explains every key with an example.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, field

from seatrial.study.cell import Cell
from seatrial.study.sampled import DATABASE_STALL_THRESHOLD_MS, SampledWorkload
from seatrial.study.values import (
    ONE,
    BlockSizes,
    Flags,
    Seconds,
    Size,
    Sizes,
    SliceMs,
    StallThresholdMs,
    Theta,
    Threads,
)
from seatrial.units import MIB

L2ARC: Final = "l2arc"
"""The kind of the workload and of its cells."""

Pool = Literal["striped", "raid-z"]
Clients = Literal["direct", "cached"]
Pools = Pool | Annotated[list[Pool], ONE]
ManyClients = Clients | Annotated[list[Clients], ONE]
Reads = Literal["random", "zipf"]
DiskCount = Annotated[int, Meta(ge=1, le=16)]
DiskRate = Annotated[int, Meta(ge=0, le=1_000_000)]


class L2arc(SampledWorkload, frozen=True, kw_only=True, tag=L2ARC):
    """Random reads of one file on ZFS, with and without a cache device (L2ARC).

    Each sample builds a pool of its own on loop devices, and removes it again.

    Attributes:
        duration_s: With a cache device, how long it is watched after it was added (``seconds``).
        baseline_s: How long the pool is read before, without it (``baseline_seconds``); a sample
            without one lasts twice as long.
        slice_ms: Length of the timeline's slices.
        stall_threshold_ms: Shortest time without completions that counts as a stall.
        cache: Whether a cache device is added, a factor.
        record_sizes: Record size of the file system and size of a read, a factor.
        pools: ``striped`` or ``raid-z``, a factor.
        clients: ``direct``, or ``cached``: the page cache serves what it holds, as that of an NFS
            client would; a factor.
        arc: Size of the ARC, a factor.
        working_set_bytes: Size of the file that is read (``working_set``).
        cache_bytes: Size of the cache device (``cache_size``).
        client_cache_bytes: Page cache of cached clients (``client_cache``).
        disks: Disks of the pool.
        disk_reads_per_s: Limit of each disk (``disk_iops``), 0 for none.
        threads: Clients; each waits for a read before it sends the next.
        pattern: ``random``, every record as likely, or ``zipf``.
        theta: Skew of ``zipf``.
    """

    duration_s: Seconds = field(default=70.0, name="seconds")
    baseline_s: Seconds = field(default=12.0, name="baseline_seconds")
    slice_ms: SliceMs = 1000
    stall_threshold_ms: StallThresholdMs = DATABASE_STALL_THRESHOLD_MS
    cache: Flags = field(default_factory=lambda: [False, True])
    record_sizes: BlockSizes = BlockSizes((8192,))
    pools: Pools = "striped"
    clients: ManyClients = "direct"
    arc: Sizes = Sizes((32 * MIB,))
    working_set_bytes: Size = field(default=Size(192 * MIB), name="working_set")
    cache_bytes: Size = field(default=Size(1024 * MIB), name="cache_size")
    client_cache_bytes: Size = field(default=Size(64 * MIB), name="client_cache")
    disks: DiskCount = 4
    disk_reads_per_s: DiskRate = field(default=150, name="disk_iops")
    threads: Threads = 8
    pattern: Reads = "random"
    theta: Theta = 0.9

    @property
    def allows_faults(self) -> bool:
        """Always False: its disks are its own."""
        return False


class PoolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a sample builds; in a cell's specification as ``l2arc``.

    Attributes:
        has_cache: Whether a cache device is added.
        pool: ``striped`` or ``raid-z``.
        clients: ``direct`` or ``cached``.
        record_bytes: Record size, and size of a read.
        arc_bytes: Size of the ARC.
        working_set_bytes: Size of the file.
        cache_bytes: Size of the cache device.
        client_cache_bytes: Page cache of cached clients.
        disks: Disks of the pool.
        disk_reads_per_s: Limit of each, 0 for none.
        baseline_s: Time without the cache device.
        watched_s: Time with it; 0 without one.
        pattern: ``random`` or ``zipf``.
        theta: Skew of ``zipf``.
    """

    has_cache: bool
    pool: str
    clients: str
    record_bytes: int
    arc_bytes: int
    working_set_bytes: int
    cache_bytes: int
    client_cache_bytes: int
    disks: int
    disk_reads_per_s: int
    baseline_s: float
    watched_s: float
    pattern: str
    theta: float

    @property
    def records(self) -> int:
        """Records of the file."""
        return self.working_set_bytes // self.record_bytes

    @property
    def disk_bytes(self) -> int:
        """Size of each disk's image: twice what it will hold, and what ZFS needs itself."""
        data_disks = self.disks - 1 if self.pool == "raid-z" else self.disks
        return (2 * self.working_set_bytes // data_disks // MIB + 96) * MIB


def spec_of(cell: Cell) -> PoolSpec:
    """Return what a cell's samples build; raises msgspec.ValidationError of another cell."""
    return msgspec.convert(cell.spec[L2ARC], PoolSpec)
