"""The contents of a trace, as returned by ``seatrial._core`` (crates/trace/src/mix.rs).

Clock times (``start_us``, ``first_us``, ``last_us``) are us since 1970, and published in s. A trace
of a file of SQL has no clock times: its statements have made-up ones (docs/sql.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from seatrial import _core
from seatrial.errors import native_errors
from seatrial.published import FLATTENED, HIDDEN, Amount, Count
from seatrial.stats.cell_estimates import entries_needed
from seatrial.trials.replay.reading import Origin
from seatrial.units import US_PER_S


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

    @property
    def known(self) -> SpreadNs | None:
        """Its published form; None if no time is known."""
        if not self.entries:
            return None
        percentiles = {
            f"p{percent}": getattr(self, f"p{percent}_ns")
            for percent in (50, 95, 99)
            if self.entries >= entries_needed(percent)
        }
        return SpreadNs(
            entries=self.entries,
            min=self.min_ns,
            mean=self.mean_ns,
            max=self.max_ns,
            **percentiles,
        )


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """What has a total time.

    Attributes:
        total_us: Sum of the known durations.
    """

    PUBLISHED: ClassVar[tuple[str, ...]] = ("total_s",)

    total_us: Annotated[int, HIDDEN]

    @property
    def total_s(self) -> Amount:
        """Sum of the known durations."""
        return self.total_us / US_PER_S


class ClassSums(Timed, frozen=True, kw_only=True):
    """Totals of the statements of a class.

    Attributes:
        kind: Class of statement, such as ``select`` or ``insert``.
        calls: Number of statements.
        timed: Number with a known duration.
        rows: Sum of the known row counts.
        errors: Number with an error.
        skipped: Number that cannot be replayed.
    """

    kind: str = msgspec.field(name="class")
    calls: Count
    timed: Count
    rows: Count
    errors: Count
    skipped: Count


class Query(ClassSums, frozen=True, kw_only=True):
    """Statements that differ only in their values.

    Attributes:
        fingerprint: Fingerprint of the text, as 16 hexadecimal digits.
        text: The statement with ``$1`` for each value.
        latency: Durations.
    """

    PUBLISHED: ClassVar = ("total_s", "latency_ns")

    fingerprint: str
    text: str
    latency: Annotated[Spread, HIDDEN]

    @property
    def latency_ns(self) -> SpreadNs | None:
        """Durations; None if none is known."""
        return self.latency.known


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
        count: Number of blocks.
        statements: Statements in them.
        statements_max: Maximum number of statements in a block.
        statements_outside: Statements outside of blocks.
        length: From the start of the first statement to the end of the last.
    """

    PUBLISHED: ClassVar = ("length_ns",)

    count: Count
    statements: Count
    statements_max: Count
    statements_outside: Count
    length: Annotated[Spread, HIDDEN]

    @property
    def length_ns(self) -> SpreadNs | None:
        """From the start of the first statement to the end of the last; None if none is known."""
        return self.length.known


class Think(msgspec.Struct, frozen=True, kw_only=True):
    """Times from the end of a statement to the start of its session's next.

    Attributes:
        inside: Within a transaction.
        between: Between transactions and statements outside of them.
        unknown: Number of unknown times, as the duration is missing.
        overlapping: Statements that began before the previous one ended, by their times.
    """

    PUBLISHED: ClassVar = ("inside_ns", "between_ns")

    inside: Annotated[Spread, HIDDEN]
    between: Annotated[Spread, HIDDEN]
    unknown: Count
    overlapping: Count

    @property
    def inside_ns(self) -> SpreadNs | None:
        """Within a transaction; None if none is known."""
        return self.inside.known

    @property
    def between_ns(self) -> SpreadNs | None:
        """Between transactions and statements outside of them; None if none is known."""
        return self.between.known


