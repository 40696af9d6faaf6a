"""Load lines made by hand, of the few values that a test is about."""

from __future__ import annotations

from findings.analyses import analyses_of
from seatrial.findings.context import Context
from seatrial.stats.model import Estimate
from seatrial.trials.loadline.analysis.model import LoadLine, LoadStep
from stats.builders import cell_of, rounds_of, run_of

MS_NS = 1_000_000
TEMPLATE = "loadline/read/8192B/4t/32d"


def figure(value, unit="IOPS", spread=0.02):
    return Estimate(
        value=value, low=value * (1 - spread), high=value * (1 + spread), rounds=3, unit=unit
    )


def step_of(rate, p99_ms, holds, *, stalls=0):
    return LoadStep(
        cell=f"{TEMPLATE}/arrival=poisson/rate={rate}",
        offered_per_s=rate,
        completed_per_s=figure(rate),
        response={"p99": figure(p99_ms * MS_NS, "ns")},
        service={"p99": figure(p99_ms * MS_NS / 2, "ns")},
        above=figure(0.001 if holds else 0.2, "ratio"),
        late_share=0.0,
        stalls=stalls,
        holds=holds,
    )


def line_of(**changes):
    values = {
        "target": "trial",
        "workload": "loadline",
        "percentile": "p99",
        "limit_ns": 5 * MS_NS,
        "cell": TEMPLATE,
        "steps": [step_of(5_000, 1.0, True), step_of(10_000, 9.0, False)],
        "sustained": Estimate(value=7_000, low=5_000, high=10_000, rounds=3, unit="IOPS"),
        "closed_loop": figure(12_000),
        "breaks": "knee",
        "knee_per_s": 4_000.0,
        "sentence": "Sustains 7,000 IOPS (5,000 to 10,000) within p99 <= 5 ms.",
        "cause": "p99 is about 1 ms up to 4,000 IOPS and rises from there.",
    }
    return LoadLine(**values | changes)


def cells():
    """The closed loop, and the rate that breaks."""
    common = {"workload": "loadline", "threads": 4, "depth": 32}
    closed = cell_of(**common)
    broken = cell_of(
        **common,
        factors={"arrival": "poisson", "rate": 10_000},
        arrival={"kind": "poisson", "rate_per_s": 10_000},
    )
    return [rounds_of(closed, [12_000]), rounds_of(broken, [9_000, 9_900, 9_500])]


def context_of(*lines):
    return Context(run_of(), cells(), analyses_of(load_lines=lines))
