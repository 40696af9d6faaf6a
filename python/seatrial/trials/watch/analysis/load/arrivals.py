"""Arrivals: the rate of requests, and how bursty it is.

The index of dispersion for counts is the variance of the number of arrivals in windows of one
length, divided by its mean: 1 for independent arrivals (Poisson), less for a steady rate, more for
bursts. Its interval is a bootstrap over blocks of neighbouring windows, which are correlated.

Sources: D. Cox, P. Lewis, "The Statistical Analysis of Series of Events", 1966; R. Gusella,
"Characterizing the Variability of Arrival Processes with Indexes of Dispersion", IEEE JSAC 9 (2),
1991; H. Künsch, "The Jackknife and the Bootstrap for General Stationary Observations", Annals of
Statistics 17 (3), 1989, for blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount, Count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

SCALES_S: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0)
_WINDOWS_MIN: Final = 64
_WINDOWS_MAX: Final = 20_000_000
_BLOCKS: Final = 32
_DRAWS: Final = 1000
_SEED: Final = 17


class Dispersion(msgspec.Struct, frozen=True, kw_only=True):
    """The index of dispersion at one scale.

    Attributes:
        window_s: Length of the windows.
        windows: Number of windows.
        index: Variance of the number of arrivals over its mean; 1 for Poisson arrivals.
        low: Lower end of the 95 % interval.
        high: Upper end.
    """

    window_s: float
    windows: Count
    index: Amount
    low: Amount
    high: Amount


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """How requests arrive.

    Attributes:
        resolution_ns: Greatest common divisor of all times.
        requests_per_s: Mean rate.
        bytes_per_s: Mean rate of bytes read and written.
        peak_per_s: The highest rate in a second; the mean for a shorter recording.
        idle_share: Share of seconds without a request; 0 for a shorter recording.
        dispersion: By scale, the shortest first; scales below the resolution, or with fewer than 64
            windows, are omitted.
    """

    resolution_ns: Count
    requests_per_s: Amount
    bytes_per_s: Amount
    peak_per_s: Amount
    idle_share: Amount
    dispersion: list[Dispersion]


def arrivals_of(recording: Recording) -> Arrivals:
    """Return how requests arrive."""
    seconds = length_s(recording)
    resolution_ns = int(np.gcd.reduce(recording.arrived_ns)) if recording.requests else 0
    rate = recording.requests / seconds
    counts = counts_in(recording.arrived_ns, 1.0, int(seconds))
    scales = [
        each
        for each in SCALES_S
        if recording.requests
        and each * 1e9 >= 2 * resolution_ns
        and _WINDOWS_MIN <= seconds / each <= _WINDOWS_MAX
    ]
    return Arrivals(
        resolution_ns=resolution_ns,
        requests_per_s=rate,
        bytes_per_s=float(recording.length_bytes[recording.is_transfer].sum()) / seconds,
        peak_per_s=float(counts.max(initial=0)) if len(counts) > 1 else rate,
        idle_share=float((counts == 0).mean()) if len(counts) > 1 else 0.0,
        dispersion=[
            dispersion_of(counted, each)
            for each in scales
            if (counted := counts_in(recording.arrived_ns, each, int(seconds / each))).any()
        ],
    )


def length_s(recording: Recording) -> float:
    """Return the length of a recording in s, never 0."""
    last_s = float(recording.arrived_ns[-1]) / 1e9 if recording.requests else 0.0
    return max(recording.about.seconds, last_s, 1e-9)


def counts_in(arrived_ns: NDArray[np.int64], window_s: float, windows: int) -> NDArray[np.int64]:
    """Return the number of arrivals in each window; later arrivals are ignored."""
    numbers = arrived_ns // max(1, round(window_s * 1e9))
    return np.bincount(numbers[numbers < windows], minlength=windows)


def dispersion_of(counts: NDArray[np.int64], window_s: float) -> Dispersion:
    """Return the index of dispersion of counts, with its interval.

    Args:
        counts: Arrivals in windows; shape (windows,), at least two of them.
        window_s: Length of a window.
    """
    edges = np.linspace(0, len(counts), _BLOCKS + 1).astype(np.int64)[:-1]
    values = counts.astype(np.float64)
    sums = np.add.reduceat(values, edges)
    squares = np.add.reduceat(values**2, edges)
    sizes = np.diff([*edges, len(counts)])
    parts = np.stack([sums, squares, sizes.astype(np.float64)])
    draws = np.random.default_rng(_SEED).multinomial(_BLOCKS, [1 / _BLOCKS] * _BLOCKS, _DRAWS)
    found = _index(parts @ draws.T)
    index = _index(parts.sum(axis=1))
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return Dispersion(
        window_s=window_s,
        windows=len(counts),
        index=float(index),
        low=float(low),
        high=float(high),
    )


def _index(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the indices for sums of counts, sums of their squares, and numbers of windows."""
    sums, squares, sizes = parts
    mean = sums / sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        found: NDArray[np.float64] = np.maximum(0, squares / sizes - mean**2) / mean
    return found
