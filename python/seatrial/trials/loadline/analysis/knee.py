"""Where latency leaves its floor: a hinge in the logarithms of rate and latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

POINTS_MIN = 4
CANDIDATES = 200
RISE_MIN = 2.0
"""A floor that the highest rate exceeds less than twice has no knee in it."""


class Hinge(NamedTuple):
    """A floor, and the rate at which the latency begins to rise from it.

    Attributes:
        rate_per_s: Where it rises.
        floor_ns: What it is before.
    """

    rate_per_s: float
    floor_ns: float


def hinge(points: Sequence[tuple[float, float]]) -> Hinge | None:
    """Return the knee of a load line; None where there is none, or too few rates to tell.

    A level line and a rising one that meet at the knee are fitted to the logarithms by least
    squares, the knee being tried at many places; the rising part is a power of the rate. It is
    no model of a queue, only the place where a reader would draw the bend.

    Args:
        points: Offered rate (per s) and latency (ns), rising by rate.
    """
    if len(points) < POINTS_MIN:
        return None
    import numpy as np  # noqa: PLC0415 - only an analysis pays for numpy

    rates, latencies = np.log(np.array(points, dtype=float)).T
    best = (np.inf, 0.0, 0.0, 0.0)
    for knee in np.linspace(rates[0], rates[-1], CANDIDATES, endpoint=False):
        terms = np.stack([np.ones_like(rates), np.maximum(0.0, rates - knee)], axis=1)
        (floor, slope), *_ = np.linalg.lstsq(terms, latencies, rcond=None)
        error = float(np.sum((terms @ np.array([floor, slope]) - latencies) ** 2))
        if error < best[0]:
            best = (error, knee, floor, slope)
    _, knee, floor, slope = best
    if slope * (rates[-1] - knee) < np.log(RISE_MIN):
        return None
    return Hinge(rate_per_s=float(np.exp(knee)), floor_ns=float(np.exp(floor)))
