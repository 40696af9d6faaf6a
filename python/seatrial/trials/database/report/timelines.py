"""A sample over time: rate, latency, wait events, CPU, device, WAL, a rebuild.

The page shows the readings averaged into a limited number of steps; the results file has all.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup

from seatrial._core import Histogram
from seatrial.grouping import grouped
from seatrial.report.figures.axes import linear_axis, log_axis, time_axis
from seatrial.report.figures.model import (
    Axis,
    Figure,
    TimelineChart,
    TimelineColumn,
    TimelineMark,
    TimelinePanel,
    View,
)
from seatrial.report.markup import fill
from seatrial.report.table import NO_FIGURE
from seatrial.results.model import Sample, Series, Slice
from seatrial.stats.cell_estimates import rate_unit
from seatrial.stats.facts import format_number
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    capitalized,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
    format_value,
)
from seatrial.trials.database.report.wording import WAIT_NAMES
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.layouts.report.phrases import (
    ARRAY_COLUMNS,
    array_marks,
    event_text,
    events_after_end,
)
from seatrial.trials.replay.analysis.model import is_replay

STEPS_MAX: Final = 60
P99_ENTRIES_MIN: Final = 100
_RUNNING_MIN: Final = 0.5
_VISIBLE_SHARE_MIN: Final = 0.005
_PERCENT_MIN: Final = 0.0095
_DIGITS: Final = 3
_COUNTED: Final = ("checkpoints_timed", "checkpoints_requested")
_WAIT_STYLES: Final = {"cpu": 2, "io": 0, "lwlock": 4, "lock": 1, "client": 5, "ipc": 3, "other": 6}
_KIND_STYLES: Final = {"transaction": 0, "ingest": 0, "read": 0, "query": 1, "write": 1}
_DATABASE_NOTE: Final = (
    "Shaded grey: a checkpoint. Shaded red: a stall (transactions were pending and none completed)."
)
_ARRAY_LINES_NOTE: Final = "Vertical lines: events of the array."
_ARRAY_NOTE: Final = (
    f"{_ARRAY_LINES_NOTE} Shaded yellow: the array is degraded, rebuilding or being checked. "
    "Shaded red: a stall (requests were pending and none completed)."
)
_STEP_NOTE: Final = (
    "Each value is the mean of its step; p99 is omitted for steps with fewer than "
    f"{P99_ENTRIES_MIN} {{}}."
)

Marker = Callable[[Sample], tuple[str, list[TimelineMark]]]
"""Returns the title and the shaded parts of a sample in which an array failed."""


class _Panel(NamedTuple):
    """A panel of a series' columns: names of columns and lines, and their styles."""

    title: str
    unit: str
    stacked: bool
    columns: tuple[tuple[str, str, int], ...]


_PANELS: Final = (
    _Panel("CPU time", "share", stacked=True, columns=(
        ("cpu_user_share", "user", 2),
        ("cpu_system_share", "system", 5),
        ("cpu_iowait_share", "iowait", 0),
        ("cpu_steal_share", "steal", 1),
    )),
    _Panel("Requests to the device (IOPS)", "IOPS", stacked=False, columns=(
        ("device_read_per_s", "reads", 0),
        ("device_write_per_s", "writes", 1),
        ("device_flush_per_s", "flushes", 2),
    )),
    _Panel("Device busy", "share", stacked=False, columns=(("device_busy_share", "busy", 0),)),
    _Panel("WAL written (MB/s)", "B/s", stacked=False, columns=(("wal_bytes_per_s", "WAL", 0),)),
)  # fmt: skip


