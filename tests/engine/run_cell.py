"""Measure one cell in a process of its own: specification on stdin, what came of it on stdout.

The process may be preloaded, limited, stopped or signalled without harm to the tests.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from seatrial import _core

LIVE = ("elapsed_s", "iops", "bytes_per_s", "p99_ns", "stalls", "oldest_in_flight_ns")
LIVE_S = 0.05
STOP_AFTER_S = float(os.environ.get("STOP_AFTER_S", "inf"))


def own_io() -> dict[str, int]:
    """Return what the kernel counts for this process (Documentation/filesystems/proc.rst)."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(count) for name, count in (line.split(": ") for line in lines)}


def readable(value: object) -> str:
    """Return bytes as text that JSON can hold."""
    assert isinstance(value, bytes)
    return value.hex()


def main() -> None:
    """Measure, reading what goes on all the while."""
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.siginterrupt(signal.SIGUSR1, True)
    before = own_io()
    running = _core.start(sys.stdin.read())
    sys.stderr.write("started\n")
    sys.stderr.flush()
    live: list[dict[str, Any]] = []
    began_s = time.monotonic()
    while not running.wait(LIVE_S):
        reading = running.live()
        live.append({name: getattr(reading, name) for name in LIVE})
        if time.monotonic() - began_s > STOP_AFTER_S:
            running.stop()
    try:
        result: dict[str, Any] = {"parts": running.result()}
    except _core.NativeError as error:
        result = {"error": str(error)}
    after = own_io()
    result["live"] = live
    result["io"] = {name: after[name] - before[name] for name in after}
    json.dump(result, sys.stdout, default=readable)


main()
