"""Finding ``replay_content_differs``: table contents differ from the captured database."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.replay import CAPTURE, ReplayContent, ReplayIds, ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.analysis.ids import capture_helps, content_sentence, reference_text
from seatrial.trials.replay.analysis.verdict import copies_without_data, order_may_help
from seatrial.trials.replay.findings.replaying import Affected, lowered, worst_cell

_CAUSE: Final = (
    "Statements affected other rows than in the capture: an ID was sent as captured, sessions ran "
    "in another order, statements were skipped, or the captured database was written to after the "
    "end of the capture."
)
_CAUSE_OF_ROUNDS: Final = (
    "Sessions ran in another order, so the last write differs; or IDs were sent as captured and "
    "affected other rows."
)


class ReplayContentDiffersFigures(Figures, frozen=True, kw_only=True, tag="replay_content_differs"):
    tables_compared_count: int
    tables_different_count: int
    rows_compared_count: int
    rows_different_count: int
    tables_not_compared_count: int
    rounds_count: int
    where: Annotated[Affected, HIDDEN]
    content: Annotated[ReplayContent, HIDDEN]
    record: Annotated[ReplayRecord, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"{self.where}: {lowered(content_sentence(self.content))}.",
            cause=_CAUSE if self.content.against == CAPTURE else _CAUSE_OF_ROUNDS,
            next=_next(self.record, self.content),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        verb = "differs" if self.rows_different_count == 1 else "differ"
        rows = format_plural(self.rows_different_count, "row")
        return f"{rows} {verb} from {reference_text(self.content)}"


@from_samples(rank=560, section="Replays", sees_replays=True)
def replay_content_differs(context: Context) -> list[Finding]:
    """Find replays after which table contents differ from the capture or from another replay.

    Means:
        After the replay the tables differ from the captured database at the end of the capture, or
        from an earlier replay of the run. Generated IDs may differ, but the rows
        that they refer to may not.

    Decided:
        Compared with a file of `seatrial sql rows` (`TRACE.rows`): one row is enough, and the exit
        code is 4. Without such a file, the replays of a run are compared with the first one, and
        the exit code does not change. Always a warning. Columns with timestamps and random values
        are left out and listed. How rows are compared:
        [method.md](method.md#replays-from-one-snapshot).

    Do:
        Replay several sessions with `--order key`, which keeps the order of all conflicting
        statements; see `replay_ids_unresolved`; make sure that the captured database was not
        written to between the end of the capture and the reading of its rows.
    """
    worst = worst_cell(context, _weight)
    if worst is None:
        return []
    content = worst.record.content or ReplayContent()
    rows = sum(each.rows_different for each in content.different)
    return worst.finding(
        "warning",
        ReplayContentDiffersFigures(
            tables_compared_count=content.tables,
            tables_different_count=len(content.different),
            rows_compared_count=content.rows,
            rows_different_count=rows,
            tables_not_compared_count=len(content.not_compared),
            rounds_count=worst.rounds,
            where=worst.where,
            content=content,
            record=worst.record,
        ),
    )


def _next(record: ReplayRecord, content: ReplayContent) -> str:
    first = ""
    if content.against == CAPTURE and (lost := copies_without_data(record)):
        first = f"{lost}. "
    elif order_may_help(record):
        first = "Replay with '--order key', which keeps the order of all conflicting statements. "
    elif content.against == CAPTURE:
        first = "Check that nothing wrote to the captured database after the end of the capture. "
    capture = ", and capture through the proxy" if capture_helps(record.ids or ReplayIds()) else ""
    return f"{first}Check which IDs were not mapped (replay_ids_unresolved){capture}."


def _weight(record: ReplayRecord) -> float:
    """Return the rows that differ; differences from the capture weigh more than any others."""
    content = record.content
    if content is None:
        return 0.0
    rows = sum(each.rows_different for each in content.different)
    return rows * (1e12 if content.against == CAPTURE else 1.0)
