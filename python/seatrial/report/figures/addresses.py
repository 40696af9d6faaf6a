"""The address map: rate and access time over the address range, as disk utilities draw it."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.report.figures.axes import linear_axis, value_axis
from seatrial.report.figures.model import Axis, Figure, Line, Panel, Point, View
from seatrial.report.figures.naming import grouped, name_by, of_kind, varying
from seatrial.report.figures.notes import blank_notes, interval_note
from seatrial.report.tables import start_bytes
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_estimate

_ZONES_MIN = 2


def address_figures(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the map of each target: the rate of sequential, the time of random requests."""
    drawn = of_kind(cells, "map")
    views = [
        view
        for (target, workload), members in grouped(
            drawn, lambda s: (s.cell.target, s.cell.workload)
        ).items()
        if (view := _view(f"{target}: {workload}", members)) is not None
    ]
    if not views:
        return []
    return [
        Figure(
            id="map",
            kind="lines",
            topic="Across the address range",
            notes=[
                interval_note(drawn, "bands"),
                *blank_notes(s for s in cells if s.cell.kind == "map"),
            ],
            views=views,
            table="table-map",
        )
    ]


def _view(label: str, cells: Sequence[CellSummary]) -> View | None:
    """Return rate above access time; None when there are too few zones to see a curve."""
    x_axis = _address_axis(cells)
    rates = [(s, s.bandwidth) for s in cells if s.cell.factors.get("pattern") == "sequential"]
    title, times = _access_times(
        [s for s in cells if s.cell.factors.get("pattern") != "sequential"]
    )
    panels = []
    if len(rates) >= _ZONES_MIN:
        panels.append(_panel("Rate", "Bandwidth (MB/s)", "B/s", x_axis, rates))
    if len(times) >= _ZONES_MIN:
        panels.append(_panel(title, "Response time", "ns", x_axis, times))
    return View(label=label, title=_title(rates, times), panels=panels) if panels else None


def _access_times(cells: Sequence[CellSummary]) -> tuple[str, list[tuple[CellSummary, Estimate]]]:
    """Return the median of each zone; where one zone's is not known, the mean of all instead."""
    latencies = [(s, next(iter(s.latency.values()), {})) for s in cells]
    name, title = "p50", "Access time, median"
    if not all("p50" in latency for _, latency in latencies):
        name, title = "mean", "Access time, mean"
    return title, [(s, latency[name]) for s, latency in latencies if name in latency]


def _panel(
    title: str, name: str, unit: str, x_axis: Axis, estimates: list[tuple[CellSummary, Estimate]]
) -> Panel:
    """Return one panel with a line for each way in which the range was gone through."""
    factors = varying([s for s, _ in estimates], leave_out=("zone",))
    timelines = grouped(estimates, lambda pair: name_by(pair[0], factors))
    lines = [
        Line(
            name=timeline or pairs[0][0].cell.operation,
            style=style,
            points=sorted((Point.of(start_bytes(s), e) for s, e in pairs), key=lambda p: p.x),
        )
        for style, (timeline, pairs) in enumerate(timelines.items())
    ]
    y_axis = value_axis(name, unit, [estimate for _, estimate in estimates])
    return Panel(title=title, x=x_axis, y=y_axis, lines=lines)


def _address_axis(cells: Sequence[CellSummary]) -> Axis:
    """Return the axis of offsets, which begins where the first range does."""
    starts = [start_bytes(s) for s in cells]
    axis = linear_axis("Offset in the target", "B", [max(starts)])
    end = max(starts) * 1.02
    ticks = [tick for tick in axis.ticks if tick.value <= end]
    return Axis(
        name=axis.name,
        unit=axis.unit,
        scale="linear",
        low=min(0, *starts),
        high=end,
        ticks=ticks,
    )


def _title(
    rates: Sequence[tuple[CellSummary, Estimate]], times: Sequence[tuple[CellSummary, Estimate]]
) -> str:
    """Return between which figures the rate lies, or where no rate was measured, the time."""
    subject, pairs = ("rate", rates) if len(rates) >= _ZONES_MIN else ("access time", times)
    estimates = sorted((estimate for _, estimate in pairs), key=lambda e: e.value)
    low, high = format_estimate(estimates[0]), format_estimate(estimates[-1])
    return f"The {subject} lies between {low} and {high} over the range"
