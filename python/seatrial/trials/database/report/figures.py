"""Charts of databases: transactions per second, latency percentiles, cache size sweeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from seatrial.grouping import grouped
from seatrial.report.articles import PGBENCH_SOURCE, PublishedRate, published_rates
from seatrial.report.figures.axes import (
    bar_axis,
    blank_notes,
    block_size_axis,
    extent,
    interval_note,
    linear_axis,
    scatter_notes,
)
from seatrial.report.figures.latency import ladder_figure
from seatrial.report.figures.model import Figure, Guide, Line, Panel, Point, Row, View
from seatrial.report.figures.naming import of_kind
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    capitalized,
    format_count,
    format_estimate,
    format_share,
    format_size,
    format_value,
)
from seatrial.study.cell import Cell
from seatrial.trials.database.analysis.model import CacheSweep, DatabaseCell
from seatrial.trials.database.report.tables import inverse, process_rate
from seatrial.trials.database.report.wording import (
    WAIT_NAMES,
    cell_phrase,
    database_spec,
    label_names,
    sweep_text,
    waits_of,
)

MODEL_POINTS: Final = 48
_LADDER_KINDS: Final = ("pgbench", "telemetry")
_MEASURED, _WITH_PUBLISHED = "measured", "with figures published in 2010"


def database_figures(
    cells: Sequence[CellSummary],
    sweeps: Sequence[CacheSweep],
    by_key: dict[str, DatabaseCell],
    *,
    with_published: bool,
) -> list[Figure]:
    """Return the charts of a run's databases except those over time; empty charts are left out.

    Args:
        cells: Cells of databases.
        sweeps: Sweeps of caches.
        by_key: The analysis of the cells, by key.
        with_published: Whether the published figures are shown first; the reader can switch them
            on and off in any case.
    """
    return [
        *_rates(cells, by_key, with_published=with_published),
        *_sweeps(sweeps, cells),
        *_waits(cells, by_key),
        *_latencies(cells),
    ]


def _rates(
    cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell], *, with_published: bool
) -> list[Figure]:
    shown = of_kind(cells, "pgbench", "telemetry")
    if not shown:
        return []
    views = [_bars(_MEASURED, shown, by_key, ())]
    published = comparable(shown)
    if published:
        views.append(_bars(_WITH_PUBLISHED, shown, by_key, published))
    return [
        Figure(
            id="database-tps",
            kind="bars",
            topic="Transactions per second",
            notes=[
                interval_note(shown, "whiskers"),
                *blank_notes(part for part in cells if part.cell.kind in _LADDER_KINDS),
            ],
            views=views,
            chosen=len(views) - 1 if with_published else 0,
            table="database",
        )
    ]


def comparable(cells: Sequence[CellSummary]) -> tuple[PublishedRate, ...]:
    """Return the published figures if a run has comparable cells."""
    return published_rates() if any(map(_is_as_published, cells)) else ()


def _is_as_published(part: CellSummary) -> bool:
    """Return whether a cell is comparable with the article: TPC-B-like, in a closed loop."""
    if part.cell.kind != "pgbench" or part.cell.parsed.database is None:
        return False
    spec = database_spec(part.cell)
    return spec.script == "tpcb-like" and spec.rate_per_s is None


def _bars(
    label: str,
    shown: Sequence[CellSummary],
    by_key: dict[str, DatabaseCell],
    published: Sequence[PublishedRate],
) -> View:
    """Return the targets grouped by the other factors, as in the article."""
    rows = []
    estimates = [part.iops for part in shown]
    remaining = list(published)
    for words, members in _by_setting(shown).items():
        same = [rate for rate in remaining if _has_same_setting(rate, members[0])]
        remaining = [rate for rate in remaining if rate not in same]
        rows.append(Row(label=words if ": " in words else capitalized(words), points={}))
        rows += [_measured_row(part, by_key) for part in members]
        rows += [_published_row(rate) for rate in same]
        estimates += [_published_estimate(rate) for rate in same]
    for words, others in grouped(remaining, _published_text).items():
        rows.append(Row(label=capitalized(words), points={}))
        rows += [_published_row(other) for other in others]
        estimates += [_published_estimate(other) for other in others]
    return View(
        label=label,
        title=_bars_title(shown),
        rows=rows,
        axis=bar_axis("Transactions per second", "tps", estimates),
        notes=[PGBENCH_SOURCE] if published else [],
    )


def _by_setting(shown: Sequence[CellSummary]) -> dict[str, list[CellSummary]]:
    """Return the cells by workload and all factors except the target."""
    workloads = {part.cell.workload for part in shown}

    def name(part: CellSummary) -> str:
        same = [each for each in shown if each.cell.workload == part.cell.workload]
        names = [name for name in label_names(same) if name != "target"]
        text = cell_phrase(part, names)
        return f"{part.cell.workload}: {text}" if len(workloads) > 1 else text

    return grouped(shown, name)


def _measured_row(part: CellSummary, by_key: dict[str, DatabaseCell]) -> Row:
    known = by_key.get(part.cell.key)
    remarks = [format_estimate(part.iops)]
    if known:
        remarks.append(f"bound by: {known.verdict.bound}")
    first = process_rate(part, 1)
    if first is not None:
        remarks.append(f"process 1 {format_value(first)}")
    return Row(
        label=part.cell.target,
        points={"tps": Point.of(0, part.iops)},
        remark=", ".join(remarks),
    )


def _published_row(published: PublishedRate) -> Row:
    figure = f"{format_count(round(published.rate_per_s))} tps"
    alone = " (client 1)" if published.processes > 1 else ""
    return Row(
        label=published.device,
        points={"published": Point(0, published.rate_per_s, None, None, f"{figure}{alone}")},
        remark=f"{figure}{alone}, published in 2010",
        quiet=True,
    )


def _published_text(published: PublishedRate) -> str:
    machines = f", {published.processes} client machines" if published.processes > 1 else ""
    return f"published only: scale {published.scale}, {published.clients} clients{machines}"


def _published_estimate(published: PublishedRate) -> Estimate:
    return Estimate(
        value=published.rate_per_s, low=None, high=None, rounds=published.rounds, unit="tps"
    )


def _has_same_setting(published: PublishedRate, part: CellSummary) -> bool:
    """Return whether a published figure has the scale, clients and processes of a cell."""
    if not _is_as_published(part):
        return False
    spec = database_spec(part.cell)
    found = (spec.load.scale, spec.processes, spec.clients)
    return found == (published.scale, published.processes, published.clients)


def _bars_title(shown: Sequence[CellSummary]) -> str:
    """Return the fastest and, with several targets, the slowest."""
    best = max(shown, key=lambda part: part.iops.value)
    names = label_names([p for p in shown if p.cell.workload == best.cell.workload])
    words = cell_phrase(best, names) or best.cell.workload
    title = f"{words}: {format_estimate(best.iops)}"
    if len(shown) == 1:
        return capitalized(title) if "target" not in names else title
    same = [part for part in shown if _others(part.cell) == _others(best.cell)]
    worst = min(same, key=lambda part: part.iops.value)
    if worst.cell.target == best.cell.target:
        return capitalized(f"{title}, the highest of {len(shown)} tests")
    return (
        f"{title}, the highest of {len(shown)} tests; {worst.cell.target}: "
        f"{format_estimate(worst.iops)}"
    )


def _others(cell: Cell) -> tuple[object, ...]:
    return (cell.workload, cell.threads, *sorted(cell.factors.items()))


def _latencies(cells: Sequence[CellSummary]) -> list[Figure]:
    """Return the percentiles of every kind of transaction of every cell."""
    shown = [part for part in of_kind(cells, *_LADDER_KINDS) if part.latency]
    rows = []
    for workload, members in grouped(shown, lambda part: part.cell.workload).items():
        names = label_names(members)
        for part in members:
            own = workload if len({each.cell.workload for each in shown}) > 1 else ""
            for kind in part.latency:
                words = ", ".join(filter(None, [own, cell_phrase(part, names)])) or workload
                rows.append((part, kind, words if kind == "transaction" else f"{words}: {kind}"))
    if not rows:
        return []
    slowest = max(rows, key=lambda row: row[0].latency[row[1]]["max"].value)
    worst = format_value(slowest[0].latency[slowest[1]]["max"])
    return [
        ladder_figure(
            rows,
            cells,
            name="database-latency",
            topic="Transaction latency",
            title=f"The slowest transaction took {worst}: {slowest[2]}",
            table="database",
        )
    ]


def _waits(cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]) -> list[Figure]:
    """Return the share of the clients' time by wait class, a view for each test."""
    names = label_names(cells)
    views = [
        _waits_view(cell_phrase(part, names) or part.cell.workload, by_key[part.cell.key])
        for part in cells
        if part.cell.key in by_key and by_key[part.cell.key].waits
    ]
    if not views:
        return []
    return [
        Figure(
            id="database-time",
            kind="bars",
            topic="Where the time goes",
            notes=[
                "Share of the active clients' time by wait class, sampled from the server over all "
                "rounds; cpu: running or waiting for a processor."
            ],
            views=views,
            table="database",
        )
    ]


