"""Why a server could not be made or started, or died, told from its own words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from seatrial.errors import SeatrialError, SpaceError, TargetError, UsageError

_SETTING = re.compile(
    r"(unrecognized configuration parameter|invalid value for parameter|outside the valid range"
    r"|parameter \"|configuration file|syntax error in file|could not access file|must be "
    r"|conflicting values|cannot be|could not map anonymous shared memory|superuser_reserved)"
)
_WORDS = re.compile(r"(?:LOG|WARNING|ERROR|FATAL|PANIC|HINT|DETAIL):\s+(.*)")
_TOLD = re.compile(r"\b(FATAL|PANIC|HINT)\b")
_FULL: Final = "No space left on device"
_LINES_TOLD_MAX: Final = 6


def initdb_failed(folder: Path, output: str) -> SeatrialError:
    """Return the error for an initdb that failed with these words."""
    words = "; ".join(line.strip() for line in output.splitlines()[-_LINES_TOLD_MAX:] if line)
    if _FULL in output:
        return _full(folder, words)
    return TargetError(
        seen=f"initdb could not make a cluster in {folder}",
        cause=f"It said: {words or 'nothing'}",
        next_step="Mend what it names, or take another PostgreSQL with --pg-bin",
    )


def died_at_start(folder: Path, log: str, version_text: str) -> SeatrialError:
    """Return the error for a server that ended while it started, with its own words."""
    if _FULL in log:
        return _full(folder, _told(log))
    lines = [match[1] for line in log.splitlines() if (match := _WORDS.search(line))]
    about_settings = [line for line in lines if _SETTING.search(line)]
    fatal = "FATAL" in log and any(_SETTING.search(line) for line in _fatal_lines(log))
    if about_settings and fatal:
        return UsageError(
            seen=f"PostgreSQL {version_text} refused its settings: {'; '.join(about_settings)}",
            cause="A name is mistyped or unknown to this version, or a value is not one that it"
            " takes",
            next_step="Correct the setting in the study or on the command line; `SHOW ALL` in"
            " psql lists them",
        )
    return TargetError(
        seen=f"The server of {folder} ended while it started",
        cause=f"Its log ends: {_told(log) or 'with nothing'}",
        next_step="Mend what it names, then try again",
    )


def not_ready_in_time(folder: Path, timeout_s: float, log: str) -> TargetError:
    """Return the error for a server that did not take connections within ``timeout_s`` seconds."""
    return TargetError(
        seen=f"The server of {folder} was not ready after {timeout_s:g} s, and was ended",
        cause=f"The storage is very slow, or it hangs. The log ends: {_last_lines(log)}",
        next_step="See the end of `dmesg` for errors of the device, then try again",
    )


def died_in_mid_run(folder: Path, log: str, kills: int) -> TargetError:
    """Return the error for a server that ended while it was measured.

    ``kills`` counts processes that the kernel killed at the memory limit.
    """
    cause = (
        f"The kernel killed {kills} of its processes at the memory limit"
        if kills
        else "It crashed, or somebody ended it"
    )
    next_step = (
        "Give a larger memory limit, or smaller shared_buffers and fewer clients"
        if kills
        else "Mend what its log names; what was measured before is kept"
    )
    return TargetError(
        seen=f"The server of {folder} ended in mid-run",
        cause=f"{cause}. Its log ends: {_last_lines(log)}",
        next_step=next_step,
    )


def _fatal_lines(log: str) -> list[str]:
    return [line for line in log.splitlines() if "FATAL" in line or "PANIC" in line]


def _told(log: str) -> str:
    """Return what a log gives as the reason: its fatal lines and hints, else its end."""
    told = [line for line in log.splitlines() if _TOLD.search(line)]
    return "; ".join(told[-_LINES_TOLD_MAX:]) or _last_lines(log)


def _last_lines(log: str) -> str:
    return "; ".join(line.strip() for line in log.splitlines()[-_LINES_TOLD_MAX:])


def _full(folder: Path, words: str) -> SpaceError:
    return SpaceError(
        seen=f"The file system of {folder} is full: {words}",
        cause="The database, its log and its copies need more than is free there",
        next_step=f"Free some space (`df -h {folder}`), or take a smaller scale",
    )
