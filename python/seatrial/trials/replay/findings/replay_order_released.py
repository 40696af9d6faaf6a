"""Finding ``replay_order_released``: statements were sent before their turn, lest all wait."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_duration_ns, format_plural, format_share
from seatrial.trials.replay.findings.replaying import opening, seen_where


@from_samples(rank=590, section="Of a replay", sees_replays=True)
def replay_order_released(context: Context) -> list[Finding]:
    """Find replays whose order had to be broken: a server waited for what the order held back.

    Means:
        The order held a statement back for which a process of the server waited: it was let go
        before its turn.

    Decided:
        One is enough. Note where a lock was seen to be waited for; warning where some were let go
        because nothing else moved.

    Do:
        Few are usual where rows are hot. Where there are many, compare with `--order session`.
    """
    found = seen_where(context, _released)
    if not found:
        return []
    worst = max(found, key=lambda each: _released(each.record))
    order, sent = worst.record.order, worst.record.total.sent
    released = _released(worst.record)
    return [
        Finding(
            kind="replay_order_released",
            severity="warning" if order.released_by_patience else "note",
            cells=identities(each.summary for each in found),
            sentence=(
                f"{opening(context, found, worst)}: {format_plural(released, 'statement')} of "
                f"{format_count(sent)} ({format_share(released / sent if sent else 0.0)}) went "
                f"before their turn, {format_count(order.released_by_lock)} because a server's "
                "process waited for a lock of their session, "
                f"{format_count(order.released_by_patience)} because nothing else moved; "
                f"{format_count(order.held)} had been held back, for "
                f"{format_duration_ns(order.waited_ns)} together."
            ),
            cause=(
                "The order is that of the log's times. Where two sessions meet at a lock otherwise "
                "than they did, one waits in the server for what the order holds back here; "
                "letting it go is the only way on."
            ),
            evidence={
                "held_count": order.held,
                "waited_ns": order.waited_ns,
                "released_by_lock_count": order.released_by_lock,
                "released_by_patience_count": order.released_by_patience,
                "read_further_count": order.read_further,
                "sent_count": sent,
            },
            next=(
                "Few of them are usual where rows are hot. Where there are many, look whether "
                "rows differ, and compare with '--order session'."
            ),
        )
    ]


def _released(record: ReplayRecord) -> int:
    return record.order.released_by_lock + record.order.released_by_patience
