"""The engine's own limit: what it does on the null target with as many workers.

A cell that comes near this limit shows the generator's speed, not the target's (law 8).
"""

from __future__ import annotations

from typing import Final

from seatrial.measure.engine import measure_spec
from seatrial.measure.progress import Silent

CALIBRATION_S: Final = 0.15
BLOCK_BYTES: Final = 4096
RANGE_BYTES: Final = 1 << 30


class OwnLimits:
    """Requests per second of the engine without a target, measured once for each set-up."""

    def __init__(self) -> None:
        self._per_s: dict[tuple[str, int, int], float] = {}

    def null_limit_per_s(self, engine: str, threads: int, depth: int) -> float:
        """Return the limit of an engine (``psync``, ``io_uring``) with so many workers.

        Raises:
            EngineError: when the engine cannot run at all.
            KeyboardInterrupt: when the user ends it; nothing is known of the limit then.
        """
        setup = (engine, threads, depth)
        if setup not in self._per_s:
            self._per_s[setup] = _calibrate(engine, threads, depth)
        return self._per_s[setup]


def _calibrate(engine: str, threads: int, depth: int) -> float:
    block = {"bytes": BLOCK_BYTES, "weight": 1}
    access = {
        "operation": "read",
        "sizes": [block],
        "align_bytes": BLOCK_BYTES,
        "address": {"kind": "random"},
    }
    spec = {
        "seed": 0,
        "target": {"kind": "null", "size_bytes": RANGE_BYTES},
        "range": {"start_bytes": 0, "length_bytes": RANGE_BYTES},
        "accesses": [access],
        "threads": threads,
        "depth": depth,
        "engine": engine,
        "limit": {"duration_s": CALIBRATION_S},
    }
    measured = measure_spec(spec, Silent())
    if measured.interrupted:
        raise KeyboardInterrupt
    parts = measured.parts
    return float(parts["outcome"]["completed"] / parts["duration_s"])
