"""Replay-specific part of a sample, as reported by the engine and as stored.

The fields are those of ``crates/playback/src/played.rs``, where each is explained, and of
``crates/playback/src/rewrite/reported.rs`` for ids.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from seatrial import _core
from seatrial.published import Count, one_of

CAPTURE: Final = "capture"
REPLAY: Final = "replay"
LOST_HOST: Final = "lost_host"
"""Why statements are skipped that a host was to send that was lost; they may have been sent."""


class TableDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose rows differ from the capture.

    Attributes:
        name: Schema and name.
        rows_captured: Rows in the captured database.
        rows_now: Rows in this database.
        rows_different: Rows of the larger side that the other one lacks. Values of generated ids do
            not count, but the references that they form do.
        columns: Differing rows by column, most first; empty where rows are only missing.
    """

    name: str
    rows_captured: int
    rows_now: int
    rows_different: int
    columns: dict[str, int] = {}


class ReplayContent(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a replay's database compared with the captured one.

    Attributes:
        against: ``capture``, ``replay`` (an earlier one of the run, where the content of the
            captured database is unknown), or empty where nothing was compared.
        file: File with the captured rows; for a replay, which one it was.
        taken_at: When these were read, as Unix time in s.
        tables: Tables that were compared.
        rows: Their rows in the captured database.
        different: The tables that differ, those with the most rows first.
        not_judged: Columns that may differ: filled by the clock or by random values.
        not_compared: Tables that were not compared, each with the reason.
        reason: Why nothing was compared; empty where something was.
        duration_s: How long reading and comparing took.
    """

    against: str = ""
    file: str = ""
    taken_at: float = 0.0
    tables: int = 0
    rows: int = 0
    different: list[TableDifference] = []
    not_judged: list[str] = []
    not_compared: dict[str, str] = {}
    reason: str = ""
    duration_s: float = 0.0

    @property
    def is_same(self) -> bool:
        """Whether every table was compared and all contain the captured rows."""
        is_whole = self.tables > 0 and not self.not_compared
        return self.against == CAPTURE and is_whole and not self.different


class ReplayIdClass(msgspec.Struct, frozen=True, kw_only=True):
    """A column that the server fills, with its foreign keys.

    Every use is counted once: ``uses = exact + proved + by_pattern + unresolved + not_generated``.

    Attributes:
        column: Such as ``public.orders.id``.
        source: The sequence of its values, or ``random``.
        referring: Columns that refer to it by foreign keys.
        draws: Values drawn in the capture, as far as known.
        draws_given_back: Draws returned to clients (``RETURNING``, ``nextval``, ``lastval``), which
            a capture on the wire contains; None where not counted.
        drawn_now: Values drawn in the replay.
        uses: Values of these columns in statements.
        exact: Uses traced by values returned in the capture.
        proved: Uses that only one draw can have produced.
        by_pattern: Uses inferred from the proved ones of the same two statement texts.
        unresolved: Uses sent unchanged, by reason.
        unresolved_given_back: Those that a capture on the wire would resolve, as clients received
            them; None where not counted.
        not_generated: Values older than the capture; correctly sent unchanged.
        next_value_target: First value of the target's sequence; None if unknown.
        next_value_log: First value of the capture's sequence; None where the log does not show it.
        rewritten: Values that were sent different from the capture.
        gaps: Values that the replay's sequence skipped.
    """

    column: str
    source: str = ""
    referring: list[str] = []
    draws: int = 0
    draws_given_back: int | None = None
    drawn_now: int = 0
    uses: int = 0
    exact: int = 0
    proved: int = 0
    by_pattern: int = 0
    unresolved: dict[str, int] = {}
    unresolved_given_back: int | None = None
    not_generated: int = 0
    next_value_target: int | None = None
    next_value_log: int | None = None
    rewritten: int = 0
    gaps: int = 0


class ReplayIdPattern(msgspec.Struct, frozen=True, kw_only=True):
    """The known relation between the ids that one text draws and another uses.

    Attributes:
        draw_text: The drawing statement.
        use_text: The using statement.
        column: The column of the value.
        proved_own: Uses proved to be of the session's own last draw.
        proved_other: Uses proved to be of another draw.
        is_trusted: Whether the others are assumed to follow the pattern.
        uses: Number of ids mapped by it.
    """

    draw_text: str
    use_text: str
    column: str
    proved_own: int
    proved_other: int
    is_trusted: bool
    uses: int


class ReplayIdExample(msgspec.Struct, frozen=True, kw_only=True):
    """An id that was sent unchanged.

    Attributes:
        reason: Why.
        column: Its column.
        value: The captured value.
        text: The statement.
        number: Index in the trace, from 0.
        session: Its session.
        candidates: Number of draws that can have produced it.
    """

    reason: str
    column: str
    value: str
    text: str
    number: int
    session: str
    candidates: int


class ReplayIds(msgspec.Struct, frozen=True, kw_only=True):
    """How the ids of a replay were mapped.

    Attributes:
        mode: ``off`` or ``infer``.
        classes: By column that the server fills.
        patterns: By pair of texts.
        not_followed: Possible ids that were sent unchanged where ids are not traced: in a
            ``function`` argument, in a statement with an ``unknown_table`` or one that is
            ``not_understood``, or within a ``text`` or JSON.
        doubtful_uses: Values that a draw of the capture produced or may have produced, sent
            unchanged: their statements may have affected other rows.
        examples: Ids sent unchanged, some of each reason.
        tells_both_ends: Whether the trace contains both start and end of drawing statements.
        returning_added: Statements extended by a RETURNING, to learn drawn values.
        waited_ns: Total time that statements waited for values.
        volatile: Functions with changing results, by ``time``, ``random`` and ``last_drawn``.
        forms_not_understood: Kinds of statements that the parser did not understand.
    """

    mode: str = "off"
    classes: list[ReplayIdClass] = []
    patterns: list[ReplayIdPattern] = []
    not_followed: dict[str, int] = {}
    doubtful_uses: int = 0
    examples: list[ReplayIdExample] = []
    tells_both_ends: bool = False
    returning_added: int = 0
    waited_ns: int = 0
    volatile: dict[str, int] = {}
    forms_not_understood: int = 0


STATEMENTS: Final = tuple(_core.STATEMENT_CLASSES)
"""Classes of statements, such as ``select`` and ``ddl``."""


class ReplayAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one class: ``captured = ok + failed + skipped + not_reached``.

    Attributes:
        captured: In the trace.
        ok: Sent, and succeeded.
        failed: Sent, and failed or never answered.
        skipped: Not sent, by reason.
        not_reached: Not sent because the replay ended before.
    """

    captured: Count
    ok: Count
    failed: Count
    skipped: dict[str, Count] = {}
    not_reached: Count = 0

    @property
    def sent(self) -> int:
        """Statements that were sent."""
        return self.ok + self.failed

    @property
    def skipped_count(self) -> int:
        """Statements that were skipped, for any reason."""
        return sum(self.skipped.values())

    @property
    def adds_up(self) -> bool:
        """Whether every captured statement is accounted for."""
        return self.captured == self.sent + self.skipped_count + self.not_reached


class ReplayCommits(msgspec.Struct, frozen=True, kw_only=True):
    """Transactions committed in the capture and now, and those that were rolled back now.

    Attributes:
        captured: COMMIT and END in the trace, of transactions that had not failed as far as known.
        committed: Those answered by the tag COMMIT.
        rolled_back: Those answered by the tag ROLLBACK, as the transaction failed now.
        failed: Those answered by an error, such as a serialization failure; 0 in old results.
    """

    captured: Count
    committed: Count
    rolled_back: Count
    failed: Count = 0

    @property
    def lost(self) -> int:
        """Transactions that committed in the capture and were rolled back now."""
        return self.rolled_back + self.failed


class ReplayErrorExample(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of one code and kind of query.

    Attributes:
        kind: Relation to the capture.
        captured_sqlstate: Code in the capture; empty for none.
        sqlstate: Code now; empty for none.
        message: The server's message for the first of them.
        text: The query's text without its literals.
        count: Number of errors.
        number: Index of the first in the trace, from 0.
        session: Its session's name in the log.
    """

    kind: Annotated[str, one_of("same", "other", "new", "gone", "unanswered")]
    captured_sqlstate: str
    sqlstate: str
    message: str
    text: str
    count: Count
    number: Count
    session: str


class ReplayCodeErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of one code, of statements that were answered.

    Attributes:
        captured: In the capture.
        now: In the replay.
    """

    captured: Count
    now: Count


class ReplayErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors compared with the capture, and the most frequent of them.

    Attributes:
        same: With the code of the capture.
        other: With another code than in the capture.
        new: Without an error in the capture.
        gone: Errors of the capture that did not recur.
        captured: Errors in the capture.
        unanswered: Statements that were sent and never answered.
        by_code: All of them by code; empty in old files.
        examples: The most frequent, at most 32.
    """

    same: Count
    other: Count
    new: Count
    gone: Count
    captured: Count
    unanswered: Count
    by_code: dict[str, ReplayCodeErrors] = {}
    examples: list[ReplayErrorExample] = []


class ReplayRowsExample(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one query with other rows or another tag than in the capture.

    Attributes:
        text: The query's text without its literals.
        captured: Rows in the capture; None where a tag differs.
        rows: Rows now.
        tag: The command tag now.
        count: How many of this query differ.
        number: Index of the first in the trace, from 0.
    """

    text: str
    captured: Count | None
    rows: Count | None
    tag: str
    count: Count
    number: Count


class ReplayClassRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows and errors of one class of statements, expected and observed.

    Attributes:
        compared: Statements with known captured rows that succeeded in both.
        expected_rows: Their rows in the capture.
        observed_rows: Their rows now.
        different: Statements with a different number of rows.
        expected_errors: Statements of the class that failed in the capture.
        observed_errors: Statements of the class that failed now.
    """

    compared: int = 0
    expected_rows: int = 0
    observed_rows: int = 0
    different: int = 0
    expected_errors: int = 0
    observed_errors: int = 0


class ReplayRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows and command tags compared with the capture.

    Attributes:
        compared: Statements with known captured rows that succeeded in both.
        equal: Those with as many rows.
        tags_compared: Commands whose tag was compared with their text.
        tags_different: Those with another tag, such as ROLLBACK for a COMMIT.
        writes: UPDATE and DELETE that succeeded, where the captured number of rows is unknown.
        empty_writes: Those without a row.
        reads: SELECT that succeeded, where the captured number of rows is unknown.
        empty_reads: Those without a row.
        examples: The first differences of each query.
        by_class: Expected and observed, by class of statement.
    """

    compared: Count
    equal: Count
    tags_compared: Count
    tags_different: Count
    writes: Count
    empty_writes: Count
    reads: Count
    empty_reads: Count
    examples: list[ReplayRowsExample] = []
    by_class: dict[str, ReplayClassRows] = {}


class ReplayLag(msgspec.Struct, frozen=True, kw_only=True):
    """How late statements were sent after they were due; nothing is due at maximum speed.

    Attributes:
        paced: Statements with a due time.
        within_1ms: Sent within a millisecond of it.
        ns_p50: Percentiles of the lag; ``ns_p99`` and ``ns_max`` likewise.
        ns_p99: Percentiles of the lag.
        ns_max: Percentiles of the lag.
        late_by_session: More than 1 ms late because their session was still busy.
        late_by_order: Delayed by the order.
        late_by_connections: All connections were in use.
        late_by_driver: The driver itself was late.
        driver_ns_p99: From when a statement could be sent to when it was; ``driver_ns_max``
            likewise.
        driver_ns_max: Lag of the driver alone: from when a statement could be sent to when it was.
        due_ns_last: When the last statement was due, from the start; None in old files.
        sent_ns_last: When the last of those that were due was sent; None in old files.
    """

    paced: Count
    within_1ms: Count
    ns_p50: Count
    ns_p99: Count
    ns_max: Count
    late_by_session: Count
    late_by_order: Count
    late_by_connections: Count
    late_by_driver: Count
    driver_ns_p99: Count
    driver_ns_max: Count
    due_ns_last: Count | None = None
    sent_ns_last: Count | None = None


class ReplayMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of time in the replay and in the capture.

    Attributes:
        answered: Statements answered.
        failed: Those answered by an error.
        captured: Statements of the capture that were due at the requested speed; at maximum speed,
            those of the capture's own time.
        due: Statements sent that had a due time; 0 in old files.
        lag_ns_mean: Mean lag of statements sent, in ns; None where nothing was due.
        lag_ns_max: Longest lag of statements sent, in ns.
        response_ns_mean: Mean response time of statements answered, in ns.
        sessions: Sessions connected at its end.
    """

    answered: Count
    failed: Count
    captured: Count
    due: Count = 0
    lag_ns_mean: float | None = None
    lag_ns_max: Count | None = None
    response_ns_mean: float | None = None
    sessions: Count = 0


class ReplayQuery(msgspec.Struct, frozen=True, kw_only=True):
    """All sent statements of one fingerprint.

    Attributes:
        fingerprint: Hash of the fingerprint, 16 hexadecimal digits.
        text: Text without its literals.
        class_: Class of the statement, such as ``select``.
        ok: Succeeded.
        failed: Failed, or never answered.
        service_ns_sum: Total service time.
        service_ns_p50: Median of the service time, from the actual start.
        service_ns_p95: 95th percentile of the service time, from the actual start.
        service_ns_p99: 99th percentile of the service time, from the actual start.
        service_ns_max: The longest service time.
        response_ns_p50: Median of the response time, from the intended start.
        response_ns_p99: 99th percentile of the response time, from the intended start.
        captured_known: Statements with known captured duration.
        captured_ns_sum: Their total duration in the capture, on the server.
        captured_ns_p50: Their median.
        captured_ns_p95: Their 95th percentile.
        captured_ns_p99: Their 99th percentile.
        rows: Rows returned or affected.
    """

    fingerprint: str
    text: str
    class_: str = msgspec.field(name="class")
    ok: Count
    failed: Count
    service_ns_sum: Count
    service_ns_p50: Count
    service_ns_p95: Count
    service_ns_p99: Count
    service_ns_max: Count
    response_ns_p50: Count
    response_ns_p99: Count
    captured_known: Count
    captured_ns_sum: Count
    captured_ns_p50: Count
    captured_ns_p95: Count
    captured_ns_p99: Count
    rows: Count


class ReplayServerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own counters for one fingerprint during the replay.

    Increases of pg_stat_statements; None where the server has no such extension, or its version
    lacks the counter.

    Attributes:
        fingerprint: As in ``queries``.
        calls: Executions.
        exec_ns: Execution time, without parsing, planning and network.
        blocks_hit: Shared blocks found in the buffers.
        blocks_read: Shared blocks read.
        wal_bytes: Bytes of write-ahead log.
        plan_hash: Hash of its plan's shape, by EXPLAIN after the replay; empty if unknown.
        plan_shape: That shape, such as ``Nested Loop(Index Scan orders_pkey, Seq Scan lines)``.
    """

    fingerprint: str
    calls: int | None = None
    exec_ns: int | None = None
    blocks_hit: int | None = None
    blocks_read: int | None = None
    wal_bytes: int | None = None
    plan_hash: str = ""
    plan_shape: str = ""


class ReplayDelays(msgspec.Struct, frozen=True, kw_only=True):
    """Delays by the order, and statements released before their turn.

    Attributes:
        delayed: Statements that had to wait for other sessions.
        waited_ns: Total waiting time.
        released_by_lock: Released before their turn: a backend waited for a lock of their session.
        released_by_patience: Released before their turn: nothing else made progress.
        read_further: How often more of the trace was read ahead than usual, because of a lock.
        mode: The order; empty in old files.
        edges: Pairs of statements of which one waits for the other.
        edge_ns: Driver time to find one; None where there are fewer than statements.
        statement_ns: Driver time to order a statement, whether it waits or not, without parsing its
            text; None without such an order, and in old files.
        delayed_by: Reason of delays: ``order``, ``object`` or ``key``.
        postponed: Moved after conflicting statements: the server made them wait for a lock that
            another session acquired first here.
    """

    delayed: Count
    waited_ns: Count
    released_by_lock: Count
    released_by_patience: Count
    read_further: Count
    mode: str = ""
    edges: int = 0
    edge_ns: float | None = None
    statement_ns: float | None = None
    delayed_by: dict[str, int] = {}
    postponed: int = 0


class ReplaySessions(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions of the capture and their connections.

    Attributes:
        captured: In the trace, of the replayed databases.
        captured_open_max: Maximum open at once in the capture.
        connected: Connections made.
        open_max: Maximum connections open at once.
        refused: Connection attempts that the server refused; a session tries again.
        lost: Connections that the server ended.
        never_ended: Sessions that never disconnected in the capture: closed after their last
            statement.
        words: The server's message at the first refusal or loss; empty for none.
    """

    captured: Count
    captured_open_max: Count
    connected: Count
    open_max: Count
    refused: Count
    lost: Count
    never_ended: Count
    words: str = ""


class ReplayClient(msgspec.Struct, frozen=True, kw_only=True):
    """Resources used by the driver: CPU time, waiting, memory.

    Attributes:
        cpu_user_ns: CPU time of its two threads in user mode: the loop, which sends all statements,
            and the reader of the trace.
        cpu_system_ns: Their CPU time in the kernel.
        reader_cpu_ns: Of both, the CPU time of the reader; 0 in old files.
        run_delay_ns: Time that the loop was runnable without a CPU (/proc/thread-self/schedstat).
        idle_ns: Time that the loop waited for the server or the clock.
        memory_bytes_max: Largest sampled memory of the process, in bytes (VmHWM cannot be reset).
        read_ahead_max: Maximum statements held in memory.
    """

    cpu_user_ns: Count
    cpu_system_ns: Count
    reader_cpu_ns: Count = 0
    run_delay_ns: Count
    idle_ns: Count
    memory_bytes_max: Count
    read_ahead_max: Count

    @property
    def cpu_ns(self) -> int:
        """CPU time of both threads."""
        return self.cpu_user_ns + self.cpu_system_ns

    @property
    def loop_cpu_ns(self) -> int:
        """CPU time of the loop."""
        return self.cpu_ns - self.reader_cpu_ns


class ReplayRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Replay-specific part of a sample.

    Attributes:
        classes: Accounts by class of statement.
        commits: Committed transactions.
        errors: Compared with the capture.
        rows: Compared with the capture.
        lag: How late statements were sent.
        timeline: Time slices of the replay.
        timeline_slice_s: Their length.
        queries: By fingerprint, most time first.
        queries_dropped: Statements of further fingerprints.
        queries_server: The server's own counters, where available.
        order: Delays by the order.
        ids: How generated values were mapped; None in old files.
        sessions: Sessions and connections.
        client: Resources used by the driver.
        captured_s: From the first captured statement to the end of the last to be replayed; in old
            files, to the end of the last of all.
        end: ``complete``, ``interrupted`` or ``server_lost``.
        words: The server's message when it was lost; empty for none.
        trace: Metadata of the trace: ``files``, ``masked`` and the like, by name.
        content: Final content of the database compared with the captured one; None for read-only
            replays, and in old files.
    """

    classes: dict[str, ReplayAccount]
    commits: ReplayCommits
    errors: ReplayErrors
    rows: ReplayRows
    lag: ReplayLag
    timeline: list[ReplayMoment] = []
    timeline_slice_s: float = 0.1
    queries: list[ReplayQuery] = []
    queries_dropped: Count = 0
    queries_server: list[ReplayServerQuery] = []
    order: ReplayDelays
    ids: ReplayIds | None = None
    sessions: ReplaySessions
    client: ReplayClient
    captured_s: float
    end: Annotated[str, one_of("complete", "interrupted", "server_lost")] = "complete"
    words: str = ""
    trace: dict[str, str] = {}
    content: ReplayContent | None = None

    @property
    def total(self) -> ReplayAccount:
        """Sums over all classes."""
        skipped: dict[str, int] = {}
        for account in self.classes.values():
            for reason, count in account.skipped.items():
                skipped[reason] = skipped.get(reason, 0) + count
        return ReplayAccount(
            captured=sum(each.captured for each in self.classes.values()),
            ok=sum(each.ok for each in self.classes.values()),
            failed=sum(each.failed for each in self.classes.values()),
            skipped=skipped,
            not_reached=sum(each.not_reached for each in self.classes.values()),
        )
