"""What is said of a file that the system does not let us read."""

from __future__ import annotations

from pathlib import Path

from seatrial.errors import UsageError


def unreadable(path: Path, error: OSError) -> UsageError:
    """Return the error that tells of it; whoever caught the system's raises it."""
    return UsageError(
        seen=f"{path} cannot be read: {error.strerror}",
        cause="It is missing, a folder, or closed to this user",
        next_step=f"See `ls -ld {path}`",
    )
