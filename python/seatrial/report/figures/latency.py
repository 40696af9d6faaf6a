"""Charts of response times: percentiles against block size, ladders of other cells, heat maps.

The full histograms of a timeline are coarsened for the page, so that its size is bounded whatever
the length of a run; a note below the chart says how far. The results file has them in full.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

import msgspec

from seatrial._core import Histogram
from seatrial.findings.context import has_stall_watch
from seatrial.grouping import grouped
from seatrial.report.figures.axes import (
    blank_notes,
    block_size_axis,
    extent,
    interval_note,
    log_axis,
)
from seatrial.report.figures.model import (
    POINTS_OVER_TIME_MIN,
    Axis,
    Figure,
    Heat,
    HeatColumn,
    HeatSample,
    HeatStall,
    Line,
    Panel,
    Point,
    Row,
    View,
)
from seatrial.report.figures.naming import format_factor, name_by, of_kind, requests_word, varying
from seatrial.results.model import Sample, Stall
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    capitalized,
    format_cell,
    format_duration_s,
    format_estimate,
    format_plural,
    format_share,
    format_size,
)

PERCENTILES = ("p50", "p90", "p99", "p99.9", "max")
_AXIS_NAME = "Response time"
_LADDER_KINDS = ("four", "mix", "io", "copy", "fill")
_KNOWN_NOTE = (
    "A percentile is absent where fewer than ten requests of a round lie beyond it; the maximum "
    "is the slowest request of all rounds and has no interval."
)


def matrix_latency(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return percentiles of the random matrix against block size: a view for each operation."""
    drawn = [s for s in of_kind(cells, "matrix") if _is_drawn(s) and s.cell.block_size_bytes > 0]
    if not drawn:
        return []
    by_view = grouped(drawn, lambda s: (s.cell.target, s.cell.workload, s.cell.operation))
    several = len({key[:2] for key in by_view}) > 1
    views = [
        _matrix_view(f"{key[0]}: {key[1]}, {key[2]}" if several else key[2], members)
        for key, members in by_view.items()
    ]
    return [
        Figure(
            id="matrix-latency",
            kind="lines",
            topic="Random access: latency",
            notes=[
                interval_note(drawn, "bands"),
                _KNOWN_NOTE,
                *blank_notes(s for s in cells if s.cell.kind == "matrix"),
            ],
            views=views,
            table="table-matrix",
        )
    ]


def _matrix_view(label: str, cells: Sequence[CellSummary]) -> View:
    """Return a panel for each thread count, with a line for each percentile."""
    x_axis = block_size_axis(s.cell.block_size_bytes for s in cells)
    y_axis = _axis(
        [e for s in cells for part in s.latency.values() for e in _chosen(part).values()]
    )
    factors = varying(cells, leave_out=("operation", "block_size_bytes"))
    timelines = grouped(
        ((s, kind) for s in cells for kind in s.latency),
        lambda pair: ", ".join(filter(None, [name_by(pair[0], factors), _kind_word(*pair)])),
    )
    panels = [
        Panel(
            title=capitalized(name or label), x=x_axis, y=y_axis, lines=_percentile_lines(timeline)
        )
        for name, timeline in timelines.items()
    ]
    return View(label=label, title=_matrix_title(cells, factors), panels=panels)


def _kind_word(summary: CellSummary, kind: str) -> str:
    """Return the kind of request if a cell has several, as a mixed one has."""
    return kind if len(summary.latency) > 1 else ""


def _percentile_lines(timeline: Sequence[tuple[CellSummary, str]]) -> list[Line]:
    """Return a line over block sizes for each percentile that some cell has."""
    ordered = sorted(timeline, key=lambda pair: pair[0].cell.block_size_bytes)
    lines = [
        Line(
            name=percentile,
            style=style,
            points=[
                Point.of(s.cell.block_size_bytes, s.latency[kind][percentile])
                for s, kind in ordered
                if percentile in _chosen(s.latency[kind])
            ],
        )
        for style, percentile in enumerate(PERCENTILES)
    ]
    return [line for line in lines if line.points]


