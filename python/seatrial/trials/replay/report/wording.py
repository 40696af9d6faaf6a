"""Replays in words: labels of rows, reasons, queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.results.model import Sample
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_share
from seatrial.trials.database.report.wording import cell_phrase, label_names
from seatrial.trials.replay.analysis.model import (
    NOT_LOGGED,
    ReplayCell,
    is_replay,
    replays_of,
)
from seatrial.trials.replay.analysis.verdict import NO_CONNECTION, judge

QUERY_CHARACTERS_MAX: Final = 60

REASONS: Final = {
    "copy_data": "COPY data are not logged",
    "binary_parameters": "binary parameters",
    "cut_off": "truncated by the log",
    "unknown_portal": "fetch from a portal not in the log",
    "fast_path": "fast-path function call",
    "other_encoding": "unknown client encoding",
    "rolled_back": "rolled back with its pipeline",
    "never_ran": "never executed in the capture",
    "unknown_text": "prepared before the capture began",
    "writes": "write statement",
    "other_database": "another database",
    "lost_host": "of a host that was lost, sent or not",
    "after_until": "captured after --until",
    "dependent": "depends on a skipped statement",
    NO_CONNECTION: "session without a connection",
    "copy_program": "COPY from or to a program or server file",
    "dblink": "connects to another server",
    "terminate_backend": "terminates other sessions",
    "notify": "NOTIFY",
    "ddl": "DDL",
    "server": "changes server settings",
}
ERRORS: Final = {
    "new": "new: not in the capture",
    "other": "another code than in the capture",
    "unanswered": "never answered",
    "same": "same as in the capture",
    "gone": "only in the capture",
}
"""Kinds of errors, the most important first."""


def replayed(summary: Summary) -> list[tuple[ReplayCell, CellSummary]]:
    """Return the replay cells of a run with their analysis."""
    by_key = {part.cell.key: part for part in summary.cells if is_replay(part.cell)}
    return [
        (replay, by_key[replay.cell.key])
        for replay in replays_of(summary)
        if replay.cell.key in by_key
    ]


def reported_round_of(replay: ReplayCell, part: CellSummary) -> tuple[Sample, ReplayRecord]:
    """Return the round whose account is reported, and its replay record."""
    return next(
        (sample, sample.replay)
        for sample in part.samples
        if sample.round == replay.reported_round and sample.replay is not None
    )


def round_text(replay: ReplayCell, part: CellSummary) -> str:
    """Return the round of an account if there are several: ``round 2 of 3, the worst``."""
    rounds = len(part.samples)
    if rounds == 1:
        return ""
    of = f"round {replay.reported_round + 1} of {rounds}"
    _, record = reported_round_of(replay, part)
    return of if judge(record).ok else f"{of}, the worst"


def reason_text(reason: str) -> str:
    """Return the reason for skipping statements in words."""
    return REASONS.get(reason, reason.replace("_", " "))


def cause_text(reason: str) -> str:
    """Return what caused statements to be skipped: log, fault, dependency or request."""
    if reason == NO_CONNECTION:
        return "fault"
    if reason == "dependent":
        return "dependency"
    return "log" if reason in NOT_LOGGED else "requested"


def shortened(text: str, characters_max: int = QUERY_CHARACTERS_MAX) -> str:
    """Return a query on one line, truncated to a number of characters."""
    line = " ".join(text.split())
    return line if len(line) <= characters_max else f"{line[: characters_max - 1]}…"


def name_of(part: CellSummary, cells: Sequence[CellSummary]) -> str:
    """Return what distinguishes a replay from others of its run; empty if it is the only one."""
    if len(cells) == 1:
        return ""
    names = [name for name in label_names(cells) if name != "threads"]
    return cell_phrase(part, names) or part.cell.workload


def speed_text(replay: ReplayCell) -> str:
    """Return the requested speed: ``max``, ``2.5x``."""
    return "max" if replay.speed is None else f"{replay.speed:g}x"


def ratio_text(estimate: Estimate | None, absent: str) -> str:
    """Return a ratio to the requested rate, in percent."""
    return absent if estimate is None else format_share(estimate.value)
