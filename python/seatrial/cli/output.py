"""Standard output and standard error, and what happens when they cannot be written.

Standard output holds the result: where it cannot be written, the command says so and fails. A
reader that closes it, as ``head`` does, is not a failure. Standard error holds progress and
remarks: if it cannot be written, the command continues.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

from seatrial.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT: Final = 1
_STDERR: Final = 2


class OutputError(UsageError):
    """Standard output cannot be written."""


class OutputClosed(Exception):  # noqa: N818 - the reader's wish, not an error
    """The reader of standard output has closed it."""


class _Stream(io.FileIO):
    """A file descriptor to write to; after its first failure it drops everything."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self._has_failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        if not self._has_failed:
            try:
                return super().write(data)
            except OSError as error:
                self._has_failed = True
                self._report(error)
        return memoryview(data).nbytes

    def _report(self, error: OSError) -> None:
        """Do nothing: standard error itself cannot be written."""


class _Result(_Stream):
    def _report(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from None
        raise OutputError(
            seen=f"Standard output cannot be written: {error.strerror}",
            cause="Its disk is full, or it was closed",
            next_step="Send it elsewhere. What was measured is in the results file: see "
            "`seatrial list`",
        ) from None


_terminals: set[int] = set()


def install() -> None:
    """Replace standard output and standard error by streams of this module.

    A closed descriptor is opened on the null device, so that no file that is opened later gets its
    number and is written to as standard output.
    """
    for number in range(_STDERR + 1):
        try:
            os.fstat(number)
        except OSError:
            # Read-only: writing to it fails, as it would where it is closed.
            os.open(os.devnull, os.O_RDONLY)
    _terminals.update(number for number in (_STDOUT, _STDERR) if os.isatty(number))
    sys.stdout = _text(_Result(_STDOUT), sys.stdout)
    sys.stderr = _text(_Stream(_STDERR), sys.stderr)


def leave_terminal() -> None:
    """Replace a terminal that was hung up by the null device."""
    for number in _terminals:
        if not os.isatty(number):
            null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(null, number)
            os.close(null)


def _text(stream: _Stream, former: TextIO | None) -> io.TextIOWrapper:
    """Return a stream of text: on a terminal in its character set, else in UTF-8.

    JSON, XML and the like are UTF-8 in every locale. A terminal shows ``?`` for what it lacks.
    """
    is_terminal = stream.fileno() in _terminals
    errors = former.errors if former else None
    return io.TextIOWrapper(
        io.BufferedWriter(stream),
        encoding=former.encoding if former and is_terminal else "utf-8",
        errors="replace" if errors in (None, "strict") else errors,
        line_buffering=is_terminal or stream.fileno() == _STDERR,
    )
