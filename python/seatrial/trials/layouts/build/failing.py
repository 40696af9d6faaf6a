"""Makes drives fail below an array that does not detect it, and detects it by reading.

The file of a loop device is truncated, so that all its addresses are beyond its end; a wrapped
drive gets an error table. A real drive cannot be made to fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.direct import read_direct
from seatrial.machine.loop import truncate_backing
from seatrial.machine.marker import is_in_trial_folder
from seatrial.machine.undoers import loop_file
from seatrial.trials.layouts.build.mapper import mapped_name
from seatrial.trials.layouts.build.running import run_checked
from seatrial.trials.layouts.build.wrapping import make_fail


def can_fail(device: str) -> bool:
    """Return whether a drive can be made to fail: wrapped, or a run's own loop device."""
    return bool(mapped_name(device)) or _own_backing(device) is not None


def fail_drive(device: str) -> None:
    """Make every request of a drive fail from now on; its data is lost.

    Raises:
        TargetError: when the drive cannot be made to fail, or the kernel refuses.
    """
    if mapped_name(device):
        make_fail(device)
        return
    backing = _own_backing(device)
    if backing is None:
        raise TargetError(
            seen=f"Faults cannot be injected into {device}",
            cause="It is a physical drive, neither a loop device of the run nor wrapped",
            next_step="Run the study on loop devices (--loop), set `flaky = true` in the layout,"
            " or pull the drive manually",
        )
    truncate_backing(device, 0)
    run_checked(["losetup", "--set-capacity", device])


def _own_backing(device: str) -> Path | None:
    """Return the file of a loop device, if it is a run's own."""
    backing = loop_file(Path(device).resolve().name)
    return Path(backing) if backing and is_in_trial_folder(Path(backing)) else None


_BLOCK_BYTES: Final = 4096


def responds(drive: str) -> bool:
    """Return whether a drive responds; one that cannot be made to fail is assumed to.

    Only drives that a run can make fail are tested, by a direct read of 4 KiB: any other drive
    reports its failure on its own.
    """
    return not can_fail(drive) or is_readable(drive)


def is_readable(device: str, offset_bytes: int = 0, length_bytes: int = _BLOCK_BYTES) -> bool:
    """Return whether bytes of a device can be read, bypassing the page cache."""
    try:
        read_direct(device, offset_bytes, length_bytes)
    except OSError:
        return False
    return True
