"""Files that a command writes for its user."""

from __future__ import annotations

from pathlib import Path

from seatrial.errors import UsageError


def write_text(place: Path, text: str, *, otherwise: str) -> None:
    """Write a text file; ``otherwise`` is the command that makes it elsewhere.

    Raises:
        UsageError: when the file cannot be written.
    """
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            seen=f"{place} cannot be written: {error.strerror}",
            cause="The folder is missing, read-only or full; the run itself is stored",
            next_step=f"Write it elsewhere with `{otherwise}`",
        ) from None
