"""Load lines made by hand: latency of a queue that is full at 20k requests per second."""

from __future__ import annotations

from report.exports_hand import estimate
from seatrial.trials.loadline.analysis.model import LoadLine, LoadStep

LIMIT_NS = 5_000_000
FULL_PER_S = 20_000
CELL = "loadline/mixed/8192B/16t/1d"
RATES_PER_S = (2_000, 6_000, 10_000, 14_000, 16_000, 17_000, 17_500, 18_000, 19_500, 22_000)


def make_step(rate_per_s: float, **changes) -> LoadStep:
    """One step: the percentile grows as a queue does, and breaks the limit near 17,500."""
    load = min(rate_per_s / FULL_PER_S, 0.9995)
    p99_ns = 640_000 / (1 - load)
    spread = 0.02 + 0.2 * load**8
    holds = True if p99_ns * (1 + spread) < LIMIT_NS else None
    if p99_ns * (1 - spread) > LIMIT_NS:
        holds = False

    def around(value: float, share: float = spread, unit: str = "ns"):
        return estimate((value, value * (1 - share), value * (1 + share)), unit, 3)

    over = rate_per_s > FULL_PER_S
    values = {
        "cell": f"{CELL}/arrival=poisson/rate={rate_per_s}",
        "offered_per_s": rate_per_s,
        "completed_per_s": around(min(rate_per_s, FULL_PER_S), 0.01, "IOPS"),
        "response": {}
        if over
        else {"p50": around(p99_ns / 5), "p99": around(p99_ns), "max": around(p99_ns * 4)},
        "service": {"p50": around(110_000), "p99": around(600_000 + 40_000 * load)},
        "above": around(0.3 if over else 0.004, 0.2, "ratio"),
        "late_share": 0.21 if over else 0.0,
        "stalls": 2 if rate_per_s == 18_000 else 0,
        "holds": False if over else holds,
    }
    return LoadStep(**values | changes)


def make_load_line(**changes) -> LoadLine:
    values = {
        "target": "ssd",
        "workload": "loadline",
        "percentile": "p99",
        "limit_ns": LIMIT_NS,
        "cell": CELL,
        "steps": [make_step(rate) for rate in RATES_PER_S],
        "sustained": estimate((17_200, 16_000, 18_000), "IOPS", 3),
        "closed_loop": estimate((20_400, 20_000, 20_800), "IOPS", 2),
        "breaks": "knee",
        "knee_per_s": 14_000.0,
        "sentence": "Within p99 <= 5 ms it sustains 17k IOPS (16.0k to 18.0k), 84 % of what a "
        "closed loop reaches (20k IOPS).",
        "cause": "p99 is about 700 µs up to 14k IOPS and rises from there, as requests queue "
        "behind each other.",
    }
    return LoadLine(**values | changes)
