"""What ``seatrial sql show`` prints."""

from __future__ import annotations

from pathlib import Path

import msgspec

from seatrial import _core
from seatrial.errors import native_errors
from seatrial.trials.replay.trace import Trace


def show_trace(trace: Path, *, top: int) -> Trace:
    """Return what a trace holds.

    Args:
        trace: The file.
        top: So many queries are shown, by their total time.

    Raises:
        UsageError: when it is no trace, is damaged, or cannot be read.
    """
    with native_errors():
        reported = _core.show_trace(trace, top)
    return msgspec.json.decode(reported, type=Trace)
