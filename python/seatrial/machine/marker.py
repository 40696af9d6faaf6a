"""Folders created by seatrial, recognised by their name and a marker inside."""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path
from typing import Final

from seatrial.descriptor import closing

FOLDER_PREFIX: Final = ".seatrial-"
MARKER_NAME: Final = "SEATRIAL-TRIAL-FOLDER"
_UNFINISHED_NAME: Final = f"{MARKER_NAME}.new"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def new_run_id() -> str:
    """Return a new name for a run: its start time (UTC) and a random suffix.

    Names sort by time.
    """
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def folder_name(run_id: str) -> str:
    """Return the name of a run's trial folder.

    Raises:
        ValueError: when the run's name is not safe in a path.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"not a run's name: {run_id!r}")
    return FOLDER_PREFIX + run_id


def write_marker(folder: Path, run_id: str) -> None:
    """Mark a folder as created by a run, durably.

    An existing marker is not touched: a kill while rewriting it would leave a folder with files
    that is not recognised as ours.

    Raises:
        OSError: when it cannot be written.
    """
    if marked_run(folder) == run_id:
        return
    unfinished = folder / _UNFINISHED_NAME
    # An existing entry of that name may be a link to another file: only the name is removed.
    unfinished.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with closing(os.open(unfinished, flags, 0o600)) as descriptor:
        os.write(descriptor, f"{run_id}\n".encode())
        os.fsync(descriptor)
    unfinished.rename(folder / MARKER_NAME)


def marked_run(folder: Path) -> str | None:
    """Return the run that created a folder, by its name and its marker; None when none did."""
    marker = folder / MARKER_NAME
    if not folder.name.startswith(FOLDER_PREFIX) or marker.is_symlink():
        return None
    try:
        run_id = marker.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return run_id if folder.name == FOLDER_PREFIX + run_id else None


def is_made_by(folder: Path, run_id: str) -> bool:
    """Return whether a run created a folder, even if it was killed while writing the marker."""
    if folder.is_symlink() or not folder.is_dir() or folder.name != folder_name(run_id):
        return False
    names = {entry.name for entry in folder.iterdir()}
    return marked_run(folder) == run_id or names <= {MARKER_NAME, _UNFINISHED_NAME}


def is_in_trial_folder(path: Path) -> bool:
    """Return whether a resolved path is in a folder that some run created."""
    return any(marked_run(parent) is not None for parent in path.parents)