class BusiestMinute(msgspec.Struct, frozen=True, kw_only=True):
    """The minute with the most statements.

    Attributes:
        start_us: Its start.
        statements: Statements that began in it.
    """

    PUBLISHED: ClassVar = ("start_at",)

    start_us: Annotated[int, HIDDEN]
    statements: Count

    @property
    def start_at(self) -> Amount:
        """Its start, Unix time in s."""
        return self.start_us / US_PER_S


class Slice(BusiestMinute, frozen=True, kw_only=True):
    """A slice of time.

    Attributes:
        sessions_max: Maximum of concurrent sessions in it.
    """

    sessions_max: Count


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Statements and open sessions over time.

    Attributes:
        slice_s: Length of a slice.
        slices: The timeline, in order of time without gaps; empty without times.
    """

    slice_s: Count
    slices: list[Slice]


class Name(Timed, frozen=True, kw_only=True):
    """Totals of a database, user or application.

    Attributes:
        name: The name; empty if unknown.
        sessions: Sessions.
        statements: Statements.
    """

    name: str
    sessions: Count
    statements: Count


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Totals by name, most statements first.

    Attributes:
        databases: By database, most statements first.
        users: By user, most statements first.
        applications: By application, most statements first.
    """

    databases: list[Name]
    users: list[Name]
    applications: list[Name]


class Mix(Timed, frozen=True, kw_only=True):
    """Figures of a trace.

    Attributes:
        counts: Numbers of sessions and statements.
        first_us: Start of the first statement; None without statements.
        last_us: End of the last one, as far as durations are known.
        timed: Statements with a known duration.
        running_mean: Mean number of concurrent statements; None without durations or times.
        several: Texts with several statements.
        classes: By class, most time first.
        protocols: Statements by protocol: ``simple``, ``extended``, ``fetch``.
        errors: Failed statements, by SQLSTATE.
        sessions: Connections.
        transactions: Transaction blocks.
        think: Times from the end of a statement to the start of its session's next.
        timeline: Statements and open sessions over time.
        busiest_minute: The minute with the most statements; None without any, or without times.
        queries: Statements that differ only in their values, most time first; limited by
            ``--top``.
        names: By database, user and application.
    """

    PUBLISHED: ClassVar = ("started_at", "ended_at", "total_s")

    counts: Counts
    first_us: Annotated[int | None, HIDDEN]
    last_us: Annotated[int | None, HIDDEN]
    timed: Count
    running_mean: Amount | None
    several: Count
    classes: list[ClassSums]
    protocols: dict[str, Count]
    errors: dict[str, Count]
    sessions: Sessions
    transactions: Transactions
    think: Think
    timeline: Annotated[Timeline, FLATTENED]
    busiest_minute: BusiestMinute | None
    queries: list[Query]
    names: Annotated[Names, FLATTENED]

    @property
    def started_at(self) -> Amount | None:
        """Start of the first statement, Unix time in s; None without times."""
        return None if self.first_us is None else self.first_us / US_PER_S

    @property
    def ended_at(self) -> Amount | None:
        """End of the last one as far as durations are known."""
        return None if self.last_us is None else self.last_us / US_PER_S

    @property
    def without_clock(self) -> Mix:
        """The same without clock times, which are made up if the log has none."""
        length = msgspec.structs.replace(self.transactions.length, entries=0)
        return msgspec.structs.replace(
            self,
            first_us=None,
            last_us=None,
            running_mean=None,
            transactions=msgspec.structs.replace(self.transactions, length=length),
            timeline=msgspec.structs.replace(self.timeline, slices=[]),
            busiest_minute=None,
        )


class Rest(Timed, frozen=True, kw_only=True):
    """Queries that are not listed.

    Attributes:
        queries: Their number; a lower bound if there are more than can be distinguished.
        calls: Their statements.
    """

    queries: Count
    calls: Count


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a trace, and its sources.

    Attributes:
        trace: The file.
        trace_bytes: Its size.
        origin: Its sources.
        mix: Its figures.
        rest: Queries that are not listed.
    """

    trace: str
    trace_bytes: Count
    origin: Origin
    mix: Annotated[Mix, FLATTENED]
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
