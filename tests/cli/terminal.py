"""The real command on a terminal of its own (a pty): what it shows, and what is typed to it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import time
from collections.abc import Mapping
from pathlib import Path

from cli.command import heed_interrupts, own
from cli.preloaded import preloaded

INTERRUPT = "\x03"
"""What Ctrl-C sends: the terminal makes SIGINT of it, for all who are on it."""


class Terminal:
    """A command whose standard input, output and error are one terminal, which is its own.

    Attributes:
        shown: All that it has shown so far, with the terminal's control sequences.
    """

    def __init__(
        self, *arguments: str | Path, folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        heed_interrupts()
        self.shown = ""
        self._ours, theirs = pty.openpty()
        self.process = preloaded().start(
            arguments,
            folder,
            os.environ | own(folder) | {"TERM": "xterm", "COLUMNS": "160"} | (env or {}),
            *[theirs] * 3,
            # It gets the terminal as its controlling one, so that Ctrl-C reaches it.
            terminal=True,
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._ours, text.encode())

    def wait_for(self, words: str, timeout_s: float = 60.0) -> None:
        """Wait until something is shown that was not there when this was called."""
        seen = len(self.shown)
        until_s = time.monotonic() + timeout_s
        while words not in self.shown[seen:]:
            if time.monotonic() > until_s or not self._read(until_s - time.monotonic()):
                raise AssertionError(f"{words!r} was not shown: {self.shown}")

    def end(self, timeout_s: float = 60.0) -> int:
        """Read to the end; return the exit code."""
        until_s = time.monotonic() + timeout_s
        while self._read(max(0.0, until_s - time.monotonic())):
            assert time.monotonic() < until_s, self.shown
        return self.process.wait(timeout_s)

    def close(self) -> None:
        """End the command, if it has not ended."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self, timeout_s: float) -> bool:
        """Take in what is shown next; return whether there was anything."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, timeout_s))
        # The kernel's word for a terminal that nobody has open any more is an error.
        text = b""
        if ready:
            with contextlib.suppress(OSError):
                text = os.read(self._ours, 65536)
        self.shown += text.decode(errors="replace")
        return bool(text)
