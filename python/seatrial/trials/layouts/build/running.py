"""Running the commands that build, ask and break arrays, with errors for a person.

A command of ours ends with the process that started it: one that outlived a ``kill -9`` would go
on to make what ``seatrial clean`` has just found not to be there.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import (
    CommandMissingError,
    CommandOutput,
    CommandTimeoutError,
    program_path,
)
from seatrial.machine.fingerprint.tree import run_command as run
from seatrial.trials.layouts.build.backend import Program, Step

ASK_PATIENCE_S: Final = 30.0
_WORDS_MAX: Final = 600


def run_step(step: Step) -> str:
    """Run one step of a plan and return what it printed.

    Raises:
        TargetError: when it is not installed, fails or does not end within its patience.
    """
    return run_checked(
        step.command,
        patience_s=step.patience_s,
        stdin=step.stdin,
        environment=step.environment,
        line=str(step),
    )


def run_checked(
    command: Sequence[str],
    *,
    patience_s: float = ASK_PATIENCE_S,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    line: str = "",
) -> str:
    """Run a command and return what it printed.

    Args:
        command: Program and arguments.
        patience_s: After which it is given up (s).
        stdin: What is written to it.
        environment: Variables that it gets beside ours.
        line: What an error calls it; the command itself unless given.

    Raises:
        TargetError: when it is not installed, fails or does not end in time.
    """
    ended = attempt(command, patience_s=patience_s, stdin=stdin, environment=environment)
    if ended.status != 0:
        words = ended.complaint.strip() or ended.output.strip() or "nothing"
        raise TargetError(
            seen=f"`{line or ' '.join(command)}` failed with exit code {ended.status}",
            cause=f"It said: {words[:_WORDS_MAX]}",
            next_step="Mend what it names, then try again; `dmesg` may tell more",
        )
    return ended.output


def attempt(
    command: Sequence[str],
    *,
    patience_s: float = ASK_PATIENCE_S,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
) -> CommandOutput:
    """Run a command, whatever its exit code; arguments as of ``run_checked``.

    Raises:
        TargetError: when it is not installed or does not end in time.
    """
    leash = ["setpriv", "--pdeathsig", signal.SIGKILL.name.removeprefix("SIG")]
    if program_path(leash[0]) is None:
        leash = []
    if program_path(command[0]) is None:
        raise _missing(command[0])
    try:
        return run([*leash, *command], patience_s, given=stdin or None, variables=environment)
    except CommandMissingError:
        raise _missing(command[0]) from None
    except CommandTimeoutError:
        raise TargetError(
            seen=f"`{' '.join(command)}` did not end within {patience_s:g} s",
            cause="A drive below may hang, or another process holds what it waits for",
            next_step="See the end of `dmesg`, then try again",
        ) from None


def require_program(program: Program) -> None:
    """Check that a program is installed.

    Raises:
        TargetError: when not; it names the Debian package.
    """
    if program_path(program.name) is None:
        raise _missing(program.name, program.package)


def _missing(name: str, package: str = "") -> TargetError:
    return TargetError(
        seen=f"The command {name} was not found",
        cause=f"It belongs to the Debian package {package}, which is not installed"
        if package
        else "The package that it belongs to is not installed",
        next_step=f"Install it with `apt-get install {package}` and try again"
        if package
        else f"Find its package with `apt-file search bin/{name}` and install it",
    )
