"""The law of a cache, of rates that were published and are not from a run."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.trials.database.analysis.cache_sweep import CacheLaw, CacheTime, cache_law


def law_of_rates(
    sizes_bytes: Sequence[int], rates_per_s: Sequence[float], *, cpu_s: float | None = None
) -> CacheLaw:
    """Return the law fitted to rates that are not from a run.

    Args:
        sizes_bytes: Sizes of the cache, at least three.
        rates_per_s: Transactions (lines, queries) per second at each of them.
        cpu_s: CPU time of one transaction, if known.

    Raises:
        ValueError: with a sentence, when there are fewer than three sizes, or a duplicate.
    """
    points = [
        CacheTime(size_bytes=size, time_s=1 / rate)
        for size, rate in zip(sizes_bytes, rates_per_s, strict=True)
    ]
    return cache_law(points, cpu_s=None if cpu_s is None else (cpu_s, cpu_s))
