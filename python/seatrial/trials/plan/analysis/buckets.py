"""Simulates token buckets of burst credits under a load, slot by slot, many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial.lazy import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from seatrial.catalogue.volumes import Bucket

UNSERVED_SHARE_MAX: Final = 0.001
"""A limit is sustained if no larger share of the load waits for a later slot."""
STEPS: Final = 24
"""Steps of the bisection: the factor is known to 1e-4."""
FACTOR_MIN: Final = 1e-3
FACTOR_MAX: Final = 1e4


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Limits as arrays of shape (limits,); without a burst, both rates are equal.

    Attributes:
        base_per_s: Rate without credits.
        burst_per_s: Rate while credits last.
        credits_max: Credits of a full bucket.
        refill_per_s: Most credits gained in a second.
    """

    base_per_s: NDArray[np.float64]
    burst_per_s: NDArray[np.float64]
    credits_max: NDArray[np.float64]
    refill_per_s: NDArray[np.float64]


def buckets_of(limits: Sequence[tuple[float, Bucket | None]]) -> Buckets:
    """Return limits as arrays, each from its lasting rate and its bucket."""
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
class BucketOutcome:
    """The simulated result of a load, by limit.

    Attributes:
        unserved_share: Share of the load that exceeded the limit in its slot.
        dry_after_s: Time of the first excess; infinite if there was none.
    """

    unserved_share: NDArray[np.float64]
    dry_after_s: NDArray[np.float64]


def simulate(loads_per_s: NDArray[np.float64], slot_s: float, buckets: Buckets) -> BucketOutcome:
    """Simulate each load under its limit, from a full bucket.

    Args:
        loads_per_s: Shape (limits, slots).
        slot_s: Length of a slot (s).
        buckets: Shape (limits,) each.
    """
    base, burst, full = buckets.base_per_s, buckets.burst_per_s, buckets.credits_max
    loads = np.ascontiguousarray(loads_per_s.T)
    changes = np.minimum(base - loads, buckets.refill_per_s) * slot_s
    # Only this recurrence goes slot by slot: the level before each slot, and after the last.
    balances = np.empty((len(loads) + 1, len(base)))
    balances[0] = full
    for before, change, after in zip(balances, changes, balances[1:], strict=False):
        np.add(before, change, out=after)
        np.maximum(after, 0.0, out=after)
        np.minimum(after, full, out=after)
    over = np.maximum(loads - np.minimum(burst, base + balances[:-1] / slot_s), 0.0)
    unserved = over.sum(axis=0)
    dry_after_s = np.full_like(base, np.inf)
    exceeded = over > loads * UNSERVED_SHARE_MAX
    for limit in np.flatnonzero(exceeded.any(axis=0)):
        slot = int(exceeded[:, limit].argmax())
        load, above = loads[slot, limit], loads[slot, limit] - base[limit]
        within = 0.0
        if above > 0 and load <= burst[limit]:
            within = min(balances[slot, limit] / max(above, 1e-9), slot_s)
        dry_after_s[limit] = slot * slot_s + within
    total = np.maximum(loads_per_s.sum(axis=1), 1e-300)
    return BucketOutcome(unserved_share=unserved / total, dry_after_s=dry_after_s)


def sustained_factors(
    loads_per_s: NDArray[np.float64], slot_s: float, buckets: Buckets
) -> NDArray[np.float64]:
    """Return the multiple of the load that each limit sustains, by bisection.

    Shape (limits,); between 0.001 and 10,000. It never falls when a limit grows.
    """
    low = np.full(len(buckets.base_per_s), np.log(FACTOR_MIN))
    high = np.full(len(buckets.base_per_s), np.log(FACTOR_MAX))
    for _ in range(STEPS):
        middle = (low + high) / 2
        outcome = simulate(loads_per_s * np.exp(middle)[:, None], slot_s, buckets)
        is_sustained = outcome.unserved_share <= UNSERVED_SHARE_MAX
        low, high = np.where(is_sustained, middle, low), np.where(is_sustained, high, middle)
    factors: NDArray[np.float64] = np.exp(low)
    return factors
