"""Finding ``replay_ids_unresolved``: IDs that could not be mapped and were sent as captured."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.results.replay import ReplayIds, ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_share
from seatrial.trials.replay.analysis.ids import (
    IdSums,
    capture_helps,
    capture_share,
    id_sums,
    ids_sentence,
    not_followed_sentence,
    reason_text,
)
from seatrial.trials.replay.findings.replaying import Affected, query_text, worst_cell

WARNING_SHARE: Final = 0.01
"""Of the IDs that the captured server generated."""


class ReplayIdsUnresolvedFigures(Figures, frozen=True, kw_only=True, tag="replay_ids_unresolved"):
    mapped_count: int
    exact_count: int
    proved_count: int
    by_pattern_count: int
    unresolved_count: int
    unresolved_share: float
    doubtful_uses_count: int
    not_followed_count: int
    others: Annotated[dict[str, int], FLATTENED]
    where: Annotated[Affected, HIDDEN]
    ids: Annotated[ReplayIds, HIDDEN]
    sums: Annotated[IdSums, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"{self.where}: {_ids_text(self.ids, self.sums)}{_first_example(self.ids)}.",
            cause=(
                "A log does not contain the values that an INSERT returned. These IDs may come "
                "from several inserts, or occur where they cannot be mapped. They were sent as "
                "captured, so their statements may have affected other rows, or none."
            ),
            next=_next(self.ids),
        )


@from_samples(rank=570, section="Replays", sees_replays=True)
def replay_ids_unresolved(context: Context) -> list[Finding]:
    """Find replays in which generated IDs of the captured server were not mapped.

    Means:
        IDs that the captured server generated were sent as captured, because it is not known which
        statement generated them, or because they occur where IDs are not tracked (function
        arguments, temporary tables, within texts). Their statements may have affected other rows,
        or none.

    Decided:
        One is enough, of IDs that the captured server generated, or of values that may be such IDs
        where IDs are not tracked. Warning if such a value was sent as captured (`doubtful_uses`;
        the exit code is 4), or for more than 1 % of the former, otherwise note. The page of the
        replay has the reasons, with an example of each.

    Do:
        Capture on the wire: the finding estimates the share of these IDs that it would have
        resolved, from the inserts that returned their values to the client. Or log the end of
        statements in addition to their start (`log_statement = all` with `log_duration = on`);
        [sql.md](sql.md#the-right-rows) has the share that each of them resolved.
    """
    worst = worst_cell(context, _unmapped)
    if worst is None:
        return []
    ids = worst.record.ids or ReplayIds()
    sums = id_sums(ids)
    return worst.finding(
        "warning" if _is_grave(ids, sums) else "note",
        ReplayIdsUnresolvedFigures(
            mapped_count=sums.mapped,
            exact_count=sums.exact,
            proved_count=sums.proved,
            by_pattern_count=sums.by_pattern,
            unresolved_count=sums.unmapped,
            unresolved_share=sums.unresolved_share,
            doubtful_uses_count=ids.doubtful_uses,
            not_followed_count=sum(sums.not_followed.values()),
            others={f"{name}_count": count for name, count in sums.unresolved.items()},
            where=worst.where,
            ids=ids,
            sums=sums,
        ),
    )


def _next(ids: ReplayIds) -> str:
    """Return how to capture better, with the share of these IDs that it would have resolved."""
    check = "Check the examples in the report: they list the statements that cannot be mapped."
    log_ends = (
        "log the end of statements, too ('log_statement = all' with 'log_duration = on'), with "
        "millisecond timestamps ('%m')."
    )
    share = capture_share(ids)
    if not capture_helps(ids):
        if share is None or ids.tells_both_ends:
            return check
        return f"{check} If several inserts may have generated an ID, {log_ends}"
    would = "" if share is None else f": it would have resolved {format_share(share)} of these IDs"
    capture = (
        "Capture on the wire ('seatrial sql capture'; with '--interface' no proxy is needed), "
        f"which records the values returned to clients{would}"
    )
    if ids.tells_both_ends:
        return f"{capture}."
    return f"{capture}. If you use a log, {log_ends}"


def _is_grave(ids: ReplayIds, sums: IdSums) -> bool:
    """Return whether rows may differ, or too many IDs were not mapped."""
    return ids.doubtful_uses > 0 or sums.unresolved_share > WARNING_SHARE


def _unmapped(record: ReplayRecord) -> int:
    if record.ids is None or record.ids.mode == "off":
        return 0
    sums = id_sums(record.ids)
    return sums.unmapped + sum(sums.not_followed.values())


def _ids_text(ids: ReplayIds, sums: IdSums) -> str:
    text = ids_sentence(ids)
    if sums.unmapped:
        text += f" ({format_share(sums.unresolved_share)}): {_reasons(sums)}"
    followed = not_followed_sentence(ids)
    return f"{text}; {followed}" if followed else text


def _reasons(sums: IdSums) -> str:
    text = [f"{reason_text(reason)} ({format_count(n)})" for reason, n in sums.unresolved.items()]
    return "; ".join(text[:3])


def _first_example(ids: ReplayIds) -> str:
    """Return the first example; empty if there is none."""
    if not ids.examples:
        return ""
    first = ids.examples[0]
    return f". First example: {first.column} {first.value} in {query_text(first.text)}"
