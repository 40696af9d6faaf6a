"""What a sample of a real cache device keeps: how it was built, and what was predicted before."""

from __future__ import annotations

import msgspec

from seatrial.published import Amount, Count


class CacheForecast(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction of a sample, made before what it predicts was measured.

    Its columns have an entry for each second, from the moment at which the cache device is added;
    of a sample without one, from its start.

    Attributes:
        law: How it was made, as a phrase.
        made_at_s: When it was made, from the start of the sample; below 0 before it.
        assumed: What it was made from, by name, unit last.
        reads_per_s: Reads of the clients.
        memory_share: Share of the reads that memory serves.
        device_share: Share of the reads that the cache device serves.
        fill_bytes: Data on the cache device at the end of the second.
    """

    law: str
    made_at_s: float
    assumed: dict[str, float]
    reads_per_s: list[float] = []
    memory_share: list[float] = []
    device_share: list[float] = []
    fill_bytes: list[float] = []


class CacheRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a sample that is specific to a real cache device.

    The counters of each second are in the sample's series: ``arc_hits_per_s``,
    ``device_fill_bytes`` and so on.

    Attributes:
        zfs: What ran the pool, or the cache device of a layout, such as ``bcache writethrough``.
        working_set_bytes: Size of the file that was read.
        arc_bytes: Size of the ARC as configured.
        cache_bytes: Size of the cache device; 0 without one.
        added_at_s: When the cache device was there, from the start of the sample; None without one.
        cold: Counters just before the sample began, by name: what proves a cold start.
        ended: The same counters after it, of a layout's cache device.
        settings: Its settings as the kernel reports them: sequential cut-off, promotion and so on.
        ceiling_per_s: Reads per second of the same clients before, with disks that were not
            limited.
        forecast: What was predicted; None if nothing was.
        commands: The commands of ``zpool``.
        notes: What could not be done, as sentences.
    """

    zfs: str
    working_set_bytes: Count
    arc_bytes: Count
    cache_bytes: Count = 0
    added_at_s: float | None = None
    cold: dict[str, float] = {}
    ended: dict[str, float] = {}
    settings: dict[str, str] = {}
    ceiling_per_s: Amount = 0.0
    forecast: CacheForecast | None = None
    commands: list[str] = []
    notes: list[str] = []

    @property
    def is_filling(self) -> bool:
        """Whether a cache was empty when the sample began: its rate then follows from the fill."""
        return self.added_at_s is not None or self.arc_bytes > 0
