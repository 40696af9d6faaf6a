"""The time of day of a lab's hosts, which can be set independently of the machine's clock."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

from seatrial.errors import TargetError

SOURCE: Final = Path(__file__).with_name("clock_shift.c")
_SHIFT: Final = struct.Struct("=q")


def build(folder: Path) -> Path:
    """Compile the library that shifts the time of day; return its path.

    Raises:
        TargetError: without a C compiler.
    """
    compiler = shutil.which("cc")
    library = folder / "clock_shift.so"
    if compiler is not None:
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return library
        compiler = (done.stderr.strip().splitlines() or ["it failed"])[-1]
    raise TargetError(
        seen=f"The clocks of the lab's hosts cannot be set: {compiler or 'there is no C compiler'}",
        cause="The library that shifts their time of day is compiled on this machine",
        next_step="Install one (`apt install gcc libc6-dev`), or leave out --fault clock",
    )


def write_shift(path: Path, shift_s: float) -> None:
    """Write the offset of a host's time of day to that host's file."""
    data = _SHIFT.pack(round(shift_s * 1e9))
    if not path.exists():
        path.write_bytes(data)
        return
    # In place, as the host's processes have it mapped.
    with path.open("r+b") as opened:
        opened.write(data)


def environment(library: Path, shift_path: Path) -> dict[str, str]:
    """Return the variables of a host's processes."""
    return {"LD_PRELOAD": str(library), "SEATRIAL_LAB_CLOCK": str(shift_path)}
