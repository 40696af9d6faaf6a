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

from seatrial.report.exports.json_document import Document, as_text
from seatrial.stats.estimate import Estimate

Kind = Literal["replay", "log", "statements", "web", "batch"]
"""What a side is made of: rounds of replays, a server's log or trace, a snapshot of
pg_stat_statements, a web server's access log, or what a shell's ``time`` printed."""

Clock = Literal["client", "server"]
"""Who took the times. The client's hold the way there and back, the server's do not; they are
never compared but with a stated offset."""

Basis = Literal["interleaved", "in_sequence", "once"]
"""What verdicts rest on: rounds of both sides in turns, compared one by one; several rounds of
one side, then of the other; or one measurement of each side, of which nothing is tested."""

Answer = Literal["faster", "slower", "same", "undecided"]
"""Of after against before."""

When = Literal["before", "after"]
"""One of the two sides."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """Before, or after.

    Attributes:
        name: What the user calls it: a file, a run, a target.
        kind: What it is made of.
        clock: Who took its times.
        units: How often it was measured: rounds, or 1 for a capture.
        left_out: Rounds besides, in which much of it did not run; nothing is taken from them.
        covered_s: Time that one unit covers, on the average; None where it is not known.
        calls: Queries (or requests) of one unit, on the average.
        total_s: Their time together.
        detail: What else a reader should know of it, as a phrase; empty for nothing.
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
    """One query or page on one side, on the average of the side's units.

    Attributes:
        calls: How often, in one unit.
        total_s: Their time together, in one unit.
        errors: How many of them failed, in one unit.
    """

    PUBLISHED: ClassVar = ("mean_s",)

    calls: float
    total_s: float
    errors: float = 0.0

    @property
    def mean_s(self) -> float:
        """Mean time of one; 0 where there was none."""
        return self.total_s / self.calls if self.calls else 0.0


