"""A watch as text: one line an interval, and tables at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from seatrial.report.table import NO_FIGURE, Table, without_empty
from seatrial.report.terminal import table_text, wrapped
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
)
from seatrial.study.units import format_size
from seatrial.trials.database.analysis.readings import ON_CPU
from seatrial.trials.watch.analysis.activity import (
    NOT_MAPPED,
    OPERATIONS,
    OTHER_PROGRAMS,
    Interval,
    Losses,
    RequestGroup,
    broken_down,
)
from seatrial.trials.watch.analysis.events import CAUSE_WORDS, Mark, Stall

_ROWS_MAX: Final = 20
_UNSEEN_SHARE_SHOWN: Final = 0.001
"""Less may have been in flight when the counters were read."""
_PRESSURE_SHOWN: Final = 0.1
_WAITS_SHOWN: Final = 2
UNKNOWN: Final = (OTHER_PROGRAMS, NOT_MAPPED, "")
"""Relations that name none; the last rows of a table."""
_TITLES: Final = {
    "disk": "By disk and operation",
    "process": "By process",
    "length_bytes_min": "By request size",
}
_LABELS: Final = {
    "disk": "Disk",
    "process": "Process",
    "length_bytes_min": "Size",
}


def interval_line(interval: Interval) -> str:
    """Return the requests of an interval in one line, by operation."""
    groups = {each.operation: each for each in broken_down(interval.groups, ["operation"])}
    parts = [
        f"{name} {_rate(groups[name], interval)}, {_latency(groups[name])}"
        for name in OPERATIONS
        if name in groups
    ]
    return "; ".join([*parts, *_server(interval)]) or "no requests"


def _server(interval: Interval) -> Iterator[str]:
    """Yield the server's own statistics, where they were read."""
    rates = interval.readings.get("server_requests", {})
    times_ns = interval.readings.get("server_ns", {})
    for name, rate in rates.items():
        if rate:
            mean = f", mean {format_duration_ns(ns / rate)}" if (ns := times_ns.get(name)) else ""
            yield f"server {name} {format_iops(rate).removesuffix(' IOPS')}/s{mean}"
    if wal := interval.readings.get("server_wal", {}).get("WAL"):
        yield f"WAL {format_rate_bytes(wal)}"


def waiting_line(interval: Interval) -> str:
    """Return what tasks and the server's sessions waited for; empty for nothing worth a word."""
    return "; ".join(_waits(interval))


def _waits(interval: Interval) -> Iterator[str]:
    pressure = interval.readings.get("pressure", {}).get("some tasks", 0.0)
    if pressure >= _PRESSURE_SHOWN:
        yield f"tasks waited for I/O {format_share(min(1.0, pressure))} of the time"
    waits = Counter(interval.readings.get("server_waits", {}))
    del waits[ON_CPU]
    if most := waits.most_common(_WAITS_SHOWN):
        yield "sessions waiting: " + ", ".join(f"{count:.0f} {name}" for name, count in most)


def _rate(group: RequestGroup, interval: Interval) -> str:
    return f"{format_iops(group.requests / interval.seconds).removesuffix(' IOPS')}/s"


def _latency(group: RequestGroup) -> str:
    mean = format_duration_ns(group.device_ns_sum / max(1, group.requests))
    if group.device is None:
        return f"mean {mean}"
    return f"mean {mean}, p99 {format_duration_ns(group.device.percentile_ns(99.0))}"


def event_lines(marks: Iterable[Mark], stalls: Iterable[Stall]) -> list[str]:
    """Return the events of an interval, in a line each."""
    marked = [(each.at, f"mark: {each.text}") for each in marks]
    stalled = [(each.started_at, stall_line(each)) for each in stalls]
    return [f"{moment_of_day(at)}  {text}" for at, text in sorted([*marked, *stalled])]


