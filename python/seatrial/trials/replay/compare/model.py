"""What a comparison of before and after gives: by query, page and batch. Pure data.

Times are in seconds. A **speed-up** is the time before over the time after: above 1 it is faster.
It is an Estimate of unit ``ratio``; its interval is over ``rounds`` where each side was measured
several times, over the ``timeline`` where it is drawn from within one capture of each side, and
absent where nothing inside a capture is known. Only the first says how measurements differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from seatrial.report.exports.json_document import Document
from seatrial.stats.estimate import Estimate

Kind = Literal["replay", "log", "statements", "web", "batch"]
"""The source of a side: rounds of replays, a server's log or trace, a snapshot of
pg_stat_statements, a web server's access log, or output of a shell's ``time``."""

Clock = Literal["client", "server"]
"""Where times were measured. Client times include the network, server times do not; they are
compared only with a given offset."""

Basis = Literal["interleaved", "in_sequence", "once"]
"""What verdicts are based on: interleaved rounds of both sides, compared in pairs; several
rounds of one side, then of the other; or one measurement of a side, without a significance test."""

Answer = Literal["faster", "slower", "same", "undecided"]
"""The result of after compared with before."""

When = Literal["before", "after"]
"""One of the two sides."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """Before, or after.

    Attributes:
        name: The user's name for it: a file, a run, a target.
        kind: Its source.
        clock: Where its times were measured.
        units: Number of measurements: rounds, or 1 for a capture.
        left_out: Number of excluded rounds, in which many queries did not run.
        covered_s: Mean time that a unit covers; None if unknown.
        calls: Mean number of queries (or requests) per unit.
        total_s: Their total time.
        detail: Further information, as a phrase; empty for none.
    """

    name: str
    kind: Kind
    clock: Clock
    units: int
    covered_s: float | None
    calls: float
    total_s: float
    detail: str = ""
    left_out: int = 0


class CallFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One query or page on one side: means over the side's units.

    Attributes:
        calls: Calls per unit.
        total_s: Their total time per unit.
        errors: How many of them failed; those without a time, as in a log, are not counted.
    """

    PUBLISHED: ClassVar = ("mean_s",)

    calls: float
    total_s: float
    errors: float = 0.0

    @property
    def mean_s(self) -> float:
        """Mean time of a call; 0 without calls."""
        return self.total_s / self.calls if self.calls else 0.0


