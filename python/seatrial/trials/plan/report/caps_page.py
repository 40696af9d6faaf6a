"""The HTML page of limits: the load over time with each limit that it has to keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from seatrial.report.figures.axes import linear_axis, time_axis
from seatrial.report.figures.model import Figure, Guide, Line, Panel, Point, View
from seatrial.stats.wording import capitalized, format_duration_s
from seatrial.trials.plan.analysis.caps import CapReport
from seatrial.trials.plan.report.caps_text import caps_table, loads_of, rate_phrase, verdict_line
from seatrial.trials.watch.report.load_page import PageWords, page_of

if TYPE_CHECKING:
    from seatrial.trials.plan.analysis.demand import Demand
    from seatrial.trials.plan.analysis.rented_machine import RentedMachine

POINTS_MAX: Final = 400
"""Of a line: a longer load is thinned to its highest slots."""


def render(
    found: CapReport, notes: Sequence[str], machine: RentedMachine, demands: Sequence[Demand]
) -> str:
    """Return the page as a self-contained HTML document.

    Args:
        found: All limits.
        notes: What else matters, in a sentence each.
        machine: What this machine is rented as.
        demands: The load, or that of each test; empty without one.

    Raises:
        AssetError: when the installation's ECharts is not the one that was pinned.
    """
    words = PageWords(
        verdict=verdict_line(found),
        notable=list(notes),
        doubts=["Limits are facts of the catalogue with their dates; a measurement proves them."],
        confidence=f"{len(found.caps)} limits known.",
        next_step="Find other storage for this load: `seatrial plan NEED --capacity SIZE`",
    )
    particulars = {
        **(loads_of(found) or {"Load": "none given"}),
        "Machine": machine.instance or machine.provider or "does not say what it is rented as",
    }
    figures = [caps_figure(found, demands)] if demands else []
    return page_of("limits", words, particulars, figures, [caps_table(found)])


def caps_figure(found: CapReport, demands: Sequence[Demand]) -> Figure:
    """Return the load over time (of the highest test), with every limit as a line across."""
    loads = {
        "IOPS": [(each, each.requests_per_s) for each in demands],
        "throughput": [(each, each.bytes_per_s) for each in demands],
    }
    panels = []
    for quantity, of_tests in loads.items():
        demand, load = max(of_tests, key=lambda pair: float(pair[1].max()))
        own = [each for each in found.caps if each.quantity == quantity]
        step = max(1, -(-len(load) // POINTS_MAX))
        points = [
            Point(
                slot * demand.slot_s,
                float(load[slot : slot + step].max()),
                None,
                None,
                f"{format_duration_s(slot * demand.slot_s)}: "
                f"{rate_phrase(quantity, float(load[slot : slot + step].max()))}",
            )
            for slot in range(0, len(load), step)
        ]
        # The last slot lasts until the end: a load of one slot is a line, too.
        end_s, last = demand.seconds, points[-1].y
        text = f"{format_duration_s(end_s)}: {rate_phrase(quantity, last)}"
        points.append(Point(end_s, last, None, None, text))
        highest = [float(load.max()), *(each.per_s for each in own)]
        panels.append(
            Panel(
                title=capitalized(quantity),
                x=time_axis(demand.seconds),
                y=linear_axis("Requests/s" if quantity == "IOPS" else "Bytes/s", "per_s", highest),
                lines=[Line(name="load", style=0, points=points, look="plain")],
                guides=[
                    Guide(axis="y", low=each.per_s, label=f"{each.subject} {each.name}")
                    for each in own
                ],
            )
        )
    return Figure(
        id="caps",
        kind="lines",
        topic="Load and limits",
        notes=["Lines across are what lasts; above them, credits are spent."],
        views=[View(label="over time", title="The load and its limits", panels=panels)],
        table="table-caps",
    )
