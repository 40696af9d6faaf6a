"""Finding ``replay_order_changed``: statements ran later than in the captured order."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.findings.replaying import Affected, worst_cell


class ReplayOrderChangedFigures(Figures, frozen=True, kw_only=True, tag="replay_order_changed"):
    postponed_count: int
    delayed_count: int
    sent_count: int
    where: Annotated[Affected, HIDDEN]

    def text(self) -> FindingText:
        share = self.postponed_count / self.sent_count if self.sent_count else 0.0
        return FindingText(
            sentence=(
                f"{self.where}: {format_plural(self.postponed_count, 'statement')} "
                f"of {format_count(self.sent_count)} "
                f"({format_share(share)})"
                " ran later than in the captured order, because they or a conflicting statement "
                "waited for a lock that another session held."
            ),
            cause=(
                "The capture does not show which of two sessions locked a row first (a log of "
                "statement starts cannot), or the lock is not visible in the SQL text. Which "
                "session waits can depend on timing, so two replays may produce different data."
            ),
            next=(
                "If the data must be the same each time, capture with durations "
                "(log_min_duration_statement = 0), or replay with '--order strict'."
            ),
        )


@from_samples(rank=600, section="Replays", sees_replays=True)
def replay_order_changed(context: Context) -> list[Finding]:
    """Find replays in which the server's locks showed another order than the capture.

    Means:
        The orders `object`, `key` and `strict` keep the captured order. Here a backend waited for a
        lock of a session that was scheduled later, so its statement and the conflicting ones were
        postponed: the capture did not show exactly which session locked the row first. Two such
        replays may produce different data.

    Decided:
        One statement is enough. Always a note, since most such changes do not affect the data.

    Do:
        Capture with durations (`log_min_duration_statement = 0`). If the data must be the same each
        time, replay with `--order strict`.
    """
    worst = worst_cell(context, _postponed)
    if worst is None:
        return []
    order, sent = worst.record.order, worst.record.total.sent
    return worst.finding(
        "note",
        ReplayOrderChangedFigures(
            postponed_count=order.postponed,
            delayed_count=order.delayed,
            sent_count=sent,
            where=worst.where,
        ),
    )


def _postponed(record: ReplayRecord) -> int:
    return record.order.postponed
