"""The per-transaction logs of a sample's client processes, read by the native module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from seatrial import _core
from seatrial.errors import TargetError
from seatrial.trials.database.measure.driver_result import DriverOptions


def read_logs(
    logs: Sequence[Sequence[Path]],
    operations: Sequence[str],
    options: DriverOptions,
    *,
    has_lag: bool,
) -> dict[str, Any]:
    """Return the parts of a sample (docs/engine.md, "pgbench's logs").

    Args:
        logs: The files of each process: one for each of its threads.
        operations: The operation kind of each script, in pgbench's order.
        options: How long slices and stalls are.
        has_lag: Whether pgbench was given a rate.

    Raises:
        TargetError: when a log cannot be read, or has a line that makes no sense.
    """
    spec = {
        "processes": [[str(path) for path in paths] for paths in logs],
        "scripts": list(operations),
        "has_lag": has_lag,
        "slice_ms": options.slice_ms,
        "stall_threshold_ms": options.stall_threshold_ms,
    }
    try:
        return _core.read_pgbench_logs(msgspec.json.encode(spec).decode())
    except (ValueError, OSError) as error:
        raise TargetError(
            seen=str(error.args[-1]),
            cause=f"The file system of {options.folder}, where pgbench logs, is full or failing",
            next_step=f"Check it with `df {options.folder}`, then try again",
        ) from None
