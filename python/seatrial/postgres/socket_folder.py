"""The private folder of a server's socket: nobody else can pass it, and its path is short.

Source: unix(7), ``sun_path``: 108 bytes with the final zero.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.undo import UndoJournal
from seatrial.postgres.account import Account
from seatrial.postgres.undoing import SOCKET_FOLDER_PREFIX

_PATH_BYTES_MAX: Final = 107
_SOCKET_NAME: Final = "/.s.PGSQL.65535.lock"
_FALLBACK: Final = Path("/tmp")  # noqa: S108 - a private folder is made in it
# A server takes a comma for the end of a folder's name.
_PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SocketFolder:
    """A private folder for sockets.

    Attributes:
        path: The folder, of mode 0700 and the server's own.
        entry: Its number in the undo journal.
    """

    path: Path
    entry: int


def make_socket_folder(account: Account, journal: UndoJournal) -> SocketFolder:
    """Make a private folder for an account's socket, written to the journal before.

    It lies below ``$XDG_RUNTIME_DIR`` when the account is the user, else below ``/tmp``.

    Raises:
        TargetError: when it cannot be made.
    """
    path = _parent(account) / f"{SOCKET_FOLDER_PREFIX}{secrets.token_hex(4)}"
    entry = journal.record("socket_folder", path=str(path))
    try:
        # Fails when the name is there already, whoever made it.
        path.mkdir(mode=0o700)
    except OSError as error:
        journal.done(entry)
        raise TargetError(
            seen=f"No folder for the server's socket can be made in {path.parent}: "
            f"{error.strerror}",
            cause="It is full or read-only, or you may not write there",
            next_step=f"See `ls -ld {path.parent}` and `df {path.parent}`, or set XDG_RUNTIME_DIR"
            " to a folder of your own",
        ) from None
    account.own(path)
    return SocketFolder(path=path, entry=entry)


def make_own_socket_folder(journal: UndoJournal) -> SocketFolder:
    """Make a private folder for sockets of this very process, written to the journal before.

    Raises:
        TargetError: when it cannot be made.
    """
    return make_socket_folder(Account(uid=os.geteuid(), gid=os.getegid()), journal)


def _parent(account: Account) -> Path:
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or "/")
    length_bytes = len(f"{own}/{SOCKET_FOLDER_PREFIX}12345678{_SOCKET_NAME}".encode())
    fits = length_bytes <= _PATH_BYTES_MAX and _PLAIN_PATH.fullmatch(str(own))
    # A dropped account is somebody else: root's folder is closed to it.
    if fits and own != Path("/") and not account.is_dropped and os.access(own, os.W_OK | os.X_OK):
        return own
    return _FALLBACK