def moment_of_day(at_s: float) -> str:
    """Return a Unix time as local hours, minutes and seconds."""
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def stall_line(stall: Stall) -> str:
    """Return a stall in one line."""
    length = format_duration_s(stall.length_s)
    how = f"stall of {length} ended" if stall.is_over else f"stall, {length} so far"
    return f"{how}, {CAUSE_WORDS[stall.cause]}: {stall.text}"


def headline(interval: Interval) -> str:
    """Return reads and writes in one line, with the process or relation that has the most."""
    if not interval.groups:
        return f"No block requests in {interval.seconds:.0f} s."
    named = "relation" if _has(interval, "relation") else "process"
    mosts = [_most(interval, operation, named) for operation in ("read", "write")]
    return "; ".join([*filter(None, mosts)] or [interval_line(interval)]) + "."


def _most(interval: Interval, operation: str, by: str) -> str:
    """Return ``read 1,200/s, 61 % of orders_pkey (p99 4.2 ms)``; empty without such requests.

    Where more is not of a relation than of the largest one, its share comes first.
    """
    own = [each for each in interval.groups if each.operation == operation]
    parts = [each for each in broken_down(own, [by]) if getattr(each, by)]
    parts.sort(key=lambda each: each.requests, reverse=True)
    shown = parts[:1]
    if shown and getattr(shown[0], by) in UNKNOWN:
        shown += [each for each in parts if getattr(each, by) not in UNKNOWN][:1]
    if not shown:
        return ""
    total = sum(each.requests for each in own)
    rate = format_iops(total / interval.seconds).removesuffix(" IOPS")
    shares = [f"{format_share(each.requests / total)} {_whose(each, by)}" for each in shown]
    return ", ".join([f"{operation} {rate}/s", *shares])


def _whose(group: RequestGroup, by: str) -> str:
    name = getattr(group, by)
    if name not in UNKNOWN:
        name = f"{'by' if by == 'process' else 'of'} {name}"
    return f"{name} (p99 {_percentile(group, 99.0)})" if group.device is not None else name


def summary_tables(interval: Interval) -> list[Table]:
    """Return the tables of a whole watch."""
    tables = [_table(interval, "disk")]
    if _has(interval, "relation"):
        tables.append(_relation_table(interval))
    tables += [_table(interval, by) for by in ("process", "length_bytes_min") if _has(interval, by)]
    return [without_empty(each) for each in tables]


def summary_text(interval: Interval) -> str:
    """Return the tables of a whole watch, and its losses."""
    texts = [table_text(each).rstrip() for each in summary_tables(interval)]
    return "\n\n".join([*texts, *lost_lines(interval)])


def _has(interval: Interval, name: str) -> bool:
    return any(getattr(each, name) for each in interval.groups)


def _relation_table(interval: Interval) -> Table:
    """Return reads and writes of each relation in a row; unmapped requests come last."""
    groups = broken_down(interval.groups, ["relation", "operation"])
    by_key = {(each.relation, each.operation): each for each in groups}
    totals = {each.operation: each for each in broken_down(interval.groups, ["operation"])}
    names = list(dict.fromkeys(each.relation for each in groups if each.relation))
    names.sort(key=lambda name: -_requests(by_key, name))
    known = [name for name in names if name not in UNKNOWN]
    shown = [*known[:_ROWS_MAX], *(name for name in UNKNOWN if name in names)]
    more = f", the first {_ROWS_MAX} of {len(known)}" if len(known) > _ROWS_MAX else ""

    def side(operation: str, name: str) -> list[str]:
        return _side(by_key.get((name, operation)), totals.get(operation), interval)

    return Table(
        id="watch-relation",
        title=f"By table and index{more}",
        labels=1,
        headers=[
            "Table or index",
            "Reads/s",
            "Share",
            "Read p50",
            "Read p99",
            "Writes/s",
            "Share",
            "Write p50",
            "Write p99",
        ],
        rows=[[name, *side("read", name), *side("write", name)] for name in shown],
    )


