"""Opens results files safely: recognises ours, never damages a file, and explains errors."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from seatrial.errors import FullResultsFileError, NewerResultsFileError, ResultsFileError
from seatrial.results import schema

LOCK_TIMEOUT_S = 10.0
"""How long to wait for another process to release the file; far longer than a commit takes."""

_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 100
_APPLICATION_ID_AT = 68

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_PIECE_BYTES = 64 * 1024
"""SQLite extends the files next to a results file by less than this at a time."""
_DEVICE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


def reader(path: Path) -> sqlite3.Connection:
    """Open a file read-only; it is never changed or created.

    A file of an older schema is copied into memory and migrated there.

    Raises:
        ResultsFileError: Missing, not ours, newer than this version, damaged or locked.
    """
    _check_head(path, may_be_missing=False)
    with explained(path):
        connection = _connect_reader(path)
        with _closed_on_error(connection):
            found = schema.version(connection)
            _check_ours(path, schema.application_id(connection), found)
            if found < len(schema.MIGRATIONS):
                connection = _migrated_copy(connection)
            connection.execute("PRAGMA query_only = ON")
    return connection


def writer(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open a file for reading and writing, in WAL mode with a synced commit.

    An existing file is checked completely before the first write, so that a damaged one remains
    unchanged; then it is migrated to the newest schema.

    Raises:
        ResultsFileError: Missing (unless ``create``), not ours, newer than this version, damaged,
                locked, or in a folder that is not writable.
    """
    _check_head(path, may_be_missing=create)
    with explained(path):
        if create and not path.exists():
            _create_whole(path)
        connection = _connect(path, "rwc" if create else "rw")
        with _closed_on_error(connection):
            found = schema.version(connection)
            if not (create and _is_empty(connection)):
                _check_ours(path, schema.application_id(connection), found)
                _check_whole(path, connection)
            if found < len(schema.MIGRATIONS):
                schema.migrate(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _create_whole(path: Path) -> None:
    """Create a new results file that appears under its name only when it is complete.

    A process that is killed meanwhile leaves nothing: readers would refuse an empty file. Where the
    file system does not support unnamed files, SQLite creates the file itself, step by step.
    """
    template = sqlite3.connect(":memory:", isolation_level=None)
    try:
        schema.migrate(template)
        content = template.serialize()
    finally:
        template.close()
    try:
        descriptor = os.open(path.absolute().parent, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:
        return
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.fsync(descriptor)
        # Never overwrites a file created meanwhile. Python follows the link in /proc, as required,
        # only where the call names a folder.
        folder = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY)
        try:
            with suppress(FileExistsError):
                os.link(str(descriptor), path, src_dir_fd=folder, follow_symlinks=True)
        finally:
            os.close(folder)
    except OSError:
        return
    finally:
        os.close(descriptor)


def close(connection: sqlite3.Connection) -> None:
    """Close a file; the last to close it leaves one plain file without companions.

    A file in WAL mode makes every later reader create a ``-shm`` and a ``-wal`` file next to it,
    and cannot be read where they cannot be created; so WAL mode ends with the last writer. A
    reader, a writer while others have the file open, and one of a damaged file cannot change the
    mode.
    """
    # From a damaged file SQLite may quote bytes that are not text.
    with suppress(sqlite3.Error, UnicodeDecodeError):
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


@contextmanager
def explained(path: Path, connection: sqlite3.Connection | None = None) -> Iterator[None]:
    """Raise SQLite's errors within the block as a :class:`ResultsFileError` with its cause.

    Where SQLite reports damage, ``connection`` is used to find out what exactly is damaged.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _explanation(path, error, connection) from error
    except UnicodeDecodeError as error:
        raise damaged(path, "a text field of it is NULL") from error


def damaged(path: Path, detail: str) -> ResultsFileError:
    """Return the error for a results file with invalid content."""
    return ResultsFileError(
        seen=f"The results file {path} is damaged: {detail}.",
        cause="It was truncated, overwritten, or copied while a run was writing to it; it was "
        "not changed now.",
        next_step=f'Recover the readable part: sqlite3 "{path}" .recover | sqlite3 rescued.db',
    )


def _explanation(
    path: Path, error: sqlite3.Error, connection: sqlite3.Connection | None
) -> ResultsFileError:
    # The low byte is the error; the others qualify it.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in _LOCKED:
        return ResultsFileError(
            seen=f"The results file {path} was locked for {LOCK_TIMEOUT_S:.0f} s.",
            cause="Another process is writing to it and has not finished.",
            next_step=f'Find that process: fuser -v "{path}"',
        )
    if code in _UNWRITABLE:
        return ResultsFileError(
            seen=f"The results file {path} cannot be written: {error}.",
            cause=f"The file or the directory {path.parent} is read-only for this user, or the "
            "file was opened for reading only.",
            next_step="Specify a results file in a directory that you can write: --results FILE",
        )
    if code == sqlite3.SQLITE_FULL or (code in _DEVICE and _is_full(path.parent)):
        return FullResultsFileError(
            seen=f"No space left on {path.parent}, which holds the results file {path.name}: "
            f"{error}.",
            cause="The file system of the results file is full, which may differ from the one "
            "under test; stored results are intact.",
            next_step=f'Free some space (df -h "{path.parent}"), or store results on another '
            "file system: --results FILE",
        )
    if code in _DEVICE:
        return ResultsFileError(
            seen=f"The results file {path} could not be read or written: {error}.",
            cause="The file system that contains it has failed.",
            next_step=f'Check for free space and errors: df -h "{path.parent}"; dmesg | tail',
        )
    return damaged(path, _damage(error, connection))


def _is_full(folder: Path) -> bool:
    """Return whether a folder's file system has no space for the next extension of a file."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return False
    return bool(status.f_blocks) and status.f_bavail * status.f_frsize < _PIECE_BYTES


def _damage(error: sqlite3.Error, connection: sqlite3.Connection | None) -> str:
    """Return the result of SQLite's own check, or the error itself where it finds nothing."""
    if connection is not None:
        try:
            first = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.Error:
            first = "ok"
        if first != "ok":
            return f"{error} ({' '.join(first.split())})"
    return str(error)


def _check_head(path: Path, *, may_be_missing: bool) -> None:
    """Refuse other files by their first bytes, before SQLite opens them."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise _not_ours(path)  # Opening a pipe would wait for its writer.
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        if may_be_missing and path.parent.is_dir():
            return
        raise _missing(path) from None
    except OSError as error:
        raise ResultsFileError(
            seen=f"The results file {path} cannot be read: {error.strerror}.",
            cause="It is a directory, or this user has no read permission.",
            next_step=f'Check it: ls -ld "{path}"',
        ) from error
    if may_be_missing and not head:
        return
    stated = int.from_bytes(head[_APPLICATION_ID_AT : _APPLICATION_ID_AT + 4], "big")
    if not head.startswith(_MAGIC) or stated not in {0, schema.APPLICATION_ID}:
        raise _not_ours(path)


def _check_ours(path: Path, application_id: int, version: int) -> None:
    if application_id != schema.APPLICATION_ID:
        raise _not_ours(path)
    newest = len(schema.MIGRATIONS)
    if version > newest:
        raise NewerResultsFileError(
            seen=f"The results file {path} has schema {version}, newer than {newest}.",
            cause="A newer version of Seatrial wrote it.",
            next_step="Read it with that version, or update this one: pip install -U seatrial",
        )


def _check_whole(path: Path, connection: sqlite3.Connection) -> None:
    first = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    if first != "ok":
        raise damaged(path, " ".join(first.split()))


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def _connect(path: Path, mode: str, options: str = "") -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT_S, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


def _connect_reader(path: Path) -> sqlite3.Connection:
    """Open for reading; on a read-only medium, where WAL mode cannot work, as immutable.

    SQLite creates a ``-shm`` file next to a file in WAL mode. Where it cannot, the file is read
    alone, which is complete unless a ``-wal`` file with unmerged commits exists.
    """
    connection = _connect(path, "ro")
    try:
        schema.version(connection)
    except sqlite3.OperationalError as error:
        log = path.with_name(f"{path.name}-wal")
        unmerged = log.exists() and log.stat().st_size > 0
        if error.sqlite_errorcode & 0xFF not in _UNWRITABLE or unmerged:
            raise
        connection.close()
        return _connect(path, "ro", "&immutable=1")
    return connection


def _migrated_copy(connection: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    copy.row_factory = sqlite3.Row
    connection.backup(copy)
    connection.close()
    schema.migrate(copy)
    return copy


def _missing(path: Path) -> ResultsFileError:
    return ResultsFileError(
        seen=f"The results file {path} does not exist.",
        cause="No results were stored in it yet, or the path is misspelled.",
        next_step=f'Look for it: ls "{path.parent}"',
    )


def _not_ours(path: Path) -> ResultsFileError:
    return ResultsFileError(
        seen=f"{path} is not a results file of Seatrial.",
        cause="It is another kind of file, it is empty, or its first bytes were overwritten; it "
        "was not changed.",
        next_step=f'Check its type: file "{path}"',
    )
