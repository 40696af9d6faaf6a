"""Finding ``replay_wrong_database``: the target is not a copy of the captured database."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.trials.replay.analysis.verdict import Fault
from seatrial.trials.replay.findings.replaying import Affected, affected, lowered, with_faults

KINDS: Final = ("wrong_database", "empty_database", "other_rows")
"""Faults (trials/replay/analysis/verdict.py) of a database that is not the captured one."""


class ReplayWrongDatabaseFigures(Figures, frozen=True, kw_only=True, tag="replay_wrong_database"):
    fault: str
    writes_count: int
    empty_writes_count: int
    reads_count: int
    empty_reads_count: int
    rows_compared_count: int
    rows_equal_count: int
    new_errors_count: int
    rounds_count: int
    where: Annotated[Affected, HIDDEN]
    judged: Annotated[Fault, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"{self.where}: {lowered(self.judged.sentence)}.",
            cause=(
                "This is another database, or it was not restored to the time at which the capture "
                "began. A statement that finds no rows is cheap, so these figures describe another "
                "load."
            ),
            next=f"{self.judged.next}.",
        )


@from_samples(
    rank=60, section="Replays", sees_replays=True, doubt="the database is not the captured one"
)
def replay_wrong_database(context: Context) -> list[Finding]:
    """Find replays whose database lacks the capture's objects or rows.

    Means:
        The database lacks tables, columns or functions that the capture uses, or its rows. A
        statement that finds no rows is cheap, so the figures describe another load.

    Decided:
        One error of SQLSTATE 3D000, 3F000, 42P01, 42703, 42883 or 42704 that the capture does not
        have at this statement; or, of at least 10 statements without a captured row count, more
        than half of UPDATE and DELETE, or more than 90 % of SELECT, without a row; or more than
        half of at least 10 statements with a row count that differs from the capture. Critical.

    Do:
        Replay on a restore of the captured database to the time at which the capture began.
    """
    found = with_faults(context, KINDS)
    if not found:
        return []
    worst = min(found, key=lambda each: KINDS.index(each.fault.kind) if each.fault else len(KINDS))
    fault, rows = worst.fault, worst.record.rows
    if fault is None:
        return []
    return [
        Finding(
            severity="critical",
            cells=identities(each.summary for each in found),
            figures=ReplayWrongDatabaseFigures(
                fault=fault.kind,
                writes_count=rows.writes,
                empty_writes_count=rows.empty_writes,
                reads_count=rows.reads,
                empty_reads_count=rows.empty_reads,
                rows_compared_count=rows.compared,
                rows_equal_count=rows.equal,
                new_errors_count=worst.record.errors.new,
                rounds_count=worst.rounds,
                where=affected(context, found, worst),
                judged=fault,
            ),
        )
    ]
