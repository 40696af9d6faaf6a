"""The section of a page on the hosts that measured together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from seatrial.findings.model import Summary
from seatrial.report.figures.axes import linear_axis
from seatrial.report.figures.model import Figure, Guide, Line, Panel, Point, View
from seatrial.report.markup import fill
from seatrial.report.part import PagePart
from seatrial.stats.wording import format_estimate, format_iops
from seatrial.trials.fleet.analysis.scaling import Scaling, usl_rate_per_s
from seatrial.trials.fleet.report.tables import hosts_tables, scaling_sentence, scaling_tables

HEADING: Final = "Hosts"
MEASURED: Final = "measured"
USL_NAME: Final = "universal scalability law"
POINTS: Final = 40
HOST_TABLES_MAX: Final = 40


def hosts_part(summary: Summary) -> PagePart:
    """Return the section: how each workload scales, and the share of each host."""
    found: list[Scaling] = summary.analyses.get("fleet") or []
    tables = [*scaling_tables(found), *hosts_tables(summary.cells)[:HOST_TABLES_MAX]]
    if not tables:
        return PagePart("hosts", HEADING, Markup(""), [])
    figures = scaling_figures(found)
    sentences = [scaling_sentence(each) for each in found]
    section = fill(
        "trials/fleet/report/section.html",
        heading=HEADING,
        line=sentences[0] if sentences else "",
        sentences=sentences,
        figures=figures,
        tables=tables,
    )
    return PagePart("hosts", HEADING, section, figures)


def scaling_figures(found: Sequence[Scaling]) -> list[Figure]:
    """Return the chart of the rates by number of hosts; none with one number alone."""
    views = [_view(each) for each in found if len(each.steps) > 1]
    if not views:
        return []
    return [
        Figure(
            id="fleet-scaling",
            kind="lines",
            topic="Rate by number of hosts",
            notes=["Bars are 95 % intervals over rounds. The law is fitted to each round."],
            views=views,
            table=f"table-{scaling_tables(found)[0].id}",
        )
    ]


def _view(scaling: Scaling) -> View:
    counts = [float(step.hosts) for step in scaling.steps]
    points = [Point.of(step.hosts, step.rate) for step in scaling.steps]
    rates = [end for point in points for end in (point.y, point.high) if end is not None]
    guides = []
    if scaling.limit and scaling.limit.value <= 2 * max(rates):
        label = f"limit {format_estimate(scaling.limit)}"
        guides.append(Guide(axis="y", low=scaling.limit.value, label=label, tone="answer"))
        rates.append(scaling.limit.value)
    panel = Panel(
        title="Requests per second of all hosts",
        x=linear_axis("Hosts", "hosts", counts),
        y=linear_axis("IOPS", "IOPS", rates),
        lines=[Line(name=MEASURED, style=0, points=points), *_usl_line(scaling, max(counts))],
        guides=guides,
    )
    return View(label=scaling.name, title=scaling_sentence(scaling), panels=[panel])


def _usl_line(scaling: Scaling, last: float) -> list[Line]:
    one, serial, pairs = scaling.one_host, scaling.serial_share, scaling.pair_cost_share
    if one is None or serial is None or pairs is None:
        return []
    hosts = [1 + (last - 1) * index / POINTS for index in range(POINTS + 1)]
    per_s = [usl_rate_per_s(count, one.value, serial.value, pairs.value) for count in hosts]
    points = [Point(x, y, None, None, format_iops(y)) for x, y in zip(hosts, per_s, strict=True)]
    return [Line(name=USL_NAME, style=1, look="model", of=MEASURED, points=points)]
