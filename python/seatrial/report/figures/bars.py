"""Single rates side by side: the four 4 KiB numbers, mixes, and the work on whole files."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Literal

from seatrial.report.figures.axes import bar_axis
from seatrial.report.figures.model import Figure, Point, Row, View
from seatrial.report.figures.naming import capitalized, grouped, name_by, of_kind, varying
from seatrial.report.figures.notes import blank_notes, interval_note
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_estimate

_Measure = Literal["iops", "bandwidth"]
_TITLE_ROWS_MAX = 3
_AXES = {
    "iops": ("Requests per second (IOPS)", "IOPS"),
    "bandwidth": ("Bandwidth (MB/s)", "B/s"),
}


def four_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the four 4 KiB numbers in IOPS."""
    return _figure(cells, ("four",), "iops", "The four 4 KiB numbers")


def mix_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the mixes of access specifications, and single cells, in IOPS."""
    return [
        *_figure(cells, ("mix",), "iops", "Mixed access"),
        *_figure(cells, ("io",), "iops", "Single workloads"),
    ]


def whole_file_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the rates of filling and copying whole files in B/s."""
    return _figure(cells, ("fill", "copy"), "bandwidth", "Whole files")


def _figure(
    cells: Sequence[CellSummary], kinds: tuple[str, ...], measure: _Measure, topic: str
) -> list[Figure]:
    """Return the figure, or none when no cell of these kinds has a figure."""
    drawn = of_kind(cells, *kinds)
    if not drawn:
        return []
    name, unit = _AXES[measure]
    rows = _rows(drawn, measure)
    view = View(
        label=topic,
        title=_title(drawn, rows, measure),
        rows=rows,
        axis=bar_axis(name, unit, [attrgetter(measure)(s) for s in drawn]),
    )
    return [
        Figure(
            id=f"{kinds[0]}-{measure}",
            kind="bars",
            topic=topic,
            notes=[
                interval_note(drawn, "whiskers"),
                *blank_notes(s for s in cells if s.cell.kind in kinds),
            ],
            views=[view],
            table=f"table-{kinds[0]}",
        )
    ]


def _title(cells: Sequence[CellSummary], rows: Sequence[Row], measure: _Measure) -> str:
    """Return all figures where they are few, else the highest, and whether it differs from others.

    It is called the highest only where its interval over rounds lies above all others.
    """
    if len(rows) <= _TITLE_ROWS_MAX:
        reported = "; ".join(f"{row.label} {row.points[measure].text}" for row in rows)
        return capitalized(reported)
    best = max(rows, key=lambda row: row.points[measure].y)
    figure = f"{capitalized(best.label)}: {best.points[measure].text}"
    estimates: list[Estimate] = [attrgetter(measure)(s) for s in cells]
    if any(each.low is None or each.over != "rounds" for each in estimates):
        return f"{figure}; whether it is the highest of {len(rows)} is not known"
    low = max(estimates, key=lambda each: each.value).low or 0.0
    overlapping = sum((each.high or 0.0) >= low for each in estimates) - 1
    if overlapping == 0:
        return f"{figure}, the highest of {len(rows)}"
    others = len(rows) - 1
    which = f"the other {others}" if overlapping == others else f"{overlapping} of {others} others"
    return f"{figure}; no difference seen between it and {which}"


def _rows(cells: Sequence[CellSummary], measure: _Measure) -> list[Row]:
    """Return a row for each cell, named by what differs among the cells of its workload."""
    rows = []
    for workload, members in grouped(cells, lambda s: s.cell.workload).items():
        factors = varying(members)
        for summary in members:
            estimate = attrgetter(measure)(summary)
            rows.append(
                Row(
                    label=name_by(summary, factors) or workload,
                    points={measure: Point.of(0, estimate)},
                    remark=format_estimate(estimate),
                )
            )
    return rows
