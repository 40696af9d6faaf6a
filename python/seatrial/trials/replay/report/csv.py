"""The columns of the CSV that only replays have: the account, the capture, the lag, the client."""

from __future__ import annotations

from seatrial.findings.model import Summary
from seatrial.report.exports.csv_row import Field, interval_columns
from seatrial.results.replay import ReplayRecord
from seatrial.trials.replay.analysis.model import Lateness
from seatrial.trials.replay.report.words import replayed, reported_of


def replay_columns(summary: Summary) -> dict[str, dict[str, Field]]:
    """Return the columns of each cell that plays a trace, by its key.

    Counts are those of one round, the one with the most that went wrong: so they add up.
    """
    return {
        reported.cell.key: {
            "replay_bottleneck": reported.bottleneck.who,
            "replay_told_round": reported.told_round,
            **interval_columns("replay_answered_per_s", reported.answered_per_s),
            "replay_captured_per_s": reported.captured_per_s,
            **(interval_columns("replay_ratio", reported.ratio) if reported.ratio else {}),
            **(
                interval_columns("replay_delivered", reported.delivered)
                if reported.delivered
                else {}
            ),
            "replay_client_core_share": reported.client_core_share,
            "replay_ceiling_share": reported.ceiling_share,
            **_account(reported_of(reported, part)[1]),
            **(_lag(reported.lateness) if reported.lateness else {}),
        }
        for reported, part in replayed(summary)
    }


def _account(record: ReplayRecord) -> dict[str, Field]:
    total, errors, rows = record.total, record.errors, record.rows
    return {
        "replay_captured": total.captured,
        "replay_ok": total.ok,
        "replay_failed": total.failed,
        "replay_skipped": total.skipped_count,
        "replay_not_reached": total.not_reached,
        "replay_errors_same": errors.same,
        "replay_errors_other": errors.other,
        "replay_errors_new": errors.new,
        "replay_errors_gone": errors.gone,
        "replay_rows_compared": rows.compared,
        "replay_rows_equal": rows.equal,
        "replay_commits_captured": record.commits.captured,
        "replay_committed": record.commits.committed,
        "replay_rolled_back": record.commits.rolled_back,
        "replay_released": record.order.released_by_lock + record.order.released_by_patience,
        "replay_end": record.end,
    }


def _lag(late: Lateness) -> dict[str, Field]:
    return {
        "replay_within_1ms_share": late.within_1ms_share,
        "replay_lag_p50_ns": late.p50_ns,
        "replay_lag_p99_ns": late.p99_ns,
        "replay_lag_max_ns": late.max_ns,
        "replay_driver_lag_p99_ns": late.driver_p99_ns,
    }
