"""Records a device in blktrace's format, by the kernel's tracer, while a command runs.

    unshare --mount python blktrace.py DEVICE OUTPUT COMMAND...

Needs root. The tracer writes the records that blktrace(8) would read, in one stream; it works where
lockdown keeps everyone from blktrace's own files. Exit code 77: this kernel has no such tracer, or
somebody else uses it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

NOT_HERE = 77
SETTLES_S = 0.5


def main(device: str, output: str, command: list[str]) -> int:
    tracing = Path(f"{output}.tracing")
    tracing.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tracefs", str(tracing).encode(), b"tracefs", 0, None):
        return NOT_HERE
    tracer, options = tracing / "current_tracer", tracing / "trace_options"
    enable = Path("/sys/block") / Path(device).name / "trace/enable"
    has_blk = "blk" in (tracing / "available_tracers").read_text().split()
    if not has_blk or tracer.read_text().strip() != "nop" or not enable.exists():
        return NOT_HERE
    enable.write_text("1")
    try:
        for name in ("bin", "nocontext-info"):
            options.write_text(name)
        tracer.write_text("blk")
        return recorded(tracing / "trace_pipe", output, command)
    finally:
        tracer.write_text("nop")
        for name in ("nobin", "context-info"):
            options.write_text(name)
        enable.write_text("0")


def recorded(pipe: Path, output: str, command: list[str]) -> int:
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        process = subprocess.Popen(command)
        ends_s = float("inf")
        with Path(output).open("wb") as stream:
            while time.monotonic() < ends_s:
                try:
                    stream.write(os.read(descriptor, 1 << 16))
                except BlockingIOError:
                    time.sleep(0.01)
                if process.poll() is not None and ends_s == float("inf"):
                    ends_s = time.monotonic() + SETTLES_S
        return process.returncode
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
