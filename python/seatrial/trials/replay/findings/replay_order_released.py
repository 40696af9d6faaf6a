"""Finding ``replay_order_released``: statements were sent out of order to avoid a deadlock."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_duration_ns, format_plural, format_share
from seatrial.trials.replay.findings.replaying import Affected, worst_cell


class ReplayOrderReleasedFigures(Figures, frozen=True, kw_only=True, tag="replay_order_released"):
    delayed_count: int
    waited_ns: int
    released_by_lock_count: int
    released_by_patience_count: int
    read_further_count: int
    sent_count: int
    where: Annotated[Affected, HIDDEN]
    released: Annotated[int, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"{self.where}: {format_plural(self.released, 'statement')} of "
                f"{format_count(self.sent_count)} "
                f"({format_share(self.released / self.sent_count if self.sent_count else 0.0)}) "
                "were sent out of order: "
                f"{format_count(self.released_by_lock_count)} because a backend waited for a lock "
                f"of their session, {format_count(self.released_by_patience_count)} because the "
                f"replay made no progress. The order delayed {format_count(self.delayed_count)} "
                f"statements, for {format_duration_ns(self.waited_ns)} in total."
            ),
            cause=(
                "The order follows the timestamps of the log. If two sessions take locks in a "
                "different order than before, one waits in the server for a statement that the "
                "order delays. Releasing that statement resolves the deadlock."
            ),
            next=(
                "A few are normal with hot rows. If there are many, check whether rows differ, "
                "and compare with '--order session'."
            ),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return "statements were sent out of order"


@from_samples(rank=590, section="Replays", sees_replays=True)
def replay_order_released(context: Context) -> list[Finding]:
    """Find replays whose order was violated because the server waited for delayed statements.

    Means:
        The order delayed a statement for which a backend waited, so the statement was released out
        of order.

    Decided:
        One statement is enough. Note if a lock wait was observed; warning if some were released
        because the replay made no progress.

    Do:
        A few are normal with hot rows. If there are many, compare with `--order session`.
    """
    worst = worst_cell(context, _released)
    if worst is None:
        return []
    order, sent = worst.record.order, worst.record.total.sent
    released = _released(worst.record)
    return worst.finding(
        "warning" if order.released_by_patience else "note",
        ReplayOrderReleasedFigures(
            delayed_count=order.delayed,
            waited_ns=order.waited_ns,
            released_by_lock_count=order.released_by_lock,
            released_by_patience_count=order.released_by_patience,
            read_further_count=order.read_further,
            sent_count=sent,
            where=worst.where,
            released=released,
        ),
    )


def _released(record: ReplayRecord) -> int:
    return record.order.released_by_lock + record.order.released_by_patience
