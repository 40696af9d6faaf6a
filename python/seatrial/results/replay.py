"""What is particular to a sample of a replay, as the engine tells it and as it is stored.

The fields are those of ``crates/replay/src/playback/played.rs``, where each is explained.
"""

from __future__ import annotations

from typing import Final

import msgspec

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

    captured: int
    ok: int
    failed: int
    skipped: dict[str, int] = {}
    not_reached: int = 0

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
    """Transactions that ended well: in the capture, and now; and those that had failed."""

    captured: int
    committed: int
    rolled_back: int


class ReplayErrorExample(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of one code of one kind of query, with the first of them.

    ``kind`` is ``same``, ``other``, ``new``, ``gone`` or ``unanswered``; ``number`` is the place in
    the trace, from 0.
    """

    kind: str
    captured_sqlstate: str
    sqlstate: str
    message: str
    text: str
    count: int
    number: int
    session: str


class ReplayErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors against those of the capture, and the most frequent of them."""

    same: int
    other: int
    new: int
    gone: int
    captured: int
    unanswered: int
    examples: list[ReplayErrorExample] = []


class ReplayRowsExample(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of one query that had other rows, or another tag, than in the capture."""

    text: str
    captured: int | None
    rows: int | None
    tag: str
    count: int
    number: int


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

    compared: int
    equal: int
    tags_compared: int
    tags_different: int
    writes: int
    empty_writes: int
    reads: int
    empty_reads: int
    examples: list[ReplayRowsExample] = []
    by_class: dict[str, ReplayClassRows] = {}


class ReplayLag(msgspec.Struct, frozen=True, kw_only=True):
    """How late statements were sent after they were due; nothing is due at maximum speed.

    Attributes:
        paced: Statements that were due at a time.
        within_1ms: Sent within a millisecond of it.
        ns_p50: Percentiles of the lag; ``ns_p99`` and ``ns_max`` likewise.
        late_by_session: Of those more than 1 ms late: their session was still busy.
        late_by_order: The order held them back.
        late_by_connections: All connections were in use.
        late_by_driver: The driver itself was late.
        driver_ns_p99: From when a statement could be sent to when it was; ``driver_ns_max``
            likewise.
    """

    paced: int
    within_1ms: int
    ns_p50: int
    ns_p99: int
    ns_max: int
    late_by_session: int
    late_by_order: int
    late_by_connections: int
    late_by_driver: int
    driver_ns_p99: int
    driver_ns_max: int


class ReplayMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of time: what was answered, and what the capture has for it.

    ``captured`` counts statements that were due in the slice at the speed that was asked for; at
    maximum speed, those of the capture's own time. Times in ns; None where nothing was due.
    """

    answered: int
    failed: int
    captured: int
    lag_ns_mean: float | None = None
    lag_ns_max: int | None = None
    response_ns_mean: float | None = None
    sessions: int = 0


class ReplayQuery(msgspec.Struct, frozen=True, kw_only=True):
    """All statements of one fingerprint that were sent.

    ``service_ns_*`` is from the actual start, ``response_ns_*`` from the intended one,
    ``captured_ns_*`` what the log tells of the server's own time (``captured_known`` statements).
    """

    fingerprint: str
    text: str
    class_: str = msgspec.field(name="class")
    ok: int
    failed: int
    service_ns_sum: int
    service_ns_p50: int
    service_ns_p95: int
    service_ns_p99: int
    service_ns_max: int
    response_ns_p50: int
    response_ns_p99: int
    captured_known: int
    captured_ns_sum: int
    captured_ns_p50: int
    captured_ns_p95: int
    captured_ns_p99: int
    rows: int


class ReplayServerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What the server itself counted of one fingerprint while the replay lasted.

    The counters are what pg_stat_statements grew by; None where the server has no such extension,
    or its version does not tell.

    Attributes:
        fingerprint: As of a ``ReplayQuery``.
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

    held: int
    waited_ns: int
    released_by_lock: int
    released_by_patience: int
    read_further: int
    mode: str = ""
    edges: int = 0
    edge_ns: float | None = None
    statement_ns: float | None = None
    held_by: dict[str, int] = {}
    postponed: int = 0


class ReplaySessions(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions of the capture and their connections; ``words`` are the server's first refusal."""

    captured: int
    captured_open_max: int
    connected: int
    open_max: int
    refused: int
    lost: int
    never_ended: int
    words: str = ""


class ReplayClient(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver itself used: processor time, waiting, memory."""

    cpu_user_ns: int
    cpu_system_ns: int
    run_delay_ns: int
    idle_ns: int
    memory_bytes_max: int
    read_ahead_max: int


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
    queries_dropped: int = 0
    queries_server: list[ReplayServerQuery] = []
    order: ReplayHeld
    ids: ReplayIds | None = None
    sessions: ReplaySessions
    client: ReplayClient
    captured_s: float
    end: str = "complete"
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
