"""Finding ``replay_rolled_back``: a COMMIT ended in a rollback."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.findings.replaying import Affected, worst_cell

CRITICAL_SHARE: Final = 0.01
"""Of the transactions that were committed in the capture."""


class ReplayRolledBackFigures(Figures, frozen=True, kw_only=True, tag="replay_rolled_back"):
    commits_captured_count: int
    committed_count: int
    rolled_back_count: int
    failed_count: int
    lost_count: int
    rounds_count: int
    where: Annotated[Affected, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.where}: {format_plural(self.lost_count, 'transaction')} of "
                f"{format_count(self.commits_captured_count)} that committed in the capture "
                f"{'was' if self.lost_count == 1 else 'were'} rolled back at COMMIT."
            ),
            cause=(
                "A statement of the transaction or its COMMIT failed, so the server rolled all of "
                "it back. Its writes are missing, and later statements find other data."
            ),
            next="Check the new errors first: each of these transactions has one.",
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return f"{format_plural(self.lost_count, 'transaction')} of the capture did not commit"


@from_samples(
    rank=90,
    section="Replays",
    sees_replays=True,
    doubt="transactions of the capture were rolled back",
    follows_from="replay_wrong_database",
)
def replay_rolled_back(context: Context) -> list[Finding]:
    """Find replays in which transactions were rolled back that committed in the capture.

    A server answers COMMIT with the tag ROLLBACK if a statement of the transaction has failed
    (PostgreSQL's documentation, "COMMIT"), without an error. Serialization failures and deferred
    constraints are errors of the COMMIT itself.

    Means:
        Transactions that committed in the capture were rolled back. If one of their statements has
        failed, the server answers COMMIT with the tag ROLLBACK and without an error. Serialization
        failures and deferred constraints are errors of the COMMIT itself.

    Decided:
        COMMITs that succeeded in the capture and were answered by ROLLBACK or by an error. Warning;
        critical for more than 1 % of the captured commits. Transactions that failed in the capture
        but commit in the replay do not compensate: they write different data.

    Do:
        Check the new errors first: each of these transactions has one.
    """
    worst = worst_cell(context, lambda record: record.commits.lost)
    if worst is None:
        return []
    commits = worst.record.commits
    return worst.finding(
        "critical" if commits.lost > CRITICAL_SHARE * commits.captured else "warning",
        ReplayRolledBackFigures(
            commits_captured_count=commits.captured,
            committed_count=commits.committed,
            rolled_back_count=commits.rolled_back,
            failed_count=commits.failed,
            lost_count=commits.lost,
            rounds_count=worst.rounds,
            where=worst.where,
        ),
    )
