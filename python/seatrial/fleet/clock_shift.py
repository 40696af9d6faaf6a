"""The time of day of a lab's hosts, which can be set without touching the machine's clock."""

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
    """Compile what shifts the time of day; return the library.

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
        cause="What shifts their time of day is compiled on this machine",
        next_step="Install one (`apt install gcc libc6-dev`), or leave out --fault clock",
    )


def set_shift(place: Path, shift_s: float) -> None:
    """Set by how much the time of day of a host is ahead; ``place`` is that host's file."""
    data = _SHIFT.pack(round(shift_s * 1e9))
    if not place.exists():
        place.write_bytes(data)
        return
    # In place, as the host's processes have it mapped.
    with place.open("r+b") as opened:
        opened.write(data)


def environment(library: Path, place: Path) -> dict[str, str]:
    """Return the variables of a host's processes."""
    return {"LD_PRELOAD": str(library), "SEATRIAL_LAB_CLOCK": str(place)}
