"""Finding ``replay_new_errors``: statements failed that had succeeded when they were captured."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayErrorExample, ReplayErrors, ReplayRecord
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.judgement import errors_beyond, is_migrated
from seatrial.trials.replay.analysis.schemas import misfit_count
from seatrial.trials.replay.findings.replaying import AffectedCell, opening, seen_where

CRITICAL_SHARE: Final = 0.01
"""Of the statements sent: more of them fail, and the load is another one."""
OF_THE_MOMENT: Final = ("40001", "40P01", "55P03", "57014")
"""Serialisation, deadlock, lock and statement time-outs: they move from statement to statement."""
_NEW: Final = ("new", "other", "unanswered")


@from_samples(rank=110, section="Of a replay", sees_replays=True)
def replay_new_errors(context: Context) -> list[Finding]:
    """Find replays with errors that the capture does not have at these statements.

    Means:
        Statements failed that had succeeded in the capture, failed with another code, or were never
        answered.

    Decided:
        One is enough. Note where the capture has as many errors of each code at other statements
        (deadlocks and serialisation move from statement to statement); else warning, critical for
        more than 1 % of the statements sent.

    Do:
        Look at the examples, which name statement and session, and at the server's log.
    """
    # What a migration took away is told as that.
    found = [
        each
        for each in seen_where(context, _count)
        if not (is_migrated(each.record) and misfit_count(each.record))
    ]
    if not found:
        return []
    worst = max(found, key=lambda each: _count(each.record))
    record = worst.record
    errors, sent = record.errors, record.total.sent
    beyond = sum(errors_beyond(errors).values()) + errors.unanswered
    share = _count(record) / sent if sent else 0.0
    return [
        Finding(
            kind="replay_new_errors",
            severity=_severity(beyond, share),
            cells=identities(each.summary for each in found),
            sentence=f"{opening(context, found, worst)}: {_reported(worst)}.",
            cause=_cause(errors, beyond),
            evidence={
                "new_count": errors.new,
                "other_code_count": errors.other,
                "unanswered_count": errors.unanswered,
                "same_count": errors.same,
                "gone_count": errors.gone,
                "captured_count": errors.captured,
                "beyond_capture_count": beyond,
                "sent_count": sent,
                "new_share": share,
                "rounds_count": worst.rounds,
            },
            next=(
                "Look at the examples, which name statement and session, and at the server's log. "
                "If they are of the moment (deadlocks, serialisation), replay with '--order "
                "commit', or slower."
            ),
        )
    ]


def _count(record: ReplayRecord) -> int:
    """Return the errors that the capture has not, or has with another code."""
    return record.errors.new + record.errors.other + record.errors.unanswered


def _severity(beyond: int, share: float) -> str:
    if not beyond:
        return "note"  # as many of each code as in the capture, at other statements
    return "critical" if share > CRITICAL_SHARE else "warning"


def _reported(worst: AffectedCell) -> str:
    errors, sent = worst.record.errors, worst.record.total.sent
    count = _count(worst.record)
    words = (
        f"{format_plural(count, 'statement')} of {format_count(sent)} sent "
        f"({format_share(count / sent if sent else 0.0)}) failed otherwise than in the capture, "
        f"which has {format_plural(errors.captured, 'error')}"
    )
    first = _most_frequent(errors)
    return f"{words}; most of all {_example(first)}" if first else words


def _most_frequent(errors: ReplayErrors) -> ReplayErrorExample | None:
    new = [each for each in errors.examples if each.kind in _NEW]
    return max(new, key=lambda each: each.count, default=None)


def _example(example: ReplayErrorExample) -> str:
    if example.kind == "unanswered":
        return f"{format_plural(example.count, 'statement')} without an answer"
    return f"{format_count(example.count)} of {example.sqlstate} ({example.message})"


def _cause(errors: ReplayErrors, beyond: int) -> str:
    first = _most_frequent(errors)
    if first is not None and first.sqlstate in OF_THE_MOMENT:
        return (
            "Errors of the moment: sessions meet otherwise than they did, as they do whenever the "
            "time between statements is another."
        )
    if not beyond:
        return (
            "The capture has as many errors of each code, at other statements: likely those that "
            "depend on the moment."
        )
    return (
        "Likely the data are not those of the capture's first moment, or a statement depends on "
        "what a server hands out anew (sequences, times, random numbers), or one that the log does "
        "not hold was left out before."
    )
