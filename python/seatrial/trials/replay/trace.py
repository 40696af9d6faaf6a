"""The contents of a trace, as returned by ``seatrial._core`` (crates/trace/src/mix.rs).

Clock times (``start_us``, ``first_us``, ``last_us``) are us since 1970. A trace of a file of
SQL has no clock times: its statements have made-up ones (docs/sql.md).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from seatrial import _core
from seatrial.errors import native_errors
from seatrial.published import Count
from seatrial.trials.replay.reading import Origin


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of times.

    Attributes:
        entries: Number of known times.
        mean_ns: Their mean.
        min_ns: The minimum.
        p50_ns: The median; percentiles are within 0.4 %.
        p95_ns: The 95th percentile.
        p99_ns: The 99th percentile.
        max_ns: The maximum.
    """

    entries: int
    mean_ns: float
    min_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of some statements.

    Attributes:
        calls: Number of statements.
        timed: Number with a known duration.
        total_us: Sum of these durations.
        rows: Sum of the known row counts.
        errors: Number with an error.
        skipped: Number that cannot be replayed.
    """

    calls: int
    timed: int
    total_us: int
    rows: int
    errors: int
    skipped: int


class ClassSums(Sums, frozen=True, kw_only=True):
    """Statements of a class.

    Attributes:
        kind: The class, such as ``select``.
    """

    kind: str = msgspec.field(name="class")


class Query(ClassSums, frozen=True, kw_only=True):
    """Statements that differ only in their values.

    Attributes:
        hash: Hash of the text, as 16 hexadecimal digits.
        text: The statement with ``$1`` for each value.
        latency: Durations.
    """

    hash: str
    text: str
    latency: Spread


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of sessions and statements: ``statements = executable + skipped``.

    Attributes:
        sessions: Sessions, or streams.
        statements: Statements.
        executable: Those that can be replayed.
        skipped: Those that cannot be replayed, by reason.
    """

    sessions: Count
    statements: Count
    executable: Count
    skipped: dict[str, Count]


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Connections.

    Attributes:
        count: Their number.
        with_statements: Number with a statement.
        connects_seen: Number with a known time of connection.
        disconnects_seen: Number with a known time of disconnection.
        at_once_max: Maximum of concurrent sessions.
    """

    count: Count
    with_statements: Count
    connects_seen: Count
    disconnects_seen: Count
    at_once_max: Count


class Transactions(msgspec.Struct, frozen=True, kw_only=True):
    """Transaction blocks.

    Attributes:
        count: Their number.
        statements: Statements in them.
        statements_max: Maximum number of statements in a block.
        statements_outside: Statements outside of blocks.
        length: From the start of the first statement to the end of the last.
    """

    count: int
    statements: int
    statements_max: int
    statements_outside: int
    length: Spread


class Think(msgspec.Struct, frozen=True, kw_only=True):
    """Times from the end of a statement to the start of its session's next.

    Attributes:
        inside: Within a transaction.
        between: Between transactions and statements outside of them.
        unknown: Number of unknown times, as the duration is missing.
        overlapping: Statements that began before the previous one ended, by their times.
    """

    inside: Spread
    between: Spread
    unknown: int
    overlapping: int


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of time.

    Attributes:
        start_us: Its start.
        statements: Statements that began in it.
        sessions_max: Maximum of concurrent sessions in it.
    """

    start_us: int
    statements: int
    sessions_max: int


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Statements and open sessions over time.

    Attributes:
        slice_s: Length of a slice.
        slices: In order of time, without gaps.
    """

    slice_s: int
    slices: list[Slice]


class BusiestMinute(msgspec.Struct, frozen=True, kw_only=True):
    """The minute with the most statements.

    Attributes:
        start_us: Its start.
        statements: Statements that began in it.
    """

    start_us: int
    statements: int


class Name(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a database, a user or an application.

    Attributes:
        name: Its name; empty if unknown.
        sessions: Sessions.
        statements: Statements.
        total_us: Sum of their durations.
    """

    name: str
    sessions: int
    statements: int
    total_us: int


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Totals by name, most statements first.

    Attributes:
        databases: By database.
        users: By user.
        applications: By application.
    """

    databases: list[Name]
    users: list[Name]
    applications: list[Name]


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a trace.

    Attributes:
        counts: Numbers of sessions and statements.
        first_us: Start of the first statement; None without statements.
        last_us: End of the last one, as far as durations are known.
        timed: Statements with a known duration.
        total_us: Sum of the durations.
        running_mean: Mean number of concurrent statements.
        several: Texts with several statements.
        classes: By class, most time first.
        protocols: Statements by protocol.
        errors: Failed statements, by SQLSTATE.
        sessions: Connections.
        transactions: Transactions.
        think: Times between statements.
        timeline: Statements and open sessions over time.
        busiest_minute: None without statements.
        fingerprints: The first of the queries, by total time, then by calls.
        names: By database, user and application.
    """

    counts: Counts
    first_us: int | None
    last_us: int | None
    timed: int
    total_us: int
    running_mean: float
    several: int
    classes: list[ClassSums]
    protocols: dict[str, int]
    errors: dict[str, int]
    sessions: Sessions
    transactions: Transactions
    think: Think
    timeline: Timeline
    busiest_minute: BusiestMinute | None
    fingerprints: list[Query]
    names: Names


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """Queries that are not listed.

    Attributes:
        fingerprints: Their number; a lower bound if there are more than can be distinguished.
        calls: Their statements.
        total_us: Sum of their durations.
    """

    fingerprints: int
    calls: int
    total_us: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a trace, and its sources.

    Attributes:
        trace: The file.
        trace_bytes: Its size.
        origin: Its sources.
        mix: Its figures.
        rest: Queries that are not among those of ``mix``.
    """

    trace: str
    trace_bytes: int
    origin: Origin
    mix: Mix
    rest: Rest

    @property
    def has_clock(self) -> bool:
        """Whether it has clock times."""
        return self.origin.started_at is not None


def read_trace(trace: Path, *, top: int) -> Trace:
    """Return the contents of a trace.

    Args:
        trace: The file.
        top: Number of queries to return, by total time.

    Raises:
        UsageError: when it is not a trace, is damaged, or cannot be read.
    """
    with native_errors():
        encoded = _core.show_trace(trace, top)
    return msgspec.json.decode(encoded, type=Trace)
