"""Axes with round ticks, for given values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from seatrial.report.figures.model import Axis, Tick
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    format_cell,
    format_duration_ns,
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
)

_TICKS_TARGET = 5
_DECADES_WITH_STEPS_MAX = 2.2  # with fewer decades, there are ticks at 2 and 5, too
_MARGIN_SHARE = 0.04
_INTERVAL_RATIO_MAX = 3.0
_RATIO_ROOM = 1.5
_RATIO_TICKS = (
    (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0),
    (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5),
    (0.9, 0.95, 1.0, 1.05, 1.1),
    (0.96, 0.98, 0.99, 1.0, 1.01, 1.02, 1.04),
)  # from widest to finest; the first with three of its ticks on the axis is used
# Arguments are a tick and the distance to the next, which determines the number of digits.
_FORMATS: dict[str, Callable[[float, float], str]] = {
    "IOPS": format_iops,
    "commits/s": format_iops,
    "requests/s": format_iops,
    "tps": format_iops,
    "statements/s": format_iops,
    "share": lambda tick, _: format_share(tick),
    "B/s": format_rate_bytes,
    "ns": format_duration_ns,
    "B": lambda tick, _: format_size(round(tick)),
    "s": lambda tick, _: f"{tick:g}",
    "drives": lambda tick, _: f"{tick:g}",
    "requests": lambda tick, _: f"{tick:g}",
}


def extent(estimates: Iterable[Estimate]) -> list[float]:
    """Return all values and interval ends of the estimates, as shown."""
    ends: list[float] = []
    for estimate in (each.shown for each in estimates):
        ends += [end for end in (estimate.low, estimate.value, estimate.high) if end is not None]
    return ends


def log_axis(name: str, unit: str, values: Sequence[float]) -> Axis:
    """Return a logarithmic axis over the values above 0, with ticks at 1 (2, 5) of each decade."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.log10(min(positive)), math.log10(max(positive))
    margin = max((high - low) * _MARGIN_SHARE, 0.06)
    low, high = low - margin, high + margin
    steps = (1, 2, 5) if high - low <= _DECADES_WITH_STEPS_MAX else (1,)
    ticks = [
        step * 10.0**decade
        for decade in range(math.floor(low), math.ceil(high) + 1)
        for step in steps
        if low <= math.log10(step) + decade <= high
    ]
    return Axis(
        name=name,
        unit=unit,
        scale="log",
        low=10**low,
        high=10**high,
        ticks=[Tick(tick, _FORMATS.get(unit, format_iops)(tick, tick)) for tick in ticks],
    )


def linear_axis(name: str, unit: str, values: Sequence[float]) -> Axis:
    """Return a linear axis from 0 over the values, with about five round ticks."""
    top = max(values, default=0.0) or 1.0
    base = 2 if unit == "B" else 10
    step = _round_step(top / _TICKS_TARGET, base)
    if unit in ("drives", "hosts"):
        step = max(step, 1.0)
    count = math.ceil(top * (1 + _MARGIN_SHARE / 2) / step)
    ticks = [index * step for index in range(count + 1)]
    return Axis(
        name=name,
        unit=unit,
        scale="linear",
        low=0.0,
        high=ticks[-1],
        ticks=[Tick(tick, _FORMATS.get(unit, format_iops)(tick, step)) for tick in ticks],
    )


def time_axis(end_s: float) -> Axis:
    """Return the axis of a time from 0 to its end."""
    axis = linear_axis("Time (s)", "s", [end_s])
    ticks = [tick for tick in axis.ticks if tick.value <= end_s]
    return Axis(name=axis.name, unit="s", scale="linear", low=0.0, high=end_s, ticks=ticks)


def value_axis(name: str, unit: str, estimates: Sequence[Estimate]) -> Axis:
    """Return a linear axis from 0; a logarithmic one if the intervals dwarf the figures.

    Otherwise one very uncertain figure would make all others indistinguishable from 0.
    """
    ends = extent(estimates)
    dwarfed = max(ends) > _INTERVAL_RATIO_MAX * max(e.value for e in estimates)
    return log_axis(name, unit, ends) if dwarfed else linear_axis(name, unit, ends)


def bar_axis(name: str, unit: str, estimates: Sequence[Estimate]) -> Axis:
    """Return a linear axis from 0 for bars; it may cut off distant ends of intervals."""
    top = _INTERVAL_RATIO_MAX * max(e.value for e in estimates)
    return linear_axis(name, unit, [min(end, top) for end in extent(estimates)])


