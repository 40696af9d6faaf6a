"""More memory or a cache device in front of other storage, where the need is a recording.

A cache is simulated with the recorded requests (seatrial.trials.cache); what it serves reaches no
storage, so that a smaller volume and a cache compete with a larger volume. Only reads are served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from seatrial.catalogue.volumes import Item
from seatrial.study.units import format_size
from seatrial.trials.cache.analysis.accesses import accesses_of
from seatrial.trials.cache.analysis.prediction import default_sizes_bytes
from seatrial.trials.cache.analysis.tiers import (
    CacheConfiguration,
    CacheTiers,
    ServiceTimes,
    tiers_of,
)
from seatrial.trials.plan.analysis.candidates import Candidate
from seatrial.trials.plan.analysis.demand import Limit
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.units import GIB

if TYPE_CHECKING:
    from seatrial.trials.cache.analysis.money import UnitPrice
    from seatrial.trials.plan.analysis.need import StorageNeed
    from seatrial.trials.watch.recording import Recording

BLOCK_BYTES: Final = 8192
POLICY: Final = "linux"
DEVICE: Final = "bcache"
"""It caches every block that is read, so that it needs no memory in front."""
GAIN_MIN: Final = 0.02
"""A more expensive cache is considered if it serves this much more than any cheaper one."""
CANDIDATES_PER_CACHE_MAX: Final = 25
"""Cheapest candidates that are evaluated behind each cache."""
_NAMES: Final = {"ram": "memory", "ssd": "SSD cache"}


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A cache with its price.

    Attributes:
        name: Such as ``8 GiB of memory``.
        disk_share: Share of the reads that it leaves to the storage: the upper end of the 95 %
            interval over the samples, of the last fifth of the reads.
        item: Its item in a bill.
    """

    name: str
    disk_share: float
    item: Item


def caches_of(recording: Recording, prices: Mapping[str, UnitPrice]) -> list[Cache]:
    """Return caches of several sizes that each serve more than every cheaper one.

    Args:
        recording: Requests of the simulation.
        prices: Prices of a GiB a month of ``ram`` and ``ssd``; one without a price is left out.
    """
    accesses = accesses_of(recording, BLOCK_BYTES)
    if accesses is None:
        return []
    seconds = length_s(recording)
    found = []
    for what, price in prices.items():
        for size in default_sizes_bytes(accesses.unique_bytes):
            configuration = CacheConfiguration(
                policy=POLICY,
                kind=DEVICE,
                memory_bytes=size if what == "ram" else 0,
                device_bytes=size if what == "ssd" else 0,
            )
            tiers = tiers_of(
                accesses, configuration, ServiceTimes(disk_ns=[], device_ns=[]), seconds
            )
            found.append(_cache(what, size, tiers, price))
    kept: list[Cache] = []
    for each in sorted(found, key=lambda cache: (cache.item.money.mid, cache.disk_share)):
        least = min((other.disk_share for other in kept), default=1.0)
        if each.disk_share <= least - GAIN_MIN:
            kept.append(each)
    return kept


def _cache(what: str, size_bytes: int, tiers: CacheTiers, price: UnitPrice) -> Cache:
    name = f"{format_size(size_bytes)} of {_NAMES[what]}"
    amount = size_bytes / GIB
    return Cache(
        name=name,
        disk_share=min(1.0, max(tiers.disk_share, tiers.disk_share_high)),
        item=Item(
            what=f"{name}, which serves {1 - tiers.disk_share:.0%} of the reads".replace("%", " %"),
            amount=amount,
            unit="GiB",
            money=price.money.times(amount),
            origin=price.origin,
        ),
    )


def with_cache(cache: Cache, candidates: Sequence[Candidate], need: StorageNeed) -> list[Candidate]:
    """Return the cheapest candidates that sustain the load behind a cache, with the cache.

    Burst credits do not count in this choice.

    Args:
        cache: The cache.
        candidates: Storage without it, in the currency of the cache's price.
        need: The load, as recorded.
    """
    found = []
    for each in sorted(candidates, key=lambda other: (other.month.mid, other.name)):
        caps = tuple(replace(cap, reads_share=cache.disk_share) for cap in each.caps)
        if each.capacity_bytes >= need.capacity.mid and all(_lasts(cap, need) for cap in caps):
            found.append(
                replace(
                    each,
                    name=f"{each.name} + {cache.name}",
                    caps=caps,
                    bill=(*each.bill, cache.item),
                    month=each.month + cache.item.money,
                    disk_share=cache.disk_share,
                )
            )
        if len(found) == CANDIDATES_PER_CACHE_MAX:
            break
    return found


def _lasts(cap: Limit, need: StorageNeed) -> bool:
    return float(need.demand.counted_by(cap).max()) <= cap.per_s
