"""Comparison of two loads: a recording with a run that imitates it, or with another recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Annotated, Final, NamedTuple

import msgspec

from seatrial.published import one_of
from seatrial.results.model import Sample
from seatrial.trials.watch.analysis.activity import TRANSFERS
from seatrial.trials.watch.analysis.load.mix import OperationShare
from seatrial.trials.watch.analysis.load.profile import LoadProfile
from seatrial.trials.watch.analysis.load.reuse import Reuse

NEAR_SHARE: Final = 0.1
"""Maximum difference of two figures that are reported as near."""
UNITS: Final = ("per_s", "bytes_per_s", "share", "bytes", "ns", "count")


class LoadFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of two loads.

    Attributes:
        name: Name of the figure.
        unit: Unit of both values.
        a: Value of the first load, a recording; null where it is unknown or absent.
        b: Value of the second, a recording or a run; the mean of several rounds.
        b_min: Smallest round of a run; null for a recording.
        b_max: Largest round.
        is_near: Whether they differ by at most 10 %, shares by at most 0.1; null where one of them
            is absent.
    """

    name: str
    unit: Annotated[str, one_of(*UNITS)]
    a: float | None
    b: float | None
    b_min: float | None = None
    b_max: float | None = None
    is_near: bool | None


class Value(NamedTuple):
    """A figure of one load.

    Attributes:
        unit: One of ``UNITS``.
        values: One value for a recording; one for each round of a run.
    """

    unit: str
    values: list[float]


Figures = Mapping[str, Value]
"""Figures by name."""


def compared(a: Figures, b: Figures) -> list[LoadFigure]:
    """Return the figures of two loads, those of the first in its order, then the others."""
    names = [*a, *(name for name in b if name not in a)]
    return [_figure(name, a.get(name), b.get(name)) for name in names]


def _figure(name: str, a: Value | None, b: Value | None) -> LoadFigure:
    one, other = (fmean(each.values) if each else None for each in (a, b))
    unit = (a or b or Value("count", [])).unit
    is_near = None
    if one is not None and other is not None:
        is_near = abs(other - one) <= NEAR_SHARE * (1 if unit == "share" else abs(one))
    rounds = b.values if b is not None and len(b.values) > 1 else []
    return LoadFigure(
        name=name,
        unit=unit,
        a=one,
        b=other,
        b_min=min(rounds, default=None),
        b_max=max(rounds, default=None),
        is_near=is_near,
    )


def figures_of(load: LoadProfile) -> dict[str, Value]:
    """Return the figures of a recording that are known."""
    return {name: Value(unit, [value]) for name, unit, value in _figures(load) if value is not None}


def _figures(load: LoadProfile) -> Iterator[tuple[str, str, float | None]]:
    arrivals = load.arrivals
    by_operation = {each.operation: each for each in load.mix}
    sequential = {each.operation: each.sequential / each.requests for each in load.sequentiality}
    count = sum(each.requests for each in load.mix if each.operation in TRANSFERS)
    yield "reads and writes per second", "per_s", count / load.seconds if arrivals else None
    yield "transfer", "bytes_per_s", arrivals.bytes_per_s if arrivals else None
    for name in TRANSFERS:
        own = by_operation.get(name)
        yield f"share of {name}s", "share", own.requests / count if own else None
        mean_bytes = own.transferred_bytes / own.requests if own else None
        yield f"mean size of {name}s", "bytes", mean_bytes
        yield f"sequential {name}s", "share", sequential.get(name)
        yield from _percentiles(name, own)
    flushes, writes = by_operation.get("flush"), by_operation.get("write")
    per_write = flushes.requests / writes.requests if flushes and writes else None
    yield "flushes per write", "share", per_write
    yield "distinct bytes", "bytes", float(load.footprint.unique_bytes) if count else None
    yield "accesses to the hottest 10 %", "share", _hottest(load.reuse)
    yield "in flight (mean)", "count", load.concurrency.mean if load.concurrency else None
    bursts = {each.window_s: each.index for each in arrivals.dispersion} if arrivals else {}
    yield "index of dispersion at 100 ms", "count", bursts.get(0.1)


def _percentiles(name: str, own: OperationShare | None) -> Iterator[tuple[str, str, float | None]]:
    for percent in ("p50", "p99"):
        known = own.latency_ns.get(percent) if own else None
        yield f"{percent} of {name}s", "ns", None if known is None else float(known)


def _hottest(reuse: Reuse | None) -> float | None:
    return reuse.hottest.get("10%") if reuse else None


def figures_of_run(samples: Sequence[Sample]) -> dict[str, Value]:
    """Return the figures of a run's samples that recordings have, with a value for each round.

    Latencies are service times, as seen by the system.

    Args:
        samples: The samples of one cell, one for each round.
    """
    found: dict[str, Value] = {}
    for sample in samples:
        for name, unit, value in _figures_of_sample(sample):
            found.setdefault(name, Value(unit, [])).values.append(value)
    return found


def _figures_of_sample(sample: Sample) -> Iterator[tuple[str, str, float]]:
    own = {name: sample.operations[name] for name in TRANSFERS if name in sample.operations}
    count = sum(each.completed for each in own.values())
    yield "reads and writes per second", "per_s", count / sample.duration_s
    yield "transfer", "bytes_per_s", sample.transferred_bytes_per_s
    for name, each in own.items():
        if not each.completed:
            continue
        yield f"share of {name}s", "share", each.completed / count
        yield f"mean size of {name}s", "bytes", each.transferred_bytes / each.completed
        times = each.service_histogram()
        for label, percent in (("p50", 50.0), ("p99", 99.0)):
            yield f"{label} of {name}s", "ns", float(times.percentile_ns(percent))


def sizes_in_common(a: LoadProfile, b: LoadProfile) -> LoadFigure:
    """Return the overlap of two distributions of operation and size, 0 to 1.

    This is 1 minus the total variation distance. Sizes beyond the 16 most frequent count as one.
    There is none if either has no reads and writes.
    """
    one, other = _shares(a), _shares(b)
    common = is_near = None
    if one and other:
        common = sum(min(share, other.get(key, 0.0)) for key, share in one.items())
        is_near = common >= 1 - NEAR_SHARE
    return LoadFigure(
        name="sizes in common", unit="share", a=1.0 if one else None, b=common, is_near=is_near
    )


def _shares(load: LoadProfile) -> dict[tuple[str, int], float]:
    found: dict[tuple[str, int], float] = {}
    count = sum(each.requests for each in load.mix if each.operation in TRANSFERS) or 1
    for own in load.mix:
        if own.operation in TRANSFERS:
            for each in own.sizes:
                found[own.operation, each.length_bytes] = each.requests / count
            found[own.operation, -1] = own.other_sizes / count
    return found
