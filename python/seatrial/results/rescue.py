"""A results file that somebody removes, or that fills its disk: written anew elsewhere.

An open file lives on without its name until it is closed: what was stored can still be read. Of a
file that has no room for the next sample all that was stored can be read, too.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path

from seatrial.errors import FullResultsFileError, ResultsFileError

Identity = tuple[int, int]
"""Device and inode of a file."""

_NAMES_MAX = 100


def identity_of(path: Path) -> Identity | None:
    """Return which file a path leads to; None where it leads to none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def rescue(path: Path, connection: sqlite3.Connection) -> Path:
    """Copy all that an open file holds into a new one; return where that is.

    It lies in the folder of the file, else in the current one, else in that of temporary files.

    Args:
        path: Where the file was.
        connection: To the file.

    Raises:
        ResultsFileError: No new file can be written.
    """
    reason = ""
    for folder in (path.parent, Path.cwd(), Path(tempfile.gettempdir())):
        try:
            return copy_to(folder, path, connection)
        except (OSError, sqlite3.Error) as error:
            reason = f"{folder}: {getattr(error, 'strerror', None) or error}"
    raise ResultsFileError(
        seen=f"The results file {path} was removed in mid-run and cannot be written anew: {reason}",
        cause="Another process removed, moved or replaced it; no folder takes what it held",
        next_step="Look for it under another name, then measure again",
    )


def copy_to(folder: Path, path: Path, connection: sqlite3.Connection) -> Path:
    """Copy all that an open file holds into a new one in a folder; return where that is.

    Raises:
        OSError: No file can be made there.
        sqlite3.Error: It cannot be written.
    """
    new = _new_file(folder, path)
    try:
        copy = sqlite3.connect(new)
        connection.backup(copy)
        copy.close()
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    return new


def folders_elsewhere(path: Path) -> list[Path]:
    """Return folders on other file systems than that of a file, which may have room for it."""
    found = []
    full = path.parent.stat().st_dev
    for folder in (Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
        with suppress(OSError):
            if folder.stat().st_dev != full:
                found.append(folder)
    return found


def full(path: Path, now: Path | None) -> FullResultsFileError:
    """Return the error of a file that had no room for a sample.

    Args:
        path: The file.
        now: The file that holds all, with the sample; None where no folder took it.
    """
    where = (
        f"All that was measured is in {now}"
        if now
        else ("The last sample is lost, for no other folder takes it; all before it is whole")
    )
    resume = f', or go on in the new file: `--results "{now}" --resume`' if now else ""
    return FullResultsFileError(
        seen=f"No space left on {path.parent}, which holds the results file {path.name}. {where}",
        cause="The file system of the results file is full, which need not be the one under trial",
        next_step=f'Free some space (`df -h "{path.parent}"`) and resume the run{resume}',
    )


def lost(path: Path, now: Path) -> ResultsFileError:
    """Return the error of a file that was removed, all of which is in another one."""
    return ResultsFileError(
        seen=f"The results file {path} was removed, moved or replaced in mid-run. All that it held "
        f"and all that was measured is in {now}",
        cause="Another process did so while this one was writing to it",
        next_step=f'See it with `seatrial list --results "{now}"`, and give it the name it is to '
        "have",
    )


def _new_file(folder: Path, path: Path) -> Path:
    """Make an empty file of a name that nothing has.

    Raises:
        OSError: It cannot be made there.
    """
    for number in range(1, _NAMES_MAX):
        new = folder / f"{path.stem}-rescued-{number}{path.suffix}"
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(new, flags, 0o666))
            return new
    raise FileExistsError(0, f"{_NAMES_MAX} rescued files are there already")
