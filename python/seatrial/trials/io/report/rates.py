"""Rates against block size: the random matrix in IOPS and bandwidth, the sequential sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from seatrial.grouping import grouped
from seatrial.report.figures.axes import (
    bar_axis,
    blank_notes,
    block_size_axis,
    extent,
    interval_note,
    log_axis,
    value_axis,
)
from seatrial.report.figures.model import Axis, Figure, Line, Look, Panel, Point, Row, View
from seatrial.report.figures.naming import (
    Identity,
    identity_by,
    line_style_of,
    name_by,
    of_kind,
    requests_word,
    varying,
    varying_among,
)
from seatrial.stats.fastest import Served, fastest, least_within, settings_phrase
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import capitalized, format_estimate, format_plural
from seatrial.trials.audit.analysis.model import TableAudit
from seatrial.trials.audit.report.overlay import Overlay

_Measure = Literal["iops", "bandwidth"]
_AXES = {
    "iops": ("Requests per second (IOPS)", "IOPS"),
    "bandwidth": ("Bandwidth (MB/s)", "B/s"),
}
TARGETS_TOGETHER_MAX = 8
"""Maximum targets on one pair of axes; more lines cannot be distinguished."""
_ROW_SHARE = 0.09  # of a panel's height, for one row of marks of absent cells
_ROOM_SHARE_MAX = 0.4


class _RateChart(NamedTuple):
    """The contents and the scale of a chart of rates."""

    kind: str
    measure: _Measure
    topic: str
    scale: Literal["log", "linear"]
    served: Served


def matrix_figures(
    cells: Sequence[CellSummary], audits: Sequence[TableAudit] = (), served: Served = ()
) -> list[Figure]:
    """Return IOPS and bandwidth of the random matrix against block size, log-log.

    For audited tables, the chart includes the model's lines and the gaps.

    Args:
        cells: Cells of a run.
        audits: Audits of its tables.
        served: Cells served by a cache, by identity; titles leave them out.
    """
    rates = _RateChart("matrix", "iops", "Random access: requests", "log", served)
    bandwidths = _RateChart("matrix", "bandwidth", "Random access: bandwidth", "log", served)
    return [*_figure(cells, rates, audits), *_figure(cells, bandwidths, audits)]


def sequential_figures(cells: Sequence[CellSummary], served: Served = ()) -> list[Figure]:
    """Return the rate of the sequential sweep against block size, from 0.

    Args:
        cells: Cells of a run.
        served: Cells served by a cache, by identity; titles leave them out.
    """
    chart = _RateChart("sequential", "bandwidth", "Sequential access", "linear", served)
    return _figure(cells, chart, ())


def _figure(
    cells: Sequence[CellSummary], chart: _RateChart, audits: Sequence[TableAudit]
) -> list[Figure]:
    """Return the figure; empty if no cell of the kind has a figure."""
    charted = [s for s in of_kind(cells, chart.kind) if s.cell.block_size_bytes > 0]
    if not charted:
        return []
    workloads = grouped(charted, lambda s: (s.cell.target, s.cell.workload))
    tables = grouped(audits, lambda audit: (audit.table.target, audit.table.workload))
    return [
        Figure(
            id=f"{chart.kind}-{chart.measure}",
            kind="lines",
            topic=chart.topic,
            notes=[
                interval_note(charted, "bands"),
                *blank_notes(s for s in cells if s.cell.kind == chart.kind),
            ],
            views=[
                *(
                    _view(": ".join(where), members, chart, tables.get(where, []))
                    for where, members in workloads.items()
                ),
                *_views_of_all_targets(charted, chart),
            ],
            chosen=_first_shown(workloads, chart),
            table=f"table-{chart.kind}",
        )
    ]


def _first_shown(
    workloads: Mapping[tuple[str, str], Sequence[CellSummary]], chart: _RateChart
) -> int:
    """Return the index of the workload whose figure is in the verdict: the first target's best."""
    (target, _), first = next(iter(workloads.items()))
    operation = first[0].cell.operation
    own = [s for (on, _), members in workloads.items() for s in members if on == target]
    best = fastest(
        (s for s in own if s.cell.operation == operation), attrgetter(chart.measure), chart.served
    )
    keys = [where for where, members in workloads.items() if best in members]
    return list(workloads).index(keys[0])


