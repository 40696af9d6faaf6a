"""The JSON documents of ``seatrial sql read`` and ``sql show``.

As in all documents, clock times are Unix time in seconds, and percentiles of too few
statements are absent.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from seatrial.published import FLATTENED, Amount, Count
from seatrial.report.exports.json_document import Document, as_text
from seatrial.stats.cell_estimates import entries_needed
from seatrial.trials.replay.reading import Origin, Reading
from seatrial.trials.replay.trace import (
    BusiestMinute,
    ClassSums,
    Counts,
    Name,
    Query,
    Sessions,
    Slice,
    Spread,
    Think,
    Trace,
    Transactions,
)
from seatrial.units import US_PER_S


class ReadingDocument(Document, frozen=True, kw_only=True):
    """The result of reading logs.

    ``seatrial sql read``: every record accounted for, and the trace that was written.

    Attributes:
        log_bytes: Uncompressed size of the logs.
        reading: The result.
    """

    kind: Literal["reading"] = "reading"
    log_bytes: Count
    reading: Annotated[Reading, FLATTENED]


class TraceOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of a trace, and records that it lacks.

    Attributes:
        log_bytes: Uncompressed size of the logs.
        origin: The sources.
    """

    log_bytes: Count
    origin: Annotated[Origin, FLATTENED]


