"""Samples with a timeline, and series of noise that remembers."""

from __future__ import annotations

import msgspec
import numpy as np

from seatrial._core import Histogram
from seatrial.results.model import OperationResult, Outcome, Slice, Timeline

from .builders import MS_NS, cell_of, sample_of

SLICE_NS = 100 * MS_NS


def autocorrelated(draw, values, correlation, trials=1):
    """Series of normal noise, mean 0 and spread 1, each value like the one before (AR(1))."""
    noise = draw.standard_normal((trials, values + 100))
    for place in range(1, values + 100):
        fresh = np.sqrt(1 - correlation**2) * noise[:, place]
        noise[:, place] = correlation * noise[:, place - 1] + fresh
    return noise[:, 100:]


def timed_sample(counts, cell=None, *, latency_ns=None, tail_s=0.0, **rest):
    """A sample with so many completions in each slice of 100 ms, all of its cell's kind.

    ``latency_ns`` holds the response times of each slice; all take 1 ms by default. A mapping
    of counts by kind makes a sample of several kinds.
    """
    cell = cell or cell_of()
    by_kind = counts if isinstance(counts, dict) else {cell.operation: counts}
    slices, operations = [], {}
    for kind, own in by_kind.items():
        merged = Histogram.of([])
        for index, count in enumerate(own):
            times = latency_ns[index] if latency_ns is not None else [MS_NS] * int(count)
            histogram = Histogram.of([int(time) for time in times])
            merged = merged.merged(histogram)
            if count:
                slices.append(
                    Slice(
                        index=index,
                        operation=kind,
                        completed=int(count),
                        transferred_bytes=int(count) * cell.block_size_bytes,
                        response=histogram.encode(),
                    )
                )
        total = int(sum(own))
        operations[kind] = OperationResult(
            completed=total,
            failed=0,
            transferred_bytes=total * cell.block_size_bytes,
            response=merged.encode(),
        )
    completed = sum(part.completed for part in operations.values())
    values = len(next(iter(by_kind.values())))
    sample = sample_of(cell, completed=1, duration_s=values * 0.1 + tail_s, **rest)
    return msgspec.structs.replace(
        sample,
        operations=operations,
        timeline=Timeline(slice_ns=SLICE_NS, slices=sorted(slices, key=lambda part: part.index)),
        outcome=Outcome(
            offered=completed + sample.outcome.late_skipped + sample.outcome.in_flight_at_end,
            completed=completed,
            failed=0,
            late_skipped=sample.outcome.late_skipped,
            in_flight_at_end=sample.outcome.in_flight_at_end,
        ),
    )


def noisy_counts(values, level=100, *, spread=0.05, correlation=0.4, seed=1):
    """Completions of so many slices about one level."""
    noise = autocorrelated(np.random.default_rng(seed), values, correlation)[0]
    return np.rint(level * np.exp(spread * noise)).astype(int)
