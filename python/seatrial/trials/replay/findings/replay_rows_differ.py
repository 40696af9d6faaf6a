"""Finding ``replay_rows_differ``: statements returned or changed other rows than in the capture."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.findings.replaying import AffectedCell, opening, seen_where

WARNING_SHARE: Final = 0.01
"""Of the statements whose rows the capture tells; fewer differ by how sessions meet."""


@from_samples(rank=580, section="Of a replay", sees_replays=True)
def replay_rows_differ(context: Context) -> list[Finding]:
    """Find replays whose statements had other numbers of rows, or other command tags.

    Means:
        Statements had another number of rows than in the capture, or a command ended otherwise than
        its text says.

    Decided:
        One is enough, where the capture tells rows: traces of the proxy do. COMMITs that were
        rolled back are told apart. Warning for more than 1 % of what was compared; else note. More
        than half is `replay_wrong_database` as well. Which classes differ, and by how many rows, is
        on the page of the replay.

    Do:
        Replay with `--order key`, which keeps the order of all that conflicts, on a restore of the
        right moment.
    """
    found = seen_where(context, _share)
    if not found:
        return []
    worst = max(found, key=lambda each: _share(each.record))
    rows = worst.record.rows
    return [
        Finding(
            kind="replay_rows_differ",
            severity="warning" if _share(worst.record) > WARNING_SHARE else "note",
            cells=identities(each.summary for each in found),
            sentence=f"{opening(context, found, worst)}: {' and '.join(_reported(worst))}.",
            cause=(
                "The data differ from those of the capture's first moment, or sessions met in "
                "another order: a statement then sees what another had not yet written, or already "
                "has."
            ),
            evidence={
                "rows_compared_count": rows.compared,
                "rows_different_count": rows.compared - rows.equal,
                "tags_compared_count": rows.tags_compared,
                "tags_different_count": _tags_different(worst.record),
                "different_share": _share(worst.record),
                "rounds_count": worst.rounds,
                **{
                    f"{name}_different_count": each.different
                    for name, each in rows.by_class.items()
                    if each.different
                },
            },
            next=(
                "Look at the examples; replay with '--order key', which keeps the order of all "
                "that conflicts, on a restore of the moment at which the capture began."
            ),
        )
    ]


def _tags_different(record: ReplayRecord) -> int:
    """Return the commands with another tag, but for COMMITs that were rolled back."""
    return max(0, record.rows.tags_different - record.commits.rolled_back)


def _share(record: ReplayRecord) -> float:
    """Return the larger share of what differs: rows, or tags."""
    rows = record.rows
    different = rows.compared - rows.equal
    return max(
        different / rows.compared if rows.compared else 0.0,
        _tags_different(record) / rows.tags_compared if rows.tags_compared else 0.0,
    )


def _by_class(record: ReplayRecord) -> str:
    """Return the class that differs most, with the rows that were expected; nothing if unknown."""
    by_class = record.rows.by_class
    if not any(each.different for each in by_class.values()):
        return ""
    name, most = max(by_class.items(), key=lambda item: item[1].different)
    return (
        f", {format_count(most.different)} of them {name}: {format_count(most.expected_rows)} "
        f"rows expected, {format_count(most.observed_rows)} observed"
    )


def _reported(worst: AffectedCell) -> list[str]:
    rows, tags = worst.record.rows, _tags_different(worst.record)
    different = rows.compared - rows.equal
    reported = []
    if different:
        share = format_share(different / rows.compared)
        reported.append(
            f"{format_count(different)} of {format_plural(rows.compared, 'statement')} whose rows "
            f"the capture tells had another number of them ({share}){_by_class(worst.record)}"
        )
    if tags:
        reported.append(
            f"{format_count(tags)} of {format_plural(rows.tags_compared, 'command')} ended "
            "otherwise than its text says"
        )
    return reported
