"""Why a server could not be made or started, or died, told from its own words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from seatrial.errors import SeatrialError, SpaceError, TargetError, UsageError
from seatrial.machine.space import FULL_WORDS, free_text, no_space

_SETTING = re.compile(
    r"(unrecognized configuration parameter|invalid value for parameter|outside the valid range"
    r"|parameter \"|configuration file|syntax error in file|could not access file|must be "
    r"|conflicting values|cannot be|could not map anonymous shared memory|superuser_reserved)"
)
_WORDS = re.compile(r"(?:LOG|WARNING|ERROR|FATAL|PANIC|HINT|DETAIL):\s+(.*)")
_TOLD = re.compile(r"\b(FATAL|PANIC|HINT)\b")
_LINES_TOLD_MAX: Final = 6


def initdb_failed(folder: Path, output: str) -> SeatrialError:
    """Return the error for an initdb that failed with these words."""
    words = "; ".join(line.strip() for line in output.splitlines()[-_LINES_TOLD_MAX:] if line)
    if FULL_WORDS in output:
        return no_space(folder, words)
    return TargetError(
        seen=f"initdb could not make a cluster in {folder}",
        cause=f"It said: {words or 'nothing'}",
        next_step="Mend what it names, or take another PostgreSQL with --pg-bin",
    )


def died_at_start(folder: Path, log: str, version_text: str) -> SeatrialError:
    """Return the error for a server that ended while it started, with its own words."""
    if full := _out_of_space(folder, log):
        return full
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
        cause=f"Its log ends: {reported}" if (reported := _reported(log)) else "Its log is empty",
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
    if not kills and (full := _out_of_space(folder, log)):
        return full
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
        cause=f"{cause}. {_end_of(log)}",
        next_step=next_step,
    )


def _fatal_lines(log: str) -> list[str]:
    return [line for line in log.splitlines() if "FATAL" in line or "PANIC" in line]


def _reported(log: str) -> str:
    """Return what a log gives as the reason: its fatal lines and hints, else its end."""
    reported = [line for line in log.splitlines() if _TOLD.search(line)]
    return "; ".join(reported[-_LINES_TOLD_MAX:]) or _last_lines(log)


def _last_lines(log: str) -> str:
    return "; ".join(line.strip() for line in log.splitlines()[-_LINES_TOLD_MAX:])


def _end_of(log: str) -> str:
    return f"Its log ends: {_last_lines(log)}" if log.strip() else "Its log is empty"


def _out_of_space(folder: Path, log: str) -> SpaceError | None:
    """Return the error of a server that ended for lack of space; None where nothing says so.

    Its log says it, or could not be written itself: it lies beside the data.
    """
    if FULL_WORDS in log:
        said = [line.strip() for line in log.splitlines() if FULL_WORDS in line]
        return no_space(folder, f"its server ended, its log says: {said[-1]}")
    free = "" if _fatal_lines(log) else free_text(folder)
    return (
        no_space(folder, f"its server ended without a word in its log, and {free}")
        if free
        else None
    )
