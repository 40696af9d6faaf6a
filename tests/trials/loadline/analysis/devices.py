"""Devices whose true answer is known: some to choose constants on, others to count on.

The answers of queues with exponential service are those of theory; the others are from simulations
of millions of requests (``Device.slow_share_at``), true to about half a percent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from trials.loadline.analysis.virtual import (
    Device,
    constant,
    exponential,
    heavy,
    moods,
    stalls,
    stalls_in_bunches,
    two_kinds,
)


class Known(NamedTuple):
    """A device, and the highest rate at which one request in a hundred is slow."""

    device: Device
    sustained_per_s: float


def queue(per_s: float, limit_ms: int) -> Known:
    """One server with exponential service: the share of slow requests is exp(-(mu - r) t)."""
    truth_per_s = per_s - math.log(100) / (limit_ms / 1e3)
    return Known(Device(limit_ms, exponential(per_s)), truth_per_s)


CHOSEN_ON = {
    "queue, M/M/1": queue(4_000, 5),
    "fast queue, M/M/1": queue(20_000, 5),
    "slow queue, M/M/1": queue(300, 50),
    "even work, M/D/1": Known(Device(5, constant(4_000)), 3_540),
    "heavy tail": Known(Device(20, heavy(4_000, 2.5)), 3_719),
    "throttle": Known(Device(25, constant(4_000), bucket=400), 3_968),
    "stalls": Known(Device(10, constant(6_000), spans=stalls(4.0, 0.03)), 2_956),
    "stalls in bunches": Known(
        Device(10, constant(6_000), spans=stalls_in_bunches(4.0, 0.012, 4, 0.05)), 3_515
    ),
    "flat below the limit": Known(Device(5, constant(8_000), slow_share=0.0095), 7_020),
}
COUNTED_ON = {
    "queue, M/M/1": queue(1_000, 10),
    "fast queue, M/M/1": queue(9_000, 3),
    "slow queue, M/M/1": queue(400, 40),
    "even work, M/D/1": Known(Device(2, constant(12_000)), 10_822),
    "two kinds of work": Known(Device(10, two_kinds(5_000, 0.02, 20)), 3_820),
    "heavy tail": Known(Device(30, heavy(2_000, 3.0)), 1_890),
    "throttle": Known(Device(10, constant(7_000), bucket=150), 6_902),
    "stalls": Known(Device(8, exponential(7_000), spans=stalls(1.5, 0.015, spread=1.0)), 3_479),
    "moods": Known(Device(10, exponential(6_000), spans=moods(0.8, 0.3)), 4_446),
    "flat at half the limit": Known(Device(5, exponential(8_000), slow_share=0.005), 6_937),
    "flat above the limit": Known(Device(5, constant(8_000), slow_share=0.02), 0.0),
}
HONEST_WITHOUT_LOW = {
    "stalls",
    "stalls in bunches",
    "flat below the limit",
    "flat above the limit",
}
"""Where 90 s are too short to know that any rate holds, or none does."""
