"""What a plan says of replays: how long they are, and of how much."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.study.cell import Cell
from seatrial.study.units import format_seconds
from seatrial.trials.database.study.workloads import is_of_database, spec_of


def replay_sample(cells: Sequence[Cell]) -> str:
    """Return how long a sample of a replay lasts: known where the trace's times are kept."""
    speeds = {replay.speed for cell in cells if (replay := spec_of(cell.spec).replay)}
    lasts_s = sorted({float(cell.spec["limit"]["duration_s"]) for cell in cells})
    if None in speeds or len(lasts_s) > 1:
        return "until the trace ends"
    return format_seconds(lasts_s[0])


def trace_words(cell: Cell) -> list[str]:
    """Return how much is in the trace of a replay; empty for any other cell, or if unknown."""
    replay = spec_of(cell.spec).replay if is_of_database(cell) else None
    if replay is None or not replay.identity:
        return []
    captured = format_seconds(replay.captured_s)
    words = [f"{replay.statements:,} statements of {captured}"]
    if replay.until_s is not None:
        words.append(f"until {format_seconds(replay.until_s)} of it")
    if replay.databases:
        words.append(f"of database {', '.join(replay.databases)}")
    if replay.ids == "infer":
        words.append("ids mapped to the target's")
    if replay.restore:
        words.append(f"restored before each sample by: {replay.restore}")
    if replay.allow:
        words.append(f"allowed: {', '.join(replay.allow)}")
    return words
