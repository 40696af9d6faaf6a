"""Charts of a load: over time, latency, sizes, reuse, and requests by relation and process."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from seatrial.published import filled
from seatrial.report.figures.axes import linear_axis, log_axis, time_axis
from seatrial.report.figures.model import (
    Axis,
    Figure,
    Heat,
    HeatColumn,
    HeatSample,
    Line,
    Panel,
    Point,
    Row,
    TimelineChart,
    TimelineColumn,
    TimelinePanel,
    View,
)
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.watch.analysis.activity import OPERATIONS
from seatrial.trials.watch.analysis.load.over_time import (
    ROWS_PER_DOUBLING,
    Rates,
    heat_of,
    rates_of,
)
from seatrial.trials.watch.analysis.load.profile import BreakdownRow, LoadProfile
from seatrial.trials.watch.report.load_phrases import cache_for, nameless

if TYPE_CHECKING:
    from seatrial.trials.watch.recording import Recording

_STYLES: Final = {name: style for style, name in enumerate(OPERATIONS)}
_BREAKDOWN_MAX: Final = 12
_SIZES_MAX: Final = 12
_WHOLE_SHARE: Final = 0.97
"""An axis up to here ends at 100 %."""


def load_figures(load: LoadProfile, recording: Recording) -> list[Figure]:
    """Return the charts of a load, the most important first; none of unknown figures."""
    if not load.requests:
        return []
    return [
        *_heat(load, recording),
        *([_over_time(load, rates_of(recording))] if load.arrivals else []),
        *_reuse(load),
        *_sizes(load),
        *_breakdown(load),
    ]


def _heat(load: LoadProfile, recording: Recording) -> Iterator[Figure]:
    column_s, windows = heat_of(recording)
    if not windows:
        return
    slowest_ns = max(each.max_ns for each in windows)
    columns = [filled(HeatColumn, each) for each in windows]
    sample = HeatSample(round=0, duration_s=round(load.seconds, 4), columns=columns, stalls=[])
    heat = Heat(column_s=column_s, rows_per_doubling=ROWS_PER_DOUBLING, samples=[sample])
    title = f"Latency over time; the slowest request took {format_duration_ns(slowest_ns)}"
    yield Figure(
        id="load-heat",
        kind="heat",
        topic="Latency over time",
        notes=[
            "Colour: requests that arrived in that time and took that long from arrival to "
            f"completion. A column is {format_duration_s(column_s)} wide."
        ],
        views=[View(label="all requests", title=title, heat=heat)],
        table="table-load-mix",
    )


def _over_time(load: LoadProfile, rates: Rates) -> Figure:
    panels = [_panel("Requests per second", "IOPS", rates.requests_per_s, stacked=True)]
    if transfer := _some(rates.bytes_per_s):
        panels.append(_panel("Transfer per second", "B/s", transfer, stacked=True))
    if load.concurrency is not None:
        shown = {"in flight": load.concurrency.over_time}
        panels.append(_panel("Requests in flight (mean)", "requests", shown, stacked=False))
    found = load.footprint
    per_window = len(rates.requests_per_s[next(iter(rates.requests_per_s))])
    repeat = per_window // len(found.over_time_bytes)
    sets = {
        "in this window": _repeated(found.over_time_bytes, repeat),
        "so far": _repeated(found.so_far_bytes, repeat),
    }
    if found.unique_bytes:
        panels.append(_panel("Distinct bytes accessed", "B", sets, stacked=False))
    chart = TimelineChart(step_s=rates.window_s, x=time_axis(load.seconds), panels=panels, marks=[])
    window = format_duration_s(found.window_s)
    return Figure(
        id="load-over-time",
        kind="timeline",
        topic="Over time",
        notes=[
            f"A step is {format_duration_s(rates.window_s)} long. Distinct bytes are those of "
            f"windows of {window}, and all until their end."
        ],
        views=[View(label="all", title="Rate and working set over time", timeline=chart)],
        table="table-load-working-set",
    )


def _some(columns: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: values for name, values in columns.items() if any(values)}


def _repeated(values: Sequence[int], times: int) -> list[float]:
    return [float(each) for each in values for _ in range(times)]


def _panel(
    title: str, unit: str, columns: dict[str, list[float]], *, stacked: bool
) -> TimelinePanel:
    totals = [sum(each) if stacked else max(each) for each in zip(*columns.values(), strict=True)]
    return TimelinePanel(
        title=title,
        y=linear_axis(title, unit, totals),
        stacked=stacked,
        columns=[
            TimelineColumn(name, _STYLES.get(name, index), list(values))
            for index, (name, values) in enumerate(columns.items())
        ],
    )


def _reuse(load: LoadProfile) -> Iterator[Figure]:
    if load.reuse is None or not load.reuse.hit_ratios:
        return
    ratios = load.reuse.hit_ratios
    is_sampled = load.reuse.method == "sampled"
    points = [
        Point(
            each.cache_bytes,
            each.share,
            each.low if is_sampled else None,
            each.high if is_sampled else None,
            f"{format_size(each.cache_bytes)}: {format_share(each.share)} of the accesses",
        )
        for each in ratios
    ]
    most = cache_for(load.reuse, 0.9)
    panel = Panel(
        title="",
        x=size_axis("Cache", [each.cache_bytes for each in ratios]),
        y=linear_axis("Share of accesses served", "share", [_WHOLE_SHARE]),
        lines=[Line(name="least recently used", style=0, points=points, look="plain")],
    )
    title = (
        f"A cache of {format_size(most.cache_bytes)} would serve {format_share(most.share)} of "
        "the accesses"
    )
    notes = [
        "The share of accesses whose reuse distance, in distinct blocks of "
        f"{format_size(load.reuse.block_bytes)}, is smaller than the cache. First accesses are "
        "served by none."
    ]
    if is_sampled:
        notes.append("The band is the 95 % interval over four samples of the blocks (SHARDS).")
    yield Figure(
        id="load-reuse",
        kind="lines",
        topic="Reuse",
        notes=notes,
        views=[View(label="reuse", title=title, panels=[panel])],
        table="table-load-reuse",
    )


def size_axis(name: str, sizes_bytes: Sequence[int]) -> Axis:
    """Return a logarithmic axis of sizes with ticks at powers of 4, 16 or more."""
    low, high = min(sizes_bytes), max(sizes_bytes)
    axis = log_axis(name, "B", [low, high])
    first, last = math.ceil(math.log2(axis.low)), math.floor(math.log2(axis.high))
    step = max(1, math.ceil((last - first + 1) / 8))
    exponents = range(first, last + 1, step)
    ticks = [type(axis.ticks[0])(2.0**each, format_size(2**each)) for each in exponents]
    return Axis(name=name, unit="B", scale="log", low=axis.low, high=axis.high, ticks=ticks)


def _sizes(load: LoadProfile) -> Iterator[Figure]:
    rows, shares = [], []
    for own in load.mix:
        if not own.transferred_bytes:
            continue
        rows.append(Row(label=f"{own.operation}s".capitalize(), points={}))
        for each in sorted(own.sizes[:_SIZES_MAX], key=lambda size: size.length_bytes):
            share = each.requests / own.requests
            shares.append(share)
            rows.append(_bar(format_size(each.length_bytes), share, each.requests))
        rest = own.requests - sum(each.requests for each in own.sizes[:_SIZES_MAX])
        if rest:
            shares.append(rest / own.requests)
            rows.append(_bar("other sizes", rest / own.requests, rest))
    if rows:
        yield _bars("load-sizes", "Sizes", "Sizes of requests, by operation", rows, shares)


def _breakdown(load: LoadProfile) -> Iterator[Figure]:
    kinds = {"relation": load.relations, "process": load.processes}
    for name, parts in kinds.items():
        if sum(bool(each.name) for each in parts) > 1:
            yield _breakdown_figure(name, parts)


def _breakdown_figure(name: str, parts: Sequence[BreakdownRow]) -> Figure:
    rows, shares = [], []
    for operation in ("reads", "writes"):
        total = sum(getattr(each, operation) for each in parts)
        if not total:
            continue
        rows.append(Row(label=operation.capitalize(), points={}))
        ordered = sorted(parts, key=lambda each: -getattr(each, operation))
        for each in ordered[:_BREAKDOWN_MAX]:
            count = getattr(each, operation)
            if count:
                shares.append(count / total)
                rows.append(_bar(each.name or nameless(name), count / total, count))
    title = f"Reads and writes by {name}"
    return _bars(f"load-{name}", f"By {name}", title, rows, shares)


_SHARE: Final = "share of requests"


def _bar(label: str, share: float, requests: int) -> Row:
    text = f"{format_share(share)}, {format_count(requests)} requests"
    return Row(label=label, points={_SHARE: Point(0, share, None, None, text)}, remark=text)


def _bars(
    identifier: str, topic: str, title: str, rows: list[Row], shares: Sequence[float]
) -> Figure:
    view = View(
        label=topic,
        title=title,
        rows=rows,
        names=[_SHARE],
        axis=linear_axis("Share of requests", "share", shares),
    )
    return Figure(
        id=identifier, kind="bars", topic=topic, notes=[], views=[view], table=f"table-{identifier}"
    )
