"""What the reader of logs and the reader of traces say, as errors that a user sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seatrial.errors import SeatrialError, SpaceError, UsageError


@contextmanager
def native_errors() -> Iterator[None]:
    """Turn the exceptions of ``_core`` into ours (crates/ingest/src/intake/explained.rs).

    Raises:
        SeatrialError: for a defect of ours.
        SpaceError: when the disk is full.
        UsageError: when a file is no log or no trace, or cannot be read or written.
    """
    try:
        yield
    except ValueError as error:
        seen, cause, next_step = error.args
        raise UsageError(seen=seen, cause=cause, next_step=next_step) from None
    except OSError as error:
        ((seen, cause, next_step),) = error.args
        raise SpaceError(seen=seen, cause=cause, next_step=next_step) from None
    except RuntimeError as error:
        raise SeatrialError(
            seen=str(error),
            cause="This is a defect of Seatrial, not of your log",
            next_step="Please report it, if you can with the log",
        ) from None
