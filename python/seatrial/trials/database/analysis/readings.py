"""Figures over a sample's per-second readings, and over the rounds of a cell.

The readings of a figure are those of the running phase, as the rate's are (stats/running.py).
What is counted over a whole sample only, as the wait events are, covers the start-up phase, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.results.model import Sample, Series
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import estimate_of_rounds, t_quantile
from seatrial.stats.running import Running
from seatrial.stats.student import variance

WEIGHTS: Final[Mapping[str, str]] = {
    "device_read_latency_ms": "device_read_per_s",
    "device_write_latency_ms": "device_write_per_s",
    "device_flush_latency_ms": "device_flush_per_s",
    "wal_sync_latency_ms": "wal_syncs_per_s",
}
"""Means of what happens: a second in which it happened often counts for more."""
COUNTED: Final = ("checkpoints_timed", "checkpoints_requested", "deadlocks")
"""What is added up over a sample."""
CHECKPOINTS: Final = "checkpoints"
_UNSHOWN: Final = ("waits_", "checkpoints_")


@dataclass(frozen=True)
class Round:
    """A sample and what its figures rest on."""

    sample: Sample
    phase: Running


def entries_from(series: Series, from_s: float) -> int:
    """Return the first entry that lies wholly after a moment."""
    return math.ceil(from_s / series.period_s - 1e-6) if series.period_s > 0 else 0


def column_mean(sample: Sample, name: str, from_s: float = 0.0) -> float | None:
    """Return a column's mean (of what is counted: its sum) from a moment on; None if unknown."""
    series = sample.series
    if series is None or name not in series.columns:
        return None
    first = entries_from(series, from_s)
    values = series.columns[name][first:]
    weights = series.columns.get(WEIGHTS.get(name, ""), [])[first:] or [1.0] * len(values)
    known = [
        (value, weight)
        for value, weight in zip(values, weights, strict=False)
        if value is not None and weight
    ]
    if not known:
        return None
    if name in COUNTED:
        return math.fsum(value for value, _ in known)
    whole = math.fsum(weight for _, weight in known)
    return math.fsum(value * weight for value, weight in known) / whole


def cell_columns(rounds: Sequence[Round]) -> dict[str, Estimate]:
    """Return every column's figure over the rounds that know it, for what the time went into.

    Waits are told apart from these. How often checkpoints began is added up, whatever began them.
    """
    names = dict.fromkeys(
        name
        for each in rounds
        for name in (each.sample.series.columns if each.sample.series else ())
        if not name.startswith(_UNSHOWN)
    )
    found = {}
    for name in names:
        values = [
            value
            for each in rounds
            if (value := column_mean(each.sample, name, each.phase.from_s)) is not None
        ]
        if values:
            found[name] = figure_of_rounds(name, values)
    counts = [value for each in rounds if (value := checkpoints_of(each.sample)) is not None]
    if counts:
        found[CHECKPOINTS] = figure_of_rounds(CHECKPOINTS, counts)
    return found


def checkpoints_of(sample: Sample) -> float | None:
    """Return how many checkpoints began in a whole sample; None where that is not known."""
    kinds = [column_mean(sample, name) for name in COUNTED[:2]]
    known = [value for value in kinds if value is not None]
    return math.fsum(known) if known else None


def figure_of_rounds(name: str, values: Sequence[float]) -> Estimate:
    """Return a column's figure: of shares and counts the plain mean, else the geometric one."""
    unit = unit_of(name)
    if unit in ("share", "count"):
        return mean_of_rounds(values, unit, high_max=1.0 if unit == "share" else math.inf)
    return estimate_of_rounds([max(0.0, value) for value in values], unit)


def mean_of_rounds(values: Sequence[float], unit: str, *, high_max: float) -> Estimate:
    """Return the plain mean of rounds with its t interval, cut off at 0 and ``high_max``.

    Plain means of shares that sum up to 1 in every round sum up to 1; geometric ones do not.
    """
    rounds = len(values)
    mean = math.fsum(values) / rounds
    if rounds == 1:
        return Estimate(value=mean, low=None, high=None, rounds=1, unit=unit)
    half = t_quantile(rounds) * math.sqrt(variance(values) / rounds)
    return Estimate(
        value=mean,
        low=max(0.0, mean - half),
        high=max(mean, min(high_max, mean + half)),
        rounds=rounds,
        unit=unit,
    )


def unit_of(name: str) -> str:
    """Return the unit that a column's name ends in."""
    if name == CHECKPOINTS or name in COUNTED or name.startswith(("backends_", "autovacuum_")):
        return "count"
    if name == "transactions_per_s":
        return "tps"
    if name in ("device_read_per_s", "device_write_per_s"):
        return "IOPS"
    endings = {
        "_bytes_per_s": "B/s",
        "_per_s": "1/s",
        "_share": "share",
        "_cores": "cores",
        "_ms": "ms",
    }
    return next((unit for ending, unit in endings.items() if name.endswith(ending)), "count")
