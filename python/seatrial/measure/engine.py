"""One cell through the engine: start it, watch it, stop it when the user asks."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError, UsageError
from seatrial.measure.progress import LiveReading, Watcher

POLL_S: Final = 0.1
STOP_WAIT_S: Final = 15.0


class EngineError(SeatrialError):
    """The engine refused the cell or failed in it; a defect of ours or of the kernel's set-up."""


class TooLargeError(UsageError):
    """What is asked for at once does not fit into memory."""


class EngineResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine gave back.

    Attributes:
        parts: The mapping of docs/engine.md.
        interrupted: Whether the user asked for the end.
    """

    parts: dict[str, Any]
    interrupted: bool


def measure_spec(
    spec: Mapping[str, Any], watcher: Watcher, opened: Mapping[str, str] | None = None
) -> EngineResult:
    """Measure one cell from its whole specification.

    An interrupt (Ctrl-C, or SIGTERM made into one) ends the cell in order; what was measured is
    returned and marked.

    Args:
        spec: As docs/engine.md has it.
        watcher: Told of the progress.
        opened: For each path in it that is open already, the path of its descriptor: the engine
            reaches what was judged, whatever has the name by now.

    Raises:
        TargetError: when the target cannot be opened.
        TooLargeError: when the requests in flight would not fit into memory.
        EngineError: when the specification is refused or the engine fails.
    """
    running = _start(spec, opened or {})
    interrupted = False
    while True:
        try:
            if running.wait(POLL_S):
                break
            watcher.live(msgspec.convert(running.live(), LiveReading))
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            running.stop()
    try:
        parts = running.result()
    except OSError as error:
        raise _engine_failed(error) from None
    except MemoryError as error:
        raise _too_large(error) from None
    except ValueError as error:
        raise _refused(error) from None
    except RuntimeError as error:
        raise _defect(error) from None
    return EngineResult(parts=parts, interrupted=interrupted)


def _start(spec: Mapping[str, Any], opened: Mapping[str, str]) -> _core.Running:
    target = dict(spec["target"])
    for key in ("path", "copy_to"):
        if target.get(key) in opened:
            target[key] = opened[target[key]]
    try:
        return _core.start(msgspec.json.encode({**spec, "target": target}).decode())
    except ValueError as error:
        raise _refused(error) from None
    except OSError as error:
        seen = str(error.args[-1] if error.args else error)
        for path, descriptor in opened.items():
            seen = seen.replace(f"{descriptor}:", f"{path}:")
        raise TargetError(
            seen=seen,
            cause="The target is missing, may not be opened, or does not support O_DIRECT",
            next_step="Look at it with `seatrial check`, or measure with --buffered",
        ) from None


def _refused(error: ValueError) -> EngineError:
    return EngineError(
        seen=f"The engine refused the cell: {error}",
        cause="The study asks for what makes no sense on this target",
        next_step="Look at the cell with --plan, and at its key in docs/study-file.md",
    )


def _engine_failed(error: OSError) -> EngineError:
    if error.errno == errno.EMFILE:
        return EngineError(
            seen=str(error.args[-1]),
            cause=f"This process may have {os.sysconf('SC_OPEN_MAX')} file descriptors at once "
            "(RLIMIT_NOFILE), and each thread of io_uring takes one",
            next_step="Raise it with `ulimit -n`, ask for fewer threads, or for --engine psync",
        )
    return EngineError(
        seen=str(error.args[-1] if error.args else error),
        cause="A limit of this session (threads, locked memory, memory) or the kernel's set-up",
        next_step="Try fewer threads or --engine psync; `seatrial check` names what is limited",
    )


def _too_large(error: MemoryError) -> TooLargeError:
    return TooLargeError(
        seen=str(error),
        cause="Every request in flight has a buffer of its own",
        next_step="Ask for fewer threads, less depth or smaller blocks",
    )


def _defect(error: RuntimeError) -> EngineError:
    return EngineError(
        seen=str(error),
        cause="This should never happen",
        next_step="Please report it with the study and the command line",
    )
