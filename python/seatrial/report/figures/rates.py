"""Rates against block size: the random matrix in requests and in bytes, the sequential sweep."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Literal

from seatrial.analysis.model import CellSummary, Estimate
from seatrial.analysis.wording import format_estimate, format_size
from seatrial.report.figures.axes import block_size_axis, extent, log_axis, value_axis
from seatrial.report.figures.model import Figure, Line, Panel, Point, View
from seatrial.report.figures.naming import (
    capitalized,
    grouped,
    line_style_of,
    name_by,
    of_kind,
    requests_word,
    varying,
)
from seatrial.report.figures.notes import blank_notes, interval_note

_Measure = Literal["iops", "bandwidth"]
_AXIS_NAMES = {"iops": "Requests per second (IOPS)", "bandwidth": "Bandwidth (MB/s)"}
_UNITS = {"iops": "IOPS", "bandwidth": "B/s"}


def matrix_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return IOPS and bandwidth of the random matrix against block size, log-log."""
    return [
        *_figure(cells, "matrix", "iops", "Random access: requests", "log"),
        *_figure(cells, "matrix", "bandwidth", "Random access: bandwidth", "log"),
    ]


def sequential_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the rate of the sequential sweep against block size, from 0."""
    return _figure(cells, "sequential", "bandwidth", "Sequential access", "linear")


def _figure(
    cells: Sequence[CellSummary],
    kind: str,
    measure: _Measure,
    topic: str,
    scale: Literal["log", "linear"],
) -> list[Figure]:
    """Return the figure, or none when no cell of the kind has a figure."""
    drawn = [s for s in of_kind(cells, kind) if s.cell.block_size_bytes > 0]
    if not drawn:
        return []
    workloads = grouped(drawn, lambda s: (s.cell.target, s.cell.workload))
    views = [
        _view(f"{target}: {workload}", members, measure, scale)
        for (target, workload), members in workloads.items()
    ]
    return [
        Figure(
            id=f"{kind}-{measure}",
            kind="lines",
            topic=topic,
            notes=[
                interval_note(drawn, "bands"),
                *blank_notes(s for s in cells if s.cell.kind == kind),
            ],
            views=views,
            table=f"table-{kind}",
        )
    ]


def _view(
    label: str,
    cells: Sequence[CellSummary],
    measure: _Measure,
    scale: Literal["log", "linear"],
) -> View:
    x_axis = block_size_axis(s.cell.block_size_bytes for s in cells)
    estimates: list[Estimate] = [attrgetter(measure)(s) for s in cells]
    name, unit = _AXIS_NAMES[measure], _UNITS[measure]
    y_axis = (
        log_axis(name, unit, extent(estimates))
        if scale == "log"
        else value_axis(name, unit, estimates)
    )
    factors = varying(cells, leave_out=("operation", "block_size_bytes"))
    styles = line_style_of(name_by(s, factors) for s in cells)
    panels = [
        Panel(
            title=capitalized(operation),
            x=x_axis,
            y=y_axis,
            lines=_lines(members, factors, styles, measure),
        )
        for operation, members in grouped(cells, lambda s: s.cell.operation).items()
    ]
    return View(label=label, title=_title(cells, measure), panels=panels)


def _lines(
    cells: Sequence[CellSummary], factors: Sequence[str], styles: dict[str, int], measure: _Measure
) -> list[Line]:
    return [
        Line(
            name=name or "rate",
            style=styles[name],
            points=[
                Point.of(s.cell.block_size_bytes, attrgetter(measure)(s))
                for s in sorted(members, key=lambda s: s.cell.block_size_bytes)
                if attrgetter(measure)(s).value > 0
            ],
        )
        for name, members in grouped(cells, lambda s: name_by(s, factors)).items()
    ]


def _title(cells: Sequence[CellSummary], measure: _Measure) -> str:
    """Return where each operation first reaches its best rate, as one sentence.

    Cells whose rate lies inside the best one's interval are as good as it; of those, the smallest
    blocks say where more no longer helps.
    """
    factors = varying(cells, leave_out=("operation", "block_size_bytes"))
    parts: list[str] = []
    for operation, members in grouped(cells, lambda s: s.cell.operation).items():
        best = max((attrgetter(measure)(s) for s in members), key=lambda e: e.value)
        enough = best.value if best.low is None else best.low
        first = min(
            (s for s in members if attrgetter(measure)(s).value >= enough),
            key=lambda s: (s.cell.block_size_bytes, s.cell.threads * s.cell.depth),
        )
        figure = format_estimate(attrgetter(measure)(first))
        where = ", ".join(
            filter(None, [format_size(first.cell.block_size_bytes), name_by(first, factors)])
        )
        parts.append(f"{requests_word(operation)} reach {figure} with {where}")
    return capitalized("; ".join(parts))
