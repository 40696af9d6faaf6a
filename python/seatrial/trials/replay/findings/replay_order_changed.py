"""Finding ``replay_order_changed``: statements had later turns than the capture tells."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.findings.replaying import opening, seen_where


def replay_order_changed(context: Context) -> list[Finding]:
    """Find replays in which the server's locks told of another order than the capture does."""
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
