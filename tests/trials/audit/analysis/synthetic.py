"""Tables that a form itself makes, with known parameters, noise and gaps."""

import numpy as np

from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.trials.audit.analysis.model import CellTable, TablePoint
from seatrial.trials.audit.queueing.forms import Variant

READ_VALUES = {
    "setup_us": 12.0,
    "host_service_us": 16.0,
    "link_mib_per_s": 1700.0,
    "store_forward_us_per_mib": 150.0,
    "store_forward_kib": 600.0,
    "admitted_count": 7.7,
    "sub_page_us": 22.0,
}
LOCKED_VALUES = {"locked_us": 31.0, "link_mib_per_s": 540.0, "sub_page_us": 4.0}
PARITY_VALUES = {
    "request_us": 80.0,
    "partial_stripe_us": 200.0,
    "coalescing_exponent": 0.55,
    "stripe_kib": 384.0,
    "full_stripe_mib_per_s": 245.0,
}
SIZES = [512 << shift for shift in range(14)]
COUNTS = [1, 10, 40]


def rates(form, values, sizes=SIZES, counts=COUNTS):
    """Requests per second by (size, count)."""
    grid = [(size, count) for size in sizes for count in counts]
    size_bytes, concurrency = (np.array(each, dtype=float) for each in zip(*grid, strict=True))
    exact = {name: np.float64(value) for name, value in values.items()}
    made = Variant(form, tuple(values)).rate_per_s(exact, size_bytes, concurrency)
    return dict(zip(grid, (float(rate) for rate in made), strict=True))


def deep_rates(values, sizes, shapes):
    """Requests per second of the form ``read`` by (size, threads, depth)."""
    grid = [(size, *shape) for size in sizes for shape in shapes]
    size_bytes, threads, depth = (np.array(each, dtype=float) for each in zip(*grid, strict=True))
    exact = {name: np.float64(value) for name, value in values.items()}
    made = Variant("read", tuple(values)).rate_per_s(exact, size_bytes, threads * depth, threads)
    return dict(zip(grid, (float(rate) for rate in made), strict=True))


def table_from(by_place, *, operation="read", rounds=1, noise_log=0.0, seed=0, imported=False):
    """A table with the given rates, measured so often, each time off by log-normal noise.

    A place is a block size and threads, and a depth where it is not 1.
    """
    random = np.random.default_rng(seed)
    points = []
    for place, ((size, count, *deep), rate) in enumerate(by_place.items()):
        depth = deep[0] if deep else 1
        measured = [rate * random.lognormal(0.0, noise_log) for _ in range(rounds)]
        points.append(
            TablePoint(
                key=f"matrix/{operation}/{size}B/{count}t/{depth}d",
                block_size_bytes=size,
                threads=count,
                depth=depth,
                iops=estimate_of_rounds(measured, "IOPS") if rate else None,
                rounds_per_s=measured if rate else [],
                position=len(by_place) - 1 - place,  # not in the order of the table
                duration_s=1.0,
            )
        )
    return CellTable(
        target="trial",
        workload="matrix",
        operation=operation,
        factors={"pattern": "random"},
        imported=imported,
        points=points,
    )


def table_of(form, values, *, sizes=SIZES, counts=COUNTS, **how):
    """A table that a form makes."""
    operation = "read" if form == "read" else "write"
    return table_from(rates(form, values, sizes, counts), operation=operation, **how)
