"""A server of ours that runs: where it is reached, whether it lives, how it is ended."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from seatrial.errors import TargetError
from seatrial.machine.undo import UndoJournal
from seatrial.machine.undoer import Outcome
from seatrial.postgres.cluster_errors import died_in_mid_run
from seatrial.postgres.connection import Address
from seatrial.postgres.dynamic_memory import remove_dynamic_memory
from seatrial.postgres.memory import MemoryGroup
from seatrial.postgres.processes import kill_server

Ending = Literal["fast", "immediate", "killed", "ended"]

_LOG_READ_BYTES: Final = 256 * 1024
_STOP_TIMEOUT_S: Final = 300.0
_HURRY_S: Final = 10.0
_DEATH_S: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that ``Cluster.start`` started; leaving it as a context stops it.

    Attributes:
        address: Its socket, as the superuser, database ``postgres``.
        data_folder: Where its data lie.
        log_path: Where it writes its messages.
        settings: All that it was started with beside its defaults.
        memory: The control group that limits its memory; None when nothing does.
        process: Its first process, the postmaster.
        journal: Where its start was recorded.
        entries: The numbers of the records, in the order in which they were made.
        shared_memory: The files of its dynamic shared memory, which stay when somebody kills it.
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
        """Tell whether the postmaster runs."""
        return self.process.poll() is None

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> Ending:
        """Shut the server down, and undo what its start made.

        Source: PostgreSQL's documentation, "Shutting Down the Server".

        Args:
            timeout_s: How long the fast shutdown, with its checkpoint, may take.

        Returns:
            ``fast``; ``immediate`` when that took too long; ``killed`` when that failed as well;
            ``ended`` when it did not run any more.

        Raises:
            TargetError: when it cannot be ended.
        """
        ending: Ending = "ended"
        if self.is_alive():
            self.process.send_signal(signal.SIGINT)
            ending = "fast" if self._ends_within(timeout_s) else self._end_at_once()
        self._undo()
        if ending != "fast":
            remove_dynamic_memory(self.shared_memory)
        return ending

    def kill(self) -> None:
        """Kill the postmaster and all its children at once, as a crash of the machine would.

        Nothing is written and nothing is closed; the next start recovers. What a crashed server
        leaves in the system stays recorded until a later server of the folder was stopped.

        Raises:
            TargetError: when they do not die.
        """
        if not kill_server(self.data_folder) or not self._ends_within(_DEATH_S):
            raise _undying(self.data_folder)
        for entry in self.entries[-2::-1]:
            self.journal.undo(entry)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of its log."""
        return "\n".join(log_from(self.log_path).splitlines()[-lines:])

    def death(self) -> TargetError:
        """Return the error for a server that was found dead, with the end of its log."""
        return died_in_mid_run(
            self.data_folder, self.log_tail(), self.memory.kills() if self.memory else 0
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exception: object) -> None:
        self.stop(_STOP_TIMEOUT_S if kind is None else _HURRY_S)

    def _end_at_once(self) -> Ending:
        self.process.send_signal(signal.SIGQUIT)
        if self._ends_within(_DEATH_S):
            return "immediate"
        if not kill_server(self.data_folder) or not self._ends_within(_DEATH_S):
            raise _undying(self.data_folder)
        return "killed"

    def _ends_within(self, timeout_s: float) -> bool:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _undo(self) -> None:
        """Undo the records, the last first; what is left of the processes goes with them."""
        results = [self.journal.undo(entry) for entry in reversed(self.entries)]
        for each in results:
            if each.outcome == Outcome.FAILED:
                raise TargetError(
                    seen=f"{each.subject} of a stopped server could not be undone: {each.detail}",
                    cause="Something else still uses it, or a device hangs",
                    next_step="Run `seatrial clean` later; it is recorded",
                )


def log_from(path: Path, start_bytes: int = 0) -> str:
    """Return what a log holds from ``start_bytes`` on, at most its last 256 KiB; empty if none."""
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, 2)
            file.seek(max(start_bytes, size_bytes - _LOG_READ_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _undying(folder: Path) -> TargetError:
    return TargetError(
        seen=f"The server of {folder} cannot be ended",
        cause="One of its processes may wait for a device that hangs",
        next_step="See the end of `dmesg`; `seatrial clean` ends it once the device answers",
    )
