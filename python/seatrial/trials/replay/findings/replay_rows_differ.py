"""Finding ``replay_rows_differ``: row counts differ from the capture."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.verdict import copies_without_data, order_may_help
from seatrial.trials.replay.findings.replaying import Affected, worst_cell

WARNING_SHARE: Final = 0.01
"""Of the statements with captured row counts; smaller shares come from concurrency."""


class ReplayRowsDifferFigures(Figures, frozen=True, kw_only=True, tag="replay_rows_differ"):
    rows_compared_count: int
    rows_different_count: int
    tags_compared_count: int
    tags_different_count: int
    different_share: float
    rounds_count: int
    others: Annotated[dict[str, int], FLATTENED]
    where: Annotated[Affected, HIDDEN]
    record: Annotated[ReplayRecord, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"{self.where}: {' and '.join(_difference_texts(self.record))}.",
            cause=(
                "The data differ from the data at the start of the capture, or sessions ran in "
                "another order, so that a statement saw writes of others earlier or later than in "
                "the capture."
            ),
            next=f"{_first_step(self.record)}on a restore of the time at which the capture began.",
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return f"row counts differ in {format_share(self.different_share)} of the comparisons"


@from_samples(rank=580, section="Replays", sees_replays=True)
def replay_rows_differ(context: Context) -> list[Finding]:
    """Find replays with other row counts or command tags than the capture.

    Means:
        Row counts of statements differ from the capture, or a command tag does not match its
        command.

    Decided:
        One is enough, if the capture has row counts (traces of the proxy do). COMMITs that were
        rolled back are counted separately. Warning for more than 1 % of the comparisons, otherwise
        note. More than half is also `replay_wrong_database`. The page of the replay lists the
        classes that differ, and by how many rows.

    Do:
        Replay with `--order key`, which keeps the order of all conflicting statements, on a restore
        of the time at which the capture began. A trace lacks the data of `COPY ... FROM STDIN`: the
        rows that it loaded are missing in any order.
    """
    worst = worst_cell(context, _share)
    if worst is None:
        return []
    record = worst.record
    rows = record.rows
    return worst.finding(
        "warning" if _share(worst.record) > WARNING_SHARE else "note",
        ReplayRowsDifferFigures(
            rows_compared_count=rows.compared,
            rows_different_count=rows.compared - rows.equal,
            tags_compared_count=rows.tags_compared,
            tags_different_count=_tags_different(worst.record),
            different_share=_share(worst.record),
            rounds_count=worst.rounds,
            others={
                f"{name}_different_count": each.different
                for name, each in rows.by_class.items()
                if each.different
            },
            where=worst.where,
            record=record,
        ),
    )


def _first_step(record: ReplayRecord) -> str:
    check = "Check the examples. Replay "
    if lost := copies_without_data(record):
        return f"{lost}. {check}"
    if order_may_help(record):
        return f"{check}with '--order key', which keeps the order of all conflicting statements, "
    return check


def _tags_different(record: ReplayRecord) -> int:
    """Return the commands with another tag, except COMMITs that were rolled back."""
    return max(0, record.rows.tags_different - record.commits.rolled_back)


def _share(record: ReplayRecord) -> float:
    """Return the larger share of differences: of row counts or of tags."""
    rows = record.rows
    different = rows.compared - rows.equal
    return max(
        different / rows.compared if rows.compared else 0.0,
        _tags_different(record) / rows.tags_compared if rows.tags_compared else 0.0,
    )


def _by_class(record: ReplayRecord) -> str:
    """Return the class that differs most, with its expected rows; empty if unknown."""
    by_class = record.rows.by_class
    if not any(each.different for each in by_class.values()):
        return ""
    name, most = max(by_class.items(), key=lambda item: item[1].different)
    return (
        f", {format_count(most.different)} of them {name}: {format_count(most.expected_rows)} "
        f"rows expected, {format_count(most.observed_rows)} observed"
    )


def _difference_texts(record: ReplayRecord) -> list[str]:
    rows, tags = record.rows, _tags_different(record)
    different = rows.compared - rows.equal
    texts = []
    if different:
        share = format_share(different / rows.compared)
        texts.append(
            f"{format_count(different)} of {format_plural(rows.compared, 'statement')} with "
            f"captured row counts had another row count ({share}){_by_class(record)}"
        )
    if tags:
        texts.append(
            f"{format_count(tags)} of {format_plural(rows.tags_compared, 'command')} had an "
            "unexpected command tag"
        )
    return texts
