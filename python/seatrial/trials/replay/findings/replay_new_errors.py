"""Finding ``replay_new_errors``: statements failed that succeeded in the capture."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.replay import ReplayErrorExample, ReplayErrors, ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.model import schema_error_count
from seatrial.trials.replay.analysis.verdict import errors_beyond, is_migrated
from seatrial.trials.replay.findings.replaying import Affected, affected, affected_cells

CRITICAL_SHARE: Final = 0.01
"""Of the statements sent; if more fail, the replay is a different load."""
TRANSIENT: Final = ("40001", "40P01", "55P03", "57014")
"""Serialization failures, deadlocks, lock and statement timeouts: they hit varying statements."""
_NEW: Final = ("new", "other", "unanswered")


class ReplayNewErrorsFigures(Figures, frozen=True, kw_only=True, tag="replay_new_errors"):
    new_count: int
    other_code_count: int
    unanswered_count: int
    same_count: int
    gone_count: int
    captured_count: int
    beyond_capture_count: int
    sent_count: int
    new_share: float
    rounds_count: int
    where: Annotated[Affected, HIDDEN]
    record: Annotated[ReplayRecord, HIDDEN]
    errors: Annotated[ReplayErrors, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"{self.where}: {_errors_text(self.record)}.",
            cause=_cause(self.errors, self.beyond_capture_count),
            next=(
                "Check the examples, which name statement and session, and the server log. If they "
                "are transient (deadlocks, serialization failures), replay "
                f"{_order(self.record)}at a lower speed."
            ),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        count = self.new_count + self.other_code_count + self.unanswered_count
        return format_plural(count, "new error")


@from_samples(
    rank=110,
    section="Replays",
    sees_replays=True,
    doubt="statements failed that succeeded in the capture",
    follows_from="replay_wrong_database",
)
def replay_new_errors(context: Context) -> list[Finding]:
    """Find replays with errors that the capture does not have at these statements.

    Means:
        Statements failed that succeeded in the capture, failed with another code, or were never
        answered.

    Decided:
        One is enough. Note if the capture has as many errors of each code at other statements
        (deadlocks and serialization failures hit varying statements); otherwise warning, critical
        for more than 1 % of the statements sent.

    Do:
        Check the examples, which name statement and session, and the server log.
    """
    # Errors caused by a migration are reported as replay_schema_mismatch.
    found = [
        each
        for each in affected_cells(context, _count)
        if not (is_migrated(each.record) and schema_error_count(each.record))
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
            severity=_severity(beyond, share),
            cells=identities(each.summary for each in found),
            figures=ReplayNewErrorsFigures(
                new_count=errors.new,
                other_code_count=errors.other,
                unanswered_count=errors.unanswered,
                same_count=errors.same,
                gone_count=errors.gone,
                captured_count=errors.captured,
                beyond_capture_count=beyond,
                sent_count=sent,
                new_share=share,
                rounds_count=worst.rounds,
                where=affected(context, found, worst),
                record=record,
                errors=errors,
            ),
        )
    ]


def _order(record: ReplayRecord) -> str:
    """Return the advice to keep an order between sessions, unless the replay kept one."""
    return "with '--order commit', or " if record.order.mode in ("session", "") else ""


def _count(record: ReplayRecord) -> int:
    """Return the errors that the capture does not have, or has with another code."""
    return record.errors.new + record.errors.other + record.errors.unanswered


def _severity(beyond: int, share: float) -> str:
    if not beyond:
        return "note"  # as many errors of each code as in the capture, at other statements
    return "critical" if share > CRITICAL_SHARE else "warning"


def _errors_text(record: ReplayRecord) -> str:
    errors, sent = record.errors, record.total.sent
    count = _count(record)
    words = (
        f"{format_plural(count, 'statement')} of {format_count(sent)} sent "
        f"({format_share(count / sent if sent else 0.0)}) failed that did not fail so in the "
        f"capture, which has {format_plural(errors.captured, 'error')}"
    )
    first = _most_frequent(errors)
    return f"{words}. Most frequent: {_example(first)}" if first else words


def _most_frequent(errors: ReplayErrors) -> ReplayErrorExample | None:
    new = [example for example in errors.examples if example.kind in _NEW]
    return max(new, key=lambda each: each.count, default=None)


def _example(example: ReplayErrorExample) -> str:
    if example.kind == "unanswered":
        return f"{format_plural(example.count, 'statement')} without an answer"
    return f"{format_count(example.count)} with {example.sqlstate} ({example.message})"


def _cause(errors: ReplayErrors, beyond: int) -> str:
    first = _most_frequent(errors)
    if first is not None and first.sqlstate in TRANSIENT:
        return (
            "These are concurrency errors, which depend on timing: sessions conflict at other "
            "statements than in the capture."
        )
    if not beyond:
        return (
            "The capture has as many errors of each code, at other statements: they probably "
            "depend on timing."
        )
    return (
        "Possible causes: the data differ from the start of the capture, a statement depends on "
        "generated values (sequences, times, random numbers), or an earlier statement is missing "
        "from the log."
    )
