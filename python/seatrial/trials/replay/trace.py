"""What a trace holds, as ``seatrial._core`` tells it (crates/trace/src/mix.rs).

Times of the clock (``start_us``, ``first_us``, ``last_us``) are us since 1970. A trace of a file of
SQL has no times of the clock: its statements were given some (docs/sql.md).
"""

from __future__ import annotations

import msgspec

from seatrial.published import Count
from seatrial.trials.replay.reading import Origin


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of times.

    Attributes:
        entries: How many times are known.
        mean_ns: Their mean.
        min_ns: The smallest.
        p50_ns: The median; percentiles are within 0.4 %.
        p95_ns: The 95th percentile.
        p99_ns: The 99th percentile.
        max_ns: The largest.
    """

    entries: int
    mean_ns: float
    min_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """What some statements come to.

    Attributes:
        calls: How many there are.
        timed: Of how many a duration is known.
        total_us: Sum of these durations.
        rows: Sum of the rows, where they are known.
        errors: How many ended with an error.
        skipped: How many cannot be sent again.
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
        kind: Which, such as ``select``.
    """

    kind: str = msgspec.field(name="class")


class Query(ClassSums, frozen=True, kw_only=True):
    """Statements that are alike but for their values.

    Attributes:
        hash: Of the text, as 16 hexadecimal digits.
        text: The statement with ``$1`` for each value.
        latency: Durations.
    """

    hash: str
    text: str
    latency: Spread


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is: ``statements = executable + skipped``.

    Attributes:
        sessions: Sessions, or streams.
        statements: Statements.
        executable: Those that can be sent again.
        skipped: Those that cannot, by reason.
    """

    sessions: Count
    statements: Count
    executable: Count
    skipped: dict[str, Count]


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Connections.

    Attributes:
        count: How many there are.
        with_statements: Of how many there is a statement.
        connects_seen: Of how many the log tells when they connected.
        disconnects_seen: Of how many it tells when they disconnected.
        at_once_max: How many were open at once, at most.
    """

    count: Count
    with_statements: Count
    connects_seen: Count
    disconnects_seen: Count
    at_once_max: Count


class Transactions(msgspec.Struct, frozen=True, kw_only=True):
    """What stands between BEGIN and COMMIT or their like.

    Attributes:
        count: How many there are.
        statements: Statements in them.
        statements_max: Statements in the longest.
        statements_outside: Statements outside of any.
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
        between: Between transactions, and statements outside of any.
        unknown: How many are not known, for want of a duration.
        overlapping: Statements that began before the one before them ended, as their times have it.
    """

    inside: Spread
    between: Spread
    unknown: int
    overlapping: int


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of time.

    Attributes:
        start_us: When it begins.
        statements: Statements that began in it.
        sessions_max: Sessions that were open at once in it, at most.
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
        start_us: When it begins.
        statements: Statements that began in it.
    """

    start_us: int
    statements: int


class Name(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs to a database, a user or an application.

    Attributes:
        name: Its name; empty where the log does not tell.
        sessions: Sessions.
        statements: Statements.
        total_us: Sum of their durations.
    """

    name: str
    sessions: int
    statements: int
    total_us: int


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What belongs to each name, most statements first.

    Attributes:
        databases: By database.
        users: By user.
        applications: By application.
    """

    databases: list[Name]
    users: list[Name]
    applications: list[Name]


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in figures.

    Attributes:
        counts: Sessions, statements, and how many can be sent again.
        first_us: When the first statement began; None without statements.
        last_us: When the last one ended, as far as durations are known.
        timed: Statements of which a duration is known.
        total_us: Sum of the durations.
        running_mean: Statements at work at once, on the average.
        several: Texts that hold several statements.
        classes: By class, most time first.
        protocols: Statements by protocol.
        errors: Statements that failed, by the code of their error.
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
    """Queries that are not listed one by one.

    Attributes:
        fingerprints: How many; at least so many where there are more than can be distinguished.
        calls: Their statements.
        total_us: Sum of their durations.
    """

    fingerprints: int
    calls: int
    total_us: int


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace holds, and what it was made of.

    Attributes:
        trace: The file.
        trace_bytes: Its size.
        origin: What it was made of.
        mix: Its figures.
        rest: What is not among the queries of ``mix``.
    """

    trace: str
    trace_bytes: int
    origin: Origin
    mix: Mix
    rest: Rest

    @property
    def has_clock(self) -> bool:
        """Whether its times are those of a clock."""
        return self.origin.started_at is not None