def _views_of_all_targets(cells: Sequence[CellSummary], chart: _RateChart) -> list[View]:
    """Return a view with all targets for each workload that runs on several targets."""
    by_workload = grouped(cells, lambda s: s.cell.workload)
    return [
        _view(f"all targets: {workload}", members, chart, ())
        for workload, members in by_workload.items()
        if 1 < len({s.cell.target for s in members}) <= TARGETS_TOGETHER_MAX
    ]


def _view(
    label: str, cells: Sequence[CellSummary], chart: _RateChart, audits: Sequence[TableAudit]
) -> View:
    measure = chart.measure
    overlay = Overlay(audits, _AXES[measure][1])
    identities: list[Identity] = [*(s.cell.identity() for s in cells), *overlay.identities]
    factors = varying_among(identities, leave_out=("operation", "block_size_bytes"))

    def name_of(identity: Identity) -> str:
        return identity_by(identity, factors, cells[0].cell.kind) or "rate"

    styles = line_style_of(name_of(identity) for identity in identities)
    x_axis = block_size_axis(int(each["block_size_bytes"]) for each in identities)
    y_axis = _rate_axis(cells, chart, overlay)
    panels = []
    for operation, members in grouped(cells, lambda s: s.cell.operation).items():
        overlaid = overlay.panel(operation, name_of, styles)
        modelled = any(line.look == "model" for line in overlaid.lines)
        lines = _lines(members, name_of, styles, measure, look="thin" if modelled else "measured")
        panels.append(
            Panel(
                title=capitalized(operation),
                x=x_axis,
                y=y_axis,
                lines=[*lines, *overlaid.lines],
                rings=overlaid.rings,
                feet=overlaid.feet,
            )
        )
    title = _title(cells, measure, chart.served)
    gaps = overlay.gaps
    if gaps:
        title = f"{title}; {format_plural(len(gaps), 'gap is', 'gaps are')} circled"
    return View(label=label, title=title, panels=panels, notes=overlay.notes, gaps=gaps)


def _rate_axis(cells: Sequence[CellSummary], chart: _RateChart, overlay: Overlay) -> Axis:
    estimates: list[Estimate] = [attrgetter(chart.measure)(s) for s in cells]
    name, unit = _AXES[chart.measure]
    if chart.scale == "linear":
        return value_axis(name, unit, estimates)
    predicted = [estimate.value for estimate in overlay.predicted]
    charted = [end for end in (*extent(estimates), *predicted) if end > 0]
    return log_axis(name, unit, [*charted, _room_below(charted, overlay.absent_max)])


def _room_below(values: Sequence[float], rows: int) -> float:
    """Return a value far enough below all others to leave room for rows of marks."""
    share = min(rows * _ROW_SHARE, _ROOM_SHARE_MAX)
    low, high = min(values), max(values)
    return low * math.pow(low / high, share / (1 - share))


def _lines(
    cells: Sequence[CellSummary],
    name_of: Callable[[Identity], str],
    styles: Mapping[str, int],
    measure: _Measure,
    look: Look,
) -> list[Line]:
    return [
        Line(
            name=name,
            style=styles[name],
            points=[
                Point.of(s.cell.block_size_bytes, attrgetter(measure)(s))
                for s in sorted(members, key=lambda s: s.cell.block_size_bytes)
                if attrgetter(measure)(s).value > 0
            ],
            look=look,
        )
        for name, members in grouped(cells, lambda s: name_of(s.cell.identity())).items()
    ]