def ratio_axis(name: str, ratios: Sequence[Estimate]) -> Axis:
    """Return a logarithmic axis of ratios with 1; it may cut off distant ends of intervals."""
    values = [ratio.value for ratio in ratios if ratio.value > 0]
    low, high = min([1.0, *values]), max([1.0, *values])
    ends = [min(max(end, low / _RATIO_ROOM), high * _RATIO_ROOM) for end in extent(ratios)]
    low, high = min([low, *ends]) / 1.05, max([high, *ends]) * 1.05
    ladder: tuple[float, ...] = next(
        (steps for steps in _RATIO_TICKS if sum(low <= step <= high for step in steps) >= 3),
        _RATIO_TICKS[-1],
    )
    if high / low > _RATIO_TICKS[0][-1] / _RATIO_TICKS[0][0]:
        ladder = tuple(10.0**power for power in range(-9, 10))
    ticks = [Tick(step, f"{step:g}x") for step in ladder if low <= step <= high]
    return Axis(name=name, unit="ratio", scale="log", low=low, high=high, ticks=ticks)


def block_size_axis(sizes_bytes: Iterable[int], name: str = "Block size") -> Axis:
    """Return a logarithmic axis of sizes, with a tick at every measured size."""
    sizes = sorted(set(sizes_bytes))
    return Axis(
        name=name,
        unit="B",
        scale="log",
        low=sizes[0] / 1.35,
        high=sizes[-1] * 1.35,
        ticks=[Tick(size, format_size(size)) for size in sizes],
    )


def _round_step(rough: float, base: int) -> float:
    """Return the next round step at or above ``rough``: a power of 2, or 1, 2, 5."""
    if base == 2:
        return float(2 ** math.ceil(math.log2(max(rough, 1.0))))
    decade = 10.0 ** math.floor(math.log10(rough))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= rough * (1 - 1e-9))


_BLANKS_MAX = 6


def interval_note(cells: Sequence[CellSummary], mark: str) -> str:
    """Return the note on intervals of a chart.

    Args:
        cells: The cells that are drawn.
        mark: What draws the interval, such as ``bands``.
    """
    once = [summary for summary in cells if summary.iops.rounds <= 1]
    within = [summary for summary in once if summary.iops.low is not None]
    if not once:
        return rounds_note(mark, _figures(cells))
    if len(once) == len(cells):
        return f"Measured once: {_one_round_note(mark, bool(within))}"
    note = rounds_note(mark, _figures(cells))
    return (
        f"{note} {len(once)} of {format_plural(len(cells), 'test')} measured once: "
        + _one_round_note(mark, bool(within))
    )


def rounds_note(mark: str, estimates: Iterable[Estimate]) -> str:
    """Return the note on figures and intervals of cells measured in several rounds.

    Args:
        mark: What draws the interval, such as ``bands``.
        estimates: The figures of the chart.
    """
    note = (
        f"Each figure is the geometric mean of its rounds; {mark} are 95 % intervals over the "
        "rounds."
    )
    return " ".join([note, *scatter_notes(mark, estimates)])


def scatter_notes(mark: str, estimates: Iterable[Estimate]) -> list[str]:
    """Return the note on figures whose rounds differ by more than twice; none without any."""
    if all(estimate.scatter is None for estimate in estimates):
        return []
    return [
        "Where the rounds of a figure differ by more than twice, it is their median, and its "
        f"{mark} go from the smallest round to the largest."
    ]


def _figures(cells: Iterable[CellSummary]) -> Iterator[Estimate]:
    """Yield every figure of the cells."""
    for summary in cells:
        yield from (summary.iops, summary.bandwidth)
        for named in summary.latency.values():
            yield from named.values()


def _one_round_note(mark: str, within: bool) -> str:
    """Return the note on figures of one round, whose interval may come from the timeline."""
    if not within:
        return "the figures have no interval, so their repeatability is unknown."
    return f"their {mark} come from within the one round, so their repeatability is unknown."


def blank_notes(cells: Iterable[CellSummary]) -> list[str]:
    """Return a sentence on the cells that completed nothing and so are not in a chart."""
    blanks = [f"{format_cell(s.cell)} ({s.blank})" for s in cells if s.blank]
    if not blanks:
        return []
    shown = "; ".join(blanks[:_BLANKS_MAX])
    more = f"; and {len(blanks) - _BLANKS_MAX} more" if len(blanks) > _BLANKS_MAX else ""
    return [f"Not drawn, because nothing completed: {shown}{more}."]
