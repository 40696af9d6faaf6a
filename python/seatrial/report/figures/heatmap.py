"""Latency over time: how many requests ended in each stretch of time, by how long they took.

The timeline's full histograms are coarsened for the page, so that its size stays bounded however
long a run was; the note below the chart says how far. The results file keeps them whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

from seatrial._core import Histogram
from seatrial.report.figures.model import Figure, Heat, HeatColumn, HeatSample, HeatStall, View
from seatrial.report.figures.naming import capitalized, grouped
from seatrial.results.model import Sample, Stall
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    format_cell,
    format_duration_s,
    format_estimate,
    format_plural,
    format_share,
)

ROWS_PER_DOUBLING = 4
COLUMNS_PER_CELL_MAX = 120
COLUMNS_MAX = 3600  # of all cells together: about 100 bytes each in the page
_DIGITS = 3


def stalled_s(summary: CellSummary) -> float:
    """Return how long the cell stood still, in s over all rounds."""
    return sum(stall.length_s for sample in summary.samples for stall in sample.stalls)


def heat_figures(cells: Sequence[CellSummary], views_max: int = COLUMNS_MAX) -> list[Figure]:
    """Return the heat map with a view for each cell that has a timeline, the most telling ones."""
    drawn = [s for s in cells if any(sample.timeline.slices for sample in s.samples)]
    if not drawn:
        return []
    kept = _most_informative(drawn, min(views_max, COLUMNS_MAX))
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
    """Return so many cells in their order: the longest stalled, then those with most requests."""
    ranked = sorted(
        range(len(cells)),
        key=lambda index: (stalled_s(cells[index]), cells[index].completed),
        reverse=True,
    )
    return [cells[index] for index in sorted(ranked[:count])]


def _columns_per_cell(cells: Sequence[CellSummary]) -> int:
    """Return how many columns a cell may have, so that all together stay within the bound."""
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
    """Return how many slices of the cell's coarsest timeline its samples last."""
    slice_ns = max(sample.timeline.slice_ns for sample in samples)
    return sum(math.ceil(sample.duration_s * 1e9 / slice_ns) for sample in samples)


def _heat(samples: Sequence[Sample], columns_max: int) -> Heat:
    """Return the cell's timelines side by side, in at most about ``columns_max`` columns."""
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
    """Return a value with three significant digits: what a reader can tell apart, and short."""
    return int(float(f"{value_ns:.{_DIGITS - 1}e}"))


def _stall(stall: Stall) -> HeatStall:
    text = (
        f"stall of {format_duration_s(stall.length_s)}, cause: {stall.cause}, "
        f"{format_plural(stall.depth, 'request')} waiting"
    )
    return HeatStall(round(stall.start_s, 4), round(stall.length_s, 4), stall.cause, text)


def _title(summary: CellSummary) -> str:
    """Return what the cell's time shows: its stalls, or that there were none."""
    name = capitalized(format_cell(summary.cell).partition(": ")[2])
    stalls = [stall for sample in summary.samples for stall in sample.stalls]
    if stalls:
        causes = ", ".join(dict.fromkeys(stall.cause for stall in stalls))
        length = format_duration_s(stalled_s(summary))
        count = "once, for" if len(stalls) == 1 else f"{len(stalls)} times, together"
        return f"{name}: stood still {count} {length} (cause: {causes})"
    slowest = max(
        (figures["max"] for figures in summary.latency.values() if "max" in figures),
        key=lambda estimate: estimate.value,
        default=None,
    )
    ending = f"; the slowest request took {format_estimate(slowest)}" if slowest else ""
    return f"{name}: no stall{ending}"


def _notes(views: Sequence[View], cells: int) -> list[str]:
    """Return how to read the map and how far it was coarsened."""
    lengths_s = sorted({view.heat.column_s for view in views if view.heat})
    width = format_duration_s(lengths_s[0])
    if len(lengths_s) > 1:
        width = f"{width} to {format_duration_s(lengths_s[-1])}, as long as the cell was measured"
    share = 2 ** (1 / ROWS_PER_DOUBLING) - 1
    notes = [
        "Colour: requests that ended in that time and took that long. Rounds stand one after "
        "another. Shaded and marked: stalls, when requests were waiting and none ended.",
        f"Coarsened for this page: a column is {width} wide; a row's upper edge is "
        f"{format_share(share)} above its lower one. The lines of median and 99th percentile are "
        "from the full counts, which the results file keeps.",
    ]
    if len(views) < cells:
        notes.append(
            f"{len(views)} of {format_plural(cells, 'cell')} are kept in this page: those with "
            "the longest stalls, then those with most requests."
        )
    return notes
