"""Runs independent simulations on all processors of this machine or elsewhere.

Each is of one policy and size, or of one pair of memory and device. Runners return the results in
order, so that the figures are the same for any number of workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from seatrial.trials.cache.analysis.accesses import Accesses

Simulation = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of the accesses, and its other arguments; all of them can be pickled."""

Runner = Callable[[Accesses, Sequence[Simulation]], list[Any]]
"""Runs simulations of the same accesses, and returns their results in order."""


def on_this_machine(accesses: Accesses, simulations: Sequence[Simulation]) -> list[Any]:
    """Run simulations on all processors; raises what one of them raises."""
    for sample in accesses.samples:
        _ = sample.caches  # computed once, not by each thread
    workers = min(len(os.sched_getaffinity(0)), max(1, len(simulations)))
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda one: one[0](accesses, *one[1]), simulations))
