"""Sides of a comparison with the noise of real machines, drawn from a seed.

Runs: logarithms of a run's times follow an autoregression with a coefficient of variation of 19 %
and a correlation of 0.943 from a run to the next. That is what 30 runs of pgbench showed: single
pairs differed by 19.6 % (median), adjacent ones by 6.4 % (standard deviation), five runs from the
next five by 8.7 %. Slices of 100 ms within a run: correlation 0.64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from seatrial.trials.replay.compare.model import (
    CallFigures,
    CallTimeline,
    Clock,
    Kind,
    MeasuredSide,
    QueryLabel,
    Unit,
)

RUNS_SD = 0.19
RUNS_CORRELATION = 0.943
SLICES_SD = 0.19
SLICES_CORRELATION = 0.64
QUERY_SD = 0.02

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def wandering(rng: np.random.Generator, count: int, sd: float, correlation: float) -> Array:
    """Return an autoregression of so many values."""
    values = np.empty(count)
    values[0] = rng.normal(0, sd)
    innovation = sd * math.sqrt(1 - correlation**2)
    for place in range(1, count):
        values[place] = correlation * values[place - 1] + rng.normal(0, innovation)
    return values


def keys_of(queries: int) -> list[str]:
    return [f"{number:016x}" for number in range(queries)]


def labels(keys: Sequence[str]) -> dict[str, QueryLabel]:
    return {key: QueryLabel(text=f"select {key}", kind="select") for key in keys}


def entrant(
    name: str, units: Sequence[Unit], *, kind: Kind = "replay", clock: Clock = "client"
) -> MeasuredSide:
    keys = list(dict.fromkeys(key for unit in units for key in unit.measured))
    return MeasuredSide(name=name, kind=kind, clock=clock, units=units, labels=labels(keys))


def turns(
    rng: np.random.Generator,
    *,
    rounds: int,
    queries: int = 20,
    slower: Mapping[str, float] | float = 1.0,
    in_turns: bool = True,
) -> tuple[MeasuredSide, MeasuredSide]:
    """Return before and after in runs of the same machine, in turns or one after the other.

    Args:
        rng: Where the noise is drawn from.
        rounds: Of each side.
        queries: Each with its own mean time and calls.
        slower: By what factor queries take longer after: all, or those named.
        in_turns: Whether the sides alternate.
    """
    keys = keys_of(queries)
    level = wandering(rng, 2 * rounds, RUNS_SD, RUNS_CORRELATION)
    means_s = np.exp(rng.normal(math.log(1e-3), 1.5, queries))
    calls = np.ceil(np.exp(rng.normal(math.log(200), 1.0, queries)))
    sides: tuple[list[Unit], list[Unit]] = ([], [])
    for place in range(2 * rounds):
        side, number = (place % 2, place // 2) if in_turns else divmod(place, rounds)
        own = np.exp(level[place] + rng.normal(0, QUERY_SD, queries)) * means_s
        measured = {}
        for key, mean_s, count in zip(keys, own, calls, strict=True):
            factor = slower if isinstance(slower, float) else slower.get(key, 1.0)
            total_s = count * mean_s * (factor if side else 1.0)
            measured[key] = CallFigures(calls=count, total_s=total_s)
        sides[side].append(
            Unit(number=number, measured=measured, begin_s=place * 6.0, covered_s=6.0)
        )
    return entrant("before", sides[0]), entrant("after", sides[1])


def capture(
    rng: np.random.Generator,
    *,
    means_s: Array,
    slices: int = 600,
    level: float = 0.0,
    calls_per_slice: float = 5.0,
    slices_sd: float = SLICES_SD,
    correlation: float = SLICES_CORRELATION,
    name: str = "log",
) -> MeasuredSide:
    """Return one capture: calls by chance, times of neighbouring slices alike."""
    keys = keys_of(len(means_s))
    timeline = wandering(rng, slices, slices_sd, correlation) + level
    counts = rng.poisson(calls_per_slice, (len(keys), slices))
    times = counts * np.exp(timeline) * means_s[:, None]
    times *= np.exp(rng.normal(0, 0.5, times.shape) / np.sqrt(np.maximum(counts, 1)))
    by_key = {
        key: {place: float(value) for place, value in enumerate(row) if counts[at, place]}
        for at, (key, row) in enumerate(zip(keys, times, strict=True))
    }
    calls = {
        key: {place: float(counts[at, place]) for place in by_key[key]}
        for at, key in enumerate(keys)
    }
    measured = {
        key: CallFigures(calls=sum(calls[key].values()), total_s=sum(by_key[key].values()))
        for key in keys
        if by_key[key]
    }
    unit = Unit(
        number=0,
        measured=measured,
        begin_s=0.0,
        covered_s=slices * 0.1,
        timeline=CallTimeline(slice_s=0.1, slices=slices, calls=calls, total_s=by_key),
    )
    return entrant(name, [unit], kind="log", clock="server")
