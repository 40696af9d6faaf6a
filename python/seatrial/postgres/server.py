"""A running server of ours: its address, its state, and how it is ended."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from seatrial.errors import SeatrialError, SpaceError, TargetError, UsageError
from seatrial.machine.file import FULL_WORDS, free_text, no_space
from seatrial.machine.undo_journal import UndoJournal
from seatrial.machine.undo_result import Outcome
from seatrial.postgres.connection import Address
from seatrial.postgres.memory import MemoryGroup, remove_dynamic_memory
from seatrial.postgres.server_processes import kill_server

_SETTING = re.compile(
    r"(unrecognized configuration parameter|invalid value for parameter|outside the valid range"
    r"|parameter \"|configuration file|syntax error in file|could not access file|must be "
    r"|conflicting values|cannot be|could not map anonymous shared memory|superuser_reserved)"
)
_WORDS = re.compile(r"(?:LOG|WARNING|ERROR|FATAL|PANIC|HINT|DETAIL):\s+(.*)")
_FATAL_OR_HINT = re.compile(r"\b(FATAL|PANIC|HINT)\b")
_LINES_SHOWN_MAX: Final = 6


def initdb_failed(folder: Path, output: str) -> SeatrialError:
    """Return the error for a failed initdb with this output."""
    words = "; ".join(line.strip() for line in output.splitlines()[-_LINES_SHOWN_MAX:] if line)
    if FULL_WORDS in output:
        return no_space(folder, words)
    return TargetError(
        seen=f"initdb could not create a cluster in {folder}",
        cause=f"Its output: {words or 'none'}",
        next_step="Fix the cause, or use another PostgreSQL with --pg-bin",
    )


def died_at_start(folder: Path, log: str, version_text: str) -> SeatrialError:
    """Return the error for a server that ended during its start, with its message."""
    if full := _out_of_space(folder, log):
        return full
    lines = [match[1] for line in log.splitlines() if (match := _WORDS.search(line))]
    about_settings = [line for line in lines if _SETTING.search(line)]
    fatal = "FATAL" in log and any(_SETTING.search(line) for line in _fatal_lines(log))
    if about_settings and fatal:
        return UsageError(
            seen=f"PostgreSQL {version_text} refused its settings: {'; '.join(about_settings)}",
            cause="A name is misspelled or unknown to this version, or a value is invalid",
            next_step="Correct the setting in the study or on the command line; `SHOW ALL` in"
            " psql lists them",
        )
    seen = f"The server of {folder} stopped during start-up"
    if reason := _reason(log):
        return TargetError(
            seen=seen,
            cause=f"The log ends with: {reason}",
            next_step="Act on that message; settings are in the study (or --set), and --pg-bin "
            "selects another PostgreSQL",
        )
    return TargetError(
        seen=seen,
        cause="It ended before it wrote a line: killed, out of memory, or a library is missing",
        next_step="See `dmesg -T | tail`, and try `postgres --version` as the same user",
    )


def not_ready_in_time(folder: Path, timeout_s: float, log: str) -> TargetError:
    """Return the error for a server that was not ready within ``timeout_s`` seconds."""
    return TargetError(
        seen=f"The server of {folder} was not ready after {timeout_s:g} s and was stopped",
        cause=f"The storage is very slow or hangs. The log ends with: {_last_lines(log)}",
        next_step="See the end of `dmesg` for errors of the device, then try again",
    )


def died_during_run(folder: Path, log: str, kills: int) -> TargetError:
    """Return the error for a server that ended during a measurement.

    ``kills`` is the number of processes killed by the kernel at the memory limit.
    """
    if not kills and (full := _out_of_space(folder, log)):
        return full
    cause = (
        f"The kernel killed {kills} of its processes at the memory limit"
        if kills
        else "It crashed or was stopped"
    )
    next_step = (
        "Use a larger memory limit, or smaller shared_buffers and work_mem and fewer clients"
        if kills
        else "Fix the cause; the results until then are kept"
    )
    return TargetError(
        seen=f"The server of {folder} stopped during the run",
        cause=f"{cause}. {_end_of(log)}",
        next_step=next_step,
    )


def _fatal_lines(log: str) -> list[str]:
    return [line for line in log.splitlines() if "FATAL" in line or "PANIC" in line]


def _reason(log: str) -> str:
    """Return the reason in a log: its fatal lines and hints, else its end."""
    lines = [line for line in log.splitlines() if _FATAL_OR_HINT.search(line)]
    return "; ".join(lines[-_LINES_SHOWN_MAX:]) or _last_lines(log)


def _last_lines(log: str) -> str:
    return "; ".join(line.strip() for line in log.splitlines()[-_LINES_SHOWN_MAX:])


def _end_of(log: str) -> str:
    return f"The log ends with: {_last_lines(log)}" if log.strip() else "The log is empty"


def _out_of_space(folder: Path, log: str) -> SpaceError | None:
    """Return the error for a server that ran out of space; None without evidence.

    Its log reports it, or could not be written either, as it is next to the data.
    """
    if FULL_WORDS in log:
        lines = [line.strip() for line in log.splitlines() if FULL_WORDS in line]
        return no_space(folder, f"its server stopped; its log: {lines[-1]}")
    free = "" if _fatal_lines(log) else free_text(folder)
    return (
        no_space(folder, f"its server stopped without a log message, and {free}") if free else None
    )


Ending = Literal["fast", "immediate", "killed", "ended"]

_LOG_READ_BYTES: Final = 256 * 1024
_STOP_TIMEOUT_S: Final = 300.0
_STOP_TIMEOUT_AFTER_ERROR_S: Final = 10.0
_KILL_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server started by ``Cluster.start``; leaving it as a context stops it.

    Attributes:
        address: Its socket, as the superuser, database ``postgres``.
        data_folder: Its data folder.
        log_path: Its log file.
        settings: Settings that it was started with, other than its defaults.
        memory: The control group that limits its memory, or None.
        process: The postmaster.
        journal: The journal that recorded its start.
        entries: The numbers of the records, in order.
        shared_memory: The files of its dynamic shared memory, which remain when it is killed.
    """

    address: Address
    data_folder: Path
    log_path: Path
    settings: Mapping[str, str]
    memory: MemoryGroup | None
    process: subprocess.Popen[bytes]
    journal: UndoJournal
    entries: tuple[int, ...]
    shared_memory: frozenset[str] = frozenset()

    @property
    def pid(self) -> int:
        """The number of the postmaster."""
        return self.process.pid

    def is_alive(self) -> bool:
        """Return whether the postmaster runs."""
        return self.process.poll() is None

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> Ending:
        """Shut down the server, and undo what its start made.

        Source: PostgreSQL's documentation, "Shutting Down the Server".

        Args:
            timeout_s: Maximum time of the fast shutdown with its checkpoint.

        Returns:
            ``fast``; ``immediate`` when that took too long; ``killed`` when that failed as well;
            ``ended`` when it was not running.

        Raises:
            TargetError: when it cannot be ended.
        """
        ending: Ending = "ended"
        if self.is_alive():
            self.process.send_signal(signal.SIGINT)
            ending = "fast" if self._has_ended_within(timeout_s) else self._stop_immediately()
        self._undo()
        if ending != "fast":
            remove_dynamic_memory(self.shared_memory)
        return ending

    def kill(self) -> None:
        """Kill the postmaster and all its children at once, as in a crash of the machine.

        Nothing is written and nothing is closed; the next start recovers. What a crashed server
        leaves in the system stays recorded until a later server of the folder has stopped.

        Raises:
            TargetError: when they cannot be killed.
        """
        if not kill_server(self.data_folder) or not self._has_ended_within(_KILL_TIMEOUT_S):
            raise _cannot_stop(self.data_folder)
        for entry in self.entries[-2::-1]:
            self.journal.undo(entry)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of its log."""
        return "\n".join(log_from(self.log_path).splitlines()[-lines:])

    def death_error(self) -> TargetError:
        """Return the error for a server that was found dead, with the end of its log."""
        return died_during_run(
            self.data_folder, self.log_tail(), self.memory.kills() if self.memory else 0
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exception: object) -> None:
        self.stop(_STOP_TIMEOUT_S if kind is None else _STOP_TIMEOUT_AFTER_ERROR_S)

    def _stop_immediately(self) -> Ending:
        self.process.send_signal(signal.SIGQUIT)
        if self._has_ended_within(_KILL_TIMEOUT_S):
            return "immediate"
        if not kill_server(self.data_folder) or not self._has_ended_within(_KILL_TIMEOUT_S):
            raise _cannot_stop(self.data_folder)
        return "killed"

    def _has_ended_within(self, timeout_s: float) -> bool:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _undo(self) -> None:
        """Undo the records, the last first, including remaining processes."""
        results = [self.journal.undo(entry) for entry in reversed(self.entries)]
        for result in results:
            if result.outcome == Outcome.FAILED:
                raise TargetError(
                    seen=f"{result.subject} of a stopped server was not undone: {result.detail}",
                    cause="It is still in use, or a device hangs",
                    next_step="Run `seatrial clean` later; it is recorded",
                )


def log_from(path: Path, start_bytes: int = 0) -> str:
    """Return a log from ``start_bytes`` on, at most its last 256 KiB; empty if missing."""
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, 2)
            file.seek(max(start_bytes, size_bytes - _LOG_READ_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _cannot_stop(folder: Path) -> TargetError:
    return TargetError(
        seen=f"The server of {folder} cannot be stopped",
        cause="One of its processes may be waiting for a device that hangs",
        next_step="See the end of `dmesg`; `seatrial clean` stops it once the device answers",
    )
