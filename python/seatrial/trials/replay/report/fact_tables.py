"""The tables of what a replay's driver used and held back, and of how late it was."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.report.table import NO_FIGURE, Table
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    UNKNOWN,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_plural,
    format_share,
    format_size,
)
from seatrial.trials.replay.analysis.model import Lateness, ReplayCell
from seatrial.trials.replay.analysis.samples import has_clock
from seatrial.trials.replay.report.evidence_tables import order_facts
from seatrial.trials.replay.report.words import reported_of

_HELD = {
    "session": "their session was still busy",
    "order": "the order held them back",
    "connections": "all connections were in use",
    "driver": "the driver itself was late",
}


def facts_table(reported: ReplayCell, part: CellSummary, number: int) -> Table:
    """Return commits, sessions, order and the driver's own use of the machine."""
    return Table(
        id=f"replay-facts-{number}",
        title="Sessions, order and the driver itself",
        labels=1,
        headers=["What", "Figure"],
        rows=[[name, text] for name, text in _facts(reported, part)],
    )


def _facts(reported: ReplayCell, part: CellSummary) -> Iterator[tuple[str, str]]:
    sample, record = reported_of(reported, part)
    commits, sessions, order, client = (
        record.commits, record.sessions, record.order, record.client,
    )  # fmt: skip
    yield "lasted", format_duration_s(sample.duration_s)
    yield "the capture lasted", _length(record.captured_s if has_clock(record) else 0.0)
    yield "transactions committed, of the capture's", _of(commits.committed, commits.captured)
    yield "sessions of the capture", format_count(sessions.captured)
    yield "open at once, now and in the capture", _of(sessions.open_max, sessions.captured_open_max)
    yield "connections made", format_count(sessions.connected)
    if sessions.refused or sessions.lost:
        yield "connections refused", format_count(sessions.refused)
        yield "connections lost", format_count(sessions.lost)
    if sessions.never_ended:
        yield "sessions that never disconnected", format_count(sessions.never_ended)
    yield from order_facts(order)
    yield "statements held back by the order", format_count(order.held)
    if order.held:
        yield "they waited, together", format_duration_ns(order.waited_ns)
        yield "let go before their turn, for a lock", format_count(order.released_by_lock)
        yield "let go, as nothing else moved", format_count(order.released_by_patience)
    if order.postponed:
        yield "given a later turn, for a lock", format_count(order.postponed)
    yield "driver's share of a core (largest round)", _share(reported.client_core_share)
    yield "time in which it lacked a processor (largest round)", _share(reported.client_delay_share)
    yield "driver alone, on a null server", _ceiling(reported)
    yield "of that, reached", _share(reported.ceiling_share)
    yield "memory of the driver's whole process", format_size(client.memory_bytes_max)
    yield "statements it held in memory", format_count(client.read_ahead_max)


def _of(count: int, of: int) -> str:
    return f"{format_count(count)} of {format_count(of)}"


def _length(length_s: float) -> str:
    return format_duration_s(length_s) if length_s > 0 else UNKNOWN


def _share(share: float | None) -> str:
    return UNKNOWN if share is None else format_share(share)


def _ceiling(reported: ReplayCell) -> str:
    if reported.ceiling_per_s is None:
        return UNKNOWN
    return f"{format_iops(reported.ceiling_per_s)} statements/s"


def trace_table(reported: ReplayCell, part: CellSummary, number: int) -> Table:
    """Return what the trace says of itself, and what was asked of it."""
    _, record = reported_of(reported, part)
    return Table(
        id=f"replay-trace-{number}",
        title="The trace, and what was asked of it",
        labels=1,
        headers=["What", "Told"],
        rows=[[name.replace("_", " "), text or NO_FIGURE] for name, text in record.trace.items()],
    )


def lateness_table(reported: ReplayCell, number: int) -> Table:
    """Return how late statements were sent, and what held those that were late."""
    late = reported.lateness
    return Table(
        id=f"replay-lag-{number}",
        title="How late statements were sent",
        labels=1,
        headers=["What", "Figure"],
        rows=[] if late is None else [[name, text] for name, text in _lags(late)],
    )


def _lags(late: Lateness) -> Iterator[tuple[str, str]]:
    yield "due at a time", format_plural(late.due, "statement")
    yield "sent within 1 ms of it", format_share(late.within_1ms_share)
    yield "lag p50", format_duration_ns(late.p50_ns)
    yield "lag p99", format_duration_ns(late.p99_ns)
    yield "lag max", format_duration_ns(late.max_ns)
    for name, count in late.late_by.items():
        yield f"late because {_HELD[name]}", format_count(count)
    yield "mean lag of the first third", _mean(late.first_ns)
    yield "mean lag of the longest other third", _mean(late.peak_ns)
    yield "driver's own lateness p99", format_duration_ns(late.driver_p99_ns)
    yield "driver's own lateness max", format_duration_ns(late.driver_max_ns)


def _mean(value_ns: float | None) -> str:
    return NO_FIGURE if value_ns is None else format_duration_ns(value_ns)
