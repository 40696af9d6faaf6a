"""Replays of recordings on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from seatrial.findings.tile import Tile
from seatrial.report.figures.axes import linear_axis, time_axis
from seatrial.report.figures.model import Figure, Line, Panel, Point, View
from seatrial.report.markup import fill
from seatrial.report.part import PagePart
from seatrial.report.table import NO_FIGURE, Table
from seatrial.stats.wording import (
    capitalized,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_plural,
    format_share,
    format_value,
)
from seatrial.trials.watch.analysis.replayed import PERCENTILES, OperationReplay, ReplayResult

if TYPE_CHECKING:
    from seatrial.stats.model import CellSummary

FIGURE_ID: Final = "recording-lag"
HEADING: Final = "Recordings"
_TABLE_ID: Final = "recordings"


def speed_phrase(speed: float) -> str:
    """Return a speed, such as ``1x``, or ``full speed``."""
    return f"{speed:g}x" if speed else "full speed"


def replayed_phrase(replayed: ReplayResult) -> str:
    """Return in a few words whether a recording was replayed completely, and how late."""
    sent = replayed.requests * replayed.rounds
    whole = (
        f"all {format_count(replayed.requests)} requests"
        if replayed.is_complete
        else f"{format_count(replayed.completed)} of {format_count(sent)} requests"
    )
    rounds = f", {format_plural(replayed.rounds, 'round')}" if replayed.rounds > 1 else ""
    late = f"; {lag_phrase(replayed)}" if replayed.speed else ""
    return f"replayed {whole} at {speed_phrase(replayed.speed)}{rounds}{late}"


def lag_phrase(replayed: ReplayResult) -> str:
    """Return the lag of requests."""
    if replayed.lag_mean_s is None:
        return "lag unknown"
    most_s = replayed.lag_max_s or 0.0
    if most_s > 0:
        return f"up to {format_duration_s(most_s)} behind"
    return f"sent {format_duration_ns(replayed.lag_mean_s * 1e9)} late on average"


def replayed_table(replays: Sequence[ReplayResult]) -> Table:
    """Return latencies as recorded and as replayed, a row for each operation."""
    return Table(
        id=_TABLE_ID,
        title="Recordings: recorded and replayed",
        labels=3 if len(replays) > 1 else 1,
        headers=[
            *(("Test", "Speed") if len(replays) > 1 else ()),
            *("Operation", "Completed"),
            *(f"{name} {when}" for name in PERCENTILES for when in ("recorded", "replayed")),
        ],
        rows=[
            [
                *(
                    (f"{each.workload}, {each.target}", speed_phrase(each.speed))
                    if len(replays) > 1
                    else ()
                ),
                "flush" if operation.operation == "sync" else operation.operation,
                _completed_text(each, operation),
                *(text for name in PERCENTILES for text in _latencies(operation, name)),
            ]
            for each in replays
            for operation in each.operations
        ],
    )


def _completed_text(replayed: ReplayResult, operation: OperationReplay) -> str:
    """Return the number of completed requests of all rounds, and their total."""
    count = operation.recorded * replayed.rounds
    if operation.completed == count:
        return f"all {format_count(count)}"
    return f"{format_count(operation.completed)} of {format_count(count)}"


def _latencies(operation: OperationReplay, name: str) -> tuple[str, str]:
    recorded_ns = operation.recorded_ns.get("p100" if name == "max" else name)
    replayed = operation.response_ns.get(name)
    return (
        NO_FIGURE if recorded_ns is None else format_duration_ns(recorded_ns),
        NO_FIGURE if replayed is None else format_value(replayed),
    )


def replayed_notes(replayed: ReplayResult) -> list[str]:
    """Return the differences between the recording and its replay, as sentences."""
    notes = []
    if replayed.speed:
        notes.append(
            "Requests were sent at their recorded times, whether or not earlier ones had "
            "completed; latencies count from these times."
        )
    elif replayed.keeps_dependence:
        notes.append(
            "Each request waited for as many completions as there had been when it arrived in "
            "the recording."
        )
    else:
        notes.append(
            "The recording has no latencies, so the order of requests was kept, but not "
            "which of them waited for others."
        )
    if replayed.wrapped:
        share = format_share(replayed.wrapped / replayed.requests)
        notes.append(
            f"The target is smaller than the recorded devices: the offsets of {share} of the "
            "requests wrap, so more of them may meet in a cache than in the recording."
        )
    if replayed.extended:
        share = format_share(replayed.extended / replayed.requests)
        notes.append(f"{share} of the requests were extended to whole blocks of the target.")
    if replayed.left_out:
        parts = [f"{format_count(n)} {reason}" for reason, n in replayed.left_out.items()]
        notes.append(f"Not sent: {', '.join(parts)}.")
    if replayed.skipped:
        notes.append(
            f"Not sent, because the sample ended first: "
            f"{format_plural(replayed.skipped, 'request')}."
        )
    if replayed.failed:
        notes.append(f"{format_plural(replayed.failed, 'request')} failed.")
    return notes


def replayed_tiles(cells: Sequence[CellSummary], replays: Sequence[ReplayResult]) -> list[Tile]:
    """Return the p99 of each operation that was replayed, else the rate."""
    summaries = {each.cell.key: each for each in cells}
    tiles = []
    for each in replays:
        summary = summaries.get(each.cell)
        if summary is None:
            continue
        test = f"{each.workload} at {speed_phrase(each.speed)}"
        tiles.append(
            Tile(label="replayed requests", estimate=summary.iops, test=test, cell=each.cell)
        )
        tiles += [
            Tile(
                label=f"{operation.operation} p99",
                estimate=operation.response_ns["p99"],
                detail=_recorded_detail(operation),
                test=test,
                cell=each.cell,
                better="lower",
            )
            for operation in each.operations
            if "p99" in operation.response_ns
        ]
    return tiles


def _recorded_detail(operation: OperationReplay) -> str:
    recorded_ns = operation.recorded_ns.get("p99")
    return "" if recorded_ns is None else f"recorded {format_duration_ns(recorded_ns)}"


def replayed_part(replays: Sequence[ReplayResult]) -> PagePart:
    """Return the section of a page on the replay of each recording."""
    section = fill(
        "trials/watch/report/templates/replayed.html",
        heading=HEADING,
        replays=[
            {
                "name": f"{each.workload}, {each.target}",
                "sentence": capitalized(text),
                "notes": notes,
            }
            for each in replays
            for text, notes in [(f"{replayed_phrase(each)}.", replayed_notes(each))]
        ],
        table=replayed_table(replays),
    )
    return PagePart("recordings", HEADING, section, [])


def replayed_figures(replays: Sequence[ReplayResult]) -> list[Figure]:
    """Return the chart of the lag of replays; none without any lag."""
    drawn = [each for each in replays if any(point.lag_s for point in each.lag)]
    if not drawn:
        return []
    return [
        Figure(
            id=FIGURE_ID,
            kind="lines",
            topic="Lag of the replay",
            notes=[
                "By how much completions were behind the recorded times, in the first round; "
                "rounded down to a step of the curve."
            ],
            views=[_lag_view(each) for each in drawn],
            table=f"table-{_TABLE_ID}",
        )
    ]


def _lag_view(replayed: ReplayResult) -> View:
    lags_s = [each.lag_s for each in replayed.lag]
    panel = Panel(
        title="Behind the recorded times",
        x=time_axis(replayed.lag[-1].at_s),
        y=linear_axis("Lag (s)", "s", lags_s),
        lines=[
            Line(
                name="lag",
                style=0,
                look="plain",
                points=[
                    Point(each.at_s, each.lag_s, None, None, format_duration_s(each.lag_s))
                    for each in replayed.lag
                ],
            )
        ],
    )
    name = f"{replayed.workload} on {replayed.target} at {speed_phrase(replayed.speed)}"
    return View(label=name, title=f"{name}: {lag_phrase(replayed)}", panels=[panel])
