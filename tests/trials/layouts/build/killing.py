"""Kills of a scenario at every step: before each change that it makes, and amid each command.

A step is what changes the machine: a file opened for writing (so every line of the undo journal),
a folder made or removed, a file removed or renamed, an ioctl, a command. Python's audit events tell
of each before it happens; just after a change is just before the next one. A command is also left
running by its killed parent, as a real kill may leave it. Commands that only ask, or leave nothing
to undo, are not steps.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

KILLS_MAX: Final = 400
_CHANGES: Final = frozenset(
    ("os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.symlink", "fcntl.ioctl")
)
_ONLY_ASKING: Final = frozenset(
    (
        *("--find", "--set-capacity", "--flushbufs", "status", "targets", "--examine", "--detail"),
        *("blkid", "pvs", "vgs", "lvs"),
    )
)
_WRITABLE: Final = os.O_WRONLY | os.O_RDWR
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>
_KILLED: Final = 77

Scenario = Callable[[], object]
Fatal = Callable[[str], str]
"""Asked at each step, by its words and in order: what to tell where it is the last, else nothing.
"""


def kills(scenario: Scenario, *, commands_only: bool = False) -> Iterator[str]:
    """Run a scenario in a child that is killed at its first step, then at its second, and so on.

    Yields the step after each kill, when no process of the child is left; ends when the scenario
    ended without one. What the killed child left is the caller's to clean before the next begins.
    With ``commands_only`` no other steps are counted, where processes are slow.
    """
    for count in range(KILLS_MAX):
        reported = _run(scenario, _counted(_at(count), commands_only))
        if reported is None:
            return
        yield reported
    raise AssertionError(f"the scenario has more than {KILLS_MAX} steps")


def kills_on_the_way(scenario: Scenario, *, commands_only: bool = False) -> Iterator[str]:
    """Run a scenario that goes on where it was killed, again and again, until it is through.

    It is killed at each step when it first comes there from the step before it, so that each life
    gets one step further. Yields the step after each kill. ``commands_only`` as above.
    """
    seen: set[tuple[str, str]] = set()
    for _life in range(KILLS_MAX):
        reported = _run(scenario, _counted(_unless(seen), commands_only))
        if reported is None:
            return
        before, _, step = reported.rpartition("\n")
        seen.add((before, step))
        yield step
    raise AssertionError(f"the scenario is not through after {KILLS_MAX} kills")


def _counted(is_fatal: Fatal, commands_only: bool) -> Fatal:
    """Return the same for those steps alone that count."""
    words = ("before", "amid") if commands_only else ("",)
    return lambda reported: is_fatal(reported) if reported.startswith(words) else ""


def _at(count: int) -> Fatal:
    """Return what is fatal at the step that so many others come before."""
    left = iter(range(count))
    return lambda reported: reported if next(left, None) is None else ""


def _unless(seen: set[tuple[str, str]]) -> Fatal:
    """Return what is fatal at the first step that was not seen to come after the one before."""
    last = ""

    def is_fatal(reported: str) -> str:
        nonlocal last
        pair = (last, reported)
        last = reported
        return "" if pair in seen else "\n".join(pair)

    return is_fatal


def _run(scenario: Scenario, is_fatal: Fatal) -> str | None:
    """Run it in a child; return at what step it was killed, None where it came to its end."""
    reader, writer = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        os.close(reader)
        _keep(scenario, is_fatal, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        reported = file.read().decode()
    _, status = os.waitpid(keeper, 0)
    ended = os.WEXITSTATUS(status)
    assert ended in (0, _KILLED), reported
    return reported if ended == _KILLED else None


def _keep(scenario: Scenario, is_fatal: Fatal, writer: int) -> None:
    """Be the child's parent, and that of all whom it leaves behind; never returns."""
    try:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        child = os.fork()
        if child == 0:
            _become(scenario, is_fatal, writer)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            os._exit(_KILLED)
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
    finally:
        os._exit(1)


def _become(scenario: Scenario, is_fatal: Fatal, writer: int) -> None:
    """Be the child: never returns."""
    steps = _Steps(is_fatal, writer)
    try:
        sys.addaudithook(steps.hear)
        subprocess.Popen = steps.popen  # type: ignore[misc,assignment]
        scenario()
        steps.is_over = True
    except BaseException:
        steps.is_over = True
        os.write(writer, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


class _Steps:
    """Sees the steps of a child, and ends it at the fatal one."""

    def __init__(self, is_fatal: Fatal, writer: int) -> None:
        self.is_over = False
        self._is_fatal = is_fatal
        self._writer = writer
        self._popen = subprocess.Popen

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event: a step where it is about a change."""
        if self.is_over:
            return
        if event == "open":
            path, _mode, flags = arguments
            if flags & _WRITABLE and path != os.devnull:
                self.step(f"open {path}")
        elif event in _CHANGES:
            self.step(f"{event} {arguments[0]}")

    def popen(self, command: Any, *arguments: Any, **how: Any) -> subprocess.Popen[bytes]:
        """Stand for subprocess.Popen: one step before the command, one while it runs."""
        if not _ONLY_ASKING.isdisjoint(command):
            return self._popen(command, *arguments, **how)
        line = " ".join(command)
        self.step(f"before {line}")
        process = self._popen(command, *arguments, **how)
        self.step(f"amid {line}")
        return process

    def step(self, reported: str) -> None:
        """Come to a step, the last one perhaps."""
        if words := self._is_fatal(reported):
            os.write(self._writer, words.encode())
            os.kill(os.getpid(), signal.SIGKILL)
