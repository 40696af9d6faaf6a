"""Two sides made of a few values, or drawn as devices scatter."""

from __future__ import annotations

import msgspec
import numpy as np

from seatrial.results.model import OperationResult, Outcome, Sample, Timeline
from seatrial.stats.compare.model import Side, SideSamples
from stats.builders import cell_of, run_of, sample_of

NO_TIMELINE = Timeline(slice_ns=100_000_000, slices=[])
EMPTY_HISTOGRAM = sample_of(completed=0).operations["read"].response


def side_of(name, samples, *, run_id=None, target="", **run):
    run = {"before": {"machine": {"kernel": "6.1"}}} | run
    own = msgspec.structs.replace(run_of(**run), id=run_id or f"run-{name}", label=name)
    return SideSamples(side=Side(name=name, run=own, target=target), samples=samples)


def driver_sample(cell, round_number, rate_per_s, latency_ns=None, *, started_at=0.0):
    """A sample of one second that tells its latencies as a foreign result does."""
    completed = round(rate_per_s)
    part = OperationResult(
        completed=completed,
        failed=0,
        transferred_bytes=completed * cell.block_size_bytes,
        response=EMPTY_HISTOGRAM,
        reported_ns=latency_ns or {},
    )
    return Sample(
        cell=cell,
        round=round_number,
        position=0,
        started_at=started_at,
        duration_s=completed / rate_per_s if completed else 1.0,
        engine="psync",
        outcome=Outcome(
            offered=completed, completed=completed, failed=0, late_skipped=0, in_flight_at_end=0
        ),
        operations={cell.operation: part},
        timeline=NO_TIMELINE,
    )


def cells_of(count):
    return [cell_of(threads=number + 1) for number in range(count)]


def side_with_rates(name, rates_by_cell, *, begin_s=0.0, **more):
    """A side with one sample for each rate: cells by row, rounds by column, no latencies."""
    rows = [list(row) for row in rates_by_cell]
    samples = [
        driver_sample(cell, number, rate, started_at=begin_s + 100.0 * number)
        for cell, row in zip(cells_of(len(rows)), rows, strict=True)
        for number, rate in enumerate(row)
    ]
    return side_of(name, samples, **more)


def drawn(draw, *, cells, rounds, noise, drift=0.0, factor=1.0, base_per_s=1e5):
    """Rates by cell and round: ``factor`` times the base, scatter and drift lognormal."""
    scatter = noise * draw.standard_normal((cells, rounds))
    return base_per_s * factor * np.exp(scatter + drift)


def random_sides(seed, *, cells, rounds, noise, factor=1.0, paired, latencies=True):
    """A and B: rates of lognormal scatter, a drift that both share by round if paired.

    p50 follows the rate as in a closed loop; p99 scatters by itself, half as much again.
    """
    draw = np.random.default_rng(seed)
    drifts = 0.1 * draw.standard_normal((2, rounds))
    if paired:
        drifts[1] = drifts[0]
    sides = []
    for name, drift, faster in (("A", drifts[0], 1.0), ("B", drifts[1], factor)):
        rates = drawn(draw, cells=cells, rounds=rounds, noise=noise, drift=drift, factor=faster)
        tails = np.exp(1.5 * noise * draw.standard_normal((cells, rounds)) - drift) / faster
        samples = [
            driver_sample(
                cell,
                number,
                rates[place, number],
                {"p50": 1e9 / rates[place, number], "p99": 1e5 * tails[place, number]}
                if latencies
                else None,
                started_at=(0.0 if paired or name == "A" else 1e6) + 100.0 * number,
            )
            for place, cell in enumerate(cells_of(cells))
            for number in range(rounds)
        ]
        sides.append(side_of(name, samples, run_id="one" if paired else None))
    return sides
