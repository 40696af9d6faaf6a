"""Finding ``replay_skipped``: the log is not complete enough to replay all statements."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.model import NOT_LOGGED, skipped_for
from seatrial.trials.replay.findings.replaying import Affected, worst_cell

WARNING_SHARE: Final = 0.05
"""Of the captured statements; above it the replay is a different load."""
DEPENDENT: Final = "dependent"

_REASONS: Final = {
    "copy_data": "COPY data, which are not logged",
    "binary_parameters": "binary parameters",
    "cut_off": "texts or parameters truncated by the log",
    "unknown_portal": "fetches from a portal that is not in the log",
    "fast_path": "fast-path function calls",
    "other_encoding": "texts in an unknown client encoding",
    "rolled_back": "statements rolled back with a later one of their pipeline",
    "never_ran": "statements that the server never executed",
    "unknown_text": "statements prepared before the capture began",
    DEPENDENT: "statements that depend on one of these",
}


class ReplaySkippedFigures(Figures, frozen=True, kw_only=True, tag="replay_skipped"):
    captured_count: int
    skipped_share: float
    others: Annotated[dict[str, int], FLATTENED]
    where: Annotated[Affected, HIDDEN]
    reasons: Annotated[dict[str, int], HIDDEN]

    def text(self) -> FindingText:
        listed = ", ".join(f"{format_count(n)} {_REASONS[why]}" for why, n in self.reasons.items())
        return FindingText(
            sentence=(
                f"{self.where}: {format_share(self.skipped_share)} of "
                f"{format_plural(self.captured_count, 'captured statement')} could not be "
                f"replayed, because the log is incomplete: {listed}."
            ),
            cause=(
                "PostgreSQL logs statement texts and parameters, but no other protocol data. "
                "docs/sql.md lists what is missing, and how to log more."
            ),
            next=(
                "List these statements with 'seatrial sql show'. If they are most of the load "
                "(bulk loads with COPY), measure them with a separate script ('seatrial db DIR "
                "--script')."
            ),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return f"{format_share(self.skipped_share)} of the capture could not be replayed"


@from_samples(rank=610, section="Replays", sees_replays=True)
def replay_skipped(context: Context) -> list[Finding]:
    """Find replays that skipped statements because the log does not have them completely.

    Means:
        The log is not complete enough to replay all statements: it lacks COPY data, binary
        parameters, truncated texts, the queries of unknown portals, or fast-path function calls.
        With a capture by the proxy, this includes statements that the server rolled back with a
        later statement of their pipeline or never executed: a replay would execute them.

    Decided:
        One is enough, including statements that depend on them. Warning for more than 5 % of the
        captured statements, otherwise note. Statements that were excluded on request (`--until`,
        `--read-only`, unsafe statements, other databases) are listed in the table of skipped
        statements and are not a finding.

    Do:
        List them with `seatrial sql show`; [sql.md](sql.md) describes how to log more.
    """
    worst = worst_cell(context, _share)
    if worst is None:
        return []
    total = worst.record.total
    reasons = _reasons(worst.record)
    share = _share(worst.record)
    return worst.finding(
        "warning" if share > WARNING_SHARE else "note",
        ReplaySkippedFigures(
            captured_count=total.captured,
            skipped_share=share,
            others={f"{why}_count": count for why, count in reasons.items()},
            where=worst.where,
            reasons=reasons,
        ),
    )


def _reasons(record: ReplayRecord) -> dict[str, int]:
    """Return the statements missing in the log, by reason, and those that depend on them."""
    skipped = record.total.skipped
    not_logged = skipped_for(skipped, NOT_LOGGED)
    return not_logged | (skipped_for(skipped, [DEPENDENT]) if not_logged else {})


def _share(record: ReplayRecord) -> float:
    captured = record.total.captured
    return sum(_reasons(record).values()) / captured if captured else 0.0
