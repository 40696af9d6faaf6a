"""Undoes what a PostgreSQL trial leaves behind: servers, socket folders, databases."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Final

from seatrial.errors import SeatrialError
from seatrial.machine.undo_result import Result, Undoer, failed, foreign, gone, undone
from seatrial.postgres.server_processes import end_server, remove_segments, server_pids

SOCKET_FOLDER_PREFIX: Final = "seatrial-pg-"
NULL_FOLDER_PREFIX: Final = "seatrial-null-"
"""Of a folder in it, for the socket of a null server."""
_OF_SOCKETS: Final = (".s.PGSQL.", NULL_FOLDER_PREFIX)


def undo_server(*, data_folder: str, run_id: str) -> Result:
    """End the server of a data folder, with all its processes and shared memory.

    ``run_id`` is the run that started it, for readers of the journal.
    """
    folder = Path(data_folder)
    if not server_pids(folder):
        remove_segments(folder)
        return gone("it has ended")
    if end_server(folder):
        return undone(f"stopped; the run {run_id} had started it")
    return failed("it cannot be killed: it may be waiting for a device that hangs")


def undo_socket_folder(*, path: str) -> Result:
    """Remove the folder of a server's socket, if its name and content are as created by us."""
    folder = Path(path)
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return gone("it no longer exists")
    if not stat.S_ISDIR(status.st_mode) or not folder.name.startswith(SOCKET_FOLDER_PREFIX):
        return foreign("it is not a folder of seatrial")
    others = [each.name for each in folder.iterdir() if not each.name.startswith(_OF_SOCKETS)]
    if others:
        return foreign(f"it contains {others[0]}, which is not a server socket")
    shutil.rmtree(folder)
    return undone("removed")


def undo_remote_database(*, url: str, name: str, run_id: str) -> Result:
    """Drop a database that the run created on an existing server, if it has the run's mark.

    ``url`` contains no password: it is taken from ``PGPASSWORD`` or ``~/.pgpass``.
    """
    # psycopg is heavy, and only this kind of undoing needs it.
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415
    from seatrial.postgres.remote import RemoteServer  # noqa: PLC0415

    try:
        address, _none = parse_url(url)
        server = RemoteServer(address)
        creator = server.creator_of(name)
        if creator is None:
            return gone("it no longer exists")
        if creator != run_id:
            return foreign(f"it was not created by this run; see `psql -l {url}`")
        server.drop_marked(name)
    except SeatrialError as error:
        hint = f"Then run `PGPASSWORD=... seatrial clean`, or drop {name} yourself"
        return failed(f"{error.seen} {error.next_step} {hint}")
    return undone(f"dropped from {address.endpoint}")


def undo_remote_objects(*, url: str, name: str, objects: str, run_id: str) -> Result:
    """Drop what the run created in the user's database ``name``, if it has the run's mark.

    ``url`` contains no password: it is taken from ``PGPASSWORD`` or ``~/.pgpass``.
    """
    # psycopg is heavy, and only this kind of undoing needs it.
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415
    from seatrial.postgres.remote import RemoteServer  # noqa: PLC0415

    try:
        if not RemoteServer(parse_url(url)[0]).drop_objects(name, objects):
            return gone(f"the run {run_id} left nothing in it")
    except SeatrialError as error:
        hint = f"Then run `PGPASSWORD=... seatrial clean`, or drop these yourself: {objects}"
        return failed(f"{error.seen} {error.next_step} {hint}")
    return undone(f"the tables of the run {run_id} were dropped")


POSTGRES_UNDOERS: Final[dict[str, Undoer]] = {
    "server": Undoer(undo=undo_server, subject="data_folder"),
    "socket_folder": Undoer(undo=undo_socket_folder, subject="path", survives_reboot=True),
    "remote_database": Undoer(undo=undo_remote_database, subject="name", survives_reboot=True),
    "remote_objects": Undoer(undo=undo_remote_objects, subject="name", survives_reboot=True),
}
