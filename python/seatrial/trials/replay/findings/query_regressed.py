"""Finding ``query_regressed``: queries, or pages, surely take longer after than before."""

from __future__ import annotations

import math

from seatrial.findings.rule import from_before_after
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_duration_s, format_plural, format_share
from seatrial.trials.replay.compare.model import BeforeAfter, Change, Table
from seatrial.trials.replay.compare.verdict import once_of, speed_words
from seatrial.trials.replay.compare.warnings import noun_of, nouns_of
from seatrial.trials.replay.findings.replaying import query_words

WARNING_SHARE = 0.01
"""Of all time before, what the slower ones cost; less changes nobody's decision."""


@from_before_after(rank=710, section="Against another run or target")
def query_regressed(found: BeforeAfter) -> list[Finding]:
    """Find what became significantly slower, whatever the average did.

    Means:
        Queries (or pages) surely take longer after than before, whatever the average does. A system
        that is twice as fast can have a report that no longer ends.

    Decided:
        By `seatrial sql compare`. Of rounds: the query's speed-up is below 1 at a false discovery
        rate of 5 % over all queries (Benjamini and Hochberg), and by more than the margin and the
        noise floor. Of what was measured once nothing is tested and no such rate holds: the query's
        interval within the captures is below 1, and its factor beyond the noise of whole runs and
        its own interval together; a query without an interval is none. A query that failed more
        often before, when it was faster, is none either ([method.md](method.md#before-and-after)).
        Warning where together they cost more than 1 % of the time before; else note.

    Do:
        EXPLAIN (ANALYZE, BUFFERS) of the slowest one on both sides. The page lists all, the slowest
        first.
    """
    tables = [table for table in (found.queries, found.pages) if table and table.regressions]
    return [_finding(table) for table in tables]


def _finding(table: Table) -> Finding:
    slower = table.regressions
    cost_s = math.fsum(-each.saved_s for each in slower)
    before_s = math.fsum(each.before.total_s for each in table.changes)
    share = cost_s / before_s if before_s else 0.0
    return Finding(
        kind="query_regressed",
        severity="warning" if share > WARNING_SHARE else "note",
        cells=[],
        sentence=_sentence(table, slower, cost_s, share),
        cause=_cause(slower),
        evidence={
            "slower_count": len(slower),
            "compared_count": len(table.changes),
            "slower_factor_max": 1 / slower[0].speed_up.value,
            "cost_s": cost_s,
            "cost_share": share,
            "plans_changed_count": sum(bool(each.plan_changed) for each in slower),
        },
        next=_next(table),
    )


def _sentence(table: Table, slower: list[Change], cost_s: float, share: float) -> str:
    nouns = nouns_of(table.before)
    worst = slower[0]
    reported = f"{format_count(len(slower))} of {format_count(len(table.changes))} {nouns}"
    costs = format_duration_s(cost_s) if cost_s > 0 else "no time"
    slowest = speed_words(worst.speed_up, once=once_of(table))
    return (
        f"{reported} became significantly slower, the slowest {slowest}: "
        f"{query_words(worst.text)}. Together they cost {costs} more in one unit "
        f"({format_share(max(share, 0.0))} of the time before)."
    )


def _cause(slower: list[Change]) -> str:
    planned = [each for each in slower if each.plan_changed]
    reading = [each for each in slower if _reads_more(each)]
    if planned:
        return (
            f"Of {format_plural(len(planned), 'of them', 'of them')} the plan is another: the "
            "planner estimated otherwise, by other statistics, settings or a missing index."
        )
    if reading:
        return (
            f"{format_count(len(reading))} of them found fewer blocks in the server's cache than "
            "before: less memory, a colder start, or other data."
        )
    return (
        "The plans and the server's reads tell nothing, or are not known. Likely a storage, "
        "processor or setting that is slower for this kind of query, or more that ran beside it."
    )


def _reads_more(change: Change) -> bool:
    """Tell whether a call read twice as many blocks as before, and one more at least."""
    before, after = change.server_before, change.server_after
    if before is None or after is None:
        return False
    if before.blocks_read is None or after.blocks_read is None:
        return False
    return after.blocks_read > max(2 * before.blocks_read, before.blocks_read + 1)


def _next(table: Table) -> str:
    if noun_of(table.before) == "page":
        return (
            "Look at the queries of the slowest pages: compare the database's logs of the same "
            "two times with 'seatrial sql compare'."
        )
    return (
        "Take the slowest one and run EXPLAIN (ANALYZE, BUFFERS) on both sides; the report has "
        "all of them, with the plans and blocks where they are known."
    )
