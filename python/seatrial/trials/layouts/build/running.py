"""Runs the commands that build, query and break arrays, and turns failures into errors.

A command ends with the process that started it: after a ``kill -9`` it would otherwise go on to
create what ``seatrial clean`` has just found missing.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence, Set
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.tree import (
    CommandMissingError,
    CommandOutput,
    CommandTimeoutError,
    program_path,
)
from seatrial.machine.fingerprint.tree import run_command as run
from seatrial.machine.undo_result import Result, failed, gone, undone
from seatrial.trials.layouts.build.backend import Program, Step

ANSWER_TIMEOUT_S: Final = 30.0
_WORDS_MAX: Final = 600


def run_step(step: Step) -> str:
    """Run one step of a plan and return its output.

    Raises:
        TargetError: when it is not installed, fails or exceeds its timeout.
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
    patience_s: float = ANSWER_TIMEOUT_S,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    line: str = "",
) -> str:
    """Run a command and return its output.

    Args:
        command: Program and arguments.
        patience_s: Timeout (s).
        stdin: Its standard input.
        environment: Additional environment variables.
        line: Its name in errors; by default the command itself.

    Raises:
        TargetError: when it is not installed, fails or exceeds its timeout.
    """
    ended = attempt(command, patience_s=patience_s, stdin=stdin, environment=environment)
    if ended.status != 0:
        words = ended.error_output.strip() or ended.output.strip() or "nothing"
        raise TargetError(
            seen=f"`{line or ' '.join(command)}` failed with exit code {ended.status}",
            cause=f"Output: {words[:_WORDS_MAX]}",
            next_step="Fix the reported error and retry; check `dmesg` for details",
        )
    return ended.output


def attempt(
    command: Sequence[str],
    *,
    patience_s: float = ANSWER_TIMEOUT_S,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
) -> CommandOutput:
    """Run a command, whatever its exit code; arguments as of ``run_checked``.

    Raises:
        TargetError: when it is not installed or exceeds its timeout.
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
            seen=f"`{' '.join(command)}` did not finish within {patience_s:g} s",
            cause="A drive may hang, or another process holds a resource that it waits for",
            next_step="Check the end of `dmesg`, then try again",
        ) from None


def removed_or_renumbered(
    removed: str, tags: Set[str], detail: str, *, is_all: bool = False
) -> Result:
    """Return what was removed, unless drives that its entry does not name bear its signature.

    A reboot may have renumbered them. They are not cleared: the copy of a drive bears it too.

    Args:
        removed: What was removed, as a phrase; empty if nothing was.
        tags: What its drives bear, in blkid's words, such as ``UUID=...``.
        detail: What to say when nothing was removed and no drive bears it.
        is_all: Whether it was removed from all drives of the entry, so that no other can bear it.
    """
    names = [] if is_all else _bearing(tags)
    if names:
        # The page cache of a drive below another device misses what was written through that.
        attempt(["blockdev", "--flushbufs", *names])
        names = _bearing(tags)
    if names:
        begin = f"{removed}; " if removed else ""
        return failed(
            f"{begin}drives other than the recorded ones bear its signature: {', '.join(names)}; a "
            "reboot may have renumbered them; check `lsblk --fs`, clear each with `wipefs --all`, "
            "and try again"
        )
    return undone(removed) if removed else gone(detail)


def _bearing(tags: Set[str]) -> list[str]:
    """Return the drives that bear one of the tags; none where blkid does not tell."""
    try:
        listed = attempt(["blkid", "-c", "/dev/null", "-o", "export"]).output.split("\n\n")
    except TargetError:
        return []
    drives = [each.strip().split("\n") for each in listed]
    return [lines[0].removeprefix("DEVNAME=") for lines in drives if not tags.isdisjoint(lines)]


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
        else "Its package is not installed",
        next_step=f"Install it with `apt-get install {package}` and try again"
        if package
        else f"Find its package with `apt-file search bin/{name}` and install it",
    )
