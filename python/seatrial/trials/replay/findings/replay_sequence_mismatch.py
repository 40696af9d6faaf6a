"""Finding ``replay_sequence_mismatch``: a sequence does not stand where the log begins."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.analysis.ids import id_sums, mismatches
from seatrial.trials.replay.findings.replaying import opening, seen_where

ELSEWHERE = "sequence_elsewhere"


@from_samples(rank=80, section="Of a replay", sees_replays=True)
def replay_sequence_mismatch(context: Context) -> list[Finding]:
    """Find replays whose target is of another moment than the beginning of the log.

    Means:
        A sequence of the target does not stand where the log begins: the snapshot is of another
        moment. Rows that the log names are not there yet, or are there already.

    Decided:
        What the first draws of the log imply, held against the target's next value, where the log
        shows it beyond doubt. Such a replay is refused unless `--allow sequence_mismatch` asks for
        it. Critical where ids were left alone for it; else warning.

    Do:
        Restore the moment of the log's first record; [sql.md](sql.md#equal-starts).
    """
    found = seen_where(context, _mismatches)
    if not found:
        return []
    worst = max(found, key=lambda each: _mismatches(each.record))
    ids = worst.record.ids
    other = mismatches(ids) if ids else []
    first = max(other, key=lambda each: each.uses)
    log, target = first.next_value_log or 0, first.next_value_target or 0
    left_alone = id_sums(ids).unresolved.get(ELSEWHERE, 0) if ids else 0
    more = format_plural(len(other) - 1, "more sequence") if len(other) > 1 else ""
    return [
        Finding(
            kind="replay_sequence_mismatch",
            severity="critical" if left_alone else "warning",
            cells=identities(each.summary for each in found),
            sentence=(
                f"{opening(context, found, worst)}: {first.source or first.column} gave "
                f"{format_count(log)} first when captured, and {format_count(target)} here"
                f"{f', and {more} differ so' if more else ''}; {format_count(left_alone)} ids "
                "were left alone for it."
            ),
            cause=(
                "The snapshot is "
                + ("older" if target < log else "younger")
                + " than the log's beginning: rows that the log names are not there yet, or are "
                "there already."
            ),
            evidence={
                "sequences_count": len(other),
                "next_value_log": log,
                "next_value_target": target,
                "left_alone_count": left_alone,
            },
            next=(
                "Restore the moment of the log's first record (recovery_target_time of a base "
                "backup), or begin the log where the snapshot was taken: 'seatrial sql read' "
                "takes the later files alone."
            ),
        )
    ]


def _mismatches(record: ReplayRecord) -> int:
    return len(mismatches(record.ids)) if record.ids else 0