def timeline_figure(
    summary: CellSummary,
    identifier: str,
    rounds_max: int,
    *,
    marker: Marker | None = None,
) -> Figure | None:
    """Return a cell's chart over time with a view per round; None without a timeline.

    The round with the longest stall is shown first, or without stalls the median one.

    Args:
        summary: A cell of a database, or one in which an array was broken.
        identifier: Identifier of the figure.
        rounds_max: Maximum number of rounds: that one, the median, then the extremes.
        marker: Marker of array failures; with it only rates, latencies and the array are drawn.
    """
    shown = [sample for sample in summary.samples if _steps(sample) > 1]
    if not shown:
        return None
    ordered = sorted(shown, key=lambda sample: sample.completed_per_s)
    median = ordered[(len(ordered) - 1) // 2]
    worst = max(shown, key=_longest_stall_s)
    first = worst if _longest_stall_s(worst) > 0 else median
    kept = _kept([first, median], ordered, rounds_max)
    notes = [_ARRAY_NOTE if marker else _DATABASE_NOTE, _STEP_NOTE.format(_requests(summary))]
    if marker is None and any(map(array_marks, shown)):
        notes.append(_ARRAY_LINES_NOTE)
    if len(kept) < len(shown):
        rounds = format_plural(len(shown), "round")
        notes.append(f"This page has {len(kept)} of {rounds}; the results file has all.")
    return Figure(
        id=identifier,
        kind="timeline",
        topic="Over time",
        notes=notes,
        views=[
            _view(sample, marker, is_median=sample is median and len(shown) > 1) for sample in kept
        ],
        chosen=kept.index(first),
        table=f"table-{identifier}",
    )


def _requests(summary: CellSummary) -> str:
    if is_replay(summary.cell):
        return "statements"
    return "transactions" if is_of_database(summary.cell) else "requests"


def _longest_stall_s(sample: Sample) -> float:
    return max((stall.length_s for stall in sample.stalls), default=0.0)


def _kept(leading: list[Sample], ordered: Sequence[Sample], rounds_max: int) -> list[Sample]:
    """Return these rounds and the extremes, at most ``rounds_max``, in order of rounds."""
    ends = [end for pair in zip(ordered, reversed(ordered), strict=True) for end in pair]
    unique = list({id(sample): sample for sample in [*leading, *ends]}.values())
    return sorted(unique[:rounds_max], key=lambda sample: sample.round)


def _view(sample: Sample, marker: Marker | None, *, is_median: bool) -> View:
    name = f"round {sample.round + 1}{', the median' if is_median else ''}"
    if marker is None:
        return View(label=name, title=_title(sample, name), timeline=_timeline(sample))
    title, dips = marker(sample)
    after = [event_text(event) for event in events_after_end(sample)]
    return View(
        label=name,
        title=capitalized(f"{name}: {title}"),
        timeline=_timeline(sample, dips, of_array=True),
        notes=[f"After the end of the round: {'; '.join(after)}."] if after else [],
    )


def _title(sample: Sample, name: str) -> str:
    """Return the round's rate, its checkpoints and stalls."""
    unit = rate_unit(sample)
    once = Estimate(value=sample.completed_per_s, low=None, high=None, rounds=1, unit=unit)
    parts = [f"{name}: {format_value(once)}"]
    checkpoints = sum(mark.sort == "checkpoint" for mark in _marks(sample))
    if checkpoints:
        parts.append(format_plural(checkpoints, "checkpoint"))
    if sample.stalls:
        length = format_duration_s(sum(stall.length_s for stall in sample.stalls))
        stalls = format_plural(len(sample.stalls), "stall")
        parts.append(f"{stalls} ({length}{' in total' if len(sample.stalls) > 1 else ''})")
    return capitalized(", ".join(parts))


def _steps(sample: Sample) -> int:
    return math.ceil(sample.duration_s / _step_s(sample) - 1e-9) if sample.duration_s > 0 else 0


def _step_s(sample: Sample) -> float:
    """Return the length of a step: a whole number of readings, at most STEPS_MAX steps."""
    period_s = sample.series.period_s if sample.series else sample.timeline.slice_ns / 1e9
    return period_s * max(1, math.ceil(sample.duration_s / period_s / STEPS_MAX - 1e-9))


def _timeline(
    sample: Sample, dips: Sequence[TimelineMark] = (), *, of_array: bool = False
) -> TimelineChart:
    step_s = _step_s(sample)
    panels = [*_timeline_panels(sample, step_s)]
    if sample.series:
        if not of_array:
            panels += _waits_panel(sample.series, step_s, _steps(sample))
            panels += _series_panels(sample.series, step_s, _steps(sample))
        panels += _array_panels(sample.series, step_s, _steps(sample))
    marks = sorted([*_marks(sample), *dips], key=lambda mark: mark.start_s)
    return TimelineChart(step_s=step_s, x=time_axis(sample.duration_s), panels=panels, marks=marks)


def _timeline_panels(sample: Sample, step_s: float) -> Iterable[TimelinePanel]:
    """Yield rate and latency of each kind of transaction, of samples that have a timeline."""
    slices = sample.timeline.slices
    if not slices:
        return
    of_replay = is_replay(sample.cell)
    by_kind = grouped(slices, lambda part: "statements" if of_replay else part.operation)
    steps = _steps(sample)
    last_s = sample.duration_s - (steps - 1) * step_s
    merged = {
        kind: _merged_by_step(parts, sample.timeline.slice_ns, step_s, steps)
        for kind, parts in by_kind.items()
    }
    rates = []
    for kind, histograms in merged.items():
        lengths_s = [step_s] * (steps - 1) + [last_s]
        values = [
            _short(histogram.count / length_s)
            for histogram, length_s in zip(histograms, lengths_s, strict=True)
        ]
        name = "transactions" if kind == "transaction" else kind
        style = _KIND_STYLES.get(kind, 2) if len(merged) > 1 else 0
        rates.append(TimelineColumn(name, style, values))
    on_database = is_of_database(sample.cell)
    title = "Transactions per second" if on_database else "Requests per second (IOPS)"
    title = "Successful statements per second" if of_replay else title
    yield _panel(title, "tps" if on_database else "IOPS", rates)
    times = [
        column
        for kind, histograms in merged.items()
        for column in _latencies(kind, histograms, several=len(merged) > 1)
    ]
    if any(value for column in times for value in column.values):
        yield _panel("Response time", "ns", times, log=True)


def _merged_by_step(
    slices: Iterable[Slice], slice_ns: int, step_s: float, steps: int
) -> list[Histogram]:
    """Return the response times of each step."""
    found = [Histogram.of([])] * steps
    by_step = grouped(slices, lambda part: min(int(part.index * slice_ns / 1e9 / step_s + 1e-9),
                                               steps - 1))  # fmt: skip
    for step, parts in by_step.items():
        blobs = (Histogram.decode(part.response) for part in parts)
        found[step] = functools.reduce(Histogram.merged, blobs)
    return found


def _latencies(
    kind: str, histograms: Sequence[Histogram], *, several: bool
) -> list[TimelineColumn]:
    """Return median, 99th percentile and slowest of each step; of several kinds two."""
    prefix = f"{kind} " if several else ""
    style = _KIND_STYLES.get(kind, 2) * 2 if several else 0

    def column(
        name: str, style_index: int, read: Callable[[Histogram], float | None]
    ) -> TimelineColumn:
        values = [
            None if not histogram.count else _short(read(histogram)) for histogram in histograms
        ]
        return TimelineColumn(f"{prefix}{name}", style_index, values)

    found = [
        column("p50", style, lambda histogram: histogram.percentile_ns(50.0)),
        column("p99", style + 1, _p99_ns),
    ]
    return found if several else [*found, column("max", 4, lambda histogram: histogram.max_ns)]


def _p99_ns(histogram: Histogram) -> float | None:
    return histogram.percentile_ns(99.0) if histogram.count >= P99_ENTRIES_MIN else None


def _waits_panel(series: Series, step_s: float, steps: int) -> list[TimelinePanel]:
    """Return the wait classes of active clients; rare classes are part of ``other``."""
    seen = {
        name: _by_step(series, f"waits_{name}_share", step_s, steps)
        for name in WAIT_NAMES
        if f"waits_{name}_share" in series.columns
    }
    other: list[list[float | None]] = []
    columns = []
    for name, values in seen.items():
        largest = max((value for value in values if value is not None), default=0.0)
        if name in _WAIT_STYLES and name != "other" and largest >= _VISIBLE_SHARE_MIN:
            columns.append(TimelineColumn(WAIT_NAMES[name], _WAIT_STYLES[name], values))
        elif largest > 0:
            other.append(values)
    if other:
        sums = [_sum(values) for values in zip(*other, strict=True)]
        columns.append(TimelineColumn(WAIT_NAMES["other"], _WAIT_STYLES["other"], sums))
    if not columns:
        return []
    return [_panel("Wait events of active clients", "share", columns, stacked=True)]


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _short(sum(known)) if known else None


def _series_panels(series: Series, step_s: float, steps: int) -> list[TimelinePanel]:
    found = []
    for shown in _PANELS:
        columns = [
            TimelineColumn(name, style, _by_step(series, column, step_s, steps))
            for column, name, style in shown.columns
            if any(value is not None for value in series.columns.get(column, []))
        ]
        if columns:
            found.append(_panel(shown.title, shown.unit, columns, stacked=shown.stacked))
    return found


def _array_panels(series: Series, step_s: float, steps: int) -> list[TimelinePanel]:
    """Return the progress of a rebuild and the number of missing drives, if known."""
    found = []
    for title, unit, column in ARRAY_COLUMNS:
        values = _by_step(series, column, step_s, steps)
        if any(value is not None for value in values):
            panel = _panel(title, unit, [TimelineColumn(title.lower(), 2, values)])
            if unit == "share":
                panel = msgspec.structs.replace(panel, y=_share_axis(1.0))
            found.append(panel)
    return found


def _by_step(series: Series, name: str, step_s: float, steps: int) -> list[float | None]:
    """Return a column's mean over each step; None if nothing could be read."""
    values = series.columns.get(name, [])
    group = max(1, round(step_s / series.period_s))
    means: list[float | None] = []
    for step in range(steps):
        known = [v for v in values[step * group : (step + 1) * group] if v is not None]
        means.append(_short(statistics.fmean(known)) if known else None)
    return means


def _in_percents(column: TimelineColumn) -> TimelineColumn:
    """Return a column of shares as they are shown: in whole percents, below one in tenths."""
    values = [
        None if share is None else round(share, 2 if share >= _PERCENT_MIN else 3)
        for share in column.values
    ]
    return TimelineColumn(column.name, column.style, values)


def _panel(
    title: str,
    unit: str,
    columns: list[TimelineColumn],
    *,
    stacked: bool = False,
    log: bool = False,
) -> TimelinePanel:
    if unit == "share":
        columns = [_in_percents(column) for column in columns]
    values = [value for column in columns for value in column.values if value is not None]
    if unit == "share":
        axis = _share_axis(max(values, default=0.0) if not stacked else 1.0)
    elif log:
        axis = log_axis(title, unit, [value for value in values if value > 0])
    else:
        axis = linear_axis(title, unit, values)
    return TimelinePanel(title=title, y=axis, stacked=stacked, columns=columns)


def _share_axis(top: float) -> Axis:
    """Return an axis of shares from 0 to 1, or to less if all values are small."""
    whole = linear_axis("", "share", [1.0 if top > 0.25 else max(top, 0.05)])
    return Axis(
        name="", unit="share", scale="linear", low=0.0,
        high=min(whole.high, 1.0), ticks=[t for t in whole.ticks if t.value <= 1.0],
    )  # fmt: skip


def _marks(sample: Sample) -> list[TimelineMark]:
    """Return checkpoints, stalls and what happened to an array, in order of time."""
    stalls = [
        TimelineMark(
            round(stall.start_s, 3),
            round(stall.start_s + stall.length_s, 3),
            "stall",
            f"stall of {format_duration_s(stall.length_s)} from {format_number(stall.start_s)} s, "
            f"cause: {stall.cause}",
        )
        for stall in sample.stalls
    ]
    checkpoints = _checkpoints(sample.series) if sample.series else []
    marks = [*checkpoints, *stalls, *array_marks(sample)]
    return sorted(marks, key=lambda mark: mark.start_s)


def _checkpoints(series: Series) -> list[TimelineMark]:
    """Return the intervals in which the checkpointer was active, or the counted checkpoints."""
    running = series.columns.get("checkpoint_running_share")
    if running is None:
        counted = [series.columns.get(name, []) for name in _COUNTED]
        length = max(map(len, counted), default=0)
        running = [
            float(any(i < len(column) and (column[i] or 0) > 0 for column in counted))
            for i in range(length)
        ]
    entries = [i for i, share in enumerate(running) if share is not None and share >= _RUNNING_MIN]
    spans: list[list[int]] = []
    for entry in entries:
        if spans and spans[-1][-1] == entry - 1:
            spans[-1].append(entry)
        else:
            spans.append([entry])
    period_s = series.period_s
    return [
        TimelineMark(
            span[0] * period_s,
            (span[-1] + 1) * period_s,
            "checkpoint",
            f"checkpoint of {format_duration_s(len(span) * period_s)} "
            f"from {format_number(span[0] * period_s)} s",
        )
        for span in spans
    ]


def _short(value: float | None) -> float | None:
    """Return a value with three significant digits."""
    if value is None:
        return None
    short = float(f"{value:.{_DIGITS - 1}e}")
    return int(short) if short == int(short) else short


_EXACT: Final = 0.0  # read, not estimated: three digits


def timeline_table(figure: Figure) -> Markup:
    """Return the numbers of the round that the chart shows first, collapsed.

    With scripts, the table follows the selected round (assets/timeline.js).
    """
    view = figure.views[figure.chosen]
    if view.timeline is None:
        return Markup("")
    return fill(
        "trials/database/report/timeline.html",
        figure=figure,
        view=view,
        panels=view.timeline.panels,
        rows=_rows(view.timeline),
    )


def _rows(timeline: TimelineChart) -> Iterator[list[str]]:
    columns = [(panel.y.unit, column) for panel in timeline.panels for column in panel.columns]
    steps = max((len(column.values) for _, column in columns), default=0)
    for step in range(steps):
        texts = [format_number(step * timeline.step_s)]
        yield texts + [_reading(unit, column.values[step]) for unit, column in columns]


def _reading(unit: str, value: float | None) -> str:
    """Return one reading in words, formatted as by assets/timeline.js."""
    if value is None:
        return NO_FIGURE
    if unit == "share":
        return format_share(value)
    if unit == "ns":
        return format_duration_ns(value, _EXACT)
    if unit == "B/s":
        return format_rate_bytes(value, _EXACT)
    return format_iops(value, _EXACT)
