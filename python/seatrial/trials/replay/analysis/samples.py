"""What a finding or a table asks of a replay's cells and samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from seatrial.results.model import Sample
from seatrial.results.replay import ReplayRecord
from seatrial.study.cell import Cell

KIND: Final = "replay"
ASKED_FOR: Final = frozenset(
    {
        *("writes", "other_database", "after_until"),
        *("copy_program", "dblink", "terminate_backend", "notify", "ddl", "server"),
    }
)
"""Reasons to skip that are the user's: less was asked for, or more was not allowed."""
UNTOLD: Final = frozenset(
    {
        *("copy_data", "binary_parameters", "cut_off", "unknown_portal", "fast_path"),
        *("other_encoding", "rolled_back", "never_ran", "unknown_text"),
    }
)
"""Reasons to skip that are the log's: it does not hold what it takes to send them again."""
NO_CONNECTION: Final = "no_connection"


def is_of_replay(cell: Cell) -> bool:
    """Tell whether a cell plays a trace."""
    return cell.kind == KIND


def played(cell: Cell) -> dict[str, Any]:
    """Return what the measuring room was told to play; empty where it was not told."""
    reported = cell.spec.get("database", {}).get("replay")
    return reported if isinstance(reported, dict) else {}


def speed_of(cell: Cell) -> float | None:
    """Return how many times faster than captured a cell plays; None as fast as possible."""
    speed = played(cell).get("speed")
    return float(speed) if isinstance(speed, int | float) else None


def has_clock(record: ReplayRecord) -> bool:
    """Tell whether the capture tells times; a file of SQL lines has none, and was given some."""
    return record.trace.get("clock") != "no"


def replays(samples: Iterable[Sample]) -> list[tuple[Sample, ReplayRecord]]:
    """Return the samples of a replay with what is particular to them, in their order."""
    return [(sample, sample.replay) for sample in samples if sample.replay is not None]


def worst_of(samples: Sequence[Sample]) -> tuple[Sample, ReplayRecord] | None:
    """Return the sample whose account is told: of all, the one with the most that went wrong.

    Statements that were not reached count most, then failed ones, then skipped ones; among
    equals the slowest. None where there is no record.
    """

    def gravity(pair: tuple[Sample, ReplayRecord]) -> tuple[int, int, int, float]:
        total = pair[1].total
        return total.not_reached, total.failed, total.skipped_count, pair[0].duration_s

    return max(replays(samples), key=gravity, default=None)


def of_reasons(skipped: Mapping[str, int], reasons: Iterable[str]) -> dict[str, int]:
    """Return what was skipped for some reasons, the most frequent first."""
    wanted = set(reasons)
    found = {reason: count for reason, count in skipped.items() if reason in wanted and count}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
