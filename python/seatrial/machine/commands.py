"""Runs the few system commands that change a machine, and turns failures into errors."""

from __future__ import annotations

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError
from seatrial.machine.fingerprint.tree import run_command as run

_TIMEOUT_S = 30.0


def run_command(*argv: str) -> str:
    """Run a system command without a shell and return what it printed.

    Raises:
        TargetError: when it is not installed, fails or does not end within 30 s; includes its
            output.
    """
    line = " ".join(argv)
    try:
        ended = run(argv, _TIMEOUT_S)
    except CommandMissingError:
        raise TargetError(
            seen=f"The command {argv[0]} was not found",
            cause="Its package is not installed, most likely util-linux",
            next_step="Install it with `apt-get install util-linux` and try again",
        ) from None
    except CommandTimeoutError:
        raise TargetError(
            seen=f"`{line}` did not finish within {_TIMEOUT_S:g} s",
            cause="The device or its file system may hang",
            next_step="Check the end of `dmesg`, then retry",
        ) from None
    if ended.status != 0:
        words = ended.error_output.strip() or ended.output.strip() or "nothing"
        raise TargetError(
            seen=f"`{line}` failed with exit code {ended.status}",
            cause=f"Its output: {words}",
            next_step="Run the same command by hand as root to see it alone; `dmesg | tail` has "
            "the kernel's side. What had been changed was undone, or `seatrial clean` undoes it",
        )
    return ended.output
