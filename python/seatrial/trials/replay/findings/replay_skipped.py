"""Finding ``replay_skipped``: a log does not hold what it takes to send all statements again."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.samples import UNTOLD, of_reasons
from seatrial.trials.replay.findings.replaying import opening, seen_where

WARNING_SHARE: Final = 0.05
"""Of the captured statements: with more left out the load is another one."""
DEPENDENT: Final = "dependent"

_REASONS: Final = {
    "copy_data": "data of COPY, which no log holds",
    "binary_parameters": "parameters that were sent as bytes",
    "cut_off": "texts or parameters that the log cut off",
    "unknown_portal": "fetches from what is not in the log",
    "fast_path": "function calls without a text",
    "other_encoding": "texts in an encoding of the client's own",
    "rolled_back": "statements that were rolled back with a later one of their pipeline",
    "never_ran": "statements that the server never came to execute",
    "unknown_text": "statements that were prepared before the capture began",
    DEPENDENT: "statements that depend on one of these",
}


@from_samples(rank=610, section="Of a replay", sees_replays=True)
def replay_skipped(context: Context) -> list[Finding]:
    """Find replays that left statements out because the log does not hold them whole.

    Means:
        The log does not hold what it takes to send all statements again: data of COPY, parameters
        sent as bytes, texts that were cut off, fetches of unknown portals, function calls. Of a
        capture by the proxy also what the server rolled back with a later statement of its
        pipeline, and what it never came to execute: sent again, it would be done.

    Decided:
        One is enough, with the statements that depend on them. Warning for more than 5 % of the
        captured statements; else note. What was left out on demand (`--until`, `--read-only`,
        dangers, other databases) is in the table of the account, and is no finding.

    Do:
        Look with `seatrial sql show` which they are; how to log more is in [sql.md](sql.md).
    """
    found = seen_where(context, _share)
    if not found:
        return []
    worst = max(found, key=lambda each: _share(each.record))
    total = worst.record.total
    reasons = _reasons(worst.record)
    share = _share(worst.record)
    listed = ", ".join(f"{format_count(n)} {_REASONS[why]}" for why, n in reasons.items())
    return [
        Finding(
            kind="replay_skipped",
            severity="warning" if share > WARNING_SHARE else "note",
            cells=identities(each.summary for each in found),
            sentence=(
                f"{opening(context, found, worst)}: {format_share(share)} of "
                f"{format_plural(total.captured, 'captured statement')} could not be sent again, "
                f"because the log does not hold what it takes: {listed}."
            ),
            cause=(
                "PostgreSQL's log holds texts and parameters, not what flows beside them; "
                "docs/sql.md says what it leaves out, and how to log more."
            ),
            evidence={
                "captured_count": total.captured,
                "skipped_share": share,
                **{f"{why}_count": count for why, count in reasons.items()},
            },
            next=(
                "Look with 'seatrial sql show' which statements these are. Where they are most of "
                "the load (bulk loads by COPY), measure them by a script of their own ('seatrial "
                "db DIR --script')."
            ),
        )
    ]


def _reasons(record: ReplayRecord) -> dict[str, int]:
    """Return what the log does not tell, by reason, and what depends on it."""
    skipped = record.total.skipped
    untold = of_reasons(skipped, UNTOLD)
    return untold | (of_reasons(skipped, [DEPENDENT]) if untold else {})


def _share(record: ReplayRecord) -> float:
    captured = record.total.captured
    return sum(_reasons(record).values()) / captured if captured else 0.0
