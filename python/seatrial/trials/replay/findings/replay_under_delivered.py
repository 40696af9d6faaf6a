"""Finding ``replay_under_delivered``: statements were not sent or not answered."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.trials.replay.analysis.verdict import NO_CONNECTION, Fault, account_text
from seatrial.trials.replay.findings.replaying import (
    Affected,
    AffectedCell,
    affected,
    lowered,
    with_faults,
)

KINDS: Final = (
    *("not_accounted", "refused", "server_lost", "interrupted", "nothing_sent"),
    *("lost_sessions", "under_delivery"),
)
"""Faults (trials/replay/analysis/verdict.py) because of which statements were not sent."""

_CAUSES: Final = {
    "not_accounted": "Seatrial miscounted statements: a bug in Seatrial, not in the server.",
    "refused": "The address, role or database is wrong, or pg_hba.conf does not allow it.",
    "server_lost": (
        "The server stopped, crashed or became unreachable. The results until then are kept."
    ),
    "interrupted": "The replay was interrupted. The results until then are kept.",
    "nothing_sent": "The options and the contents of the log leave nothing to send.",
    "lost_sessions": (
        "The server accepted fewer connections than the capture had open at once, or closed some. "
        "The statements of those sessions were not sent."
    ),
    "under_delivery": "Sessions ended before their last statement, or never had a connection.",
}


class ReplayUnderDeliveredFigures(Figures, frozen=True, kw_only=True, tag="replay_under_delivered"):
    fault: str
    captured_count: int
    sent_count: int
    not_reached_count: int
    without_connection_count: int
    unanswered_count: int
    connections_refused_count: int
    connections_lost_count: int
    rounds_count: int
    where: Annotated[Affected, HIDDEN]
    judged: Annotated[Fault, HIDDEN]
    worst_record: Annotated[ReplayRecord, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.where}: {lowered(self.judged.sentence)}; {account_text(self.worst_record)}."
            ),
            cause=_CAUSES[self.fault],
            next=(f"{self.judged.next}. The measured load is not the captured load."),
        )


@from_samples(
    rank=50, section="Replays", sees_replays=True, doubt="the capture was not replayed fully"
)
def replay_under_delivered(context: Context) -> list[Finding]:
    """Find replays that did not send all statements, or did not get all answers.

    Means:
        Not all statements were sent, or the server became unreachable: the measured load is not the
        captured load.

    Decided:
        Statements not reached, sessions without a connection, connections refused or lost, a replay
        that was interrupted or sent nothing, or a class of statements whose counts do not add up.
        One is enough. Critical.

    Do:
        As the finding says: check `max_connections`, the server log, or the options.
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
            severity="critical",
            cells=identities(each.summary for each in found),
            figures=ReplayUnderDeliveredFigures(
                fault=fault.kind,
                captured_count=total.captured,
                sent_count=total.sent,
                not_reached_count=total.not_reached,
                without_connection_count=total.skipped.get(NO_CONNECTION, 0),
                unanswered_count=worst.record.errors.unanswered,
                connections_refused_count=worst.record.sessions.refused,
                connections_lost_count=worst.record.sessions.lost,
                rounds_count=worst.rounds,
                where=affected(context, found, worst),
                judged=fault,
                worst_record=worst.record,
            ),
        )
    ]


def _missing(affected: AffectedCell) -> tuple[bool, int]:
    """Return a sort key; the largest is the worst: wrong counts, then missing statements."""
    total, fault = affected.record.total, affected.fault
    lacking = total.not_reached + total.skipped.get(NO_CONNECTION, 0)
    return fault is not None and fault.kind == "not_accounted", lacking