class ServerWork(msgspec.Struct, frozen=True, kw_only=True):
    """The server's work for one query, per call, from pg_stat_statements.

    Attributes:
        calls: Calls counted by the server.
        exec_s: Execution time, without the network.
        blocks_hit: Shared buffer hits.
        blocks_read: Blocks read into shared buffers.
        wal_bytes: Bytes of WAL.
    """

    calls: int
    exec_s: float | None = None
    blocks_hit: float | None = None
    blocks_read: float | None = None
    wal_bytes: float | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One query, or one page, that both sides have.

    Attributes:
        key: Fingerprint in 16 hexadecimal digits, or the page's method and pattern.
        text: The query without its values, or the page's pattern.
        kind: Class of statement, such as ``select``, or ``page``.
        before: On side before.
        after: On side after.
        speed_up: Mean time before over mean time after.
        saved_s: Time saved after, with the number of calls before; negative if it takes
            longer. The values add up to the total saving.
        p_value: P-value for no difference; None without a test.
        p_adjusted: After Benjamini and Hochberg's adjustment over all queries or pages.
        answer: The significant result.
        below_floor: Whether the interval excludes 1, but the difference is no larger than the noise
            floor: then ``undecided``.
        within_share: For ``same``: the difference is significantly less than this share.
        rounds_more: For ``undecided``: how many more rounds would settle it; None if
            unknown.
        server_before: None if unknown.
        server_after: None if unknown.
        plan_before: Shape of the plan, as ``Index Scan(orders_pkey)``; empty if unknown.
        plan_after: Likewise.
        plan_changed: Whether the sides have no plan in common; None if one side's is unknown.
        plan_varies: Whether plans differ between rounds of a side.
        in_average: Whether it is in the average: it ran in every round of both sides, and did
            not fail more often on one of them.
        failing: The side on which more of its timed calls failed; None for neither.
    """

    key: str
    text: str
    kind: str
    before: CallFigures
    after: CallFigures
    speed_up: Estimate
    saved_s: float
    p_value: float | None = None
    p_adjusted: float | None = None
    answer: Answer = "undecided"
    below_floor: bool = False
    within_share: float | None = None
    rounds_more: int | None = None
    server_before: ServerWork | None = None
    server_after: ServerWork | None = None
    plan_before: str = ""
    plan_after: str = ""
    plan_changed: bool | None = None
    plan_varies: bool = False
    in_average: bool = True
    failing: When | None = None


class OneSided(msgspec.Struct, frozen=True, kw_only=True):
    """One query or page that only one side has.

    Attributes:
        key: As of a Change.
        text: As of a Change.
        measured: On that side.
    """

    key: str
    text: str
    measured: CallFigures


class Overall(msgspec.Struct, frozen=True, kw_only=True):
    """All queries, or all pages, together.

    Attributes:
        speed_up: Speed-up of the average query: time before over time after, with each query as
            often as before on both sides.
        geometric: Geometric mean of the queries' speed-ups, equally weighted.
        answer: The significant result for ``speed_up``.
        p_value: P-value for no difference in ``speed_up``; None without a test.
        below_floor: As of a Change.
        within_share: As of a Change.
        rounds_more: As of a Change.
        before_s: Time of the queries in the average, per unit before.
        after_s: Their time after, with the number of calls before.
        faster: Number of significantly faster queries.
        slower: Number of significantly slower queries.
        same: Number of queries without a difference.
        undecided: Number of the others.
        plans_changed: Number of queries with a changed plan; None if no plan is known.
    """

    speed_up: Estimate
    geometric: Estimate
    answer: Answer
    p_value: float | None
    below_floor: bool
    within_share: float | None
    rounds_more: int | None
    before_s: float
    after_s: float
    faster: int
    slower: int
    same: int
    undecided: int
    plans_changed: int | None = None


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """The noise floor: how much two measurements of the same thing differ, as factors from 1.

    Attributes:
        source: ``pair``: a second measurement of before; ``halves``: the halves of each side;
            ``usual``: the usual difference of single runs, or runs in sequence
            (docs/method.md), if nothing more precise is known.
        name: Name of the second measurement; empty for none.
        overall: For the average query.
        query: For one query or page. In a pair, and in halves, 95 of 100 differed by less; the
            usual one is that of whole runs. Without interleaving, a difference must exceed it and
            the query's own interval combined.
        halves_overall: ``overall`` of the halves; None if there are none.
        halves_query: ``query`` of the halves; None if there are none.
    """

    source: Literal["pair", "halves", "usual"]
    name: str = ""
    overall: float
    query: float
    halves_overall: float | None = None
    halves_query: float | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Queries, or pages, before and after.

    Attributes:
        before: The baseline.
        after: The side that is judged.
        basis: What verdicts are based on.
        overall: All together; None if no query ran in every round of both sides.
        changes: The queries of both sides, those with the most time before first.
        only_before: Queries that only before has, the most time first.
        only_after: Queries that only after has, the most time first.
        floor: The noise floor; None if rounds were interleaved and none is known.
        margin_share: Smaller differences count as none.
        level: Level of the intervals of ``changes``: 0.95, or more after adjustment for many
            queries. Those of ``overall`` have 0.95.
        offset_s: Time subtracted from each client time to compare it with server times; None
            if both sides have the same clock.
        warnings: Limits of the comparison, as sentences, the most severe first.
    """

    PUBLISHED: ClassVar = ("slower",)

    before: Side
    after: Side
    basis: Basis
    overall: Overall | None
    changes: list[Change]
    only_before: list[OneSided] = []
    only_after: list[OneSided] = []
    floor: Floor | None = None
    margin_share: float = 0.05
    level: float = 0.95
    offset_s: float | None = None
    warnings: list[str] = []

    @property
    def regressions(self) -> list[Change]:
        """The significantly slower queries, the largest factor first."""
        slower = [change for change in self.changes if change.answer == "slower"]
        return sorted(slower, key=lambda change: change.speed_up.value)

    @property
    def slower(self) -> list[str]:
        """Keys of the significantly slower queries, the largest factor first."""
        return [change.key for change in self.regressions]


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch, such as a nightly script, by its ``real`` times.

    Attributes:
        name: The user's name for it.
        before_s: ``real`` of each run before.
        after_s: ``real`` of each run after.
        user_before_s: Mean CPU time of the batch itself in user mode; None if unknown.
        user_after_s: Likewise.
        speed_up: Geometric mean of the times before over that after; without an interval if a
            side ran once.
        answer: The significant result.
        p_value: P-value for no difference (Welch's t of logarithms); None if a side ran once.
        floor: The factor below which no difference is significant.
        warnings: Limits of the comparison, as sentences.
    """

    name: str
    before_s: list[float]
    after_s: list[float]
    user_before_s: float | None = None
    user_after_s: float | None = None
    speed_up: Estimate
    answer: Answer
    p_value: float | None
    floor: float
    warnings: list[str] = []


class BeforeAfter(Document, frozen=True, kw_only=True):
    """Before and after.

    ``seatrial sql compare``: queries, pages and batches before a change and after it.

    Attributes:
        verdict: The sentences, such as ``Average query 6.1x faster (5.8 to 6.4).``
        queries: None if no queries were compared.
        pages: None if no access logs were compared.
        batches: In the order of the command line.
        warnings: Limits of the whole comparison, as sentences.
    """

    kind: Literal["before_after"] = "before_after"
    verdict: list[str] = msgspec.field(default_factory=list)
    queries: Table | None = None
    pages: Table | None = None
    batches: list[Batch] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def tables(self) -> list[Table]:
        """The tables of queries and pages that there are."""
        return [table for table in (self.queries, self.pages) if table is not None]


class QueryLabel(msgspec.Struct, frozen=True):
    """The text and kind of a query or page.

    Attributes:
        text: The query without its values, or the page's pattern.
        kind: Class of statement, such as ``select``, or ``page``.
    """

    text: str
    kind: str


class CallTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The timeline of a capture: sums of each query by equal slices of its time.

    Attributes:
        slice_s: Length of a slice.
        slices: Number of slices.
        calls: By key, then by slice, without empty slices.
        total_s: Time of these calls, likewise.
    """

    slice_s: float
    slices: int
    calls: Mapping[str, Mapping[int, float]]
    total_s: Mapping[str, Mapping[int, float]]


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One round, or one capture.

    Attributes:
        number: The round's number; 0 of a capture.
        measured: Figures of each query or page, by key.
        begin_s: Start in Unix time; None if unknown.
        covered_s: The time that it covers; None if unknown.
        calls: Number of calls, with those that were not timed; None if all of them were.
        timeline: Its timeline; None if unknown.
    """

    number: int
    measured: Mapping[str, CallFigures]
    begin_s: float | None = None
    covered_s: float | None = None
    calls: float | None = None
    timeline: CallTimeline | None = None


class MeasuredSide(msgspec.Struct, frozen=True, kw_only=True):
    """One side with its measurements.

    Attributes:
        name: The user's name for it.
        kind: Its source.
        clock: Where its times were measured.
        units: Rounds or captures, at least one.
        labels: Text and kind of each key.
        detail: Further information, as a phrase.
        server: The server's work for each query, if known.
        plans: Shapes of each query's plans by hash, if known; several if
            rounds differ.
        warnings: Limits of the comparison, as sentences.
    """

    name: str
    kind: Kind
    clock: Clock
    units: Sequence[Unit]
    labels: Mapping[str, QueryLabel]
    detail: str = ""
    server: Mapping[str, ServerWork] = {}
    plans: Mapping[str, Mapping[str, str]] = {}
    warnings: Sequence[str] = ()