def _matrix_title(cells: Sequence[CellSummary], factors: Sequence[str]) -> str:
    """Return the range of the medians as one sentence."""
    known = [
        (figures["p50"], s) for s in cells for figures in s.latency.values() if "p50" in figures
    ]
    if not known:
        return "Too few requests completed for a median; only the slowest are drawn"
    known.sort(key=lambda pair: pair[0].value)
    (fast, fast_cell), (slow, slow_cell) = known[0], known[-1]
    where = [
        ", ".join(filter(None, [format_size(s.cell.block_size_bytes), name_by(s, factors)]))
        for s in (fast_cell, slow_cell)
    ]
    requests = capitalized(requests_word(cells[0].cell.operation))
    sentence = f"{requests} take {format_estimate(fast)} at the median with {where[0]}"
    return sentence if len(known) == 1 else f"{sentence}; {format_estimate(slow)} with {where[1]}"


def commit_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return commit latency by method and number of committers, with the rate at the row's end."""
    drawn = [s for s in of_kind(cells, "commit") if _is_drawn(s)]
    if not drawn:
        return []
    factors = varying(drawn, leave_out=("threads", "operation"))
    rows = [
        _row(s, percentiles, ", ".join(filter(None, [name_by(s, factors), _committers(s)])))
        for s in drawn
        for percentiles in s.latency.values()
        if _chosen(percentiles)
    ]
    title = _commit_title(drawn)
    return [_ladder(rows, cells, drawn, name="commit", topic="Commit latency", title=title)]


def _committers(summary: CellSummary) -> str:
    return format_factor("threads", summary.cell.threads, "commit")


def _commit_title(cells: Sequence[CellSummary]) -> str:
    """Return the fastest commits, and the highest rate."""
    known = [s for s in cells if "p50" in _percentiles(s)]
    factors = varying(cells)
    if not known:
        return "Too few commits completed for a median"
    fast = min(known, key=lambda s: _percentiles(s)["p50"].value)
    busy = max(known, key=lambda s: s.iops.value)
    return (
        f"The fastest commits take {format_estimate(_percentiles(fast)['p50'])} at the median, "
        f"with {name_by(fast, factors) or _committers(fast)}; the highest rate is "
        f"{format_estimate(busy.iops)}, with {name_by(busy, factors) or _committers(busy)}"
    )


