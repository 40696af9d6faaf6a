"""Scaling with the number of drives, and where it saturates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from seatrial.grouping import grouped
from seatrial.stats.cell_estimates import counted
from seatrial.stats.estimate import Estimate
from seatrial.stats.fastest import Saturation, saturation
from seatrial.stats.model import CellSummary
from seatrial.stats.running import running
from seatrial.stats.wording import format_estimate, format_plural, is_on_database, operation_phrase
from seatrial.study.cell import FactorValue
from seatrial.trials.layouts.analysis.model import (
    ArraySaturation,
    SweepPoint,
    SweepSeries,
    Variant,
    is_breaking_summary,
    variant_of,
)

WITH_DRIVES: Final = ("layout", "drives", "size_bytes")
"""Factors of a layout that vary with the number of drives and do not distinguish series."""
POINTS_MIN: Final = 2
RATES_NAMED: Final = {"read": "read bandwidth", "write": "write bandwidth"}

Factors = dict[str, FactorValue]


def sweeps(cells: Sequence[CellSummary]) -> list[SweepSeries]:
    """Return the series of layouts that differ only in their number of drives.

    Cells with injected faults are excluded, since a degraded array is another array. So are cells
    in which nothing completed.
    """
    own = [
        (summary, variant)
        for summary in cells
        if not summary.blank
        and not is_breaking_summary(summary)
        and (variant := variant_of(summary))
    ]
    groups: dict[Hashable, list[tuple[CellSummary, Variant]]] = {}
    for summary, variant in own:
        key = (summary.cell.key_without_target, _as_key(_factors(variant)))
        groups.setdefault(key, []).append((summary, variant))
    parts = [part for group in groups.values() for part in _distinguished(group)]
    parts = [part for part in parts if len(part) >= POINTS_MIN]
    names = _names([_factors(part[0][1]) for part in parts])
    return [_series(part, names) for part in parts]


def _factors(variant: Variant) -> Factors:
    return {name: value for name, value in variant.factors.items() if name not in WITH_DRIVES}


def _as_key(factors: Mapping[str, FactorValue]) -> Hashable:
    return tuple(sorted((name, str(value)) for name, value in factors.items()))


def _distinguished(
    group: Sequence[tuple[CellSummary, Variant]],
) -> list[list[tuple[CellSummary, Variant]]]:
    """Return a group as one, or divided by layout if it has a number of drives twice."""
    drives = [variant.drives for _, variant in group]
    if len(set(drives)) == len(drives):
        return [list(group)]
    parts = grouped(group, lambda each: each[1].factors["layout"]).values()
    return [part for part in parts if len({each.drives for _, each in part}) == len(part)]


def _names(every: Sequence[Factors]) -> dict[Hashable, str]:
    """Return the name of each series: its level, and the factors that vary between series."""
    keys = dict.fromkeys(name for factors in every for name in factors)
    varying = [
        name
        for name in keys
        if name != "level" and len({str(factors.get(name)) for factors in every}) > 1
    ]
    return {_as_key(factors): _name(factors, varying) for factors in every}


def _name(factors: Factors, varying: Sequence[str]) -> str:
    texts = [word(name, factors[name]) for name in varying if name in factors]
    return ", ".join([str(factors["level"]), *texts])


def word(name: str, value: FactorValue) -> str:
    """Return a factor of a layout in short: ``md+lvm``, ``2 legs``, ``chunk 64 KiB``."""
    if name in ("level", "backend", "filesystem", "layout"):
        return str(value)
    if name in ("legs", "spares", "drives"):
        return format_plural(int(value), name.removesuffix("s"))
    if name == "read_ahead_kib":
        return "default read-ahead" if value == -1 else f"read-ahead {value} KiB"
    if name == "scheduler":
        return f"scheduler {value}" if value else "default scheduler"
    if name.endswith("_kib"):
        return f"{name.removesuffix('_kib').replace('_', ' ')} {value} KiB"
    return f"{name.replace('_', ' ')} {value}"


def _series(
    part: Sequence[tuple[CellSummary, Variant]], names: Mapping[Hashable, str]
) -> SweepSeries:
    ordered = sorted(part, key=lambda pair: pair[1].drives)
    first, variant = ordered[0]
    identity = {k: v for k, v in first.cell.identity().items() if k != "target"}
    return SweepSeries(
        name=names[_as_key(_factors(variant))],
        factors=_factors(variant),
        cell=identity,
        points=[_point(summary, each) for summary, each in ordered],
        saturation=_saturation(ordered, identity),
    )


def _point(summary: CellSummary, variant: Variant) -> SweepPoint:
    return SweepPoint(
        drives=variant.drives,
        target=variant.target,
        rate=summary.iops,
        bandwidth=summary.bandwidth,
        p99=_p99(summary),
    )


def _p99(summary: CellSummary) -> Estimate | None:
    """Return the p99 of the cell's operation, or of its only kind of operation."""
    known = summary.latency
    own = known.get(summary.cell.operation)
    if own is None and len(known) == 1:
        own = next(iter(known.values()))
    return own.get("p99") if own else None


def _saturation(
    ordered: Sequence[tuple[CellSummary, Variant]], cell: Factors
) -> ArraySaturation | None:
    """Return the number of drives at which the rate saturates; rounds are the series."""
    rates: dict[int, dict[Hashable, float]] = {
        variant.drives: {
            sample.round: running(sample).completed_per_s for sample in counted(summary.samples)
        }
        for summary, variant in ordered
    }
    reached = saturation(rates, from_lowest=True)
    if reached is None:
        return None
    return ArraySaturation(
        drives=reached.count,
        gain_before=reached.gain_before,
        gain_beyond=reached.gain_beyond,
        drives_max=reached.most,
        sentence=_sentence(reached, cell),
    )


def _sentence(reached: Saturation, cell: Factors) -> str:
    operation = str(cell["operation"])
    what = RATES_NAMED.get(
        operation, "transactions" if is_on_database(cell) else operation_phrase(operation)
    )
    gain = format_estimate(reached.gain_beyond)
    return (
        f"{what[0].upper()}{what[1:]} saturate{'s' * (operation in RATES_NAMED)} at "
        f"{reached.count} drives: up to {reached.most} drives reach at most {gain} of that rate."
    )
