"""Outcomes and results of undoing, and a bounded wait for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PATIENCE_S: Final = 10.0
"""A killed process releases files and devices only when it is scheduled again."""
POLL_S: Final = 0.02


class Outcome(StrEnum):
    """What became of a change."""

    UNDONE = "undone"
    GONE = "gone"
    FOREIGN = "foreign"
    FAILED = "failed"
    PENDING = "pending"
    RUNNING = "running"
    KEPT = "kept"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What an undoer did; ``detail`` is a phrase."""

    outcome: Outcome
    detail: str


@dataclass(frozen=True, kw_only=True)
class Undoer:
    """One kind of change.

    Attributes:
        undo: Undoes it; its keyword arguments are the required details of a record.
        subject: The detail that names the changed object.
        survives_reboot: Whether the change persists over a restart of the machine.
    """

    undo: Callable[..., Result]
    subject: str
    survives_reboot: bool = False


def undone(detail: str) -> Result:
    """Return that the change was undone, with how."""
    return Result(outcome=Outcome.UNDONE, detail=detail)


def gone(detail: str) -> Result:
    """Return that nothing is left of the change."""
    return Result(outcome=Outcome.GONE, detail=detail)


def foreign(detail: str) -> Result:
    """Return that the existing object is not ours, and was left alone."""
    return Result(outcome=Outcome.FOREIGN, detail=detail)


def failed(detail: str) -> Result:
    """Return why the change could not be undone; it stays in the journal."""
    return Result(outcome=Outcome.FAILED, detail=detail)


def wait_until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Wait for a condition for at most ``patience_s`` seconds; return whether it holds."""
    give_up_at_s = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > give_up_at_s:
            return False
        time.sleep(POLL_S)
    return True