class ServerWork(msgspec.Struct, frozen=True, kw_only=True):
    """What the server did for one query, per call, where pg_stat_statements has it.

    Attributes:
        calls: As the server counted them.
        exec_s: Its own time, without the client's way.
        blocks_hit: Blocks found in its buffers.
        blocks_read: Blocks that were not.
        wal_bytes: Bytes of write-ahead log.
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
        saved_s: Time that it takes less after, at as many calls as before; negative where it takes
            more. These add up to what the whole saves.
        p_value: Of no difference; None where nothing is tested.
        p_adjusted: After Benjamini and Hochberg's adjustment over all queries or pages.
        answer: What is certain.
        below_floor: Whether the interval tells the sides apart, but by no more than two
            measurements of the same thing differ: ``undecided`` then.
        within_share: For ``same``: the difference is significantly less than this share.
        rounds_more: For ``undecided``: how many more rounds would settle it; None where that
            is not known.
        server_before: None where it is not known.
        server_after: None where it is not known.
        plan_before: Shape of the plan, as ``Index Scan(orders_pkey)``; empty where not known.
        plan_after: Likewise.
        plan_changed: Whether no plan of after is one of before; None where one side's is not known.
        plan_varies: Whether rounds of one side, or of both, had other plans than each other.
        in_average: Whether the average query has it: it ran in every round of both sides, and did
            not fail notably more often on one of them.
        failing: The side on which notably more of its calls failed; None for neither.
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
        speed_up: Of the average query: time before over time after, with each query as often as
            before on both sides.
        geometric: Geometric mean of the queries' speed-ups: each counts alike.
        answer: What is certain of ``speed_up``.
        p_value: Of no difference in ``speed_up``; None where nothing is tested.
        below_floor: As of a Change.
        within_share: As of a Change.
        rounds_more: As of a Change.
        before_s: Time of one unit before, of the queries that the average has.
        after_s: Time after, of the same with as many calls as before.
        faster: How many queries significantly are; ``slower``, ``same`` and ``undecided`` likewise.
        slower: How many significantly are.
        same: How many significantly are.
        undecided: How many are neither.
        plans_changed: Queries whose plan is another; None where no plan is known.
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
    """What two measurements of one and the same thing differ by, as factors of at least 1.

    Attributes:
        source: ``pair``: before was measured once more; ``halves``: the halves of each side;
            ``usual``: what single runs, or runs one after the other, were seen to differ by
            (docs/method.md), where nothing sharper is known.
        name: Of the other measurement; empty for none.
        overall: Of the average query.
        query: Of one query, or page. Of a pair, and of halves, 95 of 100 differed by less; the
            usual one is that of whole runs. What was not measured in turns has to be beyond it and
            the query's own interval together.
        halves_overall: The halves' part of ``overall``; None where there are none.
        halves_query: The halves' part of ``query``; None where there are none.
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
        before: The measure.
        after: What is judged.
        basis: What verdicts rest on.
        overall: All together; None where nothing ran in every round of both sides.
        changes: Of all that both sides have: those with the most time before first.
        only_before: What after lacks, the most time first.
        only_after: What before lacks, the most time first.
        floor: What counts as noise; None where rounds were interleaved and none is known.
        margin_share: A difference of less is no difference.
        level: Of the intervals of ``changes``: 0.95, and more where it was adjusted for many
            queries. Those of ``overall`` have 0.95.
        offset_s: What was taken off each time of the client to compare it with the server's; None
            where both sides have the same clock.
        warnings: What weakens it, as sentences, the gravest first.
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
        """What is significantly slower: the greatest factor first."""
        slower = [change for change in self.changes if change.answer == "slower"]
        return sorted(slower, key=lambda change: change.speed_up.value)

    @property
    def slower(self) -> list[str]:
        """Keys of what is significantly slower, the greatest factor first."""
        return [change.key for change in self.regressions]


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch, such as a nightly script, by its ``real`` times.

    Attributes:
        name: What the user calls it.
        before_s: ``real`` of each time it ran before.
        after_s: Of each time it ran after.
        user_before_s: Processor time of its own in user mode, on the average; None where unknown.
        user_after_s: Likewise.
        speed_up: Geometric mean of the times before over that after; without an interval where a
            side ran once.
        answer: What is certain.
        p_value: Of no difference (Welch's t of logarithms); None where a side ran once.
        floor: The factor below which nothing is called different.
        warnings: What weakens it, as sentences.
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


class BeforeAfter(msgspec.Struct, frozen=True, kw_only=True):
    """All that was compared.

    Attributes:
        queries: None where no queries were.
        pages: None where no web access logs were.
        batches: In the order in which they were named.
        verdict: The sentences, such as ``Average query 6.1x faster (5.8 to 6.4).``
        warnings: What concerns all of it, as sentences.
    """

    queries: Table | None = None
    pages: Table | None = None
    batches: list[Batch] = []
    verdict: list[str] = []
    warnings: list[str] = []


class Named(msgspec.Struct, frozen=True):
    """What a query or page is called.

    Attributes:
        text: The query without its values, or the page's pattern.
        kind: Class of statement, such as ``select``, or ``page``.
    """

    text: str
    kind: str


class CallTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """How a capture went: sums of each query by equal slices of its time.

    Attributes:
        slice_s: Length of a slice.
        slices: How many there are.
        calls: By key, then by slice, of those slices that have any.
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
        measured: Of each query or page, by key.
        begin_s: When it began, in Unix time; None where that is not known.
        covered_s: The time that it covers; None where that is not known.
        timeline: What is known within it; None for nothing.
    """

    number: int
    measured: Mapping[str, CallFigures]
    begin_s: float | None = None
    covered_s: float | None = None
    timeline: CallTimeline | None = None


class Entrant(msgspec.Struct, frozen=True, kw_only=True):
    """One side with what was measured of it.

    Attributes:
        name: What the user calls it.
        kind: What it is made of.
        clock: Who took its times.
        units: Rounds or captures, at least one.
        named: Of each key in any unit, what it is called.
        detail: What else a reader should know, as a phrase.
        server: What the server did for each query, where that is known.
        plans: Shapes of each query's plans by their hashes, where they are known: several where
            rounds differ.
        warnings: What weakens it, as sentences.
    """

    name: str
    kind: Kind
    clock: Clock
    units: Sequence[Unit]
    named: Mapping[str, Named]
    detail: str = ""
    server: Mapping[str, ServerWork] = {}
    plans: Mapping[str, Mapping[str, str]] = {}
    warnings: Sequence[str] = ()


class BeforeAfterDocument(Document, frozen=True, kw_only=True):
    """Before and after.

    ``seatrial sql compare``: queries, pages and batches before a change and after it.

    Attributes:
        verdict: The sentences, such as ``Average query 6.1x faster (5.8 to 6.4).``
        queries: None where no queries were compared.
        pages: None where no web access logs were.
        batches: In the order in which they were named.
        warnings: What concerns all of it, as sentences.
    """

    kind: Literal["before_after"] = "before_after"
    verdict: list[str]
    queries: Table | None
    pages: Table | None
    batches: list[Batch]
    warnings: list[str]


def before_after_document(found: BeforeAfter) -> str:
    """Return all that was compared; what is not known is null."""
    return as_text(
        BeforeAfterDocument(
            verdict=found.verdict,
            queries=found.queries,
            pages=found.pages,
            batches=found.batches,
            warnings=found.warnings,
        )
    )
