"""Client processes of a trial: started together, monitored, timed, ended."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import msgspec

from seatrial.interrupts import uninterrupted
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.units import NS_PER_S

POLL_S: Final = 0.1
THREADS_PERIOD_S: Final = 0.5
LINES_MAX: Final = 200
"""Number of lines kept from the beginning of stderr, and as many from the end."""
OUTPUT_BYTES_MAX: Final = 1 << 20
"""Bytes kept from the end of stdout."""
_READ_BYTES: Final = 1 << 16
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_USER_FIELD, _SYSTEM_FIELD = 11, 12  # of what follows the name in a stat file; see proc(5)


class ProcessResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a process.

    Attributes:
        status: Its exit status; negative for a signal.
        output: Its stdout, the last MiB of it.
        lines: Its stderr, the first and the last lines of it.
        real_s: From its start to its end.
        user_s: CPU time in user mode, including its children.
        system_s: The same in the kernel.
        thread_cpu_share: Share of one core used by its busiest thread; None if it was too short
            to be read twice.
    """

    status: int
    output: str
    lines: list[str]
    real_s: float
    user_s: float
    system_s: float
    thread_cpu_share: float | None


class Process:
    """One client process in its own process group, so that a Ctrl-C does not reach it.

    Args:
        command: Program and arguments; nothing secret.
        environment: All of it; may contain a password.
        on_line: Called with each line on stderr.
        folder: Its working folder; ours unless given.

    Raises:
        OSError: when it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
        folder: Path | None = None,
    ) -> None:
        self.began_s = time.monotonic()
        self._hear = on_line
        self._lines: list[str] = []
        self._last_lines: deque[str] = deque(maxlen=LINES_MAX)
        self._parts: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
        self._threads = _ThreadUsage()
        self._child = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._end = os.pidfd_open(self._child.pid)
        self._usage: tuple[float, float, float] | None = None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it is still running; also reads its threads."""
        if self._usage is not None:
            return False
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            self._threads.sample(self.pid)
            return True
        self._child.returncode = os.waitstatus_to_exitcode(status)
        real_s = time.monotonic() - self.began_s
        self._usage = (real_s, usage.ru_utime, usage.ru_stime)
        return False

    def sources(self) -> Iterator[tuple[int, str]]:
        """Yield the file descriptors to read, each with its name."""
        for name, pipe in (("out", self._child.stdout), ("err", self._child.stderr)):
            if pipe is not None:
                yield pipe.fileno(), name
        yield self._end, "end"

    def read(self, number: int, name: str) -> bool:
        """Read from a file descriptor; return False at its end."""
        if name == "end":
            return self.is_running
        data = os.read(number, _READ_BYTES)
        self._parts[name] += data
        if name == "err":
            self._report_lines(at_end=not data)
        else:
            del self._parts[name][:-OUTPUT_BYTES_MAX]
        return bool(data)

    def _report_lines(self, *, at_end: bool) -> None:
        buffered = self._parts["err"]
        whole, newline, rest = bytes(buffered).rpartition(b"\n")
        if at_end:
            whole, rest = bytes(buffered), b""
        elif not newline:
            return
        self._parts["err"] = bytearray(rest)
        for line in whole.decode(errors="replace").splitlines():
            lines = self._lines if len(self._lines) < LINES_MAX else self._last_lines
            lines.append(line)
            self._hear(line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and its children, unless it has ended."""
        if self._usage is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def end(self) -> None:
        """Kill it, if it is still running, and close its pipes."""
        self.signal(signal.SIGKILL)
        while self.is_running:
            time.sleep(POLL_S / 10)
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()
        os.close(self._end)

    def ended(self) -> ProcessResult:
        """Return its result.

        Raises:
            RuntimeError: when it is still running.
        """
        if self._usage is None:
            raise RuntimeError(f"process {self.pid} still runs")
        real_s, user_s, system_s = self._usage
        return ProcessResult(
            status=int(self._child.returncode),
            output=self._parts["out"].decode(errors="replace"),
            lines=[*self._lines, *self._last_lines],
            real_s=real_s,
            user_s=user_s,
            system_s=system_s,
            thread_cpu_share=self._threads.busiest_share(),
        )


class ProcessGroup:
    """Concurrent processes; a context that ends all of them."""

    def __init__(self) -> None:
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for process in self.processes:
            process.end()

    def start(self, start_process: Callable[[], Process]) -> None:
        """Start a process and register it, without interruption by signals.

        Args:
            start_process: Starts it; its exceptions are passed on.
        """
        with uninterrupted():
            self.processes.append(start_process())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all that are still running."""
        for process in self.processes:
            process.signal(number)

    def wait(self, poll: Callable[[], None]) -> list[ProcessResult]:
        """Wait until all have ended, and call ``poll`` about ten times a second.

        Exceptions of ``poll`` end the wait.
        """
        with _selecting(self.processes) as selector:
            while True:
                running = [process.is_running for process in self.processes]
                ready = selector.select(POLL_S) if selector.get_map() else []
                for key, _ in ready:
                    process, name = key.data
                    if not process.read(key.fd, name):
                        selector.unregister(key.fd)
                # Their children may keep the pipes open, and are not waited for.
                if not any(running) and not ready:
                    return [process.ended() for process in self.processes]
                poll()


def run_to_end(start_process: Callable[[], Process]) -> ProcessResult:
    """Run one process to its end.

    Args:
        start_process: Starts it; its exceptions are passed on.
    """
    with ProcessGroup() as processes:
        processes.start(start_process)
        (ended,) = processes.wait(lambda: None)
    return ended


def ignored(line: str) -> None:
    """Ignore a line of a program's errors; its result contains them anyway."""


@contextmanager
def _selecting(processes: Sequence[Process]) -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as selector:
        for process in processes:
            for number, name in process.sources():
                selector.register(number, selectors.EVENT_READ, (process, name))
        yield selector


class _ThreadUsage:
    """Samples the CPU time of a process's threads."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, float]] = {}
        self._last: dict[str, tuple[float, float]] = {}
        self._sampled_s = 0.0

    def sample(self, pid: int) -> None:
        now_s = time.monotonic()
        if now_s - self._sampled_s < THREADS_PERIOD_S:
            return
        self._sampled_s = now_s
        for name in LIVE.names(f"/proc/{pid}/task"):
            used_s = _used_s(f"/proc/{pid}/task/{name}")
            if used_s is not None:
                self._first.setdefault(name, (now_s, used_s))
                self._last[name] = (now_s, used_s)

    def busiest_share(self) -> float | None:
        """Return the largest share of a core that a thread used between samples."""
        shares = [
            (used_s - self._first[name][1]) / (at_s - self._first[name][0])
            for name, (at_s, used_s) in self._last.items()
            if at_s > self._first[name][0]
        ]
        return max(shares, default=None)


def _used_s(task: str) -> float | None:
    """Return the CPU time of a thread; None when it has ended.

    Source: proc_pid_schedstat(5), in ns; if the kernel has none, proc_pid_stat(5), in ticks.
    """
    schedstat = (LIVE.text(f"{task}/schedstat") or "").split()
    if schedstat:
        return int(schedstat[0]) / NS_PER_S
    fields = (LIVE.text(f"{task}/stat") or "").rpartition(")")[2].split()
    if len(fields) <= _SYSTEM_FIELD:
        return None
    return (int(fields[_USER_FIELD]) + int(fields[_SYSTEM_FIELD])) / _TICKS_PER_S