def other_latency(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the percentiles of all workloads that have no latency chart of their own."""
    drawn = [s for s in of_kind(cells, *_LADDER_KINDS) if _is_drawn(s)]
    if not drawn:
        return []
    rows = []
    several_targets = len({s.cell.target for s in drawn}) > 1
    workloads = grouped(drawn, lambda s: (s.cell.target, s.cell.workload))
    for (target, workload), members in workloads.items():
        factors = varying(members, leave_out=("operation",))
        for summary in members:
            for operation, percentiles in summary.latency.items():
                if not _chosen(percentiles):
                    continue
                words = [target if several_targets else "", workload, name_by(summary, factors),
                         operation if operation != workload else ""]  # fmt: skip
                rows.append(_row(summary, percentiles, ", ".join(filter(None, words))))
    topic = title = "Latency of the other workloads"
    # Results of other tools may have percentiles without a maximum.
    if known := [row for row in rows if "max" in row.points]:
        slowest = max(known, key=lambda row: row.points["max"].y)
        title = f"The slowest request took {slowest.points['max'].text}: {slowest.label}"
    return [_ladder(rows, cells, drawn, name="other-latency", topic=topic, title=title)]


def ladder_figure(
    rows: Sequence[tuple[CellSummary, str, str]],
    cells: Sequence[CellSummary],
    *,
    name: str,
    topic: str,
    title: str,
    table: str,
) -> Figure:
    """Return a ladder with a row for each cell and kind of request, of any workloads.

    Args:
        rows: Cell, kind of request and label of each row, at least one.
        cells: All cells of their kinds, including those without a figure.
        name: Name of the figure.
        topic: Short heading.
        title: Its title.
        table: Identifier of the table with its numbers.
    """
    made = [_row(part, part.latency[kind], label) for part, kind, label in rows]
    drawn = list({part.cell.key: part for part, _, _ in rows}.values())
    figure = _ladder(made, cells, drawn, name=name, topic=topic, title=title)
    return msgspec.structs.replace(figure, table=table)


def _ladder(
    rows: list[Row],
    cells: Sequence[CellSummary],
    drawn: Sequence[CellSummary],
    *,
    name: str,
    topic: str,
    title: str,
) -> Figure:
    """Return a ladder of the rows, which belong to some of the cells."""
    estimates = [e for s in drawn for part in s.latency.values() for e in _chosen(part).values()]
    kinds = {s.cell.kind for s in drawn}
    names = [known for known in PERCENTILES if any(known in row.points for row in rows)]
    view = View(label=topic, title=title, rows=rows, names=names, axis=_axis(estimates))
    return Figure(
        id=name,
        kind="ladder",
        topic=topic,
        notes=[
            interval_note(drawn, "thin lines"),
            _KNOWN_NOTE,
            *blank_notes(s for s in cells if s.cell.kind in kinds),
        ],
        views=[view],
        table=f"table-{drawn[0].cell.kind}",
    )


def _row(summary: CellSummary, latency: dict[str, Estimate], label: str) -> Row:
    points = {name: Point.of(0, estimate) for name, estimate in _chosen(latency).items()}
    return Row(label=label, points=points, remark=format_estimate(summary.iops))


def _chosen(latency: dict[str, Estimate]) -> dict[str, Estimate]:
    """Return the percentiles that are drawn, in rising order: a log axis has no place for 0."""
    return {
        name: latency[name] for name in PERCENTILES if name in latency and latency[name].value > 0
    }


def _is_drawn(summary: CellSummary) -> bool:
    """Return whether a cell has a point; other tools may print only a mean, or times of 0."""
    return any(_chosen(latency) for latency in summary.latency.values())


def _percentiles(summary: CellSummary) -> dict[str, Estimate]:
    """Return the drawn percentiles of a cell of commits, which has one operation kind."""
    return _chosen(next(iter(summary.latency.values()), {}))


def _axis(estimates: Sequence[Estimate]) -> Axis:
    return log_axis(_AXIS_NAME, "ns", extent(estimates))


ROWS_PER_DOUBLING = 4
COLUMNS_PER_CELL_MAX = 120
COLUMNS_MAX = 3600  # of all cells together: about 100 bytes each in the page
_DIGITS = 3


def stalled_s(summary: CellSummary) -> float:
    """Return the total length of the cell's stalls, in s over all rounds."""
    return sum(stall.length_s for sample in summary.samples for stall in sample.stalls)


def heat_figures(cells: Sequence[CellSummary], views_max: int = COLUMNS_MAX) -> list[Figure]:
    """Return the heat map with a view for each of the most informative cells with a timeline."""
    drawn = [s for s in cells if any(sample.timeline.slices for sample in s.samples)]
    if not drawn:
        return []
    kept = _most_informative(drawn, min(views_max, COLUMNS_MAX // POINTS_OVER_TIME_MIN))
    if not kept:
        return []
    columns_max = _columns_per_cell(kept)
    views = [
        View(
            label=format_cell(summary.cell),
            group=f"{summary.cell.target}: {summary.cell.workload}",
            title=_title(summary),
            heat=_heat(summary.samples, columns_max),
        )
        for summary in kept
    ]
    return [
        Figure(
            id="heatmap",
            kind="heat",
            topic="Latency over time",
            notes=_notes(views, len(drawn)),
            views=views,
            chosen=kept.index(_most_informative(kept, 1)[0]),
            table="table-timeline",
        )
    ]


def _most_informative(cells: Sequence[CellSummary], count: int) -> list[CellSummary]:
    """Return cells in their order: those with the longest stalls, then with most requests."""
    ranked = sorted(
        range(len(cells)),
        key=lambda index: (stalled_s(cells[index]), cells[index].completed),
        reverse=True,
    )
    return [cells[index] for index in sorted(ranked[:count])]


def _columns_per_cell(cells: Sequence[CellSummary]) -> int:
    """Return the most columns of a cell, so that all cells together are within the bound."""
    wanted = [_slices(summary.samples) for summary in cells]
    return next(
        (
            columns
            for columns in range(COLUMNS_PER_CELL_MAX, 1, -1)
            if sum(min(columns, slices) for slices in wanted) <= COLUMNS_MAX
        ),
        1,
    )


def _slices(samples: Sequence[Sample]) -> int:
    """Return the length of the cell's samples in slices of its coarsest timeline."""
    slice_ns = max(sample.timeline.slice_ns for sample in samples)
    return sum(math.ceil(sample.duration_s * 1e9 / slice_ns) for sample in samples)


def _heat(samples: Sequence[Sample], columns_max: int) -> Heat:
    """Return the cell's timelines one after the other, in at most about ``columns_max`` columns."""
    slice_ns = max(sample.timeline.slice_ns for sample in samples)
    column_ns = slice_ns * max(1, math.ceil(_slices(samples) / columns_max))
    return Heat(
        column_s=column_ns / 1e9,
        rows_per_doubling=ROWS_PER_DOUBLING,
        samples=[
            HeatSample(
                round=sample.round,
                duration_s=round(sample.duration_s, 4),
                columns=_columns(sample, column_ns),
                stalls=[_stall(stall) for stall in sample.stalls],
            )
            for sample in samples
        ],
    )


def _columns(sample: Sample, column_ns: int) -> list[HeatColumn]:
    """Return the sample's timeline, all operation kinds merged, in columns of ``column_ns``."""
    timeline = sample.timeline
    by_column = grouped(timeline.slices, lambda part: part.index * timeline.slice_ns // column_ns)
    columns = []
    for index, parts in sorted(by_column.items()):
        histogram = _merged(part.response for part in parts)
        if histogram.count == 0:
            continue
        first_row, counts = _rows(histogram)
        columns.append(
            HeatColumn(
                index=index,
                p50_ns=_short(histogram.percentile_ns(50.0)),
                p99_ns=_short(histogram.percentile_ns(99.0)),
                max_ns=_short(histogram.max_ns),
                first_row=first_row,
                counts=counts,
            )
        )
    return columns


def _merged(blobs: Iterable[bytes]) -> Histogram:
    return functools.reduce(Histogram.merged, map(Histogram.decode, blobs))


def _rows(histogram: Histogram) -> tuple[int, list[int]]:
    """Return the first row with entries, and the counts from there to the last."""
    counts: dict[int, int] = {}
    lows, highs, entries = histogram.buckets()
    for low_ns, high_ns, count in zip(lows, highs, entries, strict=True):
        row = _row_of(low_ns, high_ns)
        counts[row] = counts.get(row, 0) + count
    first, last = min(counts), max(counts)
    return first, [counts.get(row, 0) for row in range(first, last + 1)]


@functools.lru_cache(maxsize=16_384)
def _row_of(low_ns: int, high_ns: int) -> int:
    """Return the row that holds the middle of a bucket, which is at most 0.8 % wide."""
    return math.floor(math.log2(max(1.0, (low_ns + high_ns - 1) / 2)) * ROWS_PER_DOUBLING)


def _short(value_ns: int) -> int:
    """Return a value with three significant digits, to keep the page small."""
    return int(float(f"{value_ns:.{_DIGITS - 1}e}"))


def _stall(stall: Stall) -> HeatStall:
    text = (
        f"stall of {format_duration_s(stall.length_s)}, cause: {stall.cause}, "
        f"{format_plural(stall.depth, 'request')} waiting"
    )
    return HeatStall(round(stall.start_s, 4), round(stall.length_s, 4), stall.cause, text)


def _title(summary: CellSummary) -> str:
    """Return a sentence on the cell's stalls and its slowest request."""
    name = capitalized(format_cell(summary.cell).partition(": ")[2])
    stalls = [stall for sample in summary.samples for stall in sample.stalls]
    if stalls:
        causes = list(dict.fromkeys(stall.cause for stall in stalls))
        length = format_duration_s(stalled_s(summary))
        seen = f"{format_plural(len(stalls), 'stall')}, {length} in total"
        if len(stalls) == 1:
            seen = f"one {length} stall"
        return f"{name}: {seen} ({'cause' if len(causes) == 1 else 'causes'}: {', '.join(causes)})"
    slowest = max(
        (figures["max"] for figures in summary.latency.values() if "max" in figures),
        key=lambda estimate: estimate.value,
        default=None,
    )
    ending = f"; the slowest request took {format_estimate(slowest)}" if slowest else ""
    seen = "no stall" if has_stall_watch(summary.samples) else "stalls unknown"
    return f"{name}: {seen}{ending}"


def _notes(views: Sequence[View], cells: int) -> list[str]:
    """Return how to read the map and how far it was coarsened."""
    lengths_s = sorted({view.heat.column_s for view in views if view.heat})
    width = format_duration_s(lengths_s[0])
    if len(lengths_s) > 1:
        width = f"{width} to {format_duration_s(lengths_s[-1])}, as long as the test was measured"
    share = 2 ** (1 / ROWS_PER_DOUBLING) - 1
    notes = [
        "Colour: number of requests that completed then and took that long. Rounds follow one "
        "after another. Shaded and marked: stalls, in which requests were pending and none "
        "completed.",
        f"Coarsened for this page: a column is {width} wide; a row's upper edge is "
        f"{format_share(share)} above its lower one. The lines of median and 99th percentile are "
        "from the full counts, which the results file keeps.",
    ]
    if len(views) < cells:
        notes.append(
            f"{len(views)} of {format_plural(cells, 'test')} are kept in this page: those with "
            "the longest stalls, then those with most requests."
        )
    return notes
