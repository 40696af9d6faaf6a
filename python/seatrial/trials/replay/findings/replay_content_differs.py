"""Finding ``replay_content_differs``: a replay left other rows than the captured database held."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayRecord
from seatrial.results.replay_content import CAPTURE, ReplayContent
from seatrial.stats.model import Finding
from seatrial.trials.replay.analysis.content import content_sentence
from seatrial.trials.replay.findings.replaying import lowered, opening, seen_where

_CAUSE: Final = (
    "Statements met other rows than in the capture: an id was sent as captured, sessions met in "
    "another order, statements were skipped, or somebody wrote to the captured database after the "
    "capture had ended."
)
_CAUSE_OF_ROUNDS: Final = (
    "Sessions met in another order, so what was written last is not the same; or ids were sent as "
    "captured, and met other rows."
)


@from_samples(rank=560, section="Of a replay", sees_replays=True)
def replay_content_differs(context: Context) -> list[Finding]:
    """Find replays after which tables hold other rows than the captured ones, or each other's.

    Means:
        After the replay tables hold other rows than the captured database held at the end of the
        capture, or than an earlier replay of the run left. Numbers that the server gives may be
        others; which rows they name may not.

    Decided:
        Against a file of `seatrial sql rows` (`TRACE.rows`): one row is enough, and the exit code
        is 4. Without one, the replays of a run are held against the first, and the exit code stays.
        Always a warning. Columns of times and of values drawn by chance are left out, and named.
        How rows are compared: [method.md](method.md#replays-from-one-snapshot).

    Do:
        Replay with `--order key`, which keeps the order of all that conflicts; see
        `replay_ids_unresolved`; make sure that nobody wrote to the captured database between the
        capture's end and the reading of its rows.
    """
    found = seen_where(context, _weight)
    if not found:
        return []
    worst = max(found, key=lambda each: _weight(each.record))
    content = worst.record.content or ReplayContent()
    rows = sum(each.rows_different for each in content.different)
    return [
        Finding(
            kind="replay_content_differs",
            severity="warning",
            cells=identities(each.summary for each in found),
            sentence=f"{opening(context, found, worst)}: {lowered(content_sentence(content))}.",
            cause=_CAUSE if content.against == CAPTURE else _CAUSE_OF_ROUNDS,
            evidence={
                "tables_compared_count": content.tables,
                "tables_different_count": len(content.different),
                "rows_compared_count": content.rows,
                "rows_different_count": rows,
                "tables_not_compared_count": len(content.not_compared),
                "rounds_count": worst.rounds,
            },
            next=(
                "Replay with '--order key', which keeps the order of all that conflicts; see what "
                "was left alone of ids (replay_ids_unresolved), and capture through the proxy."
            ),
        )
    ]


def _weight(record: ReplayRecord) -> float:
    """Return the rows that differ; those against the capture weigh more than any others."""
    content = record.content
    if content is None:
        return 0.0
    rows = sum(each.rows_different for each in content.different)
    return rows * (1e12 if content.against == CAPTURE else 1.0)
