"""The errors that a caller would catch, and the exit code of each.

Every error that a user sees has three parts: what was seen, the likely cause, and the next
command to try. The command line prints ``str(error)`` and exits with ``error.exit_code``; a
traceback is never shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

from seatrial import _core

EXIT_CODES: Final[dict[int, str]] = {
    0: "done",
    1: "internal error, or something could not be undone",
    2: "usage error: an invalid option or study, or standard output cannot be written",
    3: "a threshold of the study or of the command was exceeded",
    4: "partial result: the run ended early; completed measurements are stored",
    5: "refused for safety: data would be lost, or the target is in use",
    6: "the target cannot be used: missing, not writable or of the wrong kind",
    7: "the results file cannot be used: corrupt, locked, of another program, or removed during "
    "the run",
    8: "not enough space on the target or for the results, before or during the run",
    9: "a size or offset is not a multiple of the target's logical block",
    10: "the file system does not support O_DIRECT",
    11: "the results file was written by a newer version",
    12: "a crash trial found that acknowledged transactions were lost, or a corrupt database",
}
"""What each exit code of the command line means: the one table, copied by docs/commands.md."""

EXIT_THRESHOLD: Final = 3
EXIT_PARTIAL: Final = 4
EXIT_TRANSACTIONS_LOST: Final = 12
"""Codes of results, which no error has."""


class SeatrialError(Exception):
    """Base of all errors that a user sees, as one readable paragraph.

    Attributes:
        exit_code: What the command line exits with; a key of ``EXIT_CODES``.
        seen: What was seen, with figures.
        cause: The likely cause.
        next_step: The next command to try or thing to do.

    Raises:
        ValueError: when one of the three parts is blank.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *, seen: str, cause: str, next_step: str) -> None:
        self.seen = _sentence(seen)
        self.cause = _sentence(cause)
        self.next_step = _sentence(next_step)
        super().__init__(f"{self.seen} {self.cause} {self.next_step}")


class UsageError(SeatrialError):
    """The command cannot be carried out as it was given: a bad option or argument."""

    exit_code = 2


class StudyError(UsageError):
    """The study file is malformed; the message names the file and the key path."""


class PartialResult(SeatrialError):  # noqa: N818 - a result, though less than was requested
    """The run ended before its plan did; what was measured is kept."""

    exit_code = 4


class RefusedError(SeatrialError):
    """Data would be lost, or the target is in use: the guard refused, nothing was written."""

    exit_code = 5


class TargetError(SeatrialError):
    """The target cannot be used: missing, not writable or of the wrong kind."""

    exit_code = 6


class SpaceError(TargetError):
    """The target has too little space for the trial."""

    exit_code = 8


class AlignmentError(TargetError):
    """A size or offset is not a multiple of the target's logical block."""

    exit_code = 9


class DirectError(TargetError):
    """The target's file system does not support O_DIRECT."""

    exit_code = 10


class EngineError(SeatrialError):
    """The engine failed in a cell: a limit of this session, or the kernel's set-up."""


class ResultsFileError(SeatrialError):
    """The results file cannot be used: corrupt, locked or not one of ours; it is left as it is."""

    exit_code = 7


class FullResultsFileError(ResultsFileError):
    """The file system that holds the results file has no space left."""

    exit_code = 8


class NewerResultsFileError(ResultsFileError):
    """The results file was written by a newer version of seatrial; it is left as it is."""

    exit_code = 11


def _sentence(part: str) -> str:
    """Return the part on one line, ended as a sentence."""
    text = " ".join(part.split())
    if not text:
        raise ValueError("an error needs all three parts: seen, cause and next_step")
    return text if text[-1] in ".!?" else f"{text}."


_OF_NATIVE: Final[Mapping[type[_core.NativeError], type[SeatrialError]]] = {
    _core.NativeUsageError: UsageError,
    _core.NativeTargetError: TargetError,
    _core.NativeSpaceError: SpaceError,
    _core.NativeSystemError: EngineError,
    _core.NativeDefectError: SeatrialError,
}


@contextmanager
def native_errors() -> Iterator[None]:
    """Raise the errors of ``_core`` as ours; the one place where they are translated.

    Raises:
        EngineError: when the system refuses what the engine needs.
        SeatrialError: for a defect of ours.
        SpaceError: when the disk is full.
        TargetError: when the target cannot be used.
        UsageError: when what is requested cannot be done.
    """
    try:
        yield
    except _core.NativeError as error:
        raise _OF_NATIVE[type(error)](
            seen=error.seen, cause=error.cause, next_step=error.next_step
        ) from None
