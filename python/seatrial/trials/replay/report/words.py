"""How replays are put into words: labels of rows, reasons, queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.results.model import Sample
from seatrial.results.replay import ReplayRecord
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_share
from seatrial.trials.database.report.words import cell_words, label_names
from seatrial.trials.replay.analysis.judgement import judge
from seatrial.trials.replay.analysis.model import ReplayCell, replays_of
from seatrial.trials.replay.analysis.samples import NO_CONNECTION, UNTOLD, is_of_replay

QUERY_CHARACTERS_MAX: Final = 60

REASONS: Final = {
    "copy_data": "data of COPY are not logged",
    "binary_parameters": "parameters were sent as bytes",
    "cut_off": "the log cut it off",
    "unknown_portal": "a fetch from what is not in the log",
    "fast_path": "a function call without a text",
    "other_encoding": "in an encoding of the client's own",
    "rolled_back": "rolled back with its pipeline",
    "never_ran": "never executed in the capture",
    "unknown_text": "prepared before the capture began",
    "writes": "it writes",
    "other_database": "of a database that is not played",
    "after_until": "captured after the time asked for",
    "dependent": "depends on what was skipped before",
    NO_CONNECTION: "its session had no connection",
    "copy_program": "COPY of a program or a file",
    "dblink": "a connection to another server",
    "terminate_backend": "ends other sessions",
    "notify": "NOTIFY",
    "ddl": "changes the catalogue",
    "server": "changes the server",
}
ERRORS: Final = {
    "new": "new: none in the capture",
    "other": "another code than in the capture",
    "unanswered": "never answered",
    "same": "same as in the capture",
    "gone": "gone: in the capture only",
}
"""Kinds of errors, in the order in which they matter."""


def replayed(summary: Summary) -> list[tuple[ReplayCell, CellSummary]]:
    """Return the cells of a run that play a trace, with what the analysis says of them."""
    by_key = {part.cell.key: part for part in summary.cells if is_of_replay(part.cell)}
    return [
        (reported, by_key[reported.cell.key])
        for reported in replays_of(summary)
        if reported.cell.key in by_key
    ]


def reported_of(reported: ReplayCell, part: CellSummary) -> tuple[Sample, ReplayRecord]:
    """Return the round whose account is told, and what is particular to it."""
    return next(
        (sample, sample.replay)
        for sample in part.samples
        if sample.round == reported.told_round and sample.replay is not None
    )


def round_words(reported: ReplayCell, part: CellSummary) -> str:
    """Return which round an account is of, where there are several: ``round 2, the worst of 3``."""
    rounds = len(part.samples)
    if rounds == 1:
        return ""
    of = f"round {reported.told_round + 1} of {rounds}"
    _, record = reported_of(reported, part)
    return of if judge(record).ok else f"{of}, the one with the most that went wrong"


def reason_words(reason: str) -> str:
    """Return why statements were skipped."""
    return REASONS.get(reason, reason.replace("_", " "))


def whose_words(reason: str) -> str:
    """Return whose doing it is that statements were skipped."""
    if reason == NO_CONNECTION:
        return "fault"
    if reason == "dependent":
        return "follows"
    return "log" if reason in UNTOLD else "asked for"


def shortened(text: str, characters_max: int = QUERY_CHARACTERS_MAX) -> str:
    """Return a query on one line, cut to so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= characters_max else f"{line[: characters_max - 1]}…"


def name_of(part: CellSummary, cells: Sequence[CellSummary]) -> str:
    """Return what tells a replay from the others of its run; empty where it is the only one."""
    if len(cells) == 1:
        return ""
    names = [name for name in label_names(cells) if name != "threads"]
    return cell_words(part, names) or part.cell.workload


def asked_words(reported: ReplayCell) -> str:
    """Return the speed that was asked for: ``max``, ``2.5x``."""
    return "max" if reported.speed is None else f"{reported.speed:g}x"


def ratio_text(estimate: Estimate | None, absent: str) -> str:
    """Return a ratio to what was asked for, in percent."""
    return absent if estimate is None else format_share(estimate.value)
