"""Finding ``replay_rolled_back``: a COMMIT was answered by a rollback."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.findings.replaying import opening, seen_where

CRITICAL_SHARE: Final = 0.01
"""Of the transactions that were committed in the capture."""


@from_samples(rank=90, section="Of a replay", sees_replays=True)
def replay_rolled_back(context: Context) -> list[Finding]:
    """Find replays in which transactions did not commit that had committed when captured.

    A server answers COMMIT by the tag ROLLBACK when a statement of the transaction had failed
    (PostgreSQL's documentation, "COMMIT"): no error tells of it.

    Means:
        Transactions that had committed in the capture were rolled back: the server answers such a
        COMMIT by the tag ROLLBACK, and by no error.

    Decided:
        COMMITs answered so, as far as fewer committed than in the capture. Warning; critical for
        more than 1 % of the captured commits.

    Do:
        Look at the new errors first: each transaction here has one of them.
    """
    found = seen_where(context, _lost)
    if not found:
        return []
    worst = max(found, key=lambda each: _lost(each.record))
    commits, lost = worst.record.commits, _lost(worst.record)
    return [
        Finding(
            kind="replay_rolled_back",
            severity="critical" if lost > CRITICAL_SHARE * commits.captured else "warning",
            cells=identities(each.summary for each in found),
            sentence=(
                f"{opening(context, found, worst)}: {format_plural(lost, 'transaction')} of "
                f"{format_count(commits.captured)} that had committed in the capture "
                f"{'was' if lost == 1 else 'were'} rolled back at the COMMIT."
            ),
            cause=(
                "A statement inside failed, so the server undid the whole transaction: its writes "
                "never reached the disk, and later statements find other data."
            ),
            evidence={
                "commits_captured_count": commits.captured,
                "committed_count": commits.committed,
                "rolled_back_count": commits.rolled_back,
                "lost_count": lost,
                "rounds_count": worst.rounds,
            },
            next="Look at the new errors first: each transaction here has one of them.",
        )
    ]


def _lost(record: ReplayRecord) -> int:
    """Return the transactions that were rolled back beyond what the capture has."""
    commits = record.commits
    return max(0, min(commits.captured - commits.committed, commits.rolled_back))
