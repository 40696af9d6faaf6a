"""The load of a recording on the terminal: a summary, then tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from seatrial.report.table import NO_FIGURE, Table, without_empty
from seatrial.report.terminal import analysis_text
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_rate_bytes,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.watch.analysis.load.profile import BreakdownRow, LoadProfile
from seatrial.trials.watch.recording import RecordingMetadata
from seatrial.trials.watch.report.load_phrases import (
    confidence,
    kind_line,
    nameless,
    notable,
    number,
)

_ROWS_MAX: Final = 10
_CACHE_ROWS: Final = 6


def load_text(load: LoadProfile, about: RecordingMetadata, next_step: str) -> str:
    """Return the load as lines: its kind, notable properties, confidence, next step, tables."""
    certain, tables = confidence(load, about), load_tables(load)
    return analysis_text(kind_line(load), notable(load), certain, next_step, tables)


def load_tables(load: LoadProfile) -> list[Table]:
    """Return the tables of a load; none is empty."""
    found = [
        _mix_table(load),
        _sizes_table(load),
        _sequential_table(load),
        _working_set_table(load),
        _reuse_table(load),
        _dispersion_table(load),
        _breakdown_table("relation", "Table or index", load.relations, load),
        _breakdown_table("process", "Process", load.processes, load),
        _breakdown_table("device", "Device", load.devices, load),
    ]
    return [without_empty(each) for each in found if each.rows]


def _mix_table(load: LoadProfile) -> Table:
    rows = [
        [
            each.operation,
            format_count(each.requests),
            format_share(each.requests / load.requests),
            format_size(each.transferred_bytes) if each.transferred_bytes else NO_FIGURE,
            _rate(each.transferred_bytes, load),
            format_share(each.sync / each.requests) if each.sync is not None else NO_FIGURE,
            *_latencies(each.latency_ns),
            format_count(each.failed) if each.failed else NO_FIGURE,
        ]
        for each in load.mix
    ]
    return Table(
        id="load-mix",
        title="Operations",
        labels=1,
        headers=["Operation", "Requests", "Share", "Bytes", "Bytes/s", "Sync", "p50", "p90", "p99",
                 "p99.9", "max", "Failed"],
        rows=rows,
    )  # fmt: skip


def _rate(transferred_bytes: int, load: LoadProfile) -> str:
    if load.arrivals is None or not transferred_bytes:
        return NO_FIGURE
    return format_rate_bytes(transferred_bytes / load.seconds)


def _latencies(times_ns: dict[str, int]) -> list[str]:
    names = ("p50", "p90", "p99", "p99.9", "p100")
    return [format_duration_ns(times_ns[name]) if name in times_ns else NO_FIGURE for name in names]


def _sizes_table(load: LoadProfile) -> Table:
    rows = []
    for each in load.mix:
        if not each.transferred_bytes:
            continue
        shown = each.sizes[:_ROWS_MAX]
        rows += [
            [
                each.operation,
                format_size(size.length_bytes),
                format_count(size.requests),
                format_share(size.requests / each.requests),
            ]
            for size in shown
        ]
        rest = each.requests - sum(size.requests for size in shown)
        if rest:
            share = format_share(rest / each.requests)
            rows.append([each.operation, "other sizes", format_count(rest), share])
    return Table(
        id="load-sizes",
        title="Sizes of requests",
        labels=2,
        headers=["Operation", "Size", "Requests", "Share"],
        rows=rows,
    )


def _sequential_table(load: LoadProfile) -> Table:
    rows = [
        [
            each.operation,
            format_share(each.sequential / each.requests),
            format_count(each.runs),
            format_size(round(each.run_bytes_mean)),
            format_size(each.run_bytes["p50"]),
            format_size(each.run_bytes["p90"]),
        ]
        for each in load.sequentiality
    ]
    return Table(
        id="load-sequential",
        title="Sequential requests, and the runs that they are in",
        labels=1,
        headers=["Operation", "Sequential", "Runs", "Mean run", "Half of bytes", "90 % of bytes"],
        rows=rows,
    )


def _working_set_table(load: LoadProfile) -> Table:
    found = load.footprint
    rows = [
        [
            format_duration_s(each.window_s),
            format_count(each.windows),
            format_size(round(each.mean_bytes)),
            format_size(each.max_bytes),
        ]
        for each in found.working_sets
    ]
    whole = format_size(found.unique_bytes)
    rows.append(["all of it", "1", whole, whole])
    return Table(
        id="load-working-set",
        title=f"Working set: distinct bytes in a window (read {format_size(found.read_bytes)}, "
        f"written {format_size(found.written_bytes)})",
        labels=1,
        headers=["Window", "Windows", "Mean", "Largest"],
        rows=rows if found.unique_bytes else [],
    )


def _reuse_table(load: LoadProfile) -> Table:
    ratios = load.reuse.hit_ratios if load.reuse else []
    step = max(1, (len(ratios) - 1) // _CACHE_ROWS)
    shown = [*ratios[:-1:step], *ratios[-1:]]
    method = load.reuse.method if load.reuse else ""
    return Table(
        id="load-reuse",
        title=f"Share of accesses that a cache would serve ({method})",
        labels=1,
        headers=["Cache", "Hits", "95 %"],
        rows=[
            [
                format_size(each.cache_bytes),
                format_share(each.share),
                f"{format_share(each.low)} to {format_share(each.high)}"
                if each.low < each.high
                else NO_FIGURE,
            ]
            for each in shown
        ],
    )


def _dispersion_table(load: LoadProfile) -> Table:
    return Table(
        id="load-dispersion",
        title="Burstiness: variance of the number of arrivals over its mean (chance: 1)",
        labels=1,
        headers=["Window", "Windows", "Index", "95 %"],
        rows=[
            [
                format_duration_s(each.window_s),
                format_count(each.windows),
                number(each.index),
                f"{number(each.low)} to {number(each.high)}",
            ]
            for each in (load.arrivals.dispersion if load.arrivals else [])
        ],
    )


def _breakdown_table(
    name: str, label: str, breakdown: Iterable[BreakdownRow], load: LoadProfile
) -> Table:
    parts = list(breakdown)
    reads = sum(each.reads for each in parts)
    writes = sum(each.writes for each in parts)
    more = f", the first {_ROWS_MAX} of {len(parts)}" if len(parts) > _ROWS_MAX else ""
    rows = [
        [
            each.name or nameless(name),
            format_count(each.reads),
            format_share(each.reads / reads) if reads else NO_FIGURE,
            format_count(each.writes),
            format_share(each.writes / writes) if writes else NO_FIGURE,
            _rate(each.transferred_bytes, load),
            format_duration_ns(each.latency_ns_p99)
            if each.latency_ns_p99 is not None
            else NO_FIGURE,
        ]
        for each in parts[:_ROWS_MAX]
    ]
    is_known = any(each.name for each in parts)
    return Table(
        id=f"load-{name}",
        title=f"By {name}{more}",
        labels=1,
        headers=[label, "Reads", "Share", "Writes", "Share", "Bytes/s", "p99"],
        rows=rows if is_known else [],
    )