def _title(cells: Sequence[CellSummary], measure: _Measure, served: Served) -> str:
    """Return the fastest cell of each operation, and the smallest load that equals it.

    The verdict reports the same cells; cells served by a cache are left out of both.
    """
    figure = attrgetter(measure)
    parts: list[str] = []
    for operation, members in grouped(cells, lambda s: s.cell.operation).items():
        best = fastest(members, figure, served)
        if best is None:
            continue
        where = _where(best, cells)
        parts.append(f"{requests_word(operation)} reach {format_estimate(figure(best))} {where}")
        least = least_within(members, figure, best)
        if least:
            parts.append(f"a rate within that interval is already reached {_where(least, cells)}")
        if any(figure(each).value > figure(best).value for each in members):
            parts.append("a cache served faster tests")
    return capitalized("; ".join(parts))


def _where(summary: CellSummary, cells: Sequence[CellSummary]) -> str:
    """Return a cell's settings, with target and pattern if there are several."""
    several = len({each.cell.target for each in cells}) > 1
    target = f" on {summary.cell.target}" if several else ""
    patterns = {each.cell.factors.get("pattern") for each in cells}
    pattern = f", {summary.cell.factors.get('pattern')}" if len(patterns) > 1 else ""
    return f"with {settings_phrase(summary)}{pattern}{target}"


_TITLE_ROWS_MAX = 3


def four_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the four 4 KiB numbers in IOPS."""
    return _bars_figure(cells, ("four",), "iops", "The four 4 KiB numbers")


def mix_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the mixes of access specifications, and single workloads, in IOPS."""
    return [
        *_bars_figure(cells, ("mix",), "iops", "Mixed access"),
        *_bars_figure(cells, ("io",), "iops", "Single workloads"),
    ]


def whole_file_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the rates of filling and copying whole files in B/s."""
    return _bars_figure(cells, ("fill", "copy"), "bandwidth", "Whole files")


def _bars_figure(
    cells: Sequence[CellSummary], kinds: tuple[str, ...], measure: _Measure, topic: str
) -> list[Figure]:
    """Return the figure; empty if no cell of these kinds has a figure."""
    charted = of_kind(cells, *kinds)
    if not charted:
        return []
    name, unit = _AXES[measure]
    rows = _rows(charted, measure)
    view = View(
        label=topic,
        title=_bars_title(charted, rows, measure),
        rows=rows,
        axis=bar_axis(name, unit, [attrgetter(measure)(s) for s in charted]),
    )
    return [
        Figure(
            id=f"{kinds[0]}-{measure}",
            kind="bars",
            topic=topic,
            notes=[
                interval_note(charted, "whiskers"),
                *blank_notes(s for s in cells if s.cell.kind in kinds),
            ],
            views=[view],
            table=f"table-{kinds[0]}",
        )
    ]


def _bars_title(cells: Sequence[CellSummary], rows: Sequence[Row], measure: _Measure) -> str:
    """Return all figures if they are few, otherwise the highest and whether it is significant.

    It is called the highest only if its interval over rounds is above all others.
    """
    if len(rows) <= _TITLE_ROWS_MAX:
        text = "; ".join(f"{row.label} {row.points[measure].text}" for row in rows)
        return capitalized(text)
    best = max(rows, key=lambda row: row.points[measure].y)
    figure = f"{capitalized(best.label)}: {best.points[measure].text}"
    estimates: list[Estimate] = [attrgetter(measure)(s) for s in cells]
    if any(each.low is None or each.over != "rounds" for each in estimates):
        return f"{figure}; it may not be the highest of {len(rows)}"
    low = max(estimates, key=lambda each: each.value).low or 0.0
    overlapping = sum((each.high or 0.0) >= low for each in estimates) - 1
    if overlapping == 0:
        return f"{figure}, the highest of {len(rows)}"
    others = len(rows) - 1
    which = f"the other {others}" if overlapping == others else f"{overlapping} of {others} others"
    return f"{figure}; no significant difference from {which}"


def _rows(cells: Sequence[CellSummary], measure: _Measure) -> list[Row]:
    """Return a row for each cell, named by the factors that vary in its workload."""
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
