"""Finding ``replay_under_delivered``: not all that could be sent was sent and answered."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.trials.replay.analysis.judgement import account_of
from seatrial.trials.replay.analysis.samples import NO_CONNECTION
from seatrial.trials.replay.findings.replaying import AffectedCell, lowered, opening, with_faults

KINDS: Final = (
    *("not_accounted", "refused", "server_lost", "interrupted", "nothing_sent"),
    *("lost_sessions", "under_delivery"),
)
"""Faults (trials/replay/analysis/judgement.py) that leave statements out."""

_CAUSES: Final = {
    "not_accounted": "Seatrial lost count of statements: a defect of it, not of the server.",
    "refused": "The address, the role, the database or the server's pg_hba.conf do not fit.",
    "server_lost": (
        "The server ended, was ended, or the way to it broke; what had been sent until then is "
        "kept."
    ),
    "interrupted": "Somebody ended it; what had been sent until then is kept.",
    "nothing_sent": "What was asked for, or what the log holds, leaves nothing to send.",
    "lost_sessions": (
        "The server took fewer connections than the capture had sessions open at once, or ended "
        "some; the statements of those sessions were not sent."
    ),
    "under_delivery": "Sessions ended before their last statement, or never had a connection.",
}


@from_samples(rank=50, section="Of a replay", sees_replays=True)
def replay_under_delivered(context: Context) -> list[Finding]:
    """Find replays that did not send, or did not get answered, what could be sent.

    Means:
        Not all statements that could be sent were sent, or the server went away: what was measured
        is not the load that was captured.

    Decided:
        Statements not reached, sessions without a connection, connections refused or lost, a replay
        that was interrupted or sent nothing, or a class of statements that does not add up. One is
        enough. Critical.

    Do:
        As the finding says: `max_connections`, the server's log, or what was asked for.
    """
    found = with_faults(context, KINDS)
    if not found:
        return []
    worst = max(found, key=_missing)
    fault, total = worst.fault, worst.record.total
    if fault is None:
        return []
    return [
        Finding(
            kind="replay_under_delivered",
            severity="critical",
            cells=identities(each.summary for each in found),
            sentence=(
                f"{opening(context, found, worst)}: {lowered(fault.sentence)}; "
                f"{account_of(worst.record)}."
            ),
            cause=_CAUSES[fault.kind],
            evidence={
                "fault": fault.kind,
                "captured_count": total.captured,
                "sent_count": total.sent,
                "not_reached_count": total.not_reached,
                "without_connection_count": total.skipped.get(NO_CONNECTION, 0),
                "unanswered_count": worst.record.errors.unanswered,
                "connections_refused_count": worst.record.sessions.refused,
                "connections_lost_count": worst.record.sessions.lost,
                "rounds_count": worst.rounds,
            },
            next=f"{fault.next}. What was measured is not the load that was captured.",
        )
    ]


def _missing(affected: AffectedCell) -> tuple[bool, int]:
    """Return a key of which the largest is the worst: counts that are wrong, then what lacks."""
    total, fault = affected.record.total, affected.fault
    lacking = total.not_reached + total.skipped.get(NO_CONNECTION, 0)
    return fault is not None and fault.kind == "not_accounted", lacking
