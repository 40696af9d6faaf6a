"""Plays a load through buckets of credits, slot by slot, many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from seatrial.catalogue.volumes import Bucket

UNSERVED_SHARE_MAX: Final = 0.001
"""A limit is kept if no more of the load has to wait for a later slot."""
STEPS: Final = 24
"""Of the bisection: the factor is known to 1e-4."""
FACTOR_MIN: Final = 1e-3
FACTOR_MAX: Final = 1e4


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Limits as arrays of shape (limits,); without a burst, both rates are equal.

    Attributes:
        base_per_s: What lasts.
        burst_per_s: What is given while credits last.
        credits_max: What a full bucket holds.
        refill_per_s: The most that it gains in a second.
    """

    base_per_s: NDArray[np.float64]
    burst_per_s: NDArray[np.float64]
    credits_max: NDArray[np.float64]
    refill_per_s: NDArray[np.float64]


def buckets_of(limits: Sequence[tuple[float, Bucket | None]]) -> Buckets:
    """Return limits as arrays, each from what lasts and its bucket."""
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    rows = [
        (base, base, 0.0, np.inf)
        if bucket is None
        else (bucket.base_per_s, bucket.burst_per_s, bucket.credits_max, bucket.refill_per_s)
        for base, bucket in limits
    ]
    columns = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    return Buckets(
        base_per_s=columns[0],
        burst_per_s=columns[1],
        credits_max=columns[2],
        refill_per_s=columns[3],
    )


@dataclass(frozen=True, kw_only=True)
class Played:
    """What became of a load, by limit.

    Attributes:
        unserved_share: Share of the load that exceeded the limit in its slot.
        dry_after_s: When that happened first; infinite where it never did.
        least_share: The least that the bucket held, as a share of a full one; 1 without a bucket.
    """

    unserved_share: NDArray[np.float64]
    dry_after_s: NDArray[np.float64]
    least_share: NDArray[np.float64]


def play(loads_per_s: NDArray[np.float64], slot_s: float, buckets: Buckets) -> Played:
    """Play each load through its limit, from a full bucket.

    Args:
        loads_per_s: Shape (limits, slots).
        slot_s: Length of a slot (s).
        buckets: Shape (limits,) each.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    base, burst, full = buckets.base_per_s, buckets.burst_per_s, buckets.credits_max
    balance = full.copy()
    unserved = np.zeros_like(base)
    least = balance.copy()
    dry_after_s = np.full_like(base, np.inf)
    for slot, load in enumerate(loads_per_s.T):
        above = load - base
        allowed = np.minimum(burst, base + balance / slot_s)
        over = np.maximum(load - allowed, 0.0)
        unserved += over
        first = (over > load * UNSERVED_SHARE_MAX) & np.isinf(dry_after_s)
        if first.any():
            within = np.where(above > 0, balance / np.maximum(above, 1e-9), 0.0)
            within = np.where(load > burst, 0.0, np.minimum(within, slot_s))
            dry_after_s[first] = slot * slot_s + within[first]
        change = np.where(above > 0, -above, np.minimum(-above, buckets.refill_per_s))
        balance = np.clip(balance + change * slot_s, 0.0, full)
        least = np.minimum(least, balance)
    total = np.maximum(loads_per_s.sum(axis=1), 1e-300)
    return Played(
        unserved_share=unserved / total,
        dry_after_s=dry_after_s,
        least_share=np.where(full > 0, least / np.maximum(full, 1e-300), 1.0),
    )


def factors_held(
    loads_per_s: NDArray[np.float64], slot_s: float, buckets: Buckets
) -> NDArray[np.float64]:
    """Return how many times the load each limit holds, by bisection of ``play``.

    Shape (limits,); between 0.001 and 10,000. What is held never shrinks when a limit grows.
    """
    import numpy as np  # noqa: PLC0415 - numpy is for analyses only

    low = np.full(len(buckets.base_per_s), np.log(FACTOR_MIN))
    high = np.full(len(buckets.base_per_s), np.log(FACTOR_MAX))
    for _ in range(STEPS):
        middle = (low + high) / 2
        played = play(loads_per_s * np.exp(middle)[:, None], slot_s, buckets)
        held = played.unserved_share <= UNSERVED_SHARE_MAX
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    found: NDArray[np.float64] = np.exp(low)
    return found
