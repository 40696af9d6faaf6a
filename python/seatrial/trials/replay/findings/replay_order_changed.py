"""Finding ``replay_order_changed``: statements had later turns than the capture tells."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.findings.replaying import opening, seen_where


@from_samples(rank=600, section="Of a replay", sees_replays=True)
def replay_order_changed(context: Context) -> list[Finding]:
    """Find replays in which the server's locks told of another order than the capture does.

    Means:
        The orders `object`, `key` and `strict` keep the order of the capture. Here a server's
        process waited for a lock of a session whose turn was later, so that statement, and what
        conflicts with it, was given a later turn: the capture did not tell, or not well enough, who
        had the row first. Data of two such replays can differ.

    Decided:
        One is enough. Always a note: most moves leave the data as they are.

    Do:
        Capture with durations (`log_min_duration_statement = 0`); where the data have to be the
        same each time, replay with `--order strict`.
    """
    found = seen_where(context, _postponed)
    if not found:
        return []
    worst = max(found, key=lambda each: _postponed(each.record))
    order, sent = worst.record.order, worst.record.total.sent
    return [
        Finding(
            kind="replay_order_changed",
            severity="note",
            cells=identities(each.summary for each in found),
            sentence=(
                f"{opening(context, found, worst)}: {format_plural(order.postponed, 'statement')} "
                f"of {format_count(sent)} ({format_share(order.postponed / sent if sent else 0.0)})"
                " took a later turn than the capture tells, since the server made them, or what "
                "they conflict with, wait for a lock that another session had first."
            ),
            cause=(
                "The capture does not tell which of two sessions had a row first, as a log of "
                "starts cannot, or a lock is one that no text shows. Which of them waits can "
                "depend on when it is sent, so the data of two such replays can differ."
            ),
            evidence={
                "postponed_count": order.postponed,
                "held_count": order.held,
                "sent_count": sent,
            },
            next=(
                "Where the data have to be the same each time, capture with durations "
                "(log_min_duration_statement = 0), or replay with '--order strict'."
            ),
        )
    ]


def _postponed(record: ReplayRecord) -> int:
    return record.order.postponed
