"""Which Seatrial measured."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree

_GIT_TIMEOUT_S: Final = 2.0
_CHECKOUT: Final = Path(__file__).resolve().parents[4]


def seatrial_version(tree: SystemTree) -> dict[str, str | None]:
    """Return ``version``, and ``commit`` where this code runs from a checkout.

    A commit that ends in ``-dirty`` was changed since.
    """
    return {"version": _version(), "commit": _commit(tree)}


def _version() -> str | None:
    """Return the version of the native module; None where it is not built."""
    try:
        from seatrial import _core  # noqa: PLC0415 - only this function needs it
    except ImportError:
        return None
    return _core.__version__


def _commit(tree: SystemTree) -> str | None:
    """Ask git(1) for the checkout's commit; None for an installed wheel.

    Only our own checkout is asked: site-packages may well lie inside a user's repository.
    """
    if not (_CHECKOUT / ".git").exists() or not (_CHECKOUT / "crates" / "pyext").exists():
        return None
    command = ["git", "-C", str(_CHECKOUT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        answer = tree.run([*command, "--abbrev=12"], _GIT_TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return None
    return answer.output.strip() or None
