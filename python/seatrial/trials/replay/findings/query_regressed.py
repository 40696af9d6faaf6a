"""Finding ``query_regressed``: queries or pages are significantly slower than before."""

from __future__ import annotations

import math
from typing import Annotated

from seatrial.findings.rule import from_before_after
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_duration_s, format_share
from seatrial.trials.replay.compare.model import BeforeAfter, Change, Table
from seatrial.trials.replay.compare.verdict import once_of, speed_phrase
from seatrial.trials.replay.compare.warnings import noun_of, nouns_of
from seatrial.trials.replay.findings.replaying import query_text

WARNING_SHARE = 0.01
"""Cost of the slower ones, as a share of the total time before; below it the effect is minor."""


@from_before_after(rank=710, section="Comparisons")
def query_regressed(found: BeforeAfter) -> list[Finding]:
    """Find queries or pages that became significantly slower, independent of the average.

    Means:
        Queries (or pages) are significantly slower than before, whatever the average says. A system
        that is twice as fast overall can still have a report that no longer finishes.

    Decided:
        By `seatrial sql compare`. With rounds: the query's speed-up is below 1 at a false discovery
        rate of 5 % over all queries (Benjamini and Hochberg), and by more than the margin and the
        noise floor. Captures that were measured once allow no test and no false discovery rate: the
        query's interval within the captures is below 1, and its factor exceeds the noise of whole
        runs and its own interval combined; a query without an interval is not reported. A query
        that failed more often before, when it was faster, is not reported either
        ([method.md](method.md#before-and-after)). Warning if together they cost more than 1 % of
        the time before, otherwise note.

    Do:
        Run EXPLAIN (ANALYZE, BUFFERS) for the slowest one on both sides. The page lists all of
        them, the slowest first.
    """
    return [_finding(table) for table in found.tables if table.regressions]


class QueryRegressedFigures(Figures, frozen=True, kw_only=True, tag="query_regressed"):
    slower_count: int
    compared_count: int
    slower_factor_max: float
    cost_s: float
    cost_share: float
    plans_changed_count: int
    table: Annotated[Table, HIDDEN]
    slower: Annotated[list[Change], HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=_sentence(self.table, self.slower, self.cost_s, self.cost_share),
            cause=_cause(self.slower),
            next=_next(self.table),
        )


def _finding(table: Table) -> Finding:
    slower = table.regressions
    cost_s = math.fsum(-change.saved_s for change in slower)
    before_s = math.fsum(change.before.total_s for change in table.changes)
    share = cost_s / before_s if before_s else 0.0
    return Finding(
        severity="warning" if share > WARNING_SHARE else "note",
        cells=[],
        figures=QueryRegressedFigures(
            slower_count=len(slower),
            compared_count=len(table.changes),
            slower_factor_max=1 / slower[0].speed_up.value,
            cost_s=cost_s,
            cost_share=share,
            plans_changed_count=sum(bool(change.plan_changed) for change in slower),
            table=table,
            slower=slower,
        ),
    )


def _sentence(table: Table, slower: list[Change], cost_s: float, share: float) -> str:
    nouns = nouns_of(table.before)
    worst = slower[0]
    counts = f"{format_count(len(slower))} of {format_count(len(table.changes))} {nouns}"
    costs = format_duration_s(cost_s) if cost_s > 0 else "0 s"
    slowest = speed_phrase(worst.speed_up, once=once_of(table))
    return (
        f"{counts} became significantly slower, the slowest {slowest}: "
        f"{query_text(worst.text)}. Together they take {costs} more per unit of load "
        f"({format_share(max(share, 0.0))} of the time before)."
    )


def _cause(slower: list[Change]) -> str:
    planned = [change for change in slower if change.plan_changed]
    reading = [change for change in slower if _reads_more(change)]
    if planned:
        return (
            f"The plan of {format_count(len(planned))} of them changed: the planner used other "
            "statistics or settings, or an index is missing."
        )
    if reading:
        return (
            f"{format_count(len(reading))} of them had fewer hits in shared buffers than before: "
            "less memory, a colder cache, or other data."
        )
    return (
        "The plans and block reads do not explain it, or are not known. Possible causes: storage, "
        "CPU or settings that are slower for this kind of query, or more concurrent load."
    )


def _reads_more(change: Change) -> bool:
    """Return whether a call read twice as many blocks as before, and at least one more."""
    before, after = change.server_before, change.server_after
    if before is None or after is None:
        return False
    if before.blocks_read is None or after.blocks_read is None:
        return False
    return after.blocks_read > max(2 * before.blocks_read, before.blocks_read + 1)


def _next(table: Table) -> str:
    if noun_of(table.before) == "page":
        return (
            "Check the queries of the slowest pages: compare the database logs of the same two "
            "periods with 'seatrial sql compare'."
        )
    return (
        "Run EXPLAIN (ANALYZE, BUFFERS) for the slowest one on both sides. The report lists all "
        "of them, with plans and blocks if known."
    )