class SpreadNs(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of times in ns. Percentiles of too few times are absent.

    Attributes:
        entries: Number of known times.
        min: The minimum.
        mean: The mean.
        max: The maximum.
        p50: The median.
        p95: The 95th percentile.
        p99: The 99th percentile.
    """

    entries: Count
    min: Count
    mean: Amount
    max: Count
    p50: Count | UnsetType = UNSET
    p95: Count | UnsetType = UNSET
    p99: Count | UnsetType = UNSET


class ClassTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of the statements of a class.

    Attributes:
        statements: Class of statement, such as ``select`` or ``insert``.
        calls: Number of statements.
        timed: Number with a known duration.
        total_s: Sum of these durations.
        rows: Sum of the known row counts.
        errors: Number with an error.
        skipped: Number that cannot be replayed.
    """

    statements: str = msgspec.field(name="class")
    calls: Count
    timed: Count
    total_s: Amount
    rows: Count
    errors: Count
    skipped: Count


class QueryTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Statements that differ only in their values.

    Attributes:
        fingerprint: Fingerprint of the text, as 16 hexadecimal digits.
        text: The statement with ``$1`` for each value.
        totals: Their totals.
        latency_ns: Durations; None if none is known.
    """

    fingerprint: str
    text: str
    totals: Annotated[ClassTotals, FLATTENED]
    latency_ns: SpreadNs | None


class NameTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a database, user or application.

    Attributes:
        name: The name; empty if unknown.
        sessions: Sessions.
        statements: Statements.
        total_s: Sum of their durations.
    """

    name: str
    sessions: Count
    statements: Count
    total_s: Amount


class TransactionTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Transaction blocks.

    Attributes:
        count: Number of blocks.
        statements: Statements in them.
        statements_max: Maximum number of statements in a block.
        statements_outside: Statements outside of blocks.
        length_ns: From the start of the first statement to the end of the last; None if none
            is known.
    """

    count: Count
    statements: Count
    statements_max: Count
    statements_outside: Count
    length_ns: SpreadNs | None


class ThinkTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times from the end of a statement to the start of its session's next.

    Attributes:
        inside_ns: Within a transaction; None if none is known.
        between_ns: Between transactions and statements outside of them; None if none is known.
        unknown: Number of unknown times, as the duration is missing.
        overlapping: Statements that began before the previous one ended, by their times.
    """

    inside_ns: SpreadNs | None
    between_ns: SpreadNs | None
    unknown: Count
    overlapping: Count


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """Queries that are not listed.

    Attributes:
        queries: Their number; a lower bound if there are more than can be distinguished.
        calls: Their statements.
        total_s: Sum of their durations.
    """

    queries: Count
    calls: Count
    total_s: Amount


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """A minute.

    Attributes:
        start_at: Its start, Unix time in s.
        statements: Statements that began in it.
    """

    start_at: Amount
    statements: Count


class TimeSlice(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of time.

    Attributes:
        start_at: Its start, Unix time in s.
        statements: Statements that began in it.
        sessions_max: Maximum of concurrent sessions in it.
    """

    start_at: Amount
    statements: Count
    sessions_max: Count


class TraceDocument(Document, frozen=True, kw_only=True):
    """The contents of a trace.

    ``seatrial sql show``: sessions, statements, their timeline, and what of the log is missing.

    Attributes:
        trace: The file.
        trace_bytes: Its size.
        origin: Its sources.
        counts: Numbers of sessions and statements.
        started_at: Start of the first statement, Unix time in s; None without times.
        ended_at: End of the last one as far as durations are known.
        running_mean: Mean number of concurrent statements; None without durations.
        busiest_minute: The minute with the most statements; None without any, or without times.
        slice_s: Length of a slice.
        slices: The timeline, in order of time without gaps; empty without times.
        timed: Statements with a known duration.
        total_s: Sum of the durations.
        several: Texts with several statements.
        classes: By class, most time first.
        protocols: Statements by protocol: ``simple``, ``extended``, ``fetch``.
        errors: Failed statements, by SQLSTATE.
        sessions: Connections.
        transactions: Transaction blocks.
        think: Times from the end of a statement to the start of its session's next.
        queries: Statements that differ only in their values, most time first; limited by
            ``--top``.
        rest: Queries that are not listed.
        databases: By database, most statements first.
        users: By user, most statements first.
        applications: By application, most statements first.
    """

    kind: Literal["trace"] = "trace"
    trace: str
    trace_bytes: Count
    origin: TraceOrigin
    counts: Counts
    started_at: Amount | None
    ended_at: Amount | None
    running_mean: Amount | None
    busiest_minute: Minute | None
    slice_s: Count
    slices: list[TimeSlice]
    timed: Count
    total_s: Amount
    several: Count
    classes: list[ClassTotals]
    protocols: dict[str, Count]
    errors: dict[str, Count]
    sessions: Sessions
    transactions: TransactionTotals
    think: ThinkTimes
    queries: list[QueryTotals]
    rest: Rest
    databases: list[NameTotals]
    users: list[NameTotals]
    applications: list[NameTotals]


def reading_document(reading: Reading) -> str:
    """Return the document of reading logs."""
    return as_text(ReadingDocument(log_bytes=reading.log_bytes, reading=reading))


def trace_document(shown: Trace) -> str:
    """Return the document of a trace; without clock times, their fields are null or empty."""
    mix, has_clock = shown.mix, shown.has_clock
    return as_text(
        TraceDocument(
            trace=shown.trace,
            trace_bytes=shown.trace_bytes,
            origin=TraceOrigin(log_bytes=shown.origin.log_bytes, origin=shown.origin),
            counts=mix.counts,
            started_at=_seconds(mix.first_us) if has_clock else None,
            ended_at=_seconds(mix.last_us) if has_clock else None,
            running_mean=mix.running_mean if has_clock and mix.timed else None,
            busiest_minute=_minute(mix.busiest_minute) if has_clock else None,
            slice_s=mix.timeline.slice_s,
            slices=[_slice(each) for each in mix.timeline.slices] if has_clock else [],
            timed=mix.timed,
            total_s=mix.total_us / US_PER_S,
            several=mix.several,
            classes=[_totals(each) for each in mix.classes],
            protocols=mix.protocols,
            errors=mix.errors,
            sessions=mix.sessions,
            transactions=_transactions(mix.transactions, has_clock=has_clock),
            think=_think(mix.think),
            queries=[_query(fingerprint) for fingerprint in mix.fingerprints],
            rest=Rest(
                queries=shown.rest.fingerprints,
                calls=shown.rest.calls,
                total_s=shown.rest.total_us / US_PER_S,
            ),
            databases=[_name(database) for database in mix.names.databases],
            users=[_name(user) for user in mix.names.users],
            applications=[_name(application) for application in mix.names.applications],
        )
    )


def _seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / US_PER_S


def _minute(busiest: BusiestMinute | None) -> Minute | None:
    if busiest is None:
        return None
    return Minute(start_at=busiest.start_us / US_PER_S, statements=busiest.statements)


def _slice(part: Slice) -> TimeSlice:
    return TimeSlice(
        start_at=part.start_us / US_PER_S,
        statements=part.statements,
        sessions_max=part.sessions_max,
    )


def _totals(sums: ClassSums) -> ClassTotals:
    return ClassTotals(
        statements=sums.kind,
        calls=sums.calls,
        timed=sums.timed,
        total_s=sums.total_us / US_PER_S,
        rows=sums.rows,
        errors=sums.errors,
        skipped=sums.skipped,
    )


def _query(query: Query) -> QueryTotals:
    return QueryTotals(
        fingerprint=query.hash,
        text=query.text,
        totals=_totals(query),
        latency_ns=_spread(query.latency),
    )


def _transactions(found: Transactions, *, has_clock: bool) -> TransactionTotals:
    return TransactionTotals(
        count=found.count,
        statements=found.statements,
        statements_max=found.statements_max,
        statements_outside=found.statements_outside,
        length_ns=_spread(found.length) if has_clock else None,
    )


def _think(found: Think) -> ThinkTimes:
    return ThinkTimes(
        inside_ns=_spread(found.inside),
        between_ns=_spread(found.between),
        unknown=found.unknown,
        overlapping=found.overlapping,
    )


def _spread(spread: Spread) -> SpreadNs | None:
    """Return a distribution; None if no time is known."""
    if not spread.entries:
        return None
    known = {
        name: value
        for name, percent, value in (
            ("p50", 50, spread.p50_ns),
            ("p95", 95, spread.p95_ns),
            ("p99", 99, spread.p99_ns),
        )
        if spread.entries >= entries_needed(percent)
    }
    return SpreadNs(
        entries=spread.entries, min=spread.min_ns, mean=spread.mean_ns, max=spread.max_ns, **known
    )


def _name(name: Name) -> NameTotals:
    return NameTotals(
        name=name.name,
        sessions=name.sessions,
        statements=name.statements,
        total_s=name.total_us / US_PER_S,
    )
