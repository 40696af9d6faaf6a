"""Finding ``replay_wrong_database``: what was played on is not what was captured."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.trials.replay.findings.replaying import lowered, opening, with_faults

KINDS: Final = ("wrong_database", "empty_database", "other_rows")
"""Faults (trials/replay/analysis/judgement.py) of a database that is not the captured one."""


@from_samples(rank=60, section="Of a replay", sees_replays=True)
def replay_wrong_database(context: Context) -> list[Finding]:
    """Find replays whose database lacks the capture's objects, or its rows.

    Means:
        The database lacks the tables, columns or functions that the capture names, or its rows. A
        statement that finds nothing costs next to nothing, so that the figures tell of another
        load.

    Decided:
        One error of SQLSTATE 3D000, 3F000, 42P01, 42703, 42883 or 42704 that the capture does not
        have there; or more than half of at least 10 UPDATE and DELETE (SELECT) without a row, where
        the capture does not tell how many there were; or more than half of at least 10 statements
        with another number of rows than in the capture. Critical.

    Do:
        Replay on a restore of the captured database of the moment at which the capture began.
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
            kind="replay_wrong_database",
            severity="critical",
            cells=identities(each.summary for each in found),
            sentence=f"{opening(context, found, worst)}: {lowered(fault.sentence)}.",
            cause=(
                "The database is another one, or not restored to the moment at which the capture "
                "began. A statement that finds nothing costs next to nothing, so that the figures "
                "tell of another load."
            ),
            evidence={
                "fault": fault.kind,
                "writes_count": rows.writes,
                "empty_writes_count": rows.empty_writes,
                "reads_count": rows.reads,
                "empty_reads_count": rows.empty_reads,
                "rows_compared_count": rows.compared,
                "rows_equal_count": rows.equal,
                "new_errors_count": worst.record.errors.new,
                "rounds_count": worst.rounds,
            },
            next=f"{fault.next}.",
        )
    ]