def _requests(by_key: Mapping[tuple[str, str], RequestGroup], name: str) -> int:
    found = (by_key.get((name, operation)) for operation in ("read", "write"))
    return sum(each.requests for each in found if each is not None)


def _side(group: RequestGroup | None, total: RequestGroup | None, interval: Interval) -> list[str]:
    if group is None or total is None:
        return [NO_FIGURE] * 4
    return [
        format_iops(group.requests / interval.seconds).removesuffix(" IOPS"),
        format_share(group.requests / total.requests),
        _percentile(group, 50.0),
        _percentile(group, 99.0),
    ]


def _table(interval: Interval, by: str) -> Table:
    groups = broken_down(interval.groups, [by, "operation"])
    bytes_by = {each.operation: each for each in broken_down(interval.groups, ["operation"])}
    shown = groups[:_ROWS_MAX]
    more = f", the first {_ROWS_MAX} of {len(groups)}" if len(groups) > _ROWS_MAX else ""
    return Table(
        id=f"watch-{by}",
        title=f"{_TITLES[by]}{more}",
        labels=2,
        headers=[_LABELS[by], "Operation", "Requests", "Share", "Per second", "Bytes/s", "Mean",
                 "p50", "p99", "Max", "Queue p99", "Failed"],
        rows=[_row(each, by, interval, bytes_by[each.operation]) for each in shown],
    )  # fmt: skip


def _row(group: RequestGroup, by: str, interval: Interval, alike: RequestGroup) -> list[str]:
    return [
        _label(group, by),
        group.operation,
        format_count(group.requests),
        format_share(group.requests / alike.requests),
        format_iops(group.requests / interval.seconds).removesuffix(" IOPS"),
        format_rate_bytes(group.transferred_bytes / interval.seconds)
        if group.transferred_bytes
        else NO_FIGURE,
        format_duration_ns(group.device_ns_sum / max(1, group.requests)),
        *(_percentile(group, percent) for percent in (50.0, 99.0, 100.0)),
        format_duration_ns(group.queue.percentile_ns(99.0))
        if group.queue is not None and group.queued
        else NO_FIGURE,
        format_count(group.failed) if group.failed else NO_FIGURE,
    ]


def _label(group: RequestGroup, by: str) -> str:
    value = getattr(group, by)
    if by == "length_bytes_min":
        return f"{format_size(value)} to {format_size(2 * value)}" if value else "no data"
    return str(value) or NO_FIGURE


def _percentile(group: RequestGroup, percent: float) -> str:
    if group.device is None:
        return NO_FIGURE
    return format_duration_ns(group.device.percentile_ns(percent))


def lost_lines(interval: Interval) -> list[str]:
    """Return the losses, in a sentence each."""
    return [wrapped(each) for each in all_loss_sentences(interval.lost)]


def all_loss_sentences(lost: Losses) -> Iterator[str]:
    """Yield the losses since the start, including those that only the disks' counters show."""
    if lost.unseen_share >= _UNSEEN_SHARE_SHOWN:
        share = f" ({format_share(lost.unseen_share)})" if lost.counted_bytes else ""
        yield (
            f"{format_size(lost.unseen_bytes)}{share} of the transfers "
            "in the disks' own counters was not seen."
        )
    yield from loss_sentences(lost)


def loss_sentences(lost: Losses) -> Iterator[str]:
    """Yield the losses since the start, except those that only the disks' counters show."""
    if lost.missed:
        yield f"{format_plural(lost.missed, 'event')} not handed over by the kernel."
    if lost.unmatched:
        requests = format_plural(lost.unmatched, "request")
        yield f"{requests} not counted: issued before the start, or identical to another."
    if lost.uncounted:
        requests = format_plural(lost.uncounted, "request")
        yield f"{requests} not counted: the kernel's tables were full."
    if lost.unrecorded:
        requests = format_plural(lost.unrecorded, "request")
        yield f"{requests} not assigned or recorded: they came too fast."
