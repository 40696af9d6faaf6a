"""What is particular to a sample of a replay, as the engine tells it and as it is stored.

The fields are those of ``crates/playback/src/played.rs``, where each is explained.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from seatrial.published import Count, one_of
from seatrial.results.replay_content import ReplayContent
from seatrial.results.replay_ids import ReplayIds

STATEMENTS: Final = (
    *("select", "insert", "update", "delete", "merge", "copy", "transaction", "cursor"),
    *("prepared", "procedure", "ddl", "maintenance", "utility", "empty", "unknown"),
)
"""Classes of statements, as ``crates/sqltext/src/lexer/class.rs`` tells them apart."""


class ReplayAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one class: ``captured = ok + failed + skipped + not_reached``.

    Attributes:
        captured: In the trace.
        ok: Sent, and answered well.
        failed: Sent, and answered by an error or never.
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
        """Statements that were skipped, for whatever reason."""
        return sum(self.skipped.values())

    @property
    def adds_up(self) -> bool:
        """Whether every captured statement is accounted for."""
        return self.captured == self.sent + self.skipped_count + self.not_reached


class ReplayCommits(msgspec.Struct, frozen=True, kw_only=True):
    """Transactions that ended well: in the capture, and now; and those that had failed.

    Attributes:
        captured: COMMIT and END in the trace, of transactions that had not failed as far as is
            known.
        committed: Answered by the tag COMMIT.
        rolled_back: COMMIT and END that were answered by the tag ROLLBACK: their transaction had
            failed.
    """

    captured: Count
    committed: Count
    rolled_back: Count


class ReplayErrorExample(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of one code of one kind of query, with the first of them.

    Attributes:
        kind: How it stands to the capture.
        captured_sqlstate: Code in the capture; empty for none.
        sqlstate: Code now; empty for none.
        message: The server's sentence to the first of them.
        text: The query's text without its literals.
        count: How many.
        number: Place of the first in the trace, from 0.
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


class ReplayErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors against those of the capture, and the most frequent of them.

    Attributes:
        same: Of the same code as in the capture.
        other: Where the capture has another code.
        new: Where the capture has none.
        gone: In the capture, of statements that succeeded now.
        captured: In the capture.
        unanswered: Statements that were sent and never answered.
        examples: The most frequent, at most 32.
    """

    same: Count
    other: Count
    new: Count
    gone: Count
    captured: Count
    unanswered: Count
    examples: list[ReplayErrorExample] = []


