"""Finding ``replay_ids_unresolved``: ids that were sent as captured, as their draw is not known."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayRecord
from seatrial.results.replay_ids import ReplayIds
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_share
from seatrial.trials.replay.analysis.ids import (
    IdSums,
    capture_share,
    id_sums,
    ids_sentence,
    not_followed_sentence,
    reason_words,
)
from seatrial.trials.replay.findings.replaying import opening, query_words, seen_where

WARNING_SHARE: Final = 0.01
"""Of the ids that the captured server made."""


@from_samples(rank=570, section="Of a replay", sees_replays=True)
def replay_ids_unresolved(context: Context) -> list[Finding]:
    """Find replays in which ids were left alone that the captured server had made.

    Means:
        Ids that the captured server had made were sent as captured, since it is not known which
        statement drew them, or since they stand where ids are not followed (handed to functions, in
        temporary tables, within texts). Their statements may have met other rows, or none.

    Decided:
        One is enough, of those that a draw of the capture gave, or of values that may be such where
        ids are not followed. Warning where such a value was sent as captured (`doubtful_uses`; the
        exit code is 4), or for more than 1 % of the former; else note. The reasons, and the first
        of each, are on the page of the replay.

    Do:
        Capture on the wire: the finding says which share of these ids it would have resolved, by
        how many of the draws that can have given each gave their values back to the client. Or log
        ends beside beginnings (`log_statement = all` with `log_duration = on`);
        [sql.md](sql.md#the-right-rows) has the shares that each of them resolved.
    """
    found = seen_where(context, _left_alone)
    if not found:
        return []
    worst = max(found, key=lambda each: _left_alone(each.record))
    ids = worst.record.ids or ReplayIds()
    sums = id_sums(ids)
    return [
        Finding(
            kind="replay_ids_unresolved",
            severity="warning" if _is_grave(ids, sums) else "note",
            cells=identities(each.summary for each in found),
            sentence=f"{opening(context, found, worst)}: {_reported(ids, sums)}{_first(ids)}.",
            cause=(
                "A log does not hold what an INSERT returned, and these ids can be of several "
                "draws, or stand where they cannot be mapped. They were sent as captured, so that "
                "their statements may have met other rows, or none."
            ),
            evidence={
                "mapped_count": sums.mapped,
                "exact_count": sums.exact,
                "proved_count": sums.proved,
                "by_pattern_count": sums.by_pattern,
                "unresolved_count": sums.left_alone,
                "unresolved_share": sums.unresolved_share,
                "doubtful_uses_count": ids.doubtful_uses,
                "not_followed_count": sum(sums.not_followed.values()),
                **{f"{name}_count": count for name, count in sums.unresolved.items()},
            },
            next=_next(ids),
        )
    ]


def _next(ids: ReplayIds) -> str:
    """Return what to switch on, with the share of these ids that it would have resolved."""
    if id_sums(ids).exact:
        return "Look at the examples in the report: they name the statements that cannot be mapped."
    share = capture_share(ids)
    would = "" if share is None else f": it would have resolved {format_share(share)} of these ids"
    capture = (
        "Capture on the wire ('seatrial sql capture', with '--interface' without a process in "
        f"between), which records what clients are given{would}"
    )
    if ids.tells_both_ends:
        return f"{capture}."
    return (
        f"{capture}; of a log, ends beside beginnings ('log_statement = all' with "
        "'log_duration = on') and times to the millisecond ('%m') leave the fewest open."
    )


def _is_grave(ids: ReplayIds, sums: IdSums) -> bool:
    """Tell whether rows may differ, or more ids were left alone than change no figure."""
    return ids.doubtful_uses > 0 or sums.unresolved_share > WARNING_SHARE


def _left_alone(record: ReplayRecord) -> int:
    if record.ids is None or record.ids.mode == "off":
        return 0
    sums = id_sums(record.ids)
    return sums.left_alone + sum(sums.not_followed.values())


def _reported(ids: ReplayIds, sums: IdSums) -> str:
    reported = ids_sentence(ids)
    if sums.left_alone:
        reported += f" ({format_share(sums.unresolved_share)}): {_reasons(sums)}"
    followed = not_followed_sentence(ids)
    return f"{reported}; {followed}" if followed else reported


def _reasons(sums: IdSums) -> str:
    reported = [
        f"{format_count(n)} {reason_words(reason)}" for reason, n in sums.unresolved.items()
    ]
    return "; ".join(reported[:3])


def _first(ids: ReplayIds) -> str:
    """Return the first example; nothing where none was kept."""
    if not ids.examples:
        return ""
    first = ids.examples[0]
    return f"; the first is {first.column} {first.value} in {query_words(first.text)}"