def _waits_view(label: str, cell: DatabaseCell) -> View:
    shares = waits_of(cell)
    rows = []
    for name, share in shares:
        text = format_share(share)
        points = {"share": Point(0, share, None, None, text)}
        rows.append(Row(label=WAIT_NAMES.get(name, name), points=points, remark=text))
    return View(
        label=label,
        title=cell.verdict.sentence,
        rows=rows,
        axis=linear_axis("Share of the active clients' time", "share", [s for _, s in shares]),
    )


def _sweeps(sweeps: Sequence[CacheSweep], cells: Sequence[CellSummary]) -> list[Figure]:
    """Return throughput against cache size, a view per sweep."""
    if not sweeps:
        return []
    return [
        Figure(
            id="database-sweep",
            kind="lines",
            topic="Cache size",
            notes=[
                "The line is the model t = cpu + k * C^-a, fitted to the time of one transaction. "
                "The hollow mark is its prediction for twice the largest size. "
                "Bands and bars are 95 % intervals.",
                *scatter_notes("strokes", (time for each in sweeps for time in each.time_s)),
            ],
            views=[_sweep_view(sweep, sweep_text(sweep, cells)) for sweep in sweeps],
            table="database",
        )
    ]


def _sweep_view(sweep: CacheSweep, label: str) -> View:
    measured = [
        Point.of(size, inverse(time))
        for size, time in zip(sweep.sizes_bytes, sweep.time_s, strict=True)
    ]
    lines = [Line(name="measured", style=0, points=measured, look="dots")]
    sizes = list(sweep.sizes_bytes)
    estimates = [inverse(time) for time in sweep.time_s]
    if sweep.fits and sweep.predicted_per_s is not None:
        sizes.append(sweep.next_size_bytes)
        estimates.append(sweep.predicted_per_s)
        lines.append(Line(name="fitted model", style=1, points=model_points(sweep), look="model"))
        prediction = Point.of(sweep.next_size_bytes, sweep.predicted_per_s)
        lines.append(Line(name="predicted", style=1, points=[prediction], look="predicted"))
    panel = Panel(
        title=label,
        x=block_size_axis(sizes, name=f"Cache size ({sweep.factor})"),
        y=linear_axis("Transactions per second", "tps", extent(estimates)),
        lines=lines,
        guides=[Guide(axis="x", low=sizes[-1], label=f"next: {format_size(sizes[-1])}")]
        if sweep.fits and sweep.predicted_per_s is not None
        else [],
    )
    return View(label=label, title=sweep.sentence, panels=[panel])


def model_points(sweep: CacheSweep, unit: str = "tps") -> list[Point]:
    """Return the fitted model from the smallest size to the predicted one."""
    low, high = math.log(sweep.sizes_bytes[0]), math.log(sweep.next_size_bytes)
    points = []
    for step in range(MODEL_POINTS + 1):
        size_bytes = math.exp(low + (high - low) * step / MODEL_POINTS)
        time_s = sweep.cpu_s.value + sweep.k * size_bytes**-sweep.a.value
        rate = Estimate(value=1 / time_s, low=None, high=None, rounds=0, unit=unit)
        points.append(Point(size_bytes, rate.value, None, None, format_value(rate)))
    return points
