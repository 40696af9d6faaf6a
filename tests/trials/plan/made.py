"""Facts, loads and runs for the tests of plans."""

from __future__ import annotations

import datetime

import numpy as np

from seatrial.catalogue.store import Catalogue
from seatrial.trials.plan.analysis.demand import Demand

TODAY = datetime.date(2026, 11, 27)


def facts(own: dict[str, dict[str, object]] | None = None) -> Catalogue:
    """The shipped catalogue, with figures above it."""
    return Catalogue(own or {}, today=TODAY, source_name="own.toml")


def demand(per_s: object, size_bytes: float = 8192, slot_s: float = 60.0) -> Demand:
    """A load of reads alone, by slot."""
    reads = np.atleast_1d(np.asarray(per_s, dtype=np.float64))
    nothing = np.zeros_like(reads)
    return Demand(
        origin="typed",
        slot_s=slot_s,
        reads_per_s=reads,
        writes_per_s=nothing,
        read_bytes_per_s=reads * size_bytes,
        write_bytes_per_s=nothing,
    )
