"""What Seatrial costs apart from requests: starting, printing help, keeping an hour in memory."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contenders import BLOCK_BYTES, DEPTH, ONE_CELL, BenchTarget, cell_of, usage_of

MS_PER_S: Final = 1_000
KIB_PER_MIB: Final = 1024
CELL_S: Final = 0.1
SEATRIAL_COMMAND: Final = str(Path(sys.executable).with_name("seatrial"))

STARTS: Final[Mapping[str, list[str]]] = {
    "python": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import seatrial"],
    "help": [SEATRIAL_COMMAND, "--help"],
}
"""Commands that only start and end, by name."""

PEAK_OF_CELL: Final = """
import json, re, sys
from pathlib import Path
from seatrial._core import start

def peak_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

running = start(sys.argv[1])
while not running.wait(60):
    pass
recorded_kib = peak_kib()
sample = running.result()
print(json.dumps({
    "recorded_kib": recorded_kib,
    "handed_over_kib": peak_kib(),
    "completed": sample["outcome"]["completed"],
    "slice_ms": sample["timeline"]["slice_ns"] / 1e6,
}))
"""

HOUR_S: Final = 3600.0
HOUR_MODEL: Final = {
    "channels": 8,
    "read": {"base_us": 40, "per_kib_us": 0},
    "write": {"base_us": 20, "per_kib_us": 0},
    "noise_share": 20,
}
"""A device whose latencies scatter so widely that the timeline outgrows its budget."""


@dataclass(frozen=True, kw_only=True)
class HourMemory:
    """Memory for an hour of recording, beyond the same process with a sample of a second.

    Attributes:
        recorded_mib: Peak of memory until the sample had ended.
        handed_over_mib: Peak when it had been handed to Python as well.
        completed: Requests recorded.
        slice_ms: Length of a timeline slice at the end.
    """

    recorded_mib: float
    handed_over_mib: float
    completed: int
    slice_ms: float


def starts_ms() -> dict[str, float]:
    """Run each command of ``STARTS`` once and return its processor time in ms.

    Raises:
        CommandError: When one fails.
    """
    return {name: usage_of(command).total_s * MS_PER_S for name, command in STARTS.items()}


def command_line_overhead_ms() -> float:
    """Return what `seatrial io` takes beyond the engine's own process for the same cell, in ms.

    Raises:
        CommandError: When one of the two fails.
    """
    target = BenchTarget(name="null", what="", path=None, size_bytes=1 << 30, direct=False)
    cell = json.dumps(cell_of(target, "io_uring", DEPTH, CELL_S))
    engine = usage_of([sys.executable, "-c", ONE_CELL, cell])
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "--block-size": BLOCK_BYTES,
            "--depth": DEPTH,
            "--engine": "io_uring",
            "--seconds": CELL_S,
            "--results": f"{folder}/bench.seatrial",
        }
        words = [str(word) for option in options.items() for word in option]
        command_line = usage_of([SEATRIAL_COMMAND, "io", "null", *words])
    return (command_line.total_s - engine.total_s) * MS_PER_S


def hour_memory() -> HourMemory:
    """Record an hour of virtual time on a simulated device and return what it took.

    Raises:
        CommandError: When the process fails.
    """
    second, hour = _peak(1.0), _peak(HOUR_S)
    return HourMemory(
        recorded_mib=(hour["recorded_kib"] - second["recorded_kib"]) / KIB_PER_MIB,
        handed_over_mib=(hour["handed_over_kib"] - second["handed_over_kib"]) / KIB_PER_MIB,
        completed=int(hour["completed"]),
        slice_ms=hour["slice_ms"],
    )


def _peak(duration_s: float) -> dict[str, float]:
    accesses = [
        {
            "operation": operation,
            "sizes": [{"bytes": BLOCK_BYTES}],
            "align_bytes": BLOCK_BYTES,
            "address": {"kind": "random"},
        }
        for operation in ("read", "write")
    ]
    cell = {
        "seed": 7,
        "target": {"kind": "simulated", "size_bytes": 1 << 30, "model": HOUR_MODEL},
        "range": {"start_bytes": 0, "length_bytes": 1 << 30},
        "accesses": accesses,
        "depth": HOUR_MODEL["channels"],
        "limit": {"duration_s": duration_s},
    }
    output = usage_of([sys.executable, "-c", PEAK_OF_CELL, json.dumps(cell)]).output
    peak: dict[str, float] = json.loads(output)
    return peak
