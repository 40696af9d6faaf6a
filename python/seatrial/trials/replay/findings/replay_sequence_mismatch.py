"""Finding ``replay_sequence_mismatch``: a sequence does not match the start of the log."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.analysis.ids import id_sums, mismatches
from seatrial.trials.replay.findings.replaying import Affected, worst_cell

SEQUENCE_ELSEWHERE = "sequence_elsewhere"


class ReplaySequenceMismatchFigures(
    Figures, frozen=True, kw_only=True, tag="replay_sequence_mismatch"
):
    sequences_count: int
    next_value_log: int
    next_value_target: int
    left_alone_count: int
    where: Annotated[Affected, HIDDEN]
    first_source: Annotated[str, HIDDEN]
    first_column: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        more = (
            format_plural(self.sequences_count - 1, "more sequence")
            if self.sequences_count > 1
            else ""
        )
        return FindingText(
            sentence=(
                f"{self.where}: the first value of {self.first_source or self.first_column} was "
                f"{format_count(self.next_value_log)} in the capture and "
                f"{format_count(self.next_value_target)} here"
                f"{f'; {more} differ, too' if more else ''}; "
                f"{format_count(self.left_alone_count)} IDs "
                "were not mapped because of it."
            ),
            cause=(
                "The snapshot is "
                + ("older" if self.next_value_target < self.next_value_log else "newer")
                + " than the start of the log: rows that the log refers to do not exist yet, or "
                "exist already."
            ),
            next=(
                "Restore to the time of the log's first record (recovery_target_time with a base "
                "backup), or start the log at the time of the snapshot: give 'seatrial sql read' "
                "only the later files."
            ),
        )


@from_samples(rank=80, section="Replays", sees_replays=True)
def replay_sequence_mismatch(context: Context) -> list[Finding]:
    """Find replays whose target is a snapshot of another time than the start of the log.

    Means:
        A sequence of the target does not match the start of the log, so the snapshot was taken at
        another time. Rows that the log refers to do not exist yet, or exist already.

    Decided:
        The first values drawn in the log are compared with the target's next value, if the log
        shows them unambiguously. Such a replay is refused unless `--allow sequence_mismatch` is
        given. Critical if IDs were not mapped because of it, otherwise warning.

    Do:
        Restore to the time of the log's first record; [sql.md](sql.md#equal-starts).
    """
    worst = worst_cell(context, _mismatches)
    if worst is None:
        return []
    ids = worst.record.ids
    mismatched = mismatches(ids) if ids else []
    first = max(mismatched, key=lambda each: each.uses)
    log, target = first.next_value_log or 0, first.next_value_target or 0
    unmapped = id_sums(ids).unresolved.get(SEQUENCE_ELSEWHERE, 0) if ids else 0
    return worst.finding(
        "critical" if unmapped else "warning",
        ReplaySequenceMismatchFigures(
            sequences_count=len(mismatched),
            next_value_log=log,
            next_value_target=target,
            left_alone_count=unmapped,
            where=worst.where,
            first_source=first.source,
            first_column=first.column,
        ),
    )


def _mismatches(record: ReplayRecord) -> int:
    return len(mismatches(record.ids)) if record.ids else 0