class ReplayRowsExample(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one query that had other rows, or another tag, than in the capture.

    Attributes:
        text: The query's text without its literals.
        captured: Rows in the capture; None where a tag differs.
        rows: Rows now.
        tag: The command tag now.
        count: How many of this query differ.
        number: Place of the first in the trace, from 0.
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
        compared: Statements whose rows the capture tells and that succeeded in both.
        expected_rows: Of these, in the capture.
        observed_rows: Of these, now.
        different: Of these, statements with another number of them.
        expected_errors: Statements of the class that failed in the capture.
        observed_errors: That failed now.
    """

    compared: int = 0
    expected_rows: int = 0
    observed_rows: int = 0
    different: int = 0
    expected_errors: int = 0
    observed_errors: int = 0


class ReplayRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows and command tags against those of the capture.

    Attributes:
        compared: Statements whose rows the capture tells and that succeeded in both.
        equal: Of these, with as many rows.
        tags_compared: Commands whose tag was held against their text.
        tags_different: Of these, with another, such as a COMMIT that was a ROLLBACK.
        writes: UPDATE and DELETE that were answered well.
        empty_writes: Of these, without a row, where the capture does not tell how many there were.
        reads: SELECT that were answered well.
        empty_reads: Of these, without a row.
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
        paced: Statements that were due at a time.
        within_1ms: Sent within a millisecond of it.
        ns_p50: Percentiles of the lag; ``ns_p99`` and ``ns_max`` likewise.
        ns_p99: Percentiles of the lag.
        ns_max: Percentiles of the lag.
        late_by_session: Of those more than 1 ms late: their session was still busy.
        late_by_order: The order held them back.
        late_by_connections: All connections were in use.
        late_by_driver: The driver itself was late.
        driver_ns_p99: From when a statement could be sent to when it was; ``driver_ns_max``
            likewise.
        driver_ns_max: Lag of the driver alone: from when a statement could be sent to when it was.
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


class ReplayMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of time: what was answered, and what the capture has for it.

    Attributes:
        answered: Statements answered in it.
        failed: Of these, by an error.
        captured: Statements of the capture that were due in it at the speed that was asked for; at
            maximum speed, those of the capture's own time.
        lag_ns_mean: Mean lag of what was sent in it, in ns; None where nothing was due.
        lag_ns_max: Longest lag of what was sent in it, in ns.
        response_ns_mean: Mean response time of what was answered in it, in ns.
        sessions: Sessions connected at its end.
    """

    answered: Count
    failed: Count
    captured: Count
    lag_ns_mean: float | None = None
    lag_ns_max: Count | None = None
    response_ns_mean: float | None = None
    sessions: Count = 0


class ReplayQuery(msgspec.Struct, frozen=True, kw_only=True):
    """All statements of one fingerprint that were sent.

    Attributes:
        fingerprint: Hash of the fingerprint, 16 digits of base 16.
        text: Text without its literals.
        class_: Class of the statement, such as ``select``.
        ok: Answered well.
        failed: Answered by an error, or never.
        service_ns_sum: Service time of all of them together.
        service_ns_p50: Median of the service time, from the actual start.
        service_ns_p95: 95th percentile of the service time, from the actual start.
        service_ns_p99: 99th percentile of the service time, from the actual start.
        service_ns_max: The longest service time.
        response_ns_p50: Median of the response time, from the intended start.
        response_ns_p99: 99th percentile of the response time, from the intended start.
        captured_known: Statements whose duration the capture tells.
        captured_ns_sum: Durations in the capture, on the server: their sum.
        captured_ns_p50: Their median.
        captured_ns_p95: Their 95th percentile.
        captured_ns_p99: Their 99th percentile.
        rows: Rows that came of it.
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
    """What the server itself counted of one fingerprint while the replay lasted.

    The counters are what pg_stat_statements grew by; None where the server has no such extension,
    or its version does not tell.

    Attributes:
        fingerprint: As of an entry of ``queries``.
        calls: Executions.
        exec_ns: Their time, without parse, plan and the client's way.
        blocks_hit: Shared blocks found in its buffers.
        blocks_read: Shared blocks that were not.
        wal_bytes: Bytes of write-ahead log.
        plan_hash: Of its plan's shape, as EXPLAIN tells it after the replay; empty for unknown.
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


class ReplayHeld(msgspec.Struct, frozen=True, kw_only=True):
    """What the order held back, for how long together, and what was let go before its turn.

    Attributes:
        held: Statements that had to wait for other sessions.
        waited_ns: How long, together.
        released_by_lock: Let go before their turn: a backend waited for a lock of their session.
        released_by_patience: Let go before their turn: nothing else moved.
        read_further: How often more of the trace was read ahead than usual, for a lock's sake.
        mode: The order; empty in old files.
        edges: Pairs of statements of which one waits for the other.
        edge_ns: What finding one took the driver; None where there are fewer than statements.
        statement_ns: What putting a statement in its place took the driver, whether it waits for
            others or not, without the reading of its text; None where no such order was kept, and
            in old files.
        held_by: What statements were held by: ``order``, ``object`` or ``key``.
        postponed: Given a later turn than the capture's, with what conflicts: the server made them
            wait for a lock that another session had here first.
    """

    held: Count
    waited_ns: Count
    released_by_lock: Count
    released_by_patience: Count
    read_further: Count
    mode: str = ""
    edges: int = 0
    edge_ns: float | None = None
    statement_ns: float | None = None
    held_by: dict[str, int] = {}
    postponed: int = 0


class ReplaySessions(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions of the capture and their connections.

    Attributes:
        captured: In the trace, of the databases that are played.
        captured_open_max: Open at once in the capture, at most.
        connected: Connections made.
        open_max: Connections open at once, at most.
        refused: Connections that the server refused.
        lost: Connections that the server ended.
        never_ended: Sessions that never disconnected in the capture: closed after their last
            statement.
        words: The server's words to the first refusal or loss; empty for none.
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
    """What the driver itself used: processor time, waiting, memory.

    Attributes:
        cpu_user_ns: Processor time of its thread.
        cpu_system_ns: The same, in the kernel.
        run_delay_ns: Time that its thread could have run and did not (/proc/thread-self/schedstat).
        idle_ns: Time that its thread waited for the server or the clock.
        memory_bytes_max: Most memory that the process had, in bytes (VmHWM cannot be reset:
            sampled).
        read_ahead_max: Statements that it held in memory, at most.
    """

    cpu_user_ns: Count
    cpu_system_ns: Count
    run_delay_ns: Count
    idle_ns: Count
    memory_bytes_max: Count
    read_ahead_max: Count


class ReplayRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is particular to a sample of a replay.

    Attributes:
        classes: Accounts by class of statement.
        commits: Transactions that ended well.
        errors: Against those of the capture.
        rows: Against those of the capture.
        lag: How late statements were sent.
        timeline: Slices of time of the replay.
        timeline_slice_s: Their length.
        queries: By fingerprint, those that took the most time first.
        queries_dropped: Statements of further ones.
        queries_server: What the server itself tells of them, where it does.
        order: What it held back.
        ids: How generated values were mapped; None in old files.
        sessions: And their connections.
        client: What the driver used.
        captured_s: From the first captured statement to the end of the last.
        end: ``complete``, ``interrupted`` or ``server_lost``.
        words: The server's, where it was lost; empty for none.
        trace: What the trace says of itself: ``files``, ``masked`` and the like, by name.
        content: What the database held afterwards, against the captured one; None where only
            reading was asked for, and in old files.
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
    order: ReplayHeld
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
        """The accounts of all classes together."""
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
