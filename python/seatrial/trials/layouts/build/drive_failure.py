"""A drive made to fail for good, whatever array it belongs to: every request ends in an error.

A loop device is given a file of no bytes, so that all its addresses lie beyond its end; a wrapped
drive gets a table of errors. A real drive cannot be told to fail.
"""

from __future__ import annotations

from pathlib import Path

from seatrial.errors import TargetError
from seatrial.machine.loop import truncate_backing
from seatrial.machine.marker import is_in_trial_folder
from seatrial.machine.undoers import loop_backing
from seatrial.trials.layouts.build.mapper import mapped_name
from seatrial.trials.layouts.build.running import run_checked
from seatrial.trials.layouts.build.wrapping import make_fail


def can_fail(device: str) -> bool:
    """Tell whether a drive can be made to fail: a wrapped one, or a loop device of a run's own."""
    return bool(mapped_name(device)) or _own_backing(device) is not None


def fail_drive(device: str) -> None:
    """Have every request of a drive fail from now on; its data are lost with it.

    Raises:
        TargetError: when it is a drive that nothing can make fail, or the kernel refuses.
    """
    if mapped_name(device):
        make_fail(device)
        return
    backing = _own_backing(device)
    if backing is None:
        raise TargetError(
            seen=f"{device} cannot be made to fail",
            cause="It is a drive of its own, and neither a loop device of the run nor wrapped",
            next_step="Run the study on loop devices (--loop), write `flaky = true` in the layout,"
            " or pull the drive by hand",
        )
    truncate_backing(device, 0)
    run_checked(["losetup", "--set-capacity", device])


def _own_backing(device: str) -> Path | None:
    """Return the file of a loop device, if that is one of a run's own."""
    backing = loop_backing(Path(device).resolve().name)
    return Path(backing) if backing and is_in_trial_folder(Path(backing)) else None
